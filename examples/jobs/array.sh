#!/bin/sh
# A hundred elements, at most ten at once. Submit with:  bsub < array.sh
#BSUB -J sweep[1-100]%10
#BSUB -o sweep.%J.%I.out
echo "element $LSB_JOBINDEX of job $LSB_JOBID"
