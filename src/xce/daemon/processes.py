"""Processes of this machine as ``/proc`` tells: which run, since when, and how to end them."""

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_LISTENS = "00010000"
"""The flags of a listening socket in ``/proc/net/unix``."""
_FORKED_ONLY = 0x40
"""The kernel's flag (``PF_FORKNOEXEC``) of a process that runs no program of its own yet."""


class ProcessId(NamedTuple):
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started_ticks: int
    """Clock ticks from boot to its start."""


def boot_id() -> str:
    """Return the text that changes with every boot of this machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> ProcessId | None:
    """Return the identity of a process that runs, or None when there is none (or a zombie)."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else ProcessId(pid, int(fields[19]))


def is_alive(process: ProcessId) -> bool:
    """Return whether this very process still runs."""
    return identify(process.pid) == process


def each_command_line(uid: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield process id and words of every process of a user, by default of this one.

    A process between ``fork`` and ``exec`` still has its parent's words and is left out: it is
    about to be something else, such as a job's shell, and who ends daemons must not end it.
    """
    owner = os.geteuid() if uid is None else uid
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if entry.stat().st_uid != owner:
                continue
            # In this order: who runs a program of its own by now has its own words from then on.
            if _is_forked_only(entry):
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            continue  # it ended meanwhile
        yield int(entry.name), [os.fsdecode(word) for word in words]


def _is_forked_only(entry: Path) -> bool:
    """Return whether a process has been forked and has not executed a program since."""
    text = (entry / "stat").read_text(errors="replace")
    return bool(int(text[text.rindex(")") + 2 :].split()[6]) & _FORKED_ONLY)


def find_processes(arguments: Sequence[str]) -> list[ProcessId]:
    """Return processes of this user whose command line ends in ``arguments``, oldest first."""
    tail = list(arguments)
    found = [
        process
        for pid, words in each_command_line()
        if words[-len(tail) :] == tail and (process := identify(pid)) is not None
    ]
    return sorted(found, key=lambda process: (process.started_ticks, process.pid))


def open_pidfd(process: ProcessId) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None if it has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if is_alive(process):
        return descriptor
    os.close(descriptor)
    return None


def send_signal(process: ProcessId, number: signal.Signals) -> None:
    """Send a signal to this very process; nothing happens when it has ended."""
    descriptor = open_pidfd(process)
    if descriptor is None:
        return
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


def wait_for_end(processes: Iterable[ProcessId], *, timeout_s: float) -> list[ProcessId]:
    """Wait until all have ended, at most ``timeout_s`` seconds; return those that have not."""
    waiting = {
        descriptor: process
        for process in processes
        if (descriptor := open_pidfd(process)) is not None
    }
    poll = select.poll()
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout_s
    try:
        while waiting:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            for descriptor, _ in poll.poll(left_s * 1000):
                poll.unregister(descriptor)
                os.close(descriptor)
                del waiting[descriptor]
        return list(waiting.values())
    finally:
        for descriptor in waiting:
            os.close(descriptor)


def end_processes(processes: Sequence[ProcessId], *, grace_s: float) -> None:
    """End processes: TERM, and KILL for those that live on after the grace. Returns when gone."""
    for process in processes:
        send_signal(process, signal.SIGTERM)
    stubborn = wait_for_end(processes, timeout_s=grace_s)
    for process in stubborn:
        send_signal(process, signal.SIGKILL)
    wait_for_end(stubborn, timeout_s=5)


def is_listened_at(path: Path) -> bool:
    """Return whether a process listens on a unix socket of this name, be its file there or not."""
    try:
        lines = (_PROC / "net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return False
    rows = (line.split(maxsplit=7) for line in lines)
    return any(row[3] == _LISTENS and row[7:] == [str(path)] for row in rows)
