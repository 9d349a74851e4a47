"""A real shepherd, or a real worker with its shepherd, driven by a test."""

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from other_user import IS_ROOT, NOBODY, skip_unless_reachable

from xce.worker.script import prepare_script
from xce.worker.shepherd import main as shepherd_main

PATIENCE_S = 20.0
MODES = ("cgroups", "sessions", "user") if IS_ROOT else ("user",)
"""How jobs are held together: by root's control groups, by root's sessions, by a plain user's."""


def wait_until(is_so: Callable[[], object], what: str) -> None:
    """Return as soon as ``is_so``."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, f"in vain waited for: {what}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process lives and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class Shepherd:
    """A shepherd in a directory of its own; orders go in, events come out."""

    def __init__(
        self, root: Path, mode: str, *, idle_s: float = 30.0, options: tuple[str, ...] = ()
    ) -> None:
        self.root, self.mode, self.idle_s, self.options = root, mode, idle_s, options
        self.runs, self.kept, self.scripts = (root / name for name in ("runs", "kept", "scripts"))
        for path in (root, self.runs, self.kept, self.scripts):
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
        self.uid = NOBODY if mode == "user" and IS_ROOT else os.geteuid()
        self.gid = NOBODY if mode == "user" and IS_ROOT else os.getegid()
        if self.uid != os.geteuid():
            for path in (root, self.runs, self.kept):
                os.chown(path, self.uid, self.gid)
        self.socket = root / "s"
        self.events: list[list[Any]] = []
        self.greeting: list[Any] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: socket.socket | None = None
        self._rest = b""
        self.start()

    def start(self) -> None:
        """Start a shepherd, and hear all that it has."""
        command = [
            "/usr/bin/python3", "-I", "-S", str(shepherd_main.__file__), "--socket",
            str(self.socket), "--runs", str(self.runs), "--kept", str(self.kept),
            "--label", f"test-{os.getpid()}-{self.root.name}", "--idle-seconds", str(self.idle_s),
        ]  # fmt: skip
        command += self.options
        if self.mode != "cgroups":
            command.append("--no-cgroups")
        if self.uid != os.geteuid():
            command = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.gid),
                       "--clear-groups", *command]  # fmt: skip
        log = (self.root / "log").open("ab")
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        self.connect()

    def connect(self) -> None:
        """Connect as a new worker, and hear all there is."""
        self.disconnect()

        def try_it() -> bool:
            self.connection = socket.socket(socket.AF_UNIX)
            try:
                self.connection.connect(str(self.socket))
            except OSError:
                self.connection.close()
                assert self.process is not None
                assert self.process.poll() is None, (self.root / "log").read_text()
                return False
            return True

        wait_until(try_it, "a shepherd that listens")
        self.events, self._rest = [], b""
        self.expect("listed")
        self.greeting = self.events[0]

    def disconnect(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def kill(self) -> None:
        """Kill it as nothing else can be caught less."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.disconnect()

    def restart(self) -> None:
        """Kill it and start another."""
        self.kill()
        self.start()

    def order(self, *orders: list[Any], bases: dict[str, dict[str, str]] | None = None) -> None:
        """Send orders in one frame."""
        assert self.connection is not None
        content = json.dumps({"orders": orders, "bases": bases or {}}).encode()
        self.connection.sendall(struct.pack(">I", len(content)) + content)

    def spawn(
        self, script: str | bytes, *, job: int = 1, index: int = 0, attempt: int = 1,
        output: tuple[str, bool] | None = None, error: tuple[str, bool] | None = None,
        source: str = "", uid: int | None = None, gid: int | None = None,
        env: dict[str, str] | None = None, count: int = 1,
        args: tuple[str, ...] = (), **shared: Any,
    ) -> None:  # fmt: skip
        """Order a start; with ``count`` that many elements."""
        text = script.encode() if isinstance(script, str) else script
        content, way = prepare_script(text)
        path = self.scripts / f"{abs(hash(content)):x}"
        path.write_bytes(content)
        path.chmod(0o755)
        ids = (self.uid if uid is None else uid, self.gid if gid is None else gid)
        order = {
            "note": f"note of {job}", "base": "b", "env": env or {}, "uid": ids[0], "gid": ids[1],
            "groups": [], "cwd": str(self.root), "make_cwd": False, "umask": 0o022,
            "script": [str(path), *args], "way": way, "limit_kib": 0, **shared,
        }  # fmt: skip
        items = [
            [job, index + i, attempt, {"I": str(index + i)}, source, output, error]
            for i in range(count)
        ]
        self.order(["spawn", order, items], bases={"b": {"PATH": "/usr/bin:/bin"}})

    def open_part(self, **shared: Any) -> None:
        """Order a place for tasks of job 1, which another host leads."""
        ids = {"uid": self.uid, "gid": self.gid, "groups": []}
        self.order(["part", [1, 0, 1], {"note": "n", "limit_kib": 0, **ids, **shared}])

    def start_task(self, number: int, name: str, argv: list[str]) -> None:
        """Order the start of a task in it."""
        asked = {
            "argv": argv, "env": {"PATH": "/usr/bin:/bin"}, "cwd": str(self.root), "umask": 0o022,
            "has_input": False,
        }  # fmt: skip
        self.order(["task", number, [1, 0, 1], ["start", name, asked]])

    def expect(self, name: str, *key: int) -> list[Any]:
        """Return the next event of that name (about that attempt), waiting for it."""
        found: list[list[Any]] = []

        def has_come() -> bool:
            found[:] = [e for e in self.events if e[0] == name and e[1 : 1 + len(key)] == [*key]]
            if not found:
                self._hear()
            return bool(found)

        wait_until(has_come, f"{name} {key}; have {self.events}; {(self.root / 'log').read_text()}")
        if name != "listed":
            self.events.remove(found[0])
        return found[0]

    def ended(self, job: int = 1, index: int = 0, attempt: int = 1) -> dict[str, Any]:
        """Return how an attempt ended."""
        event = self.expect("ended", job, index, attempt)
        names = (
            "started_us", "ended_us", "code", "signal", "cause", "host_fault", "detail",
            "user_us", "system_us", "mem", "processes", "threads", "oom", "report", "post",
        )  # fmt: skip
        return dict(zip(names, event[4:], strict=True))

    def quiet(self, seconds: float) -> list[list[Any]]:
        """Return what else is said within a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._hear(0.02)
        return self.events

    def read(self, job: int = 1, index: int = 0, attempt: int = 1, path: str = "") -> bytes:
        """Return a job's output as the shepherd reads it."""
        ids = [self.uid, self.gid, []]
        self.order(["read", 7, [job, index, attempt], path, f"{job}.out", ids, 0, 1 << 20])
        _, _, content, _, error = self.expect("read", 7)
        assert not error, error
        return base64.b64decode(content)

    def text(self, name: str) -> str:
        """Return a file that a job has written; empty: it is not there."""
        with contextlib.suppress(FileNotFoundError):
            return (self.root / name).read_text()
        return ""

    def close(self) -> None:
        """Kill all jobs and the shepherd."""
        if self.connection is None:
            with contextlib.suppress(AssertionError):
                self.connect()
        for event in [e for e in self.events if e[0] == "present"]:
            with contextlib.suppress(OSError):
                self.order(["signal", *event[1:4], 9, 0, 4, 0])
        self.kill()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    if str(self.root).encode() in (entry / "environ").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)
        sweep_groups(f"test-{os.getpid()}-{self.root.name}")

    def _hear(self, seconds: float = 0.05) -> None:
        assert self.connection is not None
        self.connection.settimeout(seconds)
        try:
            content = self.connection.recv(1 << 20)
        except TimeoutError:
            return
        self._rest += content
        while len(self._rest) >= 4:
            (length,) = struct.unpack(">I", self._rest[:4])
            if len(self._rest) < 4 + length:
                break
            self.events += json.loads(self._rest[4 : 4 + length])
            self._rest = self._rest[4 + length :]


def sweep_groups(label: str) -> None:
    """Remove the control groups of a shepherd that was killed, as far as they are empty."""
    # Groups of others come and go meanwhile, which `os.walk` does not mind.
    for name, below, _ in os.walk("/sys/fs/cgroup"):
        if name.endswith(f"/xce/{label}"):
            for path in (*(Path(name, one) for one in below), Path(name)):
                with contextlib.suppress(OSError):
                    path.rmdir()


@contextlib.contextmanager
def open_shepherd(mode: str, **options: Any) -> Iterator[Shepherd]:
    """Have a shepherd for a while; with it goes everything that it started."""
    if mode == "user" and IS_ROOT:
        skip_unless_reachable()
    root = Path(tempfile.mkdtemp(prefix="xce-shepherd-"))
    shepherd = Shepherd(root, mode, **options)
    try:
        yield shepherd
    finally:
        shepherd.close()
        shutil.rmtree(root, ignore_errors=True)
