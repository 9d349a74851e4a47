# What LSF's smaller commands say of a site; queues and hosts are switched; LSF's files are imported.
% mkdir -p state/config
% cat >state/config/hosts.yaml <<'END'
> - {names: "h[1-2]", slots: 4, mem: 8G, scratch: 100, attributes: {type: X86_64, fast: true}, labels: {switch: s1}}
> - {names: c1, slots: 2, mem: 64G, attributes: {model: Xeon}, labels: {switch: s2}}
> END
% printf -- '- {name: scratch, kind: counter, unit: GB, description: local disk}\n- {name: fast, kind: boolean}\n' >state/config/resources.yaml
% printf 'pools: {lic: 3}\n' >state/config/supply.yaml
% printf -- '- {name: normal, default: true, priority: 30, policy: fairshare, fairshare: [{name: chip, shares: 3, members: [{name: ann}, {name: bob}]}, {name: default}]}\n- {name: short, priority: 50, hosts: c1, users: [ann]}\n' >state/config/queues.yaml
% printf 'cluster_name: golden\n' >state/config/xce.yaml
% xce up

# What clients look for.
$ lsclusters -w | head -1
$ bparams
$ bparams -a | grep -e UNIT -e PER_TASK
$ badmin showconf mbd | grep -e CONFDIR -e UNIT
$ lsadmin showconf lim | grep -c ' = '
$ xce env | sed -n 's/^export LSF_ENVDIR=//p'
$ grep UNIT "$XCE_DIR/lsf/conf/lsf.conf"
$ grep DEFAULT_QUEUE "$XCE_DIR"/lsf/conf/lsbatch/golden/configdir/lsb.params
$ lsinfo | sed -n "1,4p;31,\$p"
$ lshosts -w | cut -c1-28
$ lshosts c1 nosuch | cut -c1-28
$ lsload -R 'fast' | cut -c1-24
$ bhosts -R 'slots>=4' -o 'host_name max'
$ bhosts -R 'nosuch>1'
$ bhosts -s
$ bresources -s
$ bmgroup
$ bugroup -l
$ bqueues -r normal | tail -12
$ bqueues -u ann -noheader | cut -c1-24
$ bqueues -m h1 -json -o 'queue_name status'

# Queues and hosts are switched, and say why.
$ badmin qclose -C 'new disks' normal
$ bsub true
$ bqueues -l normal | grep COMMENT
$ badmin qopen all
$ badmin qinact normal
$ bsub -J waits -o /dev/null true
% until_stat PEND $J
$ bjobs -p | tail -1
$ busers
$ badmin qact normal
% ended $J
$ badmin hclose -C 'why not' c1
$ bhosts -w c1
$ badmin hopen c1
$ badmin qclose nosuch
$ badmin ckconfig
$ badmin reconfig
% printf -- '- {name: normal, default: true, priority: 33}\n' >state/config/queues.yaml
$ badmin reconfig
$ bqueues -noheader | cut -c1-24
$ bparams -a | grep DEFAULT_QUEUE
% printf -- '- {name: normal, prio: 1}\n' >state/config/queues.yaml
$ badmin ckconfig
$ badmin reconfig
% printf -- '- {name: normal, default: true, priority: 30}\n' >state/config/queues.yaml
$ xceadmin apply
$ xceadmin apply
$ badmin nosuch
$ bjobs -script 1
$ bjobs -sum -a
$ bmig 1

# LSF's files become ours.
% mkdir lsf
% printf 'LSF_UNIT_FOR_LIMITS=GB\nLSF_LOGDIR=/log\n' >lsf/lsf.conf
% printf 'Begin Queue\nQUEUE_NAME=q1\nPRIORITY=40\nRUNLIMIT=1:30\nUSERS=all ~bob\nNICE=10\nEnd Queue\n' >lsf/lsb.queues
$ xceadmin import-lsf lsf config
$ cat config/queues.yaml config/xce.yaml
$ xceadmin check config
$ xceadmin import-lsf lsf config
$ xceadmin import-lsf state/log other
