# brun: jobs start out of their turn, on hosts that are named, where they fit.
% xce up --hosts h1,h2 --slots 2 --mem 8G
% badmin qinact normal
% for name in a b; do bsub -J $name -o /dev/null 'until [ -e go ]; do sleep 0.1; done'; done
% bsub -n 4 -J wide -o /dev/null 'until [ -e go ]; do sleep 0.1; done'
% bsub -J 'many[1-4]' -o /dev/null 'until [ -e go ]; do sleep 0.1; done'
% bsub -w 'done(1)' -J later -o /dev/null true
% bsub -H -J held -o /dev/null true
$ brun -m h2 1
% until_stat RUN 1
$ bjobs -noheader -o 'stat exec_host' 1
$ brun -m h2 1
$ brun -m h1 3
$ brun -m 'h1 h2' 3
$ brun -m h1 -f '4[2]' '4[9]'
$ brun -m h2 '4[3,4]'
$ brun -m h1 4
$ brun -m h1 5
$ brun -m h1 6
$ brun -m nowhere 2
$ brun -m h1 99
$ brun 2
$ brun -m h1
$ brun -m h1 abc
$ brun -m h1 -b 2
$ brun -m h1 -c 2
$ brun -h 2>&1 | head -1
$ bjobs -noheader -o 'jobid jobindex stat exec_host delimiter=";"' -r
% touch go; badmin qact normal
