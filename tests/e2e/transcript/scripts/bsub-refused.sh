# bsub: what is refused, with which words. Exit status 255, nothing on stdout, no job.
% mkdir -p state/config
% cat >state/config/queues.yaml <<'END'
> - {name: normal, default: true, priority: 30}
> - {name: small, priority: 20, run_limit: 1h, tasks_min: 2, tasks_max: 4, mem_limit: 1G, hosts: h1}
> - {name: shut, priority: 5, open: false}
> - {name: theirs, priority: 5, users: [nobody-we-know]}
> END
% cat >state/config/resources.yaml <<'END'
> - {name: scratch, kind: counter}
> - {name: gen, kind: number}
> - {name: site, kind: string}
> END
% printf 'max_array_size: 1000\n' >state/config/xce.yaml
% xce up --hosts 'h[1-2]' --slots 4 --mem 8G

# Usage.
$ bsub -nosuch true
$ bsub -J
$ bsub -n
$ bsub -qnormal true
$ bsub --wait-daemon soon true

# Options of LSF that are not built, by name.
$ bsub -ISs bash
$ bsub -IX true
$ bsub -gpu - true
$ bsub -gpu 'num=2:mode=shared' true
$ bsub -H -u me@example.com true
$ bsub -H -N true
$ bsub -H -B true
$ bsub -notify exit true
$ bsub -r -rn true
$ bsub -a mpich true
$ bsub -app short true
$ bsub -G people true
$ bsub -sla gold true
$ bsub -E '' true
$ bsub -Ep ' ' true
$ bsub -f 'a>b' true
$ bsub -k /tmp true
$ bsub -Q 'all ~256' true
$ bsub -U user1#0 true
$ bsub -hostfile hf true
$ bsub -data tag:x true
$ bsub -alloc_flags smt1 true
$ bsub -wa URG true
$ bsub -wa CHKPNT -wt 5 true
$ bsub -wa XYZ -wt 5 true
$ bsub -wa "''" -wt 5 true
$ bsub -pack jobs
$ bsub -json jobs.json
$ bsub -yaml jobs.yaml
$ bsub -Zs true

# -n
$ bsub -n 0 true
$ bsub -n 5,2 true
$ bsub -n 99999999 true
$ bsub -n 99999999999999999999999 true
$ bsub -n two true
$ bsub -n -3 true
$ bsub -n 2, true
$ bsub -n '' true

# -W -We -M -sp -b -t
$ bsub -W 0 true
$ bsub -W 1:30:00 true
$ bsub -W soon true
$ bsub -W 10/hosta true
$ bsub -W -5 true
$ bsub -M 0 true
$ bsub -M 10XB true
$ bsub -M 500! true
$ bsub -M lots true
$ bsub -M 99999999999999999999999 true
$ LSF_UNIT_FOR_LIMITS=furlong bsub -M 5 true
$ bsub -sp 0 true
$ bsub -sp high true
$ bsub -b 25:00 true
$ bsub -b noon true
$ bsub -b 2:31:10:00 true
$ bsub -b 1999:2:30:10:00 true
$ bsub -t 25:00 true
$ bsub -t 1999:2:20:10:00 true
$ bsub -b 2099:12:31:23:59 -t 2099:12:31:23:58 true
$ bsub -W 99999999999 true
$ bsub -sp 99999999999 true
$ bsub -P "$(printf 'p%.0s' $(seq 600))" true
$ bsub -o "$(printf 'o%.0s' $(seq 5000))" true

# Queues, and what a queue refuses.
$ bsub -q nosuch true
$ bsub -q '' true
$ bsub -q shut true
$ bsub -q theirs true
$ bsub -q 'shut nosuch theirs' true
$ bsub -q small true
$ bsub -q small -n 5 true
$ bsub -q small -n 2 -W 2:00 true
$ bsub -q small -n 2 -M 2G true
$ bsub -q small -n 2 -m h2 true
$ bsub -x true

# Hosts.
$ bsub -m nosuch true
$ bsub -m 'h1 nosuch' true
$ bsub -H -m 'h1!' true
$ bsub -m '' true

# Resource requests: syntax with its column, unknown names, what is not built.
$ bsub -R 'select[' true
$ bsub -R 'select[mem>]' true
$ bsub -R 'select[mem>100' true
$ bsub -R 'select[mem > 100 &&]' true
$ bsub -R 'select[(mem>1]' true
$ bsub -R 'select[mem>1] select[mem>2]' true
$ bsub -R 'rusage[mem]' true
$ bsub -R 'rusage[mem=lots]' true
$ bsub -R 'rusage[mem=-5]' true
$ bsub -R 'rusage[nosuch=1]' true
$ bsub -R 'select[nosuch]' true
$ bsub -R 'select[nosuch>5]' true
$ bsub -R 'select[site>3]' true
$ bsub -R 'select[gen=="x"]' true
$ bsub -R 'order[nosuch]' true
$ bsub -R 'rusage[gen=1]' true
$ bsub -R 'rusage[ut=0.5]' true
$ bsub -H -R 'select[ut<0.5]' true
$ bsub -R 'span[ptile=0]' true
$ bsub -R 'span[nosuch=1]' true
$ bsub -R 'affinity[core(1):cpubind=core(2)]' true
$ bsub -R 'nosuch[x]' true
$ bsub -R 'span[hosts=1] trailing' true

# Dependencies.
$ bsub -w 'done(' true
$ bsub -w 'done(1) &' true
$ bsub -w 'done(1) done(2)' true
$ bsub -w 'done(999)' true
$ bsub -w 'done(nosuch)' true
$ bsub -w 'nosuch(1)' true
$ bsub -w 'exit(999, >)' true
$ bsub -w 'numdone(999, *)' true
$ bsub -w 'done(999[*])' true
$ bsub -w '' true

# Job names and arrays.
$ bsub -J 'a[' true
$ bsub -J 'a[]' true
$ bsub -J 'a[5-1]' true
$ bsub -J 'a[0-3]' true
$ bsub -J 'a[1-x]' true
$ bsub -J 'a[1-10:0]' true
$ bsub -J 'a[1-3]b' true
$ bsub -J 'a[1-3]%0' true
$ bsub -J 'a[1-3]%x' true
$ bsub -J 'a[1-1001]' true
$ bsub -J 'a[2000]' true

# No job came of all that, and none was counted.
$ bjobs -a -u all
$ bsub -R '' -H true
