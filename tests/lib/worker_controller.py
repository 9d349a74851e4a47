"""A controller of a few lines for a real worker: says what a test says, keeps what it hears."""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from worker_rig import sweep_groups, wait_until

from xce.daemon.paths import Layout, open_layout
from xce.daemon.processes import ProcessId, each_command_line, identify, send_signal
from xce.model.effect import Effect, Launch
from xce.model.job import Files, JobSpec, Owner
from xce.model.observation import AttemptEnded, AttemptStarted, HostJoined, Reported, SuspensionSeen
from xce.net import message as m
from xce.net.peer import Peer
from xce.net.unix import UnixServer, open_unix_server


class Controller:
    """Listens for one worker, in a thread of its own."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.takes = True
        """Whether reports are acknowledged."""
        self.epoch = 1
        self.blobs: dict[str, bytes] = {}
        self.joins: list[HostJoined] = []
        self.started: list[AttemptStarted] = []
        self.ended: list[AttemptEnded] = []
        self.suspended: list[SuspensionSeen] = []
        self.chunks: dict[int, m.OutputChunk] = {}
        self.peer: Peer | None = None
        self._server: UnixServer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._last_read = 0
        self.open()

    def open(self) -> None:
        """Listen."""
        self._server = self._do(
            open_unix_server(self.layout.controller_socket, 0o600, self._accept)
        )

    def shut(self) -> None:
        """Be gone, with the connection."""
        assert self._server is not None
        self._do(self._server.close())
        self._server = None
        self._loop.call_soon_threadsafe(lambda: self.peer and self.peer.abort("gone"))
        wait_until(lambda: self.peer is None, "the connection to end")

    def close(self) -> None:
        if self._server is not None:
            self._do(self._server.close())
            self._loop.call_soon_threadsafe(lambda: self.peer and self.peer.abort("gone"))
            wait_until(lambda: self.peer is None, "the connection to end")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def blob(self, content: bytes) -> str:
        digest = blake2b(content, digest_size=16).hexdigest()
        self.blobs[digest] = content
        return digest

    def send(self, *effects: Effect) -> None:
        message = m.Effects(self.epoch, effects)
        wait_until(lambda: self.peer is not None, "a worker")
        self._loop.call_soon_threadsafe(lambda: self.peer and self.peer.send(message))

    def read(self, job: int, index: int = 0, path: str = "", cwd: str = "/") -> m.OutputChunk:
        self._last_read += 1
        ask = m.ReadOutput(
            self._last_read, "h1", job, index, 1, "stdout", path, cwd, me().user, me().uid,
            me().gid, 0, 1 << 20,
        )  # fmt: skip
        wait_until(lambda: self.peer is not None, "a worker")
        self._loop.call_soon_threadsafe(lambda: self.peer and self.peer.send(ask))
        wait_until(lambda: ask.id in self.chunks, "a piece of output")
        return self.chunks.pop(ask.id)

    def end_of(self, job: int, index: int = 0, attempt: int = 1) -> AttemptEnded:
        """Return the end of an attempt, waiting for it."""

        def those() -> list[AttemptEnded]:
            wanted = (job, index, attempt)
            return [one for one in self.ended if (one.job, one.index, one.attempt) == wanted]

        wait_until(those, f"the end of {job}[{index}]; have {self.ended}")
        return those()[-1]

    def start_of(self, job: int, index: int = 0) -> AttemptStarted:
        def those() -> list[AttemptStarted]:
            return [one for one in self.started if (one.job, one.index) == (job, index)]

        wait_until(those, f"the start of {job}[{index}]")
        return those()[-1]

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def _accept(self, peer: Peer, hello: m.Hello) -> m.Welcome:
        assert (hello.role, hello.name) == ("worker", "h1")
        self.peer = peer
        peer.on_messages = self._hear
        peer.on_lost = self._lose
        return m.Welcome(m.PROTOCOL, self.epoch, "c1", "0", 0)

    def _lose(self, _: str) -> None:
        self.peer = None

    def _hear(self, messages: list[m.Message]) -> None:
        assert self.peer is not None
        for message in messages:
            match message:
                case m.FetchBlobs(number, hashes):
                    found = tuple((h, self.blobs[h]) for h in hashes if h in self.blobs)
                    self.peer.send(m.Blobs(number, found))
                case m.OutputChunk():
                    self.chunks[message.id] = message
                case m.Observe(HostJoined() as joined):
                    self.joins.append(joined)
                case m.Observe(Reported() as report):
                    self.started += report.started
                    self.ended += report.ended
                    self.suspended += report.suspended
                    if self.takes:
                        self.peer.send(m.ReportsTaken(report.number))
                case _:
                    raise AssertionError(message)


class Host:
    """A real worker of host ``h1`` with its shepherd, and the controller that it reports to."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        self.work = root / "work"
        self.work.mkdir()
        self.layout = open_layout(root / "state")
        self.controller = Controller(self.layout)
        self.options = options
        self.worker: subprocess.Popen[bytes] | None = None
        self.start_worker()

    def start_worker(self) -> None:
        before = len(self.controller.joins)
        with self.layout.log_file("worker-h1").open("ab") as log:
            self.worker = subprocess.Popen(
                [sys.executable, "-I", "-m", "xce.daemon.worker", "--dir",
                 str(self.layout.root), "--host", "h1", *self.options], stderr=log,
            )  # fmt: skip
        wait_until(lambda: len(self.controller.joins) > before, f"a worker to join {self.logs()}")

    def kill_worker(self) -> None:
        assert self.worker is not None
        self.worker.kill()
        self.worker.wait()
        wait_until(lambda: self.controller.peer is None, "the connection to end")

    def shepherd(self) -> ProcessId | None:
        """Return the shepherd that runs, never a job shell that it is just starting."""
        root = str(self.layout.root)
        for pid, words in each_command_line():
            if any(word.endswith("shepherd/main.py") for word in words) and any(
                root in word for word in words
            ):
                return identify(pid)
        return None

    def shepherd_pid(self) -> int:
        found = self.shepherd()
        return 0 if found is None else found.pid

    def kill_shepherd(self) -> int:
        """Kill the shepherd, if there is one; return its pid, or 0."""
        found = self.shepherd()
        if found is None:
            return 0
        send_signal(found, signal.SIGKILL)
        return found.pid

    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self.layout.log.iterdir()))

    def launch(
        self, script: str | bytes, *, job: int = 1, indices: tuple[int, ...] = (0,),
        attempt: int = 1, files: Files | None = None, send: bool = True,
        owner: Owner | None = None, spec: dict[str, Any] | None = None, **more: Any,
    ) -> Launch:  # fmt: skip
        """Launch a job here."""
        text = script.encode() if isinstance(script, str) else script
        given = {
            "command": text.decode(errors="replace")[:100], "script": self.controller.blob(text),
            "env": self.controller.blob(b"MINE=yes\0PATH=/usr/bin:/bin"), "cwd": str(self.work),
            "files": files or Files(), "from_host": "login",
        }  # fmt: skip
        fields = {
            "job": job, "indices": list(indices), "attempts": [attempt] * len(indices),
            "spec": JobSpec(**(given | (spec or {}))), "owner": owner or me(), "queue": "normal",
            "project": "default", "cluster": "c1", "hosts": (("h1", 1),), "tasks_max": 1,
            "submit_at_us": 0, "run_limit_us": 0, "term_grace_us": 500_000,
            "kill_interval_us": 300_000,
        }  # fmt: skip
        launch = Launch(**(fields | more))
        if send:
            self.controller.send(launch)
        return launch

    def text(self, name: str) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.work / name).read_text()
        return ""

    def close(self) -> None:
        if self.worker is not None:
            self.worker.kill()
            self.worker.wait()
        self.kill_shepherd()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    if str(self.layout.root).encode() in (entry / "environ").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)
        self.controller.close()
        digest = blake2b(os.fsencode(self.layout.host("h1")), digest_size=6).hexdigest()
        sweep_groups(f"h1-{digest}")


def me() -> Owner:
    """Return who runs the tests."""
    return Owner(pwd.getpwuid(os.getuid()).pw_name, os.getuid(), os.getgid())


@contextlib.contextmanager
def open_host(*options: str) -> Iterator[Host]:
    """Have a host for a while."""
    root = Path(tempfile.mkdtemp(prefix="xce-host-"))
    host = Host(root, *options)
    try:
        yield host
    finally:
        host.close()
        shutil.rmtree(root, ignore_errors=True)
