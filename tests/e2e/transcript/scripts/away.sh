# A cluster that does not answer, and jobs that the cluster has long forgotten.

# Nothing is there: tried for --wait-daemon seconds with progress on stderr, then 255, or 5.
$ bsub --wait-daemon 2 true
$ bjobs --wait-daemon 0
$ bkill --wait-daemon=0 1
$ bhosts --wait-daemon 0
$ XCE_WAIT_DAEMON=0 bqueues
$ XCE_WAIT_DAEMON=0 lsid
$ XCE_WAIT_DAEMON=0 bpeek
$ XCE_WAIT_DAEMON=soon bjobs
$ xcecli --wait-daemon 1 jobs
$ xcecli jobs --wait-daemon 0
$ XCE_WAIT_DAEMON=0 xcecli submit true
$ XCE_WAIT_DAEMON=0 xcecli wait 1
$ xcecli --wait-daemon -1 jobs
$ XCE_DIR=/nonexistent bjobs --wait-daemon 0
# What needs no cluster works all the same.
$ bsub -V
$ bsub ''

# It comes up while a command waits for it.
% mkdir -p state/config
% printf 'clean_period_s: 1\n' >state/config/xce.yaml
$ (sleep 0.2; xce up --hosts h1 --slots 4 >/dev/null) & bsub --wait-daemon 90 -J early -o early.out echo early 2>/dev/null
% ended 1
$ without_report early.out

# Jobs that ended more than clean_period_s ago are no longer listed, but answered by id for ever.
% bsub -J gone -P physics -o gone.out exit 3
% bsub -J 'arr[1-3]' -o /dev/null 'exit $((LSB_JOBINDEX == 2))'
% bsub 'echo kept output'
% bsub -H -J killed -o /dev/null true
% bkill 5
% ended 2 3 4; until [ -z "$(bjobs -a -noheader -o jobid 2>/dev/null)" ]; do sleep 0.1; done
$ bjobs -a
$ bjobs 2 3
$ bjobs -noheader -o 'jobid job_name stat exit_code exit_reason proj_name exec_host delimiter=";"' 1 2 '3[2]' 4 5
$ bjobs -UF 2 | sed -n '/^Job/p;s/.*: Exited/Exited/p;s/.*Completed/Completed/p'
$ bjobs 2 99
$ bjobs -A 3
$ bkill 2
$ bpeek 2
$ xcecli jobs 2
$ xcecli info 2 | grep -v 'CPU time\|Max memory'
$ xcecli info 3
$ xcecli why 2 5
$ xcecli output 4
$ xcecli output 2 | head -1
$ xcecli wait 2
$ xcecli kill 2
# A dependency on such a job is judged by how it ended.
$ bsub -K -w 'exit(2, 3) && done(1)' -o /dev/null true
$ bsub -K -w 'done(2)' -o /dev/null true
$ bsub -K -w 'done(3[1]) && exit(3[2], 1) && ended(3)' -o /dev/null true
$ bsub -K -w 'done(3)' -o /dev/null true
$ bsub -w 'done(3[4])' true
$ bsub -w 'done(gone)' true
# After a restart the cluster still knows, and goes on counting.
% xce down; xce up
$ bjobs -noheader -o 'jobid stat' 2 5
$ bsub -K -o /dev/null true
