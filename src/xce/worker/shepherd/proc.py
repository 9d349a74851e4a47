"""What /proc says about processes: who they are, whose they are, how much they use.

A process belongs to an attempt when, in this order,

1. its session is the job shell's (the shell leads a session of its own), or
2. its parent belongs to the attempt, or
3. the attempt's mark stands in the environment that it was started with.

A pid is used again by the kernel, so what was once found out is kept under (pid, start time).
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

MARK: Final = "XCE_ATTEMPT_MARK"
_MARK_BYTES: Final = MARK.encode() + b"="
_READ_MAX: Final = 4096
_ENVIRON_MAX: Final = 4 * 1024 * 1024
PAGE_KIB: Final = os.sysconf("SC_PAGE_SIZE") // 1024
TICK_US: Final = 1_000_000 // os.sysconf("SC_CLK_TCK")
_NEVER_IN_EXEC: Final = 0x0020_0004
"""Flags of kernel threads, and of processes that are exiting."""
_EXEC_LOOK_S: Final = 0.005


class Process(NamedTuple):
    """One line of /proc/<pid>/stat, as far as anybody here asks."""

    state: str
    parent: int
    session: int
    user_us: int
    system_us: int
    threads: int
    started: int
    """In clock ticks since boot; with the pid it names a process for good."""
    rss_kib: int
    waited_us: int
    """CPU time of children that it has waited for, and of theirs."""


def load_process(pid: int) -> Process | None:
    """Return what /proc says about one process; None when there is none."""
    content = load_file(f"/proc/{pid}/stat")
    # The command's name stands in brackets and may hold brackets and blanks itself.
    fields = content[content.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return None
    return Process(
        state=fields[0].decode(),
        parent=int(fields[1]),
        session=int(fields[3]),
        user_us=int(fields[11]) * TICK_US,
        system_us=int(fields[12]) * TICK_US,
        threads=int(fields[17]),
        started=int(fields[19]),
        rss_kib=int(fields[21]) * PAGE_KIB,
        waited_us=(int(fields[13]) + int(fields[14])) * TICK_US,
    )


def load_swap_kib(pid: int) -> int:
    """Return how much of a process is swapped out."""
    for line in load_file(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmSwap:"):
            return int(line.split()[1])
    return 0


def load_processes() -> dict[int, Process]:
    """Return all processes of the host that are not dead already."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is not worth its import here
        if name.isdecimal():
            process = load_process(int(name))
            if process is not None and process.state not in "ZX":
                found[int(name)] = process
    return found


def load_children(pid: int) -> list[int] | None:
    """Return the children of the single-threaded process ``pid``; None: the kernel does not say.

    The list is whole as long as nobody but the caller reaps them.
    """
    path = f"/proc/{pid}/task/{pid}/children"
    content = load_file(path, 65_536)
    if not content and not os.path.exists(path):  # noqa: PTH110
        return None
    return [int(word) for word in content.split()]


def wait_for_execs(patience_s: float) -> bool:
    """Wait until no process is in the middle of `exec`; return whether that came to be.

    It has closed what is to be closed by then, and its new environment cannot be read yet: it would
    be taken for somebody else. That takes some 50 us, unless the machine is overloaded.
    """
    until = time.monotonic() + patience_s
    left = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    while left := [pid for pid in left if _is_in_exec(pid)]:
        if time.monotonic() > until:
            return False
        time.sleep(_EXEC_LOOK_S)
    return True


def _is_in_exec(pid: int) -> bool:
    if load_file(f"/proc/{pid}/cmdline", 1):
        return False
    content = load_file(f"/proc/{pid}/stat")
    fields = content[content.rfind(b")") + 2 :].split()
    if len(fields) < 22 or fields[0] in (b"Z", b"X"):
        return False
    return not int(fields[6]) & _NEVER_IN_EXEC


def load_mark(pid: int) -> str:
    """Return the mark in the environment that a process was started with; empty: none."""
    content = load_file(f"/proc/{pid}/environ", _ENVIRON_MAX)
    if content.startswith(_MARK_BYTES):
        start = len(_MARK_BYTES)
    else:
        start = content.find(b"\0" + _MARK_BYTES) + 1 + len(_MARK_BYTES)
        if start == len(_MARK_BYTES):
            return ""
    return content[start:].split(b"\0", 1)[0].decode("ascii", "replace")


def load_file(path: str, size: int = _READ_MAX) -> bytes:
    """Return what a small kernel file holds; empty when it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        content = os.read(fd, size)
        while len(content) < size:
            more = os.read(fd, size - len(content))
            if not more:
                break
            content += more
    except OSError:
        return b""
    finally:
        os.close(fd)
    return content


class Families:
    """Tells which attempt each process belongs to, and remembers what it once found out."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], str] = {}

    def sort(
        self,
        processes: Mapping[int, Process],
        *,
        sessions: Mapping[int, str],
        is_current: Callable[[str], bool],
    ) -> dict[str, list[int]]:
        """Return the processes of each attempt, by the attempt's mark.

        Args:
            processes: All processes of the host.
            sessions: The mark of the attempt whose shell leads that session.
            is_current: Whether a mark is that of an attempt of ours.
        """
        known = self._known
        marks: dict[int, str] = {}

        def mark_of(pid: int) -> str:
            trail = []
            found = ""
            while pid in processes and pid not in marks:
                process = processes[pid]
                found = sessions.get(process.session, "")
                if found:
                    marks[pid] = found
                    break
                marks[pid] = ""
                trail.append(pid)
                pid = process.parent
            found = found or marks.get(pid, "")
            # From the oldest ancestor down: each inherits, or is known by its own mark.
            for one in reversed(trail):
                identity = (one, processes[one].started)
                found = found or self._own_mark(identity)
                found = found if is_current(found) else ""
                marks[one] = found
            return found

        for pid in processes:
            mark_of(pid)
        families: dict[str, list[int]] = {}
        for pid, mark in marks.items():
            if mark:
                families.setdefault(mark, []).append(pid)
        self._known = {
            (pid, process.started): marks[pid] or known.get((pid, process.started), "")
            for pid, process in processes.items()
        }
        return families

    def recall(self, pid: int, started: int) -> str:
        """Return the mark under which a process was seen before; empty: it was not."""
        return self._known.get((pid, started), "")

    def _own_mark(self, identity: tuple[int, int]) -> str:
        mark = self._known.get(identity)
        return load_mark(identity[0]) if mark is None else mark
