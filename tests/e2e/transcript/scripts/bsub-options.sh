# bsub: what each option does to the job.
% mkdir -p state/config
% cat >state/config/queues.yaml <<'END'
> - {name: normal, default: true, priority: 30, description: for all}
> - {name: short, priority: 50, run_limit: 1h, default_run_limit: 10m, tasks_min: 2, tasks_max: 4, mem_limit: 2G}
> - {name: alone, priority: 10, exclusive: true, hosts: "h[3-4]"}
> - {name: shut, priority: 5, open: false}
> - {name: asleep, priority: 5, active: false}
> - {name: theirs, priority: 5, users: [nobody-we-know]}
> END
% cat >state/config/resources.yaml <<'END'
> - {name: scratch, kind: counter, unit: GiB, description: local disk}
> - {name: lic, kind: pool, description: licences}
> - {name: big, kind: boolean}
> - {name: gen, kind: number}
> - {name: site, kind: string}
> END
% cat >state/config/hosts.yaml <<'END'
> - {names: "h[1-2]", slots: 4, mem: 8G, scratch: 100, attributes: {gen: 1, site: north}}
> - {names: "h[3-4]", slots: 4, mem: 8G, scratch: 50, attributes: {gen: 2, site: south, big: true}}
> END
% printf 'pools: {lic: 3}\n' >state/config/supply.yaml
% xce up

# -h and -V print on stderr.
$ bsub -h
$ bsub -V

# -J: a name. -P: a project. -q: a queue, or several that are tried in turn.
$ bsub -J 'a name' -P physics -o /dev/null true
$ bsub -q short -n 2 -o /dev/null true
$ bsub -q 'shut nosuch normal' -o /dev/null true
$ LSB_DEFAULTQUEUE=alone LSB_DEFAULTPROJECT=chemistry bsub -o /dev/null true
% ended 1 2 3 4
$ bjobs -noheader -o 'jobid queue job_name proj_name slots runtimelimit delimiter=";"' 1 2 3 4
$ BSUB_QUIET=1 bsub -o /dev/null true

# -n: tasks; -n min,max: as many as there are. -R span[], select[], order[], rusage[]; several -R.
$ bsub -K -n 3 -R 'span[hosts=1]' -o n.%J 'echo $LSB_HOSTS $LSB_MCPU_HOSTS $(cat $LSB_DJOB_HOSTFILE) | sed s/h[1-4]/HOST/g'
$ without_report n.6
$ bsub -K -n 4 -R 'span[ptile=2]' -o n.%J 'echo $LSB_MCPU_HOSTS | sed s/h[1-4]/HOST/g'
$ without_report n.7
$ bsub -K -n 2,100 -o n.%J 'echo $LSB_DJOB_NUMPROC of $LSB_MAX_NUM_PROCESSORS'
$ without_report n.8
$ bsub -K -R 'select[gen==2] order[-slots]' -R 'rusage[scratch=10]' -o n.%J 'echo $LSB_EFFECTIVE_RSRCREQ'
$ without_report n.9
$ bsub -K -R 'big && site==south && mem>100' -o n.%J 'test $LSB_HOSTS = h3 -o $LSB_HOSTS = h4 && echo south'
$ without_report n.10
$ bsub -R 'rusage[scratch=60]' -n 2 -R 'span[hosts=1]' -o /dev/null true
$ bjobs -l 11 | sed -n '/PENDING REASONS/,/^$/p'
$ bjobs -pl 11 | sed -n '/PENDING REASONS/,/^$/p'
$ bkill 11
$ LSB_DEFAULT_RESREQ='select[hname==h2]' bsub -K -o n.%J 'echo $LSB_HOSTS'
$ without_report n.12

# A pool is a counter of the whole cluster.
$ bsub -R 'rusage[lic=2]' -o /dev/null 'sleep 30'
% until_stat RUN 13
$ bsub -R 'rusage[lic=2]' -o /dev/null true
% until_stat PEND 14
$ bjobs -l 14 | sed -n '/PENDING REASONS/,/^$/p'
% bkill -r 13
% ended 14
$ bjobs -noheader -o stat 14

# -m: these hosts. -x: nothing beside it, where the queue allows it.
$ bsub -K -m h2 -o m.%J 'echo $LSB_HOSTS'
$ without_report m.15
$ bsub -K -m 'h4+2 h3 others' -o m.%J 'echo $LSB_HOSTS'
$ without_report m.16
$ bsub -K -m 'h1 h4' -n 8 -o m.%J 'echo $LSB_MCPU_HOSTS'
$ without_report m.17
$ bsub -x -q alone -m h3 -o /dev/null sleep 30
% until_stat RUN 18
$ bhosts -w h3
$ bsub -m h3 -o /dev/null true
% until_stat PEND 19
$ bjobs -p 19
% bkill -r 18
% ended 19

