"""A program that behaves as NVIDIA's control daemon of MPS does, where there is no GPU.

``-d``: it leaves a daemon in a session of its own, which makes its pipe in
``$CUDA_MPS_PIPE_DIRECTORY`` and serves it until it is told ``quit``; a directory that is served
already is an error. Else it passes its standard input on to that daemon. Each daemon writes beside
the program what it was started with, and as whom.
"""

import json
from pathlib import Path
from typing import Any

_PROGRAM = """\
#!/usr/bin/python3 -IS
import json, os, socket, sys
pipe = os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/control"
near = socket.socket(socket.AF_UNIX)
if sys.argv[1:] != ["-d"]:
    try:
        near.connect(pipe)
    except OSError:
        sys.exit("Cannot find MPS control daemon process")
    near.sendall(sys.stdin.buffer.read())
    near.shutdown(socket.SHUT_WR)
    sys.stdout.buffer.write(near.recv(100))
    sys.exit()
if os.path.exists(pipe):
    sys.exit("An instance of this daemon is already running")
if FAULT == "refuse":
    sys.exit("no CUDA-capable device is detected")
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
if FAULT != "silent":
    near.bind(pipe)
    near.listen()
seen = {"pid": os.getpid(), "uid": os.getuid(), "env": dict(os.environ)}
with open(os.path.dirname(os.path.abspath(sys.argv[0])) + "/daemons", "a") as file:
    file.write(json.dumps(seen) + "\\n")
while True:
    far, _ = near.accept()
    word = far.recv(100).strip()
    far.close()
    if word == b"quit" and FAULT != "stubborn":
        os.unlink(pipe)
        break
"""


def write_stand_in(directory: Path, fault: str = "") -> Path:
    """Write the program into a directory in which jobs may write, and return its path.

    ``fault``: ``refuse`` ends with a complaint, ``silent`` serves nobody, ``stubborn`` never quits.
    """
    path = directory / "mps-control"
    path.write_text(_PROGRAM.replace("FAULT", repr(fault)))
    path.chmod(0o755)
    (directory / "daemons").touch(mode=0o666)
    (directory / "daemons").chmod(0o666)
    return path


def daemons_of(directory: Path) -> list[dict[str, Any]]:
    """Return what each daemon that was started wrote."""
    return [json.loads(line) for line in (directory / "daemons").read_text().splitlines()]
