"""A cluster of several hosts in network namespaces, installed by the documented steps."""

import asyncio
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from live import Live, open_live, until
from netns import Net, open_net

from xce.daemon.key_files import load_certificates, make_key, store_key
from xce.daemon.paths import find_layout
from xce.daemon.processes import each_command_line
from xce.model.address import Address
from xce.model.certificate import parse_certificate
from xce.net.handshake import make_hello
from xce.net.message import Message
from xce.net.peer import Peer
from xce.net.tls import KeyPair, TlsDialler

PORT = 7820
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
STEPS = re.compile(r"<!-- several hosts -->\n```bash\n(.*?)```", re.DOTALL)
ADDRESS = f"10.0.0.1:{PORT}"
"""Of the controller, in the guide."""


def read_steps(number: int) -> list[str]:
    """Return the commands of a block of the guide that only several hosts can try."""
    return STEPS.findall(GUIDE.read_text())[number].strip().splitlines()


class SiteLive(Live):
    """The controller's machine: its commands run there."""

    net: Net
    host = "ctl"

    def words_as(self, uid, words):
        return [*self.net.enter(self.host), *super().words_as(uid, words)]


class Guest:
    """A connection to the controller, with what came over it."""

    def __init__(self) -> None:
        self.heard: list[Message] = []
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.peer: Peer | None = None

    def lose(self, reason: str) -> None:
        self.lost.set_result(reason)


