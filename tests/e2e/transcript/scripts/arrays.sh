# Job arrays: index lists, limits, elements one by one, ten million at once.
% xce up --hosts 'h[1-2]' --slots 4 --mem 8G

# Steps and lists; %J and %I; at most so many at once.
$ bsub -J 'a[1-10:2,15]%5' -o a.%J.%I 'echo $LSB_JOBINDEX of $LSB_JOBINDEX_END'
% ended $J
$ without_report a.1.1 a.1.3 a.1.5 a.1.7 a.1.9 a.1.15 | sort -n
$ bjobs -a -noheader -o 'jobid jobindex job_name stat' 1
$ bjobs -A -a
$ sed -n '/^Subject/p' a.1.15
$ bsub -J '[1-2]' -o /dev/null true
% ended 2
$ bjobs -noheader -o 'jobid jobindex job_name' 2

# %limit keeps the others waiting, with the reason.
$ bsub -J 'lim[1-6]%2' -o /dev/null 'until [ -e go ]; do sleep 0.1; done'
% until_stat RUN '3[1]' '3[2]'
$ bjobs 3
$ bjobs -p 3 | tail -2
$ bjobs -A 3
$ bjobs -r -noheader -o 'jobid jobindex' | wc -l
$ xcecli jobs 3
$ xcecli why '3[6]'

# Elements by index: killed, stopped, resumed; what is unknown.
$ bkill '3[6]'
$ bkill '3[4-5,6,9]'
$ bstop '3[3]'
$ bjobs -A 3
$ bjobs '3[1-3]' '3[5]' '3[7]'
$ bresume '3[3]'
$ bkill '3[x]'
$ bkill '3[]'
$ bjobs '3[2-]'
% touch go
% ended 3
$ bjobs -A -a 3
$ bkill '3[1]'
$ bkill 3

# bjobs -J with indices; a whole array by name.
$ bsub -H -J 'many[1-4]' -o /dev/null true
$ bjobs -J 'many[2-3]' -noheader -o job_name
$ bjobs -J many -noheader -o job_name
$ bkill -J many
$ bjobs -a -noheader -o 'job_name stat exit_code' 4

# Ten million elements, held, looked at, one of them released, all killed; one more is too many.
$ bsub -H -J 'huge[1-10000000]' -o /dev/null true
$ bjobs -A 5
$ bjobs -w '5[10000000]'
$ xcecli jobs 5
$ xcecli jobs '5[4999999-5000001]'
$ bresume '5[5000000]'
% ended '5[5000000]'
$ bjobs -A 5
$ bkill 5
% ended 5
$ bjobs -A -a 5
$ bkill 5
$ bsub -J 'huge[1-10000001]' -o /dev/null true
$ bsub -J 'huge[10000001]' -o /dev/null true
$ bsub -J "wide[1-3,$(seq -s, 5 2 1500)]" -H true
$ bjobs -A $J | cut -c 1-78
$ bkill 0
