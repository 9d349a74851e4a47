# History and accounts: bhist, bacct, xceadmin history; what is over is told for ever.
% mkdir -p state/config
% printf 'cluster_name: golden\nclean_period_s: 1\n' >state/config/xce.yaml
% xce up --hosts 'h[1-2]' --slots 4 --mem 8G

# Nothing yet.
$ bhist
$ bhist -a
$ bacct | grep 'Total number'

# A job that fails, one that is killed, one that is held and killed, an array, a parallel job.
$ bsub -J fails -o /dev/null 'exit 3'
$ bsub -J killed -o /dev/null 'sleep 600'
$ bsub -J held -H -P other true
$ bsub -J 'arr[1-3]' -o /dev/null true
$ bsub -J wide -n 6 -R 'span[ptile=3]' -o /dev/null true
% until_stat RUN 2
% ended 1 4 5
$ bhist -w | cut -c1-24
$ bhist -p | cut -c1-24
$ bstop 2
$ bresume 2
% until_stat RUN 2
$ bkill 2 3
% ended 2 3
$ bhist -l 1 | sed '/Summary/,$d; s/<h[12]>/<H>/g'
$ bhist -UF 2 | sed 's/<h[12]>/<H>/g; s/(Pid [0-9]*)/(Pid N)/; s/Pid <[0-9]*>/Pid <N>/; /Summary/,$d'
$ bhist -b 3
$ bhist -UF 5 | grep Dispatched | grep -o 'Dispatched 6 Task(s) to Host(s) <3\*h[12]> <3\*h[12]>' | wc -l
$ bhist -e | cut -c1-24
$ bhist -d -J 'arr*' | cut -c1-24
$ bhist -a -q nosuch
$ bhist -a -m nosuch
$ bhist 77
$ bhist -f old.events
$ bhist -C yesterday

# After the clean period the state has forgotten them; ids are answered all the same.
% sleep 2.5
$ bjobs -a
$ bjobs -noheader -o 'jobid stat job_name' 1
$ bjobs -noheader -o 'jobid stat exit_code exit_reason' 2 3
$ bhist -n 0 -l 3 | grep -c 'Completed <exit>; TERM_OWNER'

# Accounts.
$ bacct | grep -e 'Total number' -e submitted
$ bacct -d -u all | grep 'Total number'
$ bacct -e -P other | grep 'Total number'
$ bacct -l 3 | sed -n '/^Job/,/^Accounting/p'
$ bacct -b -J fails | grep -c fails
$ bacct -C .-1,. | grep 'Total number'
$ bacct -C ,2020/1/1 | grep 'Total number'
$ bacct -l '4[2]' | grep -c '^Job <4\[2\]>'
$ bacct -sla gold
$ xceadmin history export --format lsb.acct | cut -d' ' -f1,2,4 | sort
$ xceadmin history export | grep -c '"jobid"'
$ xceadmin history export --to 1
