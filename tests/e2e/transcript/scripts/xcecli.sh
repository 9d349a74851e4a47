# xcecli: every subcommand with its options, forms and exit statuses.
% mkdir -p state/config
% cat >state/config/queues.yaml <<'END'
> - {name: normal, default: true, priority: 30, description: for all}
> - {name: other, priority: 20, run_limit: 1h, users: [nobody-we-know]}
> END
% cat >state/config/resources.yaml <<'END'
> - {name: scratch, kind: counter}
> END
% printf -- '- {names: "h[1-2]", slots: 4, mem: 8G, scratch: 50}\n' >state/config/hosts.yaml
% xce up

# Nothing yet; usage.
$ xcecli jobs
$ xcecli jobs -a
$ xcecli jobs -o json
$ xcecli jobs -o yaml
$ xcecli jobs -o name
$ xcecli
$ xcecli nosuch 2>said; echo $?; sed 's/ (choose.*//' said
$ xcecli top
$ xcecli jobs --nosuch
$ xcecli -V

# submit: a shell's command line in one word, a command with its arguments in several, a script.
$ xcecli submit -o one.out 'echo one word | tr a-z A-Z'
$ xcecli submit -o several.out printf '%s\n' 'several  words' '$HOME' '*'
$ xcecli submit --wait -o waited.out sh -c 'exit 4'
% printf '#!/bin/sh\necho script $0 $* | sed "s,/[^ ]*/,,"\n' >script.sh
$ xcecli submit --wait -o script.out -f script.sh a 'b c'
$ xcecli submit --wait -o stdin.out -f - <script.sh
% xcecli wait 1 2
$ without_report one.out several.out
$ without_report script.out | sed 's/[0-9a-f]\{16,\}/HASH/'
$ printf '#!/bin/sh\r\necho crlf\r\n' | xcecli submit --wait -f -
$ xcecli output 6
$ xcecli submit
$ xcecli submit ''
$ xcecli submit -f nosuch.sh
$ xcecli submit --json --hold --name held -q normal -P physics -n 2,4 -R 'rusage[scratch=5]' -R 'span[hosts=1]' -W 90s -M 500M -m 'h1 h2' --priority 5 -w 'ended(1)' --begin 2030-12-24T18:30 --cwd sub -i in -o out.%J -e err.%J true
$ xcecli info 7
$ xcecli submit --hold --array 1-4:3%1 --env none --env A=1 -o arr.%I 'echo $A'
$ xcecli info 8 '8[4]'
$ xcecli submit -n 0 true
$ xcecli submit -W soon true
$ xcecli submit -M 500 true
$ xcecli submit --begin tomorrow true
$ xcecli submit -q nosuch true
$ xcecli submit -q other true
$ xcecli submit -R 'rusage[nosuch=1]' true
$ xcecli submit -R 'select[mem>' true
$ xcecli submit -m nosuch true
$ xcecli submit -x true
$ xcecli submit --array 5-1 true
$ xcecli submit -w 'done(999)' true
$ xcecli submit --env =1 true
$ xcecli submit -n 9 -o /dev/null true

# jobs: filters and forms.
% until_stat PEND 9
$ xcecli jobs
$ xcecli jobs -o wide
$ xcecli jobs -o name
$ xcecli jobs -a --state done,exit -o name
$ xcecli jobs --state psusp -o name
$ xcecli jobs --name 'h*' -o name
$ xcecli jobs -u all -q normal -o name
$ xcecli jobs -u nobody-we-know
$ xcecli jobs 1 '8[4]' 999
$ xcecli jobs 999
$ xcecli jobs x
$ xcecli jobs -o json '8[1]' | sed 's/: "[^"]*state[^"]*"/: "PATH"/'
$ xcecli jobs -o yaml '8[1]' | head -8
$ xcecli jobs -q nosuch
$ xcecli jobs --state nosuch
$ timeout 1 xcecli jobs --watch -q other

# why
$ xcecli why 1 3 7 '8[1]' 9
$ xcecli why 999
$ xcecli why -o json 9
$ xcecli why -o yaml 9 | head -4

# stop, resume, kill: ids, --all with filters, refusals.
$ xcecli submit --name runs -o runs.out 'echo begun; sleep 1000'
% until_stat RUN 10; until_text begun runs.out
$ xcecli jobs -m h1 -o name; xcecli jobs -m h2 -o name
$ xcecli stop 10
% until_stat USUSP 10
$ xcecli why 10
$ xcecli resume 10
% until_stat RUN 10
$ xcecli why 10
$ xcecli output 10
$ xcecli resume '8[1]'
$ xcecli wait '8[1]'
$ xcecli kill '8[4]' 1 999 x
$ xcecli kill '8[4]' 1 999
$ xcecli kill --json 1
$ xcecli kill
$ xcecli kill 10 --all
$ xcecli kill --all --name nosuch
$ xcecli kill --force 10
$ xcecli wait 10
$ xcecli why 10
$ xcecli info 10 | grep -v 'CPU time\|Max memory'
$ xcecli kill --all -q normal
$ xcecli stop --all

# output: kept and in files, errors apart, followed; wait with a timeout.
$ xcecli output 3 | sed -n '3,4p'
$ xcecli submit -o o.%J -e e.%J 'echo out; echo err >&2'
% xcecli wait $J
$ xcecli output $J | head -1
$ xcecli output --stderr $J
$ xcecli submit 'echo first; until [ -e go ]; do sleep 0.1; done; echo last; exit 2'
$ xcecli wait --timeout 0.1 $J
$ (sleep 0.3; touch go) & xcecli output -f $J
$ xcecli wait $J
$ xcecli output --stderr $J
$ xcecli output 999
$ xcecli output 8
$ xcecli output 7
$ xcecli wait 999
$ xcecli wait 1 3

# hosts and queues
$ xcecli hosts
$ xcecli hosts -o wide
$ xcecli hosts -o name
$ xcecli hosts -o json | grep -c '"name": "h[12]"'
$ xcecli queues
$ xcecli queues -o wide
$ xcecli queues -o name
$ xcecli queues -o yaml | head -3
