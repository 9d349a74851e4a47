#!/bin/sh
# Four tasks, two on each host. The script runs once, on the first host, and is told where its slots
# are. Submit with:  bsub < parallel.sh
#BSUB -J parallel
#BSUB -n 4
#BSUB -R "span[ptile=2] rusage[mem=100MB]"
#BSUB -o parallel.%J.out
echo "slots: $LSB_MCPU_HOSTS"
sort "$LSB_DJOB_HOSTFILE" | uniq -c
