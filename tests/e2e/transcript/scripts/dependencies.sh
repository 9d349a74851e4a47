# -w: every condition and operator, what never holds, and what it hangs on that is over.
% mkdir -p state/config
% printf 'orphan_grace_s: 0\n' >state/config/xce.yaml
% xce up --hosts h1 --slots 16 --mem 8G

# Two jobs that are over, one done and one exited with 3; one that runs; one held.
% bsub -J good -o /dev/null true
% bsub -J bad -o /dev/null exit 3
% bsub -J runs -o /dev/null 'until [ -e go ]; do sleep 0.1; done'
% bsub -J held -H -o /dev/null true
% ended 1 2; until_stat RUN 3

# What holds already: the job starts at once.
$ bsub -w 'done(1)' -o /dev/null true
$ bsub -w 1 -o /dev/null true
$ bsub -w 'exit(2)' -o /dev/null true
$ bsub -w 'exit(2, 3)' -o /dev/null true
$ bsub -w 'exit(2, > 2) && exit(2, <= 3) && exit(2, != 4) && exit(2, == 3) && exit(2, >= 3) && exit(2, < 4)' -o /dev/null true
$ bsub -w 'ended(1) && ended("bad")' -o /dev/null true
$ bsub -w 'started(3)' -o /dev/null true
$ bsub -w 'post_done(1)' -o /dev/null true
$ bsub -w 'done(3) || done(good)' -o /dev/null true
$ bsub -w '!done(2) && !(exit(1) || exit(2, 4))' -o /dev/null true
$ bsub -w '"done(1)"' -o /dev/null true
$ bsub -w 'done("go*")' -o /dev/null true
% ended 5 6 7 8 9 10 11 12 13 14 15 16
$ bjobs -a -noheader -o 'jobid stat dependency delimiter=";"' 5 9 14 16

# What does not hold yet.
$ bsub -J waits -w 'done(3)' -o /dev/null true
$ bsub -w 'ended(3) && (done(held) || exit(held))' -o /dev/null true
$ bsub -w 'started(4)' -o /dev/null true
$ bsub -w 'done(waits)' -o /dev/null true
% until_stat PEND 17 18 19 20
$ bjobs -p 17 18 19 20
$ bjobs -UF 18 | grep -o 'Dependency Condition <[^>]*>'
$ xcecli why 17

# What can never hold: it ends, since orphan_grace_s is 0.
$ bsub -w 'exit(1)' -o /dev/null true
$ bsub -w 'done(2)' -o /dev/null true
$ bsub -w 'exit(2, 4)' -o /dev/null true
$ bsub -w 'done(17) && done(2)' -o /dev/null true
$ bsub -w 'post_err(1)' -o /dev/null true
$ bsub -w 'done(4)' -o /dev/null true
$ bsub -w 'done(26)' -o /dev/null true
% ended 21 22 23 24 25
$ bjobs -noheader -o 'jobid stat exit_code exit_reason delimiter=";"' 21 22 23 24 25
$ bjobs -UF 22 | sed -n 's/.*: Exited/Exited/p;s/.*Completed/Completed/p'
$ xcecli why 22
# bsub -K of such a job: it never ran.
$ bsub -K -w 'done(2)' true
# A killed job takes those with it that wait for it to be done.
$ bkill 4
% ended 4 19 26 27
$ bjobs -noheader -o 'jobid stat exit_reason delimiter=";"' 4 19 26 27

# The others go on when what they wait for is over.
% touch go
% ended 17 18 20
$ bjobs -noheader -o 'jobid stat' 17 18 20

# Names mean all own jobs of that name; arrays as a whole, one element, element by element.
% bsub -J 'arr[1-3]' -o /dev/null 'exit $((LSB_JOBINDEX == 2))'
% ended $J
$ bsub -w 'ended(arr)' -o /dev/null true
$ bsub -w 'done(30[1]) && exit(30[2])' -o /dev/null true
$ bsub -w 'done("arr[3]")' -o /dev/null true
$ bsub -J 'pair[1-2]' -w 'done("arr[*]")' -o /dev/null true
$ bsub -w 'done("arr[*]")' -o /dev/null true
$ bsub -J 'pair[1-3]' -w 'ended("arr[*]") && done("arr[*]")' -o /dev/null true
$ bsub -w 'done(30[4])' -o /dev/null true
$ bsub -w 'done(30)' -o /dev/null true
% ended 31 32 33 34
$ bjobs -noheader -o 'jobid jobindex stat exit_reason delimiter=";"' 32
$ bjobs -noheader -o 'jobid stat exit_reason delimiter=";"' 31 32 33 34
