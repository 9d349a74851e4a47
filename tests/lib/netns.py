"""Several "hosts" on one machine: network namespaces around a switch, with processes in them.

Nothing of the machine's own network is touched. ``why_not()`` says why it cannot be had here.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
Found = TypeVar("Found")


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)


def why_not() -> str:
    """Return why there can be no network namespaces here; empty: there can."""
    for tool in ("ip", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if os.geteuid() != 0:
        return "needs root, or `unshare --user --map-root-user --net --mount`"
    name = f"xce-try-{os.getpid()}"
    made = _run("ip", "netns", "add", name)
    if made.returncode:
        return f"no network namespaces: {made.stderr.strip()}"
    try:
        for words in (("br0", "type", "bridge"), ("v0", "type", "veth", "peer", "name", "v1")):
            link = _run("ip", "-n", name, "link", "add", *words)
            if link.returncode:
                return f"no {words[2]}: {link.stderr.strip()}"
        return ""
    finally:
        _run("ip", "netns", "del", name)


class Net:
    """A switch with hosts at it: ``10.99.0.1``, ``10.99.0.2``, ... in the order of their names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._switch = f"xce-sw-{os.getpid()}"
        self.address = {name: f"10.99.0.{number}" for number, name in enumerate(names, 1)}

    def namespace(self, name: str) -> str:
        """Return the name of a host's namespace."""
        return f"xce-{name}-{os.getpid()}"

    def path(self, name: str) -> Path:
        """Return the file by which it is entered."""
        return Path("/run/netns") / self.namespace(name)

    def enter(self, name: str) -> list[str]:
        """Return what stands before a command that runs on a host; only its network is another."""
        return ["nsenter", f"--net={self.path(name)}", "--"]

    def open(self) -> None:
        """Make it."""
        self._must("ip", "netns", "add", self._switch)
        self._must("ip", "-n", self._switch, "link", "add", "br0", "type", "bridge")
        self._must("ip", "-n", self._switch, "link", "set", "br0", "up")
        for name in self.names:
            space = self.namespace(name)
            self._must("ip", "netns", "add", space)
            self._must(
                "ip", "-n", self._switch, "link", "add", f"to-{name}", "type", "veth",
                "peer", "name", "eth0", "netns", space,
            )  # fmt: skip
            self._must("ip", "-n", self._switch, "link", "set", f"to-{name}", "master", "br0", "up")
            self._must("ip", "-n", space, "link", "set", "lo", "up")
            self._must("ip", "-n", space, "addr", "add", f"{self.address[name]}/24", "dev", "eth0")
            self._must("ip", "-n", space, "link", "set", "eth0", "up")

    def close(self) -> None:
        """Remove it."""
        for name in self.names:
            _run("ip", "netns", "del", self.namespace(name))
        _run("ip", "netns", "del", self._switch)

    def cut(self, name: str) -> None:
        """Pull a host's cable out of the switch: packets vanish, nobody is told."""
        self._must("ip", "-n", self._switch, "link", "set", f"to-{name}", "down")

    def heal(self, name: str) -> None:
        """Put it in again."""
        self._must("ip", "-n", self._switch, "link", "set", f"to-{name}", "up")

    def inside(self, name: str, do: Callable[[], Found]) -> Found:
        """Return what ``do`` gives in a thread whose sockets are those of a host."""
        found: list[Found] = []
        failed: list[BaseException] = []

        def work() -> None:
            with self.path(name).open("rb") as file:
                if _libc.setns(file.fileno(), _CLONE_NEWNET):
                    failed.append(OSError(ctypes.get_errno(), "setns"))
                    return
            try:
                found.append(do())
            except BaseException as error:  # noqa: BLE001 - raised by the caller
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return found[0]

    def _must(self, *words: str) -> None:
        done = _run(*words)
        if done.returncode:
            raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def open_net(*names: str) -> Iterator[Net]:
    """Yield a network that is gone afterwards."""
    net = Net(names)
    try:
        net.open()
        yield net
    finally:
        net.close()