class Site:
    """The controller, and workers on other hosts."""

    def __init__(self, live: SiteLive, net: Net) -> None:
        self.live = live
        self.net = net
        self.address = Address(net.address["ctl"], PORT)
        self.controller = live.layout.keys / "controller.crt"
        self.installed_s = 0.0
        self.typed = ""
        self._workers: dict[str, subprocess.Popen[bytes]] = {}

    def directory(self, host: str) -> Path:
        """Return the state directory of a worker's host."""
        return self.live.root.parent / f"on-{host}"

    def log(self, host: str) -> str:
        path = self.live.root.parent / f"{host}.log"
        return path.read_text() if path.exists() else ""

    def install(self, hosts: tuple[str, ...]) -> str:
        """Install a cluster by the steps of the guide, to the first job; return what was said."""
        began = time.monotonic()
        on_controller, on_host = read_steps(0), read_steps(1)
        said = ""
        for line in [*on_controller, "bsub -K true"]:
            if line.startswith("bsub"):
                for host in hosts:
                    self._install_host(host, on_host)
            self.typed += f"{line}\n"
            done = self.live.run(*shlex.split(line.replace(ADDRESS, str(self.address))))
            said += done.stdout + done.stderr
        self.installed_s = time.monotonic() - began
        return said

    def _install_host(self, host: str, steps: list[str]) -> None:
        for line in steps:
            line = line.replace("h1", host)
            self.typed += f"{line}\nscp {host}.token {host}:\nssh {host}\n"
            line = line.replace(f"{host}.token", str(self.live.home / f"{host}.token"))
            program, action, *words = shlex.split(line.replace(ADDRESS, str(self.address)))
            assert (program, action) == ("xce", "worker")
            self.start_worker(host, *words)

    def start_worker(self, host: str, *words: str, stdin: bytes = b"") -> None:
        """Run ``xce worker`` on a host."""
        with (self.live.root.parent / f"{host}.log").open("ab") as log:
            worker = subprocess.Popen(
                [
                    *self.net.enter(host), sys.executable, "-m", "xce.cli.xce.main", "worker",
                    "--dir", str(self.directory(host)), *words,
                ],
                stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip
        assert worker.stdin is not None
        worker.stdin.write(stdin)
        worker.stdin.close()
        self._workers[host] = worker

    def enrol_again(self, host: str, token: str) -> str:
        """Run ``xce worker --enrol`` beside the worker of a host; return what it says."""
        words = [*self.net.enter(host), sys.executable, "-m", "xce.cli.xce.main", "worker"]
        where = ["--dir", str(self.directory(host)), "--connect", str(self.address)]
        done = subprocess.run(
            [*words, *where, "--enrol", token],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    def stop_worker(self, host: str) -> int:
        worker = self._workers.pop(host)
        worker.terminate()
        return worker.wait(20)

    def kill_worker(self, host: str) -> None:
        worker = self._workers.pop(host)
        worker.kill()
        worker.wait(20)

    def kill_shepherd(self, host: str) -> None:
        """Kill the shepherd of a host; its worker starts another."""
        directory = str(self.directory(host))
        for pid, words in each_command_line(None):
            is_shepherd = any("/worker/shepherd/" in word for word in words)
            if is_shepherd and any(word.startswith(directory) for word in words):
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"{host} has no shepherd")

    def wait_worker(self, host: str) -> int:
        return self._workers.pop(host).wait(30)

    def status_of(self, host: str) -> str:
        with self.live.api() as api:
            rows = api.call("GET", "/hosts")["hosts"]
        return next(row["status"] for row in rows if row["name"] == host)

    def until_status(self, host: str, status: str, *, patience_s: float = 60) -> float:
        """Wait until a host is in a state; return the seconds that it took."""
        began = time.monotonic()
        until(lambda: self.status_of(host) == status, f"{host} {status}", patience_s=patience_s)
        return time.monotonic() - began

    def key_of(self, role: str, name: str) -> str:
        """Return the beginning of the fingerprint of a trusted key."""
        return self.keys_of(role, name)[0]

    def keys_of(self, role: str, name: str) -> list[str]:
        """Return the beginnings of the fingerprints of all keys that are trusted for a name."""
        rows = [line.split() for line in self.live.xceadmin("keys", "list").splitlines()]
        return [row[0] for row in rows if row[1:4] == [role, name, "trusted"]]

    def refused(self) -> str:
        """Return what the controller has refused."""
        return self.live.xceadmin("peers").partition("refused since")[2]

    def make_key(self, role: str, name: str, *trust: str, stem: str = "") -> KeyPair:
        """Make a key; with ``trust``, have it trusted with these options."""
        directory = self.live.root.parent / "guests"
        directory.mkdir(mode=0o700, exist_ok=True)
        stem = stem or f"{role}-{name}".replace("*", "any")
        pair = store_key(directory, stem, make_key(role, name), label=(role, name), replace=True)
        if trust:
            self.live.xceadmin("keys", "trust", str(pair.certificate), *trust)
        return pair

    def dialler(self, pair: KeyPair) -> TlsDialler:
        return TlsDialler(self.address, pair, load_certificates(self.controller))

    async def guest(self, pair: KeyPair, role: str, name: str) -> Guest:
        """Connect as somebody."""
        guest = Guest()
        guest.peer, _ = await self.dialler(pair).dial(
            make_hello(role, name, "0.1.0"), on_messages=guest.heard.extend, on_lost=guest.lose
        )
        return guest

    def from_afar(self, story, host: str = "x"):
        """Run a coroutine on a host."""

        async def bounded():
            async with asyncio.timeout(100):
                try:
                    return await story()
                finally:
                    await asyncio.sleep(0.1)  # for what is just closing

        return self.net.inside(host, lambda: asyncio.run(bounded()))

    def close(self) -> None:
        for host in list(self._workers):
            with contextlib.suppress(OSError):
                self.stop_worker(host)
        for directory in self.live.root.parent.glob("on-*"):
            ghost = Live.__new__(Live)
            ghost.root, ghost.layout, ghost.uid = directory, find_layout(directory), None
            ghost._apis, ghost._ups = [], []
            ghost.close()


def fingerprint(pair: KeyPair) -> str:
    """Return the fingerprint of a key."""
    return parse_certificate(load_certificates(pair.certificate)[0]).fingerprint


def resident_mib(pid: int) -> float:
    """Return how much memory a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def open_files(pid: int) -> int:
    """Return how many files a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@contextlib.contextmanager
def open_site(*hosts: str) -> Iterator[Site]:
    """Yield a site whose controller is not there yet."""
    with open_net("ctl", "x", *hosts) as net, open_live() as live:
        live.__class__ = SiteLive
        live.net = net
        site = Site(live, net)
        try:
            yield site
        except BaseException:
            for host in hosts:
                print(f"--- {host}", site.log(host)[-2000:], sep="\n")
            raise
        finally:
            site.close()
