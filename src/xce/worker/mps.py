"""The control daemon of MPS that a job has on each of its hosts: lines of shells. Pure.

Whoever starts first there (the job shell, or the first remote task) starts the daemon as the job's
user, below itself, so that it is in the job's control group and bears its mark; all others wait for
that one. What a job says in its environment does not reach the daemon.

A daemon that jobs share is none of theirs: the shepherd starts it with the first and ends it behind
the last (`xce.worker.shepherd.shared`), and each job waits for what is said of it.
"""

import hashlib
import json
import shlex
from typing import Final

from xce.model.effect import Launch
from xce.model.ids import Index
from xce.worker.environ import DEFAULT_PATH
from xce.worker.gpus import daemon_names, mps_of, shares_daemon
from xce.worker.order import ShareOrder
from xce.worker.process_limits import SHELL

START_S: Final = 15
"""So long the daemon may take until it answers."""
QUIT_S: Final = 3
"""So long it may take to end."""
WAIT_S: Final = 90
"""So long a job waits for what is said of one that it shares: an earlier one may have to end, and
another job's start to fail, before its own is tried."""
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
{_PLACE}h=$2 m=$4
fail() {{ echo "host $h: $1 (mps=$m)"; exit 1; }}
umask 077
command -v "$p" >/dev/null || fail "there is no program $p"
touch "$o.lock" 2>/dev/null || fail "the file $o.lock cannot be made"
exec 8>"$o.lock"
flock -w {2 * START_S} 8 || fail "another start of $p takes too long"
{{ is_there || make; }} && mkdir -p "$d/log" || fail "the directory $d cannot be made"
names
r=0; answers || r=$?
[ $r != 124 ] || fail "$p does not answer"
if [ $r != 0 ]; then
  # One that was killed has left its pipes, and there can be no other one beside them.
  rm -rf -- "$d/pipe" && mkdir "$d/pipe" || fail "the directory $d/pipe cannot be made"
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


_TELL: Final = """\
f=$XCE_TELL; unset XCE_TELL
said=$("$@") && word=at || word=no
echo "$word $said" >"$f.new" && mv "$f.new" "$f"
"""
_WAIT: Final = f"""\
f=$XCE_JOB_HOST_DIR/mps; end=$(($(date +%s) + {WAIT_S}))
until [ -s "$f" ]; do
  [ $(date +%s) -lt $end ] || {{ echo "host $1: nobody has started the daemon (mps=$2)"; exit 1; }}
  sleep 0.05
done
read -r word said <"$f"
echo "$said"
[ "$word" = at ]
"""


def mps_code(launch: Launch, index: Index, host: str) -> str:
    """Return what a shell does so that the job has a daemon on a host; empty: it wants none.

    Behind it ``$XCE_MPS`` is empty, or says why there is none.
    """
    if not daemon_names(launch, index, host):
        return ""
    start = _start(launch, index, host)
    if shares_daemon(launch, index, host):
        start = [SHELL, "-c", _WAIT, SHELL, host, mps_of(launch)]
    kept = ("HOME", "XCE_ATTEMPT_MARK", "XCE_JOB_HOST_DIR")
    keeps = " ".join(f'{name}="${name}"' for name in kept)
    return (
        f"if XCE_MPS=$(/usr/bin/env -i PATH={DEFAULT_PATH} {keeps} {shlex.join(start)} 9>&-);"
        'then export CUDA_MPS_PIPE_DIRECTORY="$XCE_MPS/pipe" CUDA_MPS_LOG_DIRECTORY="$XCE_MPS/log";'
        "XCE_MPS=;else XCE_MPS=${XCE_MPS:-mps=yes: its start was ended};fi;"
    )


def mps_command(argv: list[str], launch: Launch, index: Index, host: str) -> list[str]:
    """Return a command that sees to the daemon and runs another one."""
    code = mps_code(launch, index, host)
    fails = '[ -z "$XCE_MPS" ] || { echo "xce: $XCE_MPS" >&2; exit 125; };'
    return [SHELL, "-c", f'{code}{fails}exec "$@"', SHELL, *argv] if code else argv


def quit_command(launch: Launch, index: Index, host: str) -> list[str]:
    """Return the command that ends a job's own daemon and removes its directory; empty: it has none
    of its own.
    """
    if not daemon_names(launch, index, host) or shares_daemon(launch, index, host):
        return []
    return [SHELL, "-c", _QUIT, SHELL, launch.mps_control]


def share_order(launch: Launch, index: Index, host: str, home: str) -> ShareOrder | None:
    """Return which daemon a job shares on a host; None: it shares none.

    Args:
        launch: What is started.
        index: Which element.
        host: The host.
        home: The home directory of the job's user there.
    """
    names = daemon_names(launch, index, host)
    if not names or not shares_daemon(launch, index, host):
        return None
    uid, program = launch.owner.uid, launch.mps_control
    text = json.dumps([program, names]).encode()
    return ShareOrder(
        name=f"{uid}-{hashlib.blake2b(text, digest_size=8).hexdigest()}",
        start=[
            "/usr/bin/env", f"HOME={home}", SHELL, "-c", _TELL, SHELL, *_start(launch, index, host)
        ],
        quit=[SHELL, "-c", _QUIT, SHELL, program],
    )  # fmt: skip


def _start(launch: Launch, index: Index, host: str) -> list[str]:
    """Return the command that starts a daemon where none answers, and says where it is."""
    devices = ",".join(daemon_names(launch, index, host))
    return [SHELL, "-c", _START, SHELL, launch.mps_control, host, devices, mps_of(launch)]
