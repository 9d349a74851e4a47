# Where a job's output goes: -o -oo -e -eo, %J %I, the job report, and what is wrong with files.
% xce up --hosts h1 --slots 8 --mem 8G

# %J is the job's id, %I is 0 outside an array; the report stands behind the output.
$ bsub -o out.%J.%I 'echo to stdout; echo to stderr >&2'
% ended 1
$ cat out.1.0

# -e keeps the error output apart, and the report says so. A failing job.
$ bsub -J failing -o o2 -e e2.%J 'echo to stdout; echo to stderr >&2; exit 3'
% ended 2
$ cat o2
$ cat e2.2

# -o and -e append, -oo and -eo overwrite.
$ bsub -K -o twice.out -e twice.err 'echo first; echo first >&2'
$ bsub -K -o twice.out -e twice.err 'echo second; echo second >&2'
$ without_report twice.out twice.err
$ bsub -K -oo twice.out -eo twice.err 'echo third; echo third >&2'
$ without_report twice.out twice.err

# The same file for both: merged, nothing is lost.
$ bsub -K -o both -e both 'echo out; echo err >&2; echo out'
$ without_report both

# A directory: a file named by the job's id in it. A relative path counts from the job's directory.
% mkdir outputs
$ bsub -K -o outputs/ 'echo in a directory'
$ bsub -K -o outputs -e outputs 'echo in a directory; echo errors >&2'
$ ls outputs
$ bsub -K -cwd outputs -o relative.%J pwd
$ without_report outputs/relative.9

# /dev/null, and no -o at all: the cluster keeps the output.
$ bsub -K -o /dev/null echo not kept
$ bsub -K echo kept by the cluster
$ xcecli output 11

# An output directory that is missing, or no directory: the job's fault, told with its reason.
$ bsub -K -o missing/out echo lost
$ bjobs -noheader -o 'stat exit_code exit_reason' 12
$ xcecli why 12
$ bsub -K -o /dev/null/out -e err.%J echo lost
$ bjobs -l 13 | grep -v '^ load\|^$'
$ xcecli output 13

# Names with blanks, quotes, Unicode; %% patterns that are none.
$ bsub -K -o "a file's “name” %J.%x" echo yes
$ cat "a file's “name” 14.%x" | head -1
$ bsub -K -o '' true
$ bsub -K -o o -oo oo true

# -i and -is: -is copies at submission, -i is read when the job runs.
% echo before >input
$ bsub -H -i input -o i.%J cat
$ bsub -H -is input -o i.%J cat
$ bsub -H -i input.%J -o i.%J cat
% echo after >input
% echo by id >input.17
$ bresume 15 16 17
% ended 15 16 17
$ without_report i.15 i.16 i.17
$ bsub -K -i missing-input -o i.%J cat
$ bjobs -noheader -o 'stat exit_reason' 18
$ bsub -is missing-input cat
$ bsub -i input -is input cat

# Without -i a job reads the null device, not bsub's own stdin.
$ echo not for the job | bsub -K -o stdin.%J 'cat; echo nothing came'
$ without_report stdin.19

# bpeek while it runs: output that is kept, output in a file, errors apart, and none yet.
$ bsub 'echo peeked; touch ready.20; until [ -e go ]; do sleep 0.1; done'
$ bsub -o p.%J -e pe.%J 'echo peeked; echo errors >&2; touch ready.21; until [ -e go ]; do sleep 0.1; done'
$ bsub 'touch ready.22; until [ -e go ]; do sleep 0.1; done; echo late'
$ bsub -H true
$ bsub -J 'a[1-2]' 'echo element $LSB_JOBINDEX; touch ready.a$LSB_JOBINDEX; until [ -e go ]; do sleep 0.1; done'
% for f in 20 21 22 a1 a2; do until [ -e ready.$f ]; do sleep 0.05; done; done
$ bpeek 20
$ bpeek 21
$ bpeek 22
$ bpeek 23
$ bpeek 24
$ bpeek '24[2]'
$ bpeek '24[3]'
$ bpeek -J a
$ bpeek -q normal
$ bpeek
$ bpeek -q nosuch
$ bpeek 999
$ bpeek xyz
$ bpeek 20 21
$ bpeek -m h1
# -f goes on until the end.
$ (sleep 0.3; touch go) & bpeek -f 22
% ended 20 21 22 24
$ bpeek 20
$ bkill 23

# bpeek and xcecli output find files below -cwd, too, and their patterns.
$ bsub -J 'c[1-2]' -cwd 'made%I' -o '%J.%I' -e 'err.%J.%I' 'echo in $(basename $PWD); echo errors >&2; touch ../ready.c$LSB_JOBINDEX; until [ -e ../go2 ]; do sleep 0.1; done'
% for f in c1 c2; do until [ -e ready.$f ]; do sleep 0.05; done; done
$ bpeek "$J[2]"
$ touch go2; xcecli wait $J
$ head -1 made1/$J.1
$ xcecli output --stderr "$J[1]"
$ bsub -K -cwd made1 -o both -e ./both 'echo out; echo err >&2'
$ xcecli output $J | head -2

# A directory in which nobody may make a file: the job ran, its output is kept.
$ bsub -K -o /sys/kernel/out echo not lost
$ xcecli why $J | sed 's/Read-only file system/Permission denied/'
$ xcecli output $J
