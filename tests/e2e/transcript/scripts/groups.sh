# Job groups: bgadd, bgmod, bgdel, bjgroup, and -g of other commands.
% xce up --hosts 'h[1-2]' --slots 2 --mem 1G
$ bjgroup
$ bgadd /sim
$ bgadd -L 1 /sim/short
$ bgadd /sim
$ bgadd sim
$ bgadd
% bsub -g /sim/short -o /dev/null 'echo 1 >one.txt; exec sleep 100'
% bsub -g /sim/short -o /dev/null 'exec sleep 100'
% bsub -H -g /own/made -J 'a[1-3]' -o /dev/null true
% until_text 1 one.txt
$ bjgroup -s
$ bjgroup -N /own/made /none
$ bjobs -g /sim/short -noheader -o 'jobid stat job_group'
% until bjobs -p 2 | grep -q 'group has reached'; do sleep 0.1; done
$ bjobs -p 2 | tail -1
$ bjobs -UF 3 | sed -n 's/.*\(Job Group <[^>]*>\).*/\1/p' | head -1
$ bgmod -L 2 /sim/short
% until bjobs -noheader -o stat 2 | grep -q RUN; do sleep 0.1; done
$ bgmod -Ln /sim/short
$ bgmod /sim
$ bgmod -L 2 /none
$ bmod -g /sim/long 3
$ bjobs -noheader -o 'jobid jobindex job_group' -g /sim/long
$ bstop -g /sim/long 0
$ bresume -g /sim/long 0
$ bgdel /sim/short
% bkill -r 1 2; ended 1 2
$ bkill -g /sim/short 0
$ bkill -g /sim/long 0
$ bkill -g / 0
$ bgdel /sim
$ bgdel -c /sim
$ bgdel 0
$ bjgroup
$ bsub -g 'no path' true
