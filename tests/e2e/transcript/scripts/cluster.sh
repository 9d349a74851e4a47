# The cluster itself: xce, lsid, bhosts, bqueues, xceadmin, and the configuration's errors.

# Nothing runs yet.
$ xce status
$ xce down
$ xce logs
$ xceadmin journal verify
$ xceadmin hosts close --wait-daemon 0 h1
$ xce up --workers 0
$ xce up --hosts 'h[1-' --slots 2
$ xce up --hosts h1 --slots 0
$ xce up --hosts h1 --mem lots
$ xce up --hosts h1 --workers 2
$ xce nosuch 2>said; echo $?; sed 's/ (choose.*//' said
$ xce proxy
$ xce version

# xceadmin check: every problem with file, line, key and what is allowed.
% mkdir bad
% printf -- '- name: a\n  prio: 3\n- name: a\n  run_limit: soon\n- name: b\n  fairshare: true\n- name: c\n  hosts: nosuch\n' >bad/queues.yaml
% printf -- '- names: "h[1-2"\n- names: g1\n  slots: -1\n  mem: 3XB\n  gpus: 4\n  widgets: 2\n' >bad/hosts.yaml
% printf 'cluster_name: "a b"\nlsf: {unit_for_limits: stone, colour: red}\nterm_grace_s: [1]\nnosuch: 1\nproduction: true\n' >bad/xce.yaml
% printf -- '- {name: mem, kind: counter}\n- {name: lic, kind: jug}\n' >bad/resources.yaml
% printf 'pools: {nosuch: 3}\n' >bad/supply.yaml
% printf 'a: [1\n' >bad/users.yaml
% touch bad/queue.yaml
$ xceadmin check bad
$ xceadmin check --json bad | grep -o '"ok": false, "directory": "bad"'
$ xceadmin check nosuch
% printf 'a: [1\n' >bad/xce.yaml; rm bad/[hqrsu]*.yaml
$ xceadmin check bad

# A cluster of three hosts with resources and queues.
% mkdir -p state/config
% cat >state/config/hosts.yaml <<'END'
> - {names: "h[1-2]", slots: 4, mem: 8G, scratch: 100, attributes: {gen: 2}}
> - {names: c1, slots: 2, mem: 4G, state: closed}
> END
% cat >state/config/resources.yaml <<'END'
> - {name: scratch, kind: counter, unit: GiB, description: local disk}
> - {name: gen, kind: number}
> - {name: lic, kind: pool, description: licences}
> END
% printf 'pools: {lic: 3}\n' >state/config/supply.yaml
% cat >state/config/queues.yaml <<'END'
> - {name: normal, default: true, priority: 30}
> - {name: limited, priority: 50, description: short jobs, run_limit: 2h, default_run_limit: 30m, tasks_min: 2, tasks_max: 8, mem_limit: 2G, exclusive: true, users: [ann, bob], hosts: "h[1-2]"}
> - {name: shut, priority: 5, open: false}
> - {name: asleep, priority: 5, active: false}
> END
% printf 'cluster_name: golden\nload_interval_s: 0\nlsf: {product_line: "XCE 1.0, as LSF sites want it"}\n' >state/config/xce.yaml
$ xceadmin check
$ xce up
$ xce up
$ xce up --hosts x1
$ xce status | sed 's/  *[0-9]*  *[0-9]*m* *[0-9]*s  *0  *[0-9]* MiB$/  PID  UP  0  N MiB/; s/^DAEMON .*/DAEMON/'
$ xce status --json | grep -c '"running": true'
$ command=$(command -v xce); PATH=/usr/bin:/bin "$command" env | sed 's/PATH=[^:]*:/PATH=LAUNCHERS:/'
$ xce logs -n 1000 controller | awk '{print $3}' | sort -u
$ xce logs -n 1000 worker | awk '{print $3}' | sort -u
$ xce logs nosuch
$ xce logs --json -n 1 controller | cut -c 1-6

# lsid
$ lsid
$ lsid -V
$ lsid extra

# bhosts: short words, -w the reason, -l all; unknown names.
$ bhosts
$ bhosts -w c1 h1
$ bhosts -l h1 c1
$ bhosts nosuch h2
$ bhosts nosuch
$ bhosts -o host_name
$ bhosts -R mem
$ bhosts -V

# What runs is counted: full, closed by an administrator, with a comment.
% bsub -n 4 -m h2 -R 'rusage[mem=1G,scratch=10]' -o /dev/null sleep 1000
% until_stat RUN 1
$ bhosts -w h2
$ bhosts -l h2 | sed -n '/CURRENT/,/THRESHOLD/p;/scratch/,/^$/p'
$ xceadmin hosts close -C 'new disks' h1
$ bhosts
$ bhosts -w h1
$ bhosts -l h1 | tail -2
% bsub -m h1 -o /dev/null true
% until_stat PEND 2
$ bjobs -p 2
$ xcecli why 2
$ xceadmin hosts open h1 'c[1-1]'
% ended 2
$ bhosts -w
$ xceadmin hosts close nosuch h1
$ xceadmin hosts close --json h1
$ xceadmin hosts open h1
$ xceadmin hosts drain h1 --wait
$ bhosts -w h1
$ bhosts -l h1 | tail -2
$ xceadmin hosts open h1
$ xceadmin hosts open h1 --wait
$ xceadmin hosts lost h1
$ xceadmin hosts lost h1 nosuch --yes
$ xceadmin hosts close
$ xceadmin hosts close 'h[1'

# bqueues: -w, -l; unknown names.
% bsub -H -J 'a[1-3]' -q asleep true
$ bqueues
$ bqueues -w normal
$ bqueues -l limited
$ bqueues -l normal asleep | sed -n '/^QUEUE/,/^$/p'
$ bqueues nosuch normal
$ bqueues nosuch
$ bqueues -o queue_name
$ bqueues -V

# xceadmin journal: verify and export a running cluster's journal.
$ xceadmin journal verify | sed '2,$s/[0-9][0-9]*/N/g'
$ xceadmin journal verify --json | grep -c .
$ xceadmin journal export --from 1 --to 1 | cut -c 1-40
$ xceadmin journal export | tail -1 | grep -c '"seq"'
$ xceadmin journal export --from 1000000
$ xceadmin journal
$ xceadmin apply
$ xceadmin nosuch 2>said; echo $?; sed 's/ (choose.*//' said
$ xceadmin -V

# Down: jobs go on; up again finds them; down --jobs ends them.
$ xce down
$ bjobs --wait-daemon 0
$ xce up 2>/dev/null | head -1
$ bjobs -noheader -o stat 1
% printf -- '- name: normal\n  prio: 3\n' >state/config/queues.yaml
$ xce down --jobs
$ xce up
$ xce status
