# bwait, conditions on counts and on external status, orphans that end at once, and bsub -Q.
% mkdir -p state/config
% printf 'orphan_grace_s: forever\n' >state/config/xce.yaml
% xce up --hosts 'h[1-2]' --slots 2 --mem 1G

# Counts of elements.
% bsub -H -J 'a[1-4]' -o /dev/null true
% bsub -w 'numdone(1, > 1)' -o /dev/null true
% bsub -w 'numended(1, *)' -o /dev/null true
$ bsub -w 'numdone(a, 1)' true
$ bsub -w 'numdone(2, 1)' true
$ bjobs -p 2 | tail -1
% bresume '1[1-2]'; ended 2
$ bwait -w 'numdone(1, == 2) && numhold(1, 2)'
$ bjobs -noheader -o 'jobid stat' 2 3
% bresume 1
$ bwait -w 'ended(3)' -t 5
$ bwait -w 'exit(3)'
$ bwait -w 'done(99)'
$ bwait -w 'done('
$ bwait
$ bwait -t 0 -w 'done(3)'

# External status.
% bsub -H -J tells -o /dev/null true
% bsub -w 'external(tells, "ready")' -o /dev/null true
$ bwait -t 0.01 -w 'external(tells, ready)'
% bstatus -d 'ready now' 4
% ended 5
$ bjobs -noheader -o 'jobid stat' 5

# Orphans.
% bsub -w 'exit(5)' -o /dev/null true
% bsub -w 'exit(5)' -ti -o /dev/null true
$ bjobs -noheader -o 'jobid stat exit_reason delimiter=";"' 6 7
$ bsub -ti true
% bkill 0

# Exit statuses for which a job is started anew.
% bsub -Q '3 5' -o q.out 'echo "attempt $XCE_ATTEMPT"; test "$XCE_ATTEMPT" = 1 && exit 5; exit 4'
% ended 8
$ grep -h attempt q.out
$ bjobs -noheader -o 'jobid stat exit_code delimiter=";"' 8
$ bjobs -UF 8 | sed -n 's/.*\(Requeue Exit Values <[^>]*>\).*/\1/p'
$ bsub -Q '' true
$ bsub -Q '256' true
$ bsub -Q 'EXCLUDE(3)' true
