
# brequeue and rerunnable jobs: what they say, and what becomes of the jobs.
% mkdir -p state/config
% printf 'kill_interval_s: 1\n' >state/config/xce.yaml
% cat >state/config/queues.yaml <<'END'
> - {name: normal, default: true, priority: 30}
> - {name: safe, priority: 20, rerunnable: true}
> END
% xce up --hosts 'h[1-2]' --slots 2 --mem 1G

# bsub -r and -rn, and what the queue says where neither is given.
% bsub -r -H -J asked -o /dev/null true
% bsub -rn -q safe -H -J never -o /dev/null true
% bsub -q safe -H -J by-queue -o /dev/null true
$ bjobs -UF 1 2 3 | sed -n 's/.*\(Re-runnable\).*/\1/p;s/^Job \(<[0-9]*>\).*/\1/p'
$ bsub -r -rn true
% bkill 1 2 3

# What runs ends, and starts anew under its id; LSB_RESTART and XCE_ATTEMPT tell it.
% bsub -J runs -o runs.out 'echo "attempt $XCE_ATTEMPT, restart <$LSB_RESTART>"; echo ready >>runs.txt; sleep 100'
% until_text ready runs.txt
$ brequeue 4
% until test "$(wc -l <runs.txt)" = 2; do sleep 0.1; done
$ bjobs -noheader -o 'jobid stat job_name'
$ bjobs -UF 4 | sed -n 's/.*: Requeued/Requeued/p'
$ brequeue -J runs
% until test "$(wc -l <runs.txt)" = 3; do sleep 0.1; done
% bkill -r 4; ended 4
$ grep -h '^attempt' runs.out
$ bjobs -noheader -o 'jobid stat exit_reason delimiter=";"' 4

# What is over runs once more, where it is asked for.
% bsub -J fails -o /dev/null 'exit 3'
% bsub -J works -o /dev/null true
% ended 5 6
$ brequeue 5 6
$ brequeue -d 5 6
$ brequeue -e -H 5
$ bjobs -noheader -o 'jobid stat' 5
% bresume 5; ended 5 6
$ bjobs -noheader -o 'jobid stat exit_code' 5 6
$ brequeue -a -J works
% ended 6

# Pending jobs, elements, all of one's own; what is wrong.
% bsub -J 'a[1-3]' -b 2099:12:31:23:59 -o /dev/null true
$ brequeue -p -H '7[2]'
$ bjobs -noheader -o 'jobindex stat' 7
$ brequeue -r '7[1]'
$ brequeue -p -H 0
$ brequeue 999 abc
$ brequeue -d -J nosuch
$ brequeue -x 7
$ brequeue -g /group 7
% bkill 0

# Each attempt is accounted for, with what it used.
% bsub -J again -Q 7 -o /dev/null 'test "$XCE_ATTEMPT" = 2 || exit 7'
% ended 8
$ bhist -l 8 | sed -n 's/^[^<]*: \(Exited.*\|Done.*\)/\1/p'
$ bacct 8 | grep 'Total number'
$ xceadmin history export | sed -n 's/.*"jobid": 8, .*"attempt": \(.\).*"exit_code": \(.\),.*"cause": "\([A-Z_]*\)".*/\1 \2 \3/p'