# -H: held until bresume. -b: not before an instant; one in the past is now. -t: over by then.
$ bsub -H -o /dev/null true
$ bjobs -noheader -o 'stat pend_reason' 20
$ bresume 20
% ended 20
$ bsub -b 2030:12:24:18:30 -t 2030:12:31:0:0 -o /dev/null true
% until_stat PEND 21
$ bjobs -noheader -o 'stat specified_start_time specified_terminate_time pend_reason' 21
$ bjobs -UF 21 | grep -o 'Specified Start Time <[^>]*>.*'
$ bmod -tn 21
$ bjobs -noheader -o 'specified_terminate_time' 21
$ bsub -K -b 2001:1:1:0:0 -o /dev/null true
$ bkill 21

# -K: waits; the exit status is the job's, 128 + signal, or 126 for a job that never ran.
$ bsub -K -o /dev/null exit 7
$ bsub -K -o /dev/null 'kill -9 $$'
$ bsub -K -o /dev/null nosuchcommand
$ (until_stat PSUSP 26; bkill 26 >/dev/null) & bsub -K -H -o /dev/null true
$ LSB_SUBK_SHOW_EXEC_HOST=1 LSB_SUBK_SHOW_JOBID=1 bsub -K -m h1 -o /dev/null true
$ bsub -K -J 'three[1-3]' -o /dev/null 'exit $((LSB_JOBINDEX - 2))'

# -cwd: where it runs; relative to here; made where it is missing; patterns.
% mkdir elsewhere
$ bsub -K -cwd elsewhere -o cwd.%J pwd
$ without_report elsewhere/cwd.29
$ bjobs -UF 29 | grep -o '\(Specified \|Execution \|, \)CWD <[^>]*>'
$ bjobs -noheader -o 'sub_cwd exec_cwd' 29
$ bsub -K -cwd "$PWD/made/%J" -o cwd.%J pwd
$ without_report made/30/cwd.30
$ bsub -K -cwd /dev/null/there -o "$PWD/cwd.%J" pwd
$ bjobs -noheader -o 'stat exit_code exit_reason' 31
% mkdir gone
$ (cd gone && rmdir ../gone && bsub -o /dev/null true)

# -env: all, none, some, with changes; several add up. The account's variables are always there.
% printf 'echo "A=$A B=$B C=$C HOME=${HOME:+set} PATH=${PATH:+set}"\n' >show.sh
$ A=1 B=2 bsub -K -o env.%J sh show.sh
$ A=1 B=2 bsub -K -env none -o env.%J sh show.sh
$ A=1 B=2 bsub -K -env 'all, ~A, C=3' -o env.%J sh show.sh
$ A=1 B=2 bsub -K -env 'B, C=x y' -o env.%J sh show.sh
$ A=1 B=2 bsub -K -env all -env A=9 -env "C='p,q'" -o env.%J sh show.sh
$ without_report env.32 env.33 env.34 env.35 env.36
$ bsub -env '=1' true

# What a job finds: ids, names, hosts; nothing of an outer job.
$ bsub -K -J called -q short -n 2 -P physics -o vars.%J 'env | grep "^LSB_\|^LS_\|^XCE_" | grep -v "HOSTFILE\|RANKFILE\|JOBFILE\|XCE_DIR\|XCE_WAIT\|XCE_LAUNCH" | sort'
$ without_report vars.37
$ bsub -K -J 'el[2-6:2]' -o vars.%J.%I 'echo $LSB_JOBID $LSB_JOBINDEX $LSB_JOBINDEX_STEP $LSB_JOBINDEX_END $LSB_BATCH_JID $LSB_JOBNAME'
$ without_report vars.38.2 vars.38.4 vars.38.6

# -W and -M are shown; -sp, -We; bare numbers of -M are MB here, or as the environment says.
$ bsub -H -W 1:30 -We 20 -M 500 -sp 7 -o /dev/null true
$ LSF_UNIT_FOR_LIMITS=GB bsub -H -W 0.5 -M 2 -R 'rusage[mem=1]' -o /dev/null true
$ bsub -H -M 1.5GB -R 'rusage[mem=500MB]' -o /dev/null true
$ bjobs -noheader -o 'jobid runtimelimit estimated_run_time memlimit job_priority combined_resreq delimiter=";"' 39 40 41
$ bsub -H -q short -n 2 -o /dev/null true
$ bjobs -noheader -o 'queue runtimelimit' 42
% bkill 0

# More than the cluster has: accepted with a warning, and the reason says that it can never run.
$ bsub -n 17 -o /dev/null true
$ bsub -R 'rusage[mem=9G]' -o /dev/null true
$ bsub -R 'rusage[lic=4]' -o /dev/null true
$ bsub -m h1 -R 'big' -o /dev/null true
$ bsub -n 5 -R 'span[hosts=1]' -o /dev/null true
% until_stat PEND 43 44 45 46 47
$ bjobs -p 43 44 45 46 47
$ xcecli why 43 44 45 46 47
$ bsub -q asleep -o /dev/null true
% until_stat PEND 48
$ bjobs -noheader -o 'jobid stat pend_reason' 48
$ bkill 0
