# bkill, bstop, bresume: what they say, and what becomes of the jobs.
% mkdir -p state/config
% printf 'kill_interval_s: 1\n' >state/config/xce.yaml
% cat >state/config/queues.yaml <<'END'
> - {name: normal, default: true, priority: 30}
> - {name: other, priority: 20}
> END
% xce up --hosts 'h[1-2]' --slots 8 --mem 8G

# bkill: INT, TERM, then KILL. A pending job ends at once and counts as 130.
% bsub -J sleeps -o sleeps.out sleep 100
% bsub -J handles -o handles.out 'trap "echo interrupted; exit 5" INT; echo ready; while :; do sleep 0.1; done'
% bsub -J ignores -o ignores.out 'trap "" INT TERM; echo ready; while :; do sleep 0.1; done'
% bsub -J pends -H -o /dev/null true
% until_stat RUN 1 2 3; until_text ready handles.out; until_text ready ignores.out
$ bkill 1 2 4
$ bkill 3
% ended 1 2 4
$ bjobs -noheader -o 'job_name stat exit_code exit_reason delimiter=";"' 1 2 4
$ grep -h '^interrupted\|^TERM_\|^Exited' sleeps.out handles.out
$ bjobs -UF 4 | sed -n 's/.*: Exited/Exited/p;s/.*Completed/Completed/p'
% ended 3
$ bjobs -noheader -o 'job_name stat exit_code exit_reason delimiter=";"' 3
$ grep -h '^TERM_\|^Exited' ignores.out

# What is over, unknown, no id at all; several, some of them wrong.
$ bkill 1
$ bkill 999
$ bkill abc
$ bkill -H 4
$ bkill
$ bsub -H -J a -o /dev/null true
$ bkill 5 1 999

# bkill -s: a signal by name or number; it reaches all of the job.
% bsub -J usr -o usr.out 'trap "echo got USR1" USR1; trap "echo got HUP; exit 0" HUP; echo ready; while :; do sleep 0.1; done'
% bsub -H -J sigpend -o /dev/null true
% until_text ready usr.out
$ bkill -s USR1 6
% until_text USR1 usr.out
$ bkill -s USR1 7
$ bkill -s SIGHUP 6
% ended 6
$ bjobs -noheader -o 'job_name stat exit_code exit_reason delimiter=";"' 6
$ grep '^got' usr.out
$ bkill -s TERM 7
$ bjobs -noheader -o 'job_name stat exit_code exit_reason delimiter=";"' 7
$ bkill -s NOSUCH 6
$ bkill -s 65 6
$ bkill -s
$ bkill -l
$ bkill -s 9 -r 6

# bkill -r and -s KILL: at once, without a chance to clean up.
% bsub -J force -o force.out 'trap "" INT TERM; echo ready; while :; do sleep 0.1; done'
% bsub -J kill9 -o kill9.out 'echo ready; sleep 100'
% until_text ready force.out; until_text ready kill9.out
$ bkill -r 8
$ bkill -s KILL 9
% ended 8 9
$ bjobs -noheader -o 'job_name stat exit_code exit_reason delimiter=";"' 8 9
$ grep -h '^TERM_\|^Exited' force.out kill9.out

# bstop and bresume: PEND to PSUSP, RUN to USUSP, and back.
% bsub -J runs -o runs.out 'echo $$ >pid; i=0; while [ $i -lt 1000 ]; do sleep 0.05; i=$((i + 1)); echo $i >count; done'
% bsub -J waits -w 'ended(10)' -o /dev/null true
% until_stat RUN 10; until_stat PEND 11; until_text '[0-9]' count
$ bstop 10 11
% until_stat USUSP 10; until_stat PSUSP 11
$ bjobs
$ bjobs -s
$ bhosts -w h1
$ bqueues normal
$ bjobs -l 10 | sed -n '/SUSPENDING/,/^$/p'
# It stands still.
$ sleep 0.2; a=$(cat count); sleep 0.3; test "$a" = "$(cat count)" && echo stands still
$ bkill -s CONT 10
% until_stat RUN 10
$ a=$(cat count); sleep 0.5; test "$a" != "$(cat count)" && echo goes on
$ bkill -s STOP 10
% until_stat USUSP 10
$ bresume 10 11
% until_stat RUN 10; until_stat PEND 11
$ bstop 10
% until_stat USUSP 10
# A suspended job can be killed.
$ bkill 10
% ended 10
$ bjobs -noheader -o 'job_name stat exit_reason delimiter=";"' 10
% ended 11
$ bstop 10
$ bresume 10
$ bresume 999
$ bstop -a
$ bresume

# Without an id the newest job that matches; 0: all; -J with *, -q, -m, -u; with an id they do not count.
% for name in one two three; do bsub -H -J $name -o /dev/null true; done
% bsub -H -J four -q other -o /dev/null true
% bsub -J five -m h2 -o /dev/null sleep 100
% until_stat RUN 16
$ bkill -J 't*'
$ bkill -q other
$ bkill -m h2
$ bkill -u nobody-we-know
$ bkill
$ bkill -J nosuch
$ bkill -q nosuch 12
% for name in aa ab ba; do bsub -H -J $name -o /dev/null true; done
$ bresume -J 'a*' 0
% ended 17 18
$ bstop -J ba
$ bkill -stat susp -J 'b*' -u all 0
% bsub -H -J 'some[1-3]' -o /dev/null true
$ bresume "$J[2-3]"
% ended "$J[2-3]"
$ bkill -stat pend 0
$ bkill -stat susp -J some
$ bkill -app nosuch 0
$ bkill -stat done 0
$ bkill 0
$ bkill -g /group 0
$ bkill -d 1
$ bkill -C because 1

# What was started stays with its job: background processes and sessions of their own end, too.
% bsub -J family -o /dev/null 'setsid sleep 987654 & sleep 987654 & echo $$ >family; wait'
% until_stat RUN $J; until [ "$(count_processes 'sleep 987654')" = 2 ]; do sleep 0.05; done
$ bkill -J family
% ended $J
$ count_processes 'sleep 987654'
