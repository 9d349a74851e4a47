# bmod and bswitch: what they say, and what becomes of the jobs.
% mkdir -p state/config
% printf 'kill_interval_s: 1\nterm_grace_s: 1\n' >state/config/xce.yaml
% cat >state/config/queues.yaml <<'END_OF_QUEUES'
> - {name: normal, default: true, priority: 30}
> - {name: night, priority: 20, run_limit: 60m, tasks_max: 2}
> - {name: shut, open: false}
> END_OF_QUEUES
% xce up --hosts 'h[1-2]' --slots 2 --mem 1G

# A pending job becomes another one.
% bsub -H -J old -n 2 -W 30 -o old.out 'echo old'
$ bmod -J new -n 1 -W 10 -M 100MB -R 'rusage[mem=10]' -sp 5 1
$ bmod -Z 'echo "new with $LSB_DJOB_NUMPROC"; cat copied.1 >back' -oo new.out 1
% echo copied >given; echo before >kept
$ bmod -f 'given > copied.%J' -f 'kept << back' 1
$ bjobs -noheader -o 'jobid stat queue job_name min_req_proc runtimelimit memlimit command delimiter=";"' 1
$ bmod -Wn -Mn -spn 1
$ bjobs -noheader -o 'jobid runtimelimit memlimit delimiter=";"' 1
% bresume 1; ended 1
$ cat new.out | head -1
$ cat kept
$ bhist -l -UF 1 | sed -n 's/.*: Parameters of Job are changed by user or administrator <[^>]*>: //p'

# What waits for another job waits no more, or for a third one.
% bsub -H -J first -o /dev/null true
% bsub -w 'done(2)' -o /dev/null true
$ bmod -w 'done(3)' 3
$ bmod -w 'ended(nosuch)' 3
$ bmod -wn 3
% ended 3
$ bjobs -noheader -o 'jobid stat' 3

# What runs: limits, and whether it is started anew.
% bsub -J long -o /dev/null 'echo go >long.txt; exec sleep 100'
% until_text go long.txt
$ bmod -n 2 4
$ bmod -o other.out 4
$ bmod -r -W 60 4
$ bjobs -UF 4 | grep -c Re-runnable
% bkill -r 4; ended 4
$ bmod -W 5 4
% bsub -J short -o /dev/null 'trap "" USR2; echo go >short.txt; while :; do sleep 0.1; done'
% until_text go short.txt
$ bmod -W 0.01 5
% ended 5
$ bjobs -noheader -o 'jobid stat exit_reason delimiter=";"' 5

# Arrays.
% bsub -b 2099:12:31:23:59 -J 'a[1-3]' -o /dev/null true
$ bmod -J '%1' 6
$ bmod -J 'b[1-4]' 6
$ bmod -W 5 '6[2]'
$ bmod -J '%2' '6[2]'
$ bmod -W 5 '6[4]'
$ bswitch night '6[2-3]'
$ bjobs -noheader -o 'jobid jobindex stat queue runtimelimit delimiter=";"' 6
$ bqueues -noheader -o 'queue_name njobs pend delimiter=";"' normal night
$ bmod -W 5 '6[1-3]'
$ bswitch normal 6
$ bmod -J '%1' 2
$ bjobs -A 6

# Queues.
$ bswitch night 2
$ bswitch night 2
$ bswitch nosuch 2
$ bswitch shut 2
$ bmod -q shut 2
$ bmod -q normal 2
$ bmod -W 90 2
$ bswitch night 2
$ bswitch -q normal night 0
$ bjobs -noheader -o 'jobid jobindex queue' 2 6
$ bhist -l 2 | sed -n 's/.*: \(Switched to queue <[a-z]*>\).*/\1/p'
% bsub -o /dev/null -W 30 'echo go >moved.txt; exec sleep 100'
% until_text go moved.txt
$ bswitch night 7
$ bjobs -noheader -o 'jobid stat queue runtimelimit delimiter=";"' 7
$ bqueues -noheader -o 'queue_name njobs run delimiter=";"' normal night
$ bswitch normal 999 abc
$ bswitch
$ bmod 2
$ bmod -W 5
$ bmod -K 2
$ bmod -app x 2
% bkill 0

# A job whose file cannot be copied does not start, and nothing is copied back.
% bsub -J lacks -f 'nosuch > x' -f 'kept < y' -o /dev/null 'echo ran >y'
% bwait -w 'ended(lacks)'
$ bjobs -a -noheader -o 'stat exit_reason' -J lacks
$ bjobs -a -l -UF -J lacks | grep transfer
$ ls y
$ cat kept
