# bjobs: every form, filter and exit status.
% mkdir -p state/config
% cat >state/config/queues.yaml <<'END'
> - {name: normal, default: true, priority: 30}
> - {name: a-queue-with-a-long-name, priority: 20}
> END
% xce up --hosts 'h[1-2],a-host-with-a-long-name' --slots 4 --mem 8G

# Nothing to show: words on stderr, status 0, or 255 where that is asked for.
$ bjobs
$ bjobs -a
$ bjobs -d
$ bjobs -p
$ bjobs -r
$ bjobs -s
$ LSB_BJOBS_CONSISTENT_EXIT_CODE=Y bjobs
$ LSB_BJOBS_CONSISTENT_EXIT_CODE=Y bjobs -r
$ bjobs -json
$ bjobs -A

# One job of each kind.
% bsub -J done -m a-host-with-a-long-name -o /dev/null -P physics true
% bsub -m a-host-with-a-long-name -o /dev/null exit 3
% bsub -J runs -n 6 -R 'span[ptile=4]' -m 'h1 h2' -o out.%J -W 60 -M 1G 'sleep 1000'
% bsub -J pends -w 'done(3)' true
% bsub -J 'a job whose name is long' -H -q a-queue-with-a-long-name true
% bsub -J susp -o /dev/null -m a-host-with-a-long-name 'sleep 1000'
% ended 1 2; until_stat RUN 3 6; until_stat PEND 4; bstop 6; until_stat USUSP 6
$ bjobs
$ bjobs -w
$ LSB_SHORT_HOSTLIST=1 bjobs -w 3
$ bjobs -a
$ bjobs -d
$ bjobs -r
$ bjobs -p
$ bjobs -pw
$ bjobs -s
$ bjobs -p -r
$ bjobs -noheader -r
$ bjobs -X -r
$ LSB_JOBID_DISP_LENGTH=10 bjobs 1
$ bjobs -a -w -W

# Filters, alone and together, letters run together.
$ bjobs -q a-queue-with-a-long-name -noheader -o jobid
$ bjobs -q normal -a -noheader -o jobid
$ bjobs -q nosuch
$ bjobs -q 'normal other'
$ bjobs -m h1 -noheader -o jobid
$ bjobs -m 'h2 a-host-with-a-long-name' -noheader -o jobid
$ bjobs -m nosuch
$ bjobs -P physics -a -noheader -o jobid
$ bjobs -J 'a job*' -noheader -o jobid
$ bjobs -aJ '*o*' -noheader -o 'jobid job_name delimiter=";"'
$ bjobs -J nosuch
$ bjobs -u all -noheader -o jobid
$ bjobs -u nobody-we-know
$ bjobs -aw -u all -q normal -J done -noheader | wc -l

# Ids: whatever state; unknown ones are told on stderr, 255 when others were found.
$ bjobs 1 2
$ bjobs 0 -noheader -o jobid
$ bjobs 999
$ bjobs 1 999 3 998
$ LSB_BJOBS_CONSISTENT_EXIT_CODE=Y bjobs 999
$ LSB_BJOBS_CONSISTENT_EXIT_CODE=Y bjobs 1
$ LSB_BJOBS_CONSISTENT_EXIT_CODE=Y bjobs 3 -noheader -o stat
$ bjobs '3[1]'
$ bjobs abc
$ bjobs 3x
$ bjobs -1

# -o: fields, aliases, widths, delimiters; any case; an option and its value in one word.
$ bjobs -o 'jobid stat exit_code exit_reason' 2
$ bjobs "-o exit_code" -noheader 2
$ bjobs -noheader -o 'JobID USER queue' 3
$ bjobs -noheader -o "id stat exec_host name delimiter='^'" 1 2 3
$ bjobs -o 'jobid:10 stat:10 job_name:-12 job_name:6 queue:' 5 3
$ bjobs -noheader -o 'jobid jobid stat stat' 3
$ bjobs -a -noheader -o 'STAT EXEC_HOST' 3
$ bjobs -noheader -o 'nexec_host nalloc_slot slots first_host alloc_slot max_req_proc min_req_proc ask_hosts' 3
$ bjobs -noheader -o 'memlimit memlimit:10:G runtimelimit output_file sub_cwd from_host exclusive interactive' 3
$ bjobs -noheader -hms -o runtimelimit 3
$ bjobs -noheader -o 'submit_time start_time finish_time' 1 3 5
$ bjobs -noheader -o 'pend_reason dependency delimiter=";"' 4 5
$ bjobs -noheader -o 'cpu_used run_time delimiter=";"' 4
$ LSB_BJOBS_FORMAT='jobid stat' bjobs 3
$ LSB_BJOBS_FORMAT='jobid stat' bjobs -w 3
$ bjobs -o nosuch
$ bjobs -o 'jobid:wide'
$ bjobs -o 'jobid:0'
$ bjobs -o 'stat:5:G'
$ bjobs -o "jobid delimiter='--'"
$ bjobs -o ''
$ bjobs -o
$ bjobs -l -o jobid

# -json: texts, upper-case keys, all that was asked for; unknown ids are records.
$ bjobs -json -o 'jobid stat exit_code exit_reason kill_reason name' 1 2
$ bjobs -json -o 'jobid stat' 3 999
$ bjobs -json -u all -q a-queue-with-a-long-name
$ bjobs -json -noheader
$ bjobs -json -o 'jobid stat' 999 998

# -l and -UF.
$ bjobs -l 5
$ bjobs -UF 2 4
$ bjobs -UF 3 | sed '/: Started/q'
$ bjobs -l 3 | awk 'length > 79'
$ LSB_DISPLAY_YEAR=Y bjobs -UF 1 | sed -n 2,4p
$ bjobs -l 999

# -A, and options that do not go together or are not built.
$ bsub -H -J 'arr[1-5]' true
$ bjobs -A
$ bjobs -A 3
$ bjobs -A '7[1]'
$ bjobs -A -o jobid
$ bjobs -Aw 7
$ bjobs -hms
$ bjobs -x
$ bjobs -sum
$ bjobs -psum
$ bjobs -p3
$ bjobs -WL
$ bjobs -script 1
$ bjobs -g /group
$ bjobs -pe
$ bjobs -pi -noheader -o 'jobid pendstate'
$ bjobs -pei -p1
% bsub -H -J coloured -env 'COLOUR=red,SHADE=not so dark' -R 'rusage[mem=10]' true
$ bjobs -env 8
$ bjobs -env 999
$ bjobs -env 7 8
$ bjobs -u all -rusage mem -noheader -o jobid
$ bjobs -rusage mem,lic
$ bjobs -nosuch
$ bjobs -u
$ bjobs -V
$ bjobs -h 2>&1 | head -2
