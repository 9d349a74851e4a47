# What the scripts of this folder may use beside the commands themselves.

# until_stat STAT JOB...: wait until each job is in the state.
until_stat() {
    _stat=$1
    shift
    for _job; do
        _tries=0
        until [ "$(bjobs -noheader -o stat "$_job" 2>/dev/null | sort -u)" = "$_stat" ]; do
            _tries=$((_tries + 1))
            if [ "$_tries" -gt 1200 ]; then
                echo "job $_job is never $_stat" >&2
                bjobs -w "$_job" >&2
                return 1
            fi
            sleep 0.05
        done
    done
}

# until_text TEXT FILE: wait until the file holds the text.
until_text() {
    _tries=0
    until grep -q -e "$1" "$2" 2>/dev/null; do
        _tries=$((_tries + 1))
        if [ "$_tries" -gt 1200 ]; then
            echo "$2 never holds $1" >&2
            return 1
        fi
        sleep 0.05
    done
}

# ended JOB...: wait until the jobs are over.
ended() {
    xcecli wait --timeout 90 "$@" >/dev/null
    [ $? -le 255 ]
}

# without_report FILE...: print files without LSF's job reports.
without_report() {
    for _file; do
        sed '/^-\{60\}$/,/^The output (if any) is above this job summary\.$/d' "$_file" |
            sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
    done
}

# count_processes WORDS: say how many processes have exactly this command line.
count_processes() {
    _count=0
    for _file in /proc/[0-9]*/cmdline; do
        if [ "$({ tr '\0' ' ' <"$_file"; } 2>/dev/null)" = "$1 " ]; then
            _count=$((_count + 1))
        fi
    done
    echo "$_count"
}

# told ARGUMENTS: the newest traced session, without its number and entry.
told() {
    xcecli trace "$@" --limit 1 | sed 's/^Session [0-9]*, \(.*\), behind entry [0-9]*/Session N, \1/'
}

# until_told TEXT JOB: wait until a session has told of a job with this text.
until_told() {
    _tries=0
    until xcecli trace "$2" 2>/dev/null | grep -q "$1"; do
        _tries=$((_tries + 1))
        if [ "$_tries" -gt 600 ]; then
            echo "no session tells $1 of job $2" >&2
            return 1
        fi
        sleep 0.05
    done
}
