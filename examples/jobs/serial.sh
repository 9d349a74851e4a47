#!/bin/sh
# One task. Submit with:  bsub < serial.sh
#BSUB -J serial
#BSUB -W 0:10
#BSUB -M 200MB
#BSUB -o serial.%J.out
echo "job $LSB_JOBID of queue $LSB_QUEUE runs on $LSB_HOSTS"
