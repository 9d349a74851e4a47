# bsub: job scripts, on stdin and as the first argument, and what may be wrong with them.
% xce up --hosts h1 --slots 8 --mem 8G

# Directives count on stdin and in a named script; the command line beats them.
% cat >job.sh <<'END'
> #!/bin/sh
> #BSUB -J scripted -o script.%J   # a comment, with "quotes" and an apostrophe's tail
> #BSUB -P "two words"
>   #BSUB -J indented
> echo $0 | sed 's,.*/,,;s/[0-9a-f]\{16,\}/HASH/'; echo $# $*
> #BSUB -W 5
> END
$ bsub <job.sh
$ bsub job.sh one 'two words'
$ bsub -J mine <job.sh
% ended 1 2 3
$ bjobs -noheader -o 'jobid job_name proj_name runtimelimit command delimiter=";"' 1 2 3
$ sed -n 1,2p script.1
$ sed -n 1,2p script.2

# Without -o for it the report has the script's text.
$ sed -n '/LSBATCH/,/^---/p' script.1

# It need be neither executable nor kept; its first line chooses the program.
% printf '#!/usr/bin/env -S cat\n#BSUB -o cat.%%J\nread by cat\n' >cat.job
$ bsub -H cat.job && rm cat.job
% bresume 4
% ended 4
$ head -3 cat.4

# A named file without directives is a command like any other, found as the shell finds it.
% printf 'echo plain\n' >plain.sh
$ bsub -K -o plain.%J plain.sh
$ bsub -K -o plain.%J ./plain.sh
% chmod +x plain.sh
$ bsub -K -o plain.%J ./plain.sh
$ without_report plain.7
# LSF's way, where directives of a named script are comments.
$ LSB_BSUB_PARSE_SCRIPT=N bsub -K -o n.%J sh job.sh
$ LSB_BSUB_PARSE_SCRIPT=N bsub -K -o n.%J ./job.sh

# CRLF line ends, no newline at the end, other line ends left alone.
$ printf '#!/bin/sh\r\n#BSUB -o crlf.%%J\r\necho from windows\r\n' | bsub -K
$ without_report crlf.10
$ printf '#BSUB -o nonl.%%J\necho no newline' | bsub -K
$ without_report nonl.11
$ printf '#BSUB -o mixed.%%J\necho one\r\necho two\n' | bsub -K
$ without_report mixed.12 | od -c | head -2

# Not UTF-8; NUL bytes; nothing at all; blanks only.
$ printf '#BSUB -o latin.%%J\nprintf "\351t\351" | od -An -tx1 # \351\n' | bsub -K
$ without_report latin.13
$ printf 'echo a\0b\n' | bsub
$ head -c 300 /bin/ls | bsub
$ bsub </dev/null
$ printf '\n  \n' | bsub
$ bsub ''
$ bsub ' '
$ printf '#BSUB -J onlydirectives\n' | bsub -K -o /dev/null

# A directive line that cannot be read whole is an error that names it.
$ printf 'true\n#BSUB -J "open\n' | bsub
$ printf '#BSUB -J two words\n' | bsub
$ printf '#BSUB -nosuch\n' | bsub
$ printf '#BSUB -sla gold\ntrue\n' | bsub
$ printf '#BSUB -n\ntrue\n' | bsub
$ printf '#BSUB -V\ntrue\n' | bsub
$ printf '#BSUB -o a\n#BSUB -oo b\ntrue\n' | bsub
$ printf '#BSUBx -J ignored\n#BSUB\n# BSUB -J ignored\ntrue\n' | bsub -K -o /dev/null

# Repeated options: the last one counts, but -R and -env add up.
$ printf '#BSUB -J first\n#BSUB -J last\n#BSUB -R "rusage[mem=10]" -R "span[hosts=1]"\ntrue\n' | bsub -H
$ bjobs -noheader -o 'job_name combined_resreq delimiter=";"' 16
% bkill 16

# Commands: shell syntax in one word, several words joined, what begins with a hyphen.
$ bsub -K -o c.%J 'a=1; echo $((a + 1)) "$(echo sub)" | tr a-z A-Z'
$ bsub -K -o c.%J echo several    words '&&' echo '"quoted  blanks"'
$ bsub -K -o c.%J -- echo -n behind two hyphens
$ bsub -K -o c.%J "printf '%s\n' é 日本 '“q”' \"it's\""
$ without_report c.17 c.18
$ sed -n 1,1p c.19 | cut -c 1-18
$ without_report c.20
$ bsub -K -o c.%J "$(printf 'echo one\necho two')"
$ bjobs -noheader -o command 21
$ bsub -K -o c.%J "$(printf 'echo \303\251 \377')"

# Names: blanks, quotes, slashes, Unicode, 1 KiB; listings cut them, -o does not.
$ bsub -H -J 'with blanks and a "quote"' true
$ bsub -H -J "it's/a/path:with,many=(odd).marks" true
$ bsub -H -J 'naïve ☃ 日本' true
$ bsub -H -J "$(printf 'x%.0s' $(seq 1024))" true
$ bsub -H -J "$(printf 'y%.0s' $(seq 4095))" true
$ bsub -H -J '' true
$ bsub -H -J "$(printf 'two\nlines')" true
$ bjobs
$ bjobs -w | cut -c 1-120
$ bjobs -noheader -o 'jobid job_name delimiter=";"' | cut -c 1-60
$ bjobs -noheader -o job_name 25 | tr -d '\n' | wc -c
$ bjobs -J "it's/a/path:with,many=(odd).marks" -noheader -o jobid
$ bjobs -J 'na*日*' -noheader -o jobid
$ bjobs -UF 22 | grep '^Job'
$ bkill 0

# What stands in a listing is one line, and moves nothing on a terminal.
$ bsub -H -P "$(printf 'two\nlines')" true
$ bsub -H -J "$(printf 'up\033[A')" true
$ bsub -w "$(printf 'x%.0s' $(seq 70000))" true
$ bsub -H -o "$(printf 'a\nb\033[31m')" -cwd "$(printf 'x\ty\nz')" "$(printf 'echo \033[1m \a')"
$ bjobs -w
$ bjobs -noheader -o 'jobid output_file sub_cwd command delimiter=";"'
$ bjobs -json -o 'output_file command'
$ bjobs -UF | grep -c .
$ bhist -UF $J | grep Submitted
$ xcecli jobs
$ xcecli info $J | sed -n '/^Command/,/^Output/p'
$ bkill 0
