# What would let a job start, who must end, when it is expected to; plans; the summary of reasons.
% mkdir -p state/config
% printf -- '- {names: "h[1-2]", slots: 4, mem: 8G, lic: 2}\n' >state/config/hosts.yaml
% printf -- '- {name: lic, kind: counter, description: a licence on a host}\n' >state/config/resources.yaml
% printf -- '- {name: normal, priority: 30, default: true, exclusive: true}\n- {name: fast, priority: 40, hosts: [h1], tasks_max: 2}\n- {name: idle, priority: 10, active: false}\n' >state/config/queues.yaml
% xce up

# A plan tells of now.
$ bsub --plan -n 6 sleep 600
$ bsub --plan -n 1 -q "nosuch fast" true
$ bsub --plan -K true
$ xcecli plan -n 6 -x true
$ xcecli plan -q fast -n 3 true
$ xcecli plan --wait true
$ xcecli plan -R 'select[mem>' true

# Too many tasks, too much memory: the most that fits is told, verified.
% bsub -n 3 -m h1 -W 10 sleep 600
% until_stat RUN 1
$ bsub -n 7 -W 5 sleep 60
$ bsub -R 'rusage[mem=9000]' -n 1 sleep 60
% until bjobs -p 3 | grep -q satisfied; do sleep 0.05; done
$ xcecli why 2
$ xcecli why 3
$ bsub --plan -n 8 true

# Parts, alternatives, exclusive use, -m, select.
$ bsub -R '4*{big: span[hosts=1] rusage[lic=1]} + 1*{rusage[mem=10]}' sleep 60
$ bsub -n 4 -R '{select[mem>100000]} || {span[hosts=1] select[hname==h1]}' sleep 60
$ bsub -n 1 -x -m h1 sleep 60
% until bjobs -p 6 | grep -q exclusive; do sleep 0.05; done
$ xcecli why 4 5 6

# What keeps a job out of sessions.
$ bsub -H sleep 60
$ bsub -w 'done(1)' sleep 60
$ bsub -q idle sleep 60
$ bsub -J 'arr[1-3]%1' -n 1 -m h2 -W 20 sleep 600
% until_stat RUN '10[1]'
% until bjobs -p '10[2]' | grep -q limit; do sleep 0.05; done
$ xcecli why 7 8 9 10
$ xcecli why 7 -o yaml | grep -e kind: -e assumption: -e index:
$ bjobs -psum
$ bjobs -psum -q idle
$ bjobs -psum -u nosuch
$ bjobs -psum -w
$ bjobs -p2 2 3 5
$ bjobs -p3 4 5 6
$ bjobs -psum -p2
$ bjobs -pi -p1

# A host that another job has for itself.
% bkill 10
% until_stat EXIT '10[3]'
% bsub -x -m h2 -n 1 -W 20 sleep 600
% until_stat RUN 11
$ bsub -m h2 sleep 60
% until bjobs -p 12 | grep -q 'exclusive job'; do sleep 0.05; done
$ bjobs -p 12
$ bjobs -p2 12
$ bjobs -l 12 | sed -n '/PENDING/,$p'
$ xcecli why 12
