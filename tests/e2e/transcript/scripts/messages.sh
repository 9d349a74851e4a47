# bpost, bread and bstatus: messages to jobs.
% xce up --hosts 'h[1-2]' --slots 2 --mem 1G
% bsub -H -J named -o /dev/null true
% bsub -H -J 'a[1-3]' -o /dev/null true
% printf 'a file\n' >file.txt

# A message in a box, another one in its place, one with a file.
$ bread 1
$ bpost -d 'step one' 1
$ bpost -i 5 -d 'something happened that takes many words to tell' -N WARNING 1
$ bpost -i 7 -a file.txt 1
$ bread 1
$ bread -i 5 1
$ bread -w -i 5 -N 1
$ bread -i 6 1
$ bread -i 7 -a copy.txt 1
$ cat copy.txt
$ bjobs -l 1 | sed -n '/EXTERNAL/,/^$/p'

# The external status is message 0.
$ bstatus -d 'halfway' 1
$ bstatus 1

# Elements of an array; the newest job of a name.
$ bpost -d 'to all' 2
$ bpost -d 'to the second' '2[2]'
$ bread '2[1]'
$ bread '2[2]'
$ bpost -d 'by name' -J named
$ bread -J named -i 0

# What is wrong.
$ bpost -d x 99
$ bpost -d x
$ bpost -d x abc
$ bpost -i 129 -d x 1
$ bpost -N LOUD -d x 1
$ bpost -a nosuch.txt 1
$ bpost -d x '2[9]'
$ bread 99
$ bread -a copy.txt 1
$ bread -J nosuch
% bkill 1 2; ended 1
$ bpost -d late 1
$ bread -i 0 1
