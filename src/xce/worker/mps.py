"""The control daemon of MPS that a job has on each of its hosts: lines of shells. Pure.

Whoever starts first there (the job shell, or the first remote task) starts the daemon as the job's
user, below itself, so that it is in the job's control group and bears its mark; all others wait for
that one. What a job says in its environment does not reach the daemon.
"""

import shlex
from typing import Final

from xce.model.effect import Launch
from xce.model.ids import Index
from xce.worker.environ import DEFAULT_PATH
from xce.worker.gpus import host_grants, mps_of
from xce.worker.process_limits import SHELL

START_S: Final = 15
"""So long the daemon may take until it answers."""
QUIT_S: Final = 3
"""So long it may take to end."""
_PIPES_MAX: Final = 78
"""Longest path of the directory of pipes: a socket in it may have 107 bytes."""
# The job's own directory is removed with the attempt, and nobody else can make anything in it. In
# /tmp others can, and names that can be foreseen may be theirs: there the daemon's directory has a
# name of chance, to which one in the job's own leads.
_PLACE: Final = f"""\
o=$XCE_JOB_HOST_DIR/mps; d=$o p=$1
is_there() {{ if [ -L "$o" ]; then d=$(readlink "$o"); fi; [ -d "$d" ] && [ -O "$d" ]; }}
make() {{
  rm -f "$o"; d=$o
  if [ ${{#o}} -le {_PIPES_MAX - len("/pipe")} ]; then mkdir -p "$o"; return; fi
  d=$(mktemp -d /tmp/xce-mps-XXXXXXXXXX) && ln -s "$d" "$o"
}}
names() {{ export CUDA_MPS_PIPE_DIRECTORY="$d/pipe" CUDA_MPS_LOG_DIRECTORY="$d/log"; }}
answers() {{ echo get_server_list | timeout 5 "$p" >/dev/null 2>&1 8>&-; }}
"""
_START: Final = f"""\
{_PLACE}h=$2
fail() {{ echo "host $h: $1 (mps=yes)"; exit 1; }}
umask 077
command -v "$p" >/dev/null || fail "there is no program $p"
touch "$o.lock" 2>/dev/null || fail "the file $o.lock cannot be made"
exec 8>"$o.lock"
flock -w {2 * START_S} 8 || fail "another start of $p takes too long"
{{ is_there || make; }} && mkdir -p "$d/pipe" "$d/log" || fail "the directory $d cannot be made"
names
if ! answers; then
  CUDA_VISIBLE_DEVICES=$3 XCE_MPS_DAEMON=1 timeout {START_S} setsid "$p" -d \
</dev/null >"$d/log/start" 2>&1 8>&- ||
    fail "$p -d ended with exit status $?: $(head -c 300 "$d/log/start" | tr '\\n' ' ')"
  end=$(($(date +%s) + {START_S}))
  until answers; do
    [ $(date +%s) -lt $end ] || fail "$p did not answer within {START_S} s"
    sleep 0.1
  done
fi
echo "$d"
"""
_QUIT: Final = f"""\
{_PLACE}if is_there; then
  names
  echo quit | timeout {QUIT_S} "$p"
  end=$(($(date +%s) + {QUIT_S}))
  while answers && [ $(date +%s) -lt $end ]; do sleep 0.1; done
  rm -rf -- "$d"
fi
rm -rf -- "$o" "$o.lock"
"""


def mps_code(launch: Launch, index: Index, host: str) -> str:
    """Return what a shell does so that the job has its daemon on a host; empty: it wants none.

    Behind it ``$XCE_MPS`` is empty, or says why there is none.
    """
    grants = host_grants(launch, index, host)
    if not mps_of(launch) or not grants:
        return ""
    devices = ",".join(dict.fromkeys(grant.name for grant in grants))
    words = [launch.mps_control, host, devices]
    kept = ("HOME", "XCE_ATTEMPT_MARK", "XCE_JOB_HOST_DIR")
    keeps = " ".join(f'{name}="${name}"' for name in kept)
    start = shlex.join([SHELL, "-c", _START, SHELL, *words])
    return (
        f"if XCE_MPS=$(/usr/bin/env -i PATH={DEFAULT_PATH} {keeps} {start} 9>&-);"
        'then export CUDA_MPS_PIPE_DIRECTORY="$XCE_MPS/pipe" CUDA_MPS_LOG_DIRECTORY="$XCE_MPS/log";'
        "XCE_MPS=;else XCE_MPS=${XCE_MPS:-mps=yes: its start was ended};fi;"
    )


def mps_command(argv: list[str], launch: Launch, index: Index, host: str) -> list[str]:
    """Return a command that sees to the daemon and runs another one."""
    code = mps_code(launch, index, host)
    fails = '[ -z "$XCE_MPS" ] || { echo "xce: $XCE_MPS" >&2; exit 125; };'
    return [SHELL, "-c", f'{code}{fails}exec "$@"', SHELL, *argv] if code else argv


def quit_command(launch: Launch, index: Index, host: str) -> list[str]:
    """Return the command that ends the daemon and removes its directory; empty: there is none."""
    if not mps_of(launch) or not host_grants(launch, index, host):
        return []
    return [SHELL, "-c", _QUIT, SHELL, launch.mps_control]
