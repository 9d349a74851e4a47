# Run limits and memory limits: how they end a job, and what is said of it.
% mkdir -p state/config
% printf 'term_grace_s: 1\nkill_interval_s: 1\n' >state/config/xce.yaml
% cat >state/config/queues.yaml <<'END'
> - {name: normal, default: true}
> - {name: quick, run_limit: 2s, default_run_limit: 1s}
> END
% xce up --hosts h1 --slots 8 --mem 8G

# Submitted early, looked at later. -W 0.02 is a second and a bit.
$ bsub -W 0.02 -o usr2.out 'trap "echo warned; exit 9" USR2; while :; do sleep 0.1; done'
$ bsub -W 0.02 -o int.out 'echo begins; sleep 60'
$ bsub -W 0.02 -o kill.out 'trap "" INT TERM USR2; while :; do sleep 0.1; done'
$ bsub -q quick -o /dev/null sleep 60
$ bsub -q quick -W 1 true
$ bsub -M 20MB -o mem.out 'trap "" INT TERM; exec $PYTHON -c "import time; x = bytearray(60 << 20); time.sleep(60)"'
$ bsub -M 500MB -W 10 -o within.out '$PYTHON -c "x = bytearray(20 << 20)"; echo within'
# -t: over by then, with a warning (-wa -wt) before. A jobspec says it to the second.
% echo "{version: 1, output: end.out, deadline_at: $(($(date +%s) + 10)), warning_signal: 10, warning: 3s, command: 'trap \"echo warned\" USR1; trap \"echo ends; exit 9\" USR2; while :; do sleep 0.1; done'}" >end.yaml
$ xcecli submit -f end.yaml
% ended 5 6
$ bjobs -noheader -o 'stat exit_code exit_reason delimiter=";"' 5 6
$ grep '^TERM' mem.out
$ bjobs -UF 5 | sed -n '/^ MEMLIMIT/,/ M *$/p;s/.*Completed/Completed/p'

# The warning signal is USR2; what ends by itself then has met its limit all the same.
% ended 1
$ bjobs -noheader -o 'stat exit_code exit_reason runtimelimit delimiter=";"' 1
$ sed -n '/^warned\|^TERM\|^Exited/p' usr2.out
$ bjobs -UF 1 | grep -o 'Exited.*code [0-9]*\|Completed.*'
# Then INT and TERM, and KILL for what ignores them.
% ended 2 3 4
$ bjobs -noheader -o 'stat exit_code exit_reason delimiter=";"' 2 3 4
$ sed -n '1p;/^TERM\|^Exited/p' int.out
$ sed -n '/^TERM\|^Exited/p' kill.out
$ bjobs -UF 4 | sed -n '/^ RUNLIMIT/,/min/p;s/.*Completed/Completed/p'

# So it is with a deadline.
% ended 7
$ bjobs -noheader -o 'stat exit_code exit_reason delimiter=";"' 7
$ sed -n '/^warned\|^ends\|^TERM\|^Exited/p' end.out
$ bjobs -UF 7 | grep -o 'Specified Termination Time'

# While it runs: the time left, and when it will be over.
$ bsub -W 90 -We 30 -o /dev/null sleep 60
% until_stat RUN $J
$ bjobs -noheader -o 'time_left finish_time %complete delimiter=";"' $J | sed 's/[0-9.]*%/N%/'
% bkill -r 0
