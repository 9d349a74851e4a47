# btop and bbot: the order of a queue's pending jobs; and what xce env says.
% xce up --hosts h1 --slots 1 --mem 8G
% for name in runs a b c d; do bsub -J $name -o /dev/null 'until [ -e go ]; do sleep 0.1; done'; done
% until_stat RUN 1; until_stat PEND 2 3 4 5
$ btop 5
$ bbot 2
$ btop 3 2
$ bbot 4 2
$ btop
$ btop 2 3 4
$ btop 2 0
$ bbot 2 -1
$ bbot 2 last
$ btop 999
$ btop abc
$ btop 1
$ bbot -u all
$ bbot -h 2>&1 | head -1
$ btop -V
$ bsub -H -J held -o /dev/null true
$ btop 6
% touch go; ended 1 2 3 4 5
$ bbot 5
$ bjobs -a -noheader -o 'start_time job_name' 2 3 4 5 | sort | sed 's/.* //'
% bkill 6

# Numbers with more digits than a machine has.
$ D=$(printf '9%.0s' $(seq 5000)); bsub -n $D true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -J "a[1-$D]" true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -J "a[1-3]%$D" true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -W $D true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -M $D true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -sp $D true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -b $D:00 true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -w "done($D)" true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -w "exit(1,$D)" true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -R "rusage[mem=$D]" true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bsub -R "span[ptile=$D]" true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bjobs $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bjobs "1[$D]" 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bjobs -o "jobid:$D" 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bkill $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bkill -s $D 1 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bpeek $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bjobs -J "a[1-$D]" 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); btop 2 $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bacct -D .-$D, 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bhist -S 2026/$D/1, 2>&1 | cut -c 1-70
$ bacct -C ², ; bjobs -J 'a[²]'; bjobs ²; bkill -s ² 1; btop 2 ²; bsub -n ² true; bsub -sp ² true; xcecli why '1[²]'
$ D=$(printf '9%.0s' $(seq 5000)); bhist $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bhist -n $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); bacct -C $D, 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli submit -n $D true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli submit -W ${D}s true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli submit --begin +${D}s true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli submit -M ${D}M true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli submit --array 1-$D true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli submit --priority $D true 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli why $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli info "1[$D]" 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli jobs --at $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xcecli jobs --at ${D}s 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xceadmin journal export --from $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xceadmin hosts close "h[1-$D]" 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xce up --hosts h1 --slots $D 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xce up --hosts h1 --mem ${D}G 2>&1 | cut -c 1-70
$ D=$(printf '9%.0s' $(seq 5000)); xce logs -n $D 2>&1 | cut -c 1-70
% mkdir many; printf 'max_array_size: %s\nterm_grace_s: %s\n' $(printf '9%.0s' $(seq 5000)) $(printf '9%.0s' $(seq 5000)) >many/xce.yaml
% printf -- '- {names: "h[1-%s]", slots: %s, mem: %sG}\n' $(for n in 1 2 3; do printf '9%.0s' $(seq 5000); echo; done) >many/hosts.yaml
$ xceadmin check many 2>&1 | cut -c 1-70

# xce env: what a shell evaluates; nothing is put on PATH twice.
$ xce env | sed 's/^export PATH=[^:]*:/export PATH=LAUNCHERS:/'
$ eval "$(xce env)"; xce env | grep -c PATH
$ XCE_DIR= xce env --dir "$PWD/elsewhere" | sed -n 's/^export XCE_DIR=//p'
$ xce env extra
$ xce env --nosuch
$ xce env --dir /proc/nowhere
