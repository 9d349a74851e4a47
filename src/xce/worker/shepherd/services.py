"""Ending what serves an attempt's programs on a host, before what is left of it is killed.

A daemon that was started before the attempt's script (today that of MPS) is one of its processes
like all others, but for two things: signals that are sent to the job go past it, and when the job
is over a command tells it to end. Where that does not help in time, it is killed with the rest.
"""

import contextlib
import os
import signal
from typing import Final, NamedTuple

from xce.worker.shepherd import proc, rundir
from xce.worker.shepherd.attempts import Attempt
from xce.worker.shepherd.hooks import MAIN
from xce.worker.shepherd.reach import Reach
from xce.worker.shepherd.starting import Starter

LAST_US: Final = 10_000_000
"""So long the command may take."""
_PATH: Final = b"/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_MARK: Final = b"XCE_MPS_DAEMON=1"
"""In the environment of the daemon, and of what it starts."""


class _Ending(NamedTuple):
    attempt: Attempt
    due_us: int


class Services:
    """The commands that run now to end what serves attempts."""

    def __init__(self, reach: Reach, starter: Starter, null: int) -> None:
        self._reach = reach
        self._starter = starter
        self._null = null
        self._all: dict[int, _Ending] = {}
        """By pid."""

    def hold(self, attempt: Attempt, now_us: int) -> bool:
        """Whether an attempt whose shell has ended is not over, since its services are ended."""
        if any(one.attempt is attempt for one in self._all.values()):
            return True
        is_job = attempt.course is None or attempt.course.step.kind == MAIN
        if not attempt.last or not is_job or attempt.suspended_us or attempt.frozen_us:
            return False  # what is stopped cannot end by itself
        command, attempt.last = attempt.last, []
        try:
            pid = self._start(attempt, command)
        except OSError:
            return False  # it is killed, then
        self._all[pid] = _Ending(attempt, now_us + LAST_US)
        self._reach.add_leader(pid, attempt)
        return True

    def reap(self, pid: int) -> None:
        """Take the end of a child, if it is a command of ours: no attempt is held for it more."""
        if self._all.pop(pid, None) is not None:
            self._reach.drop_leader(pid)

    def end_late(self, now_us: int) -> None:
        """Kill commands that take too long."""
        for pid, one in self._all.items():
            if one.due_us <= now_us:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)

    def next_due_us(self) -> int:
        """Return when a command has taken too long; 0: none runs."""
        return min((one.due_us for one in self._all.values()), default=0)

    def sessions(self, attempt: Attempt) -> list[int]:
        """Return the sessions of what serves an attempt: the job's signals go past them."""
        if not attempt.last:
            return []
        found = (proc.load_process(pid) for pid in self._reach.pids(attempt) if _is_service(pid))
        return [one.session for one in found if one is not None]

    def _start(self, attempt: Attempt, command: list[str]) -> int:
        """Start a command, as the job's user.

        Raises:
            OSError: It cannot be started.
        """
        env = environment(attempt, f"{attempt.path}/{rundir.JOB}")
        argv = list(map(os.fsencode, command))
        return self._starter.spawn_beside(attempt, argv, env, [self._null] * 3)


def environment(attempt: Attempt, directory: str) -> dict[bytes, bytes]:
    """Return the environment of commands about daemons that have their place in a directory."""
    return {
        b"PATH": _PATH,
        proc.MARK.encode(): attempt.mark.encode(),
        b"XCE_JOB_HOST_DIR": os.fsencode(directory),
    }


def _is_service(pid: int) -> bool:
    return _MARK in proc.load_file(f"/proc/{pid}/environ", 65_536).split(b"\0")
