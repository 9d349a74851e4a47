# The decision trace: rules, what sessions told, a session for the answer, bad usage.
% mkdir -p state/config
% printf -- '- {names: "h[1-2]", slots: 2, mem: 8G}\n' >state/config/hosts.yaml
% xce up

# Nothing is traced; a job that runs has nothing to decide.
$ xceadmin trace list
$ bsub -n 4 sleep 600
% until_stat RUN 1
$ bsub -n 2 -R 'span[hosts=1]' true
$ xcecli trace 2
$ xcecli trace 1 --now
$ told 2 --now
$ xcecli trace 2 --now -o json | grep -e '"outcome"' -e '"code"'

# A rule has a session run at once; what follows is told until it ends.
$ xceadmin trace on --job 2 --for 5m
$ xceadmin trace list | sed 's/[45]m.*/LEFT/; s/  */ /g'
% until_told WAITS 2
$ told 2
% bkill 1
% until_told STARTS 2
$ told 2
$ told 2 -o yaml | grep -e 'host:' -e 'gets:'
$ xcecli trace 1 --session 99
$ xceadmin trace off 1
$ xceadmin trace list
$ xceadmin trace off --all

# Rules live on through restarts; the next sessions are counted.
$ xceadmin trace on --queue normal --for 1h
% xce down
% xce up
$ xceadmin trace list --json | grep -e '"rule"' -e '"name"'
$ xceadmin trace off 2
$ xceadmin trace on --next 1
% until xceadmin trace list | grep -q nothing; do sleep 0.1; done
$ told

# A damaged file is named and the others are shown.
% echo rubbish >state/trace/000000099999.trace
$ told 2

# Bad usage.
$ xceadmin trace on
$ xceadmin trace on --job 99
$ xceadmin trace on --job 2
$ xceadmin trace on --queue nosuch
$ xceadmin trace on --job 1 --for 10
$ xceadmin trace off 7
$ xcecli trace 12[3]
$ xcecli trace --limit 0
$ xcecli trace --dir nosuch
