#!/bin/sh
# Three jobs, each of which waits for the one before. Run it (do not submit it):  ./chain.sh
set -e
submit() { bsub "$@" | sed 's/^Job <\([0-9]*\)>.*/\1/'; }
first=$(submit -J prepare -o prepare.%J.out 'seq 1 10 > numbers')
second=$(submit -J compute -w "done($first)" -o compute.%J.out 'sort -rn numbers > sorted')
third=$(submit -J report -w "done($second)" -o report.%J.out 'head -n 1 sorted')
bjobs "$first" "$second" "$third"
