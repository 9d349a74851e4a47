"""Daemons that attempts of one user share on a host (today that of MPS).

Such a daemon is none of theirs: it has a control group, a mark and a directory of its own, is not
signalled, stopped or frozen with any of them, and counts in nobody's limits. It is there while
attempts use it, which is looked at again and again, so that another shepherd goes on:

* An attempt that has come to its job, and is not known to use its daemon, has it started. The
  command does nothing where it runs; it tells the attempt where the daemon is, or why there is
  none, in a file for which whatever starts first of the job waits.
* A daemon that no attempt uses is told to end, but not while a start of it is under way, which
  would start it again behind that; what is left of it is killed, and then its directory is removed.
  Whoever wants one of the name meanwhile waits for that, and gets another one.

What is known of a daemon stands in the file ``<runs>/shared.<name>.<token>.json``, and beside that
its directory, which is its user's. Nobody else can know the token.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from typing import Any, Final

from xce.worker.shepherd import proc, rundir
from xce.worker.shepherd.attempts import ENDED, Attempt
from xce.worker.shepherd.hooks import MAIN
from xce.worker.shepherd.reach import Reach
from xce.worker.shepherd.rundir import Key
from xce.worker.shepherd.services import LAST_US, environment
from xce.worker.shepherd.spawn import As, Ids
from xce.worker.shepherd.starting import Starter

_PREFIX: Final = "shared."
_RECORD: Final = ".json"
_NEW: Final = ".new"
_TOLD: Final = "mps"
"""The file in an attempt's own directory that tells it of its daemon."""


class _Daemon:
    """A daemon, which is reached as attempts are."""

    def __init__(self, attempt: Attempt, command: list[str]) -> None:
        self.attempt = attempt
        self.name = attempt.name.removeprefix(_PREFIX).rpartition(".")[0]
        self.command = command
        """It ends it."""
        self.ends = False
        self.due_us = 0
        """When that takes too long; 0: it does not run."""
        self.users: set[Key] = set()
        """The attempts for which this shepherd has had it started."""


class SharedDaemons:
    """The daemons of a host that attempts share."""

    def __init__(self, runs: str, reach: Reach, starter: Starter, null: int) -> None:
        self._runs = runs
        self._reach = reach
        self._starter = starter
        self._null = null
        self._all: dict[str, _Daemon] = {}
        self._attempts: dict[Key, Attempt] = {}
        """Those that share one, until they have ended."""
        self._starts: dict[int, Attempt] = {}
        """For whom a start is under way, by its pid."""
        self._quits: dict[int, _Daemon] = {}
        """Which is being told to end, by the pid of the command."""
        self._is_due = False
        """There is something to do at once."""

    @property
    def is_idle(self) -> bool:
        """Whether there is none."""
        return not self._all

    def names(self) -> set[str]:
        """Return the names of their control groups."""
        return {one.attempt.name for one in self._all.values()}

    def know(self, attempt: Attempt, share: list[Any] | None = None) -> None:
        """Know an attempt, and the daemon that it shares if it is new and shares one."""
        attempt.share = share or attempt.share
        if attempt.share and attempt.state != ENDED:
            self._attempts[attempt.key] = attempt

    def load(self, attempts: Iterable[Attempt], now_us: int) -> None:
        """Take over the daemons of an earlier shepherd, of which these attempts are left."""
        for attempt in attempts:
            self.know(attempt)
        entries = [name for name in os.listdir(self._runs) if name.startswith(_PREFIX)]  # noqa: PTH208
        for entry in entries:
            path = f"{self._runs}/{entry}"
            if entry.endswith(_NEW):
                os.unlink(path)  # noqa: PTH108
            elif entry.endswith(_RECORD):
                self._restore(path, now_us)
            elif f"{entry}{_RECORD}" not in entries:
                rundir.clean(path, kept="")  # nothing was started in it
        self._is_due = bool(self._all)

    def look(self, now_us: int) -> None:
        """Start what attempts want, and end what none uses."""
        self._is_due = False
        for key in [key for key, one in self._attempts.items() if one.state == ENDED]:
            del self._attempts[key]
        using = self._using()
        for attempt in using:
            self._serve(attempt)
        kept = _names(using) | _names(self._starts.values())
        for daemon in list(self._all.values()):
            daemon.users &= self._attempts.keys()
            if not daemon.ends and daemon.name not in kept:
                self._begin_end(daemon, now_us)
            if daemon.ends:
                self._go_on(daemon, now_us)

    def close(self) -> None:
        """Kill what is being ended, or is to be: nobody is here to see it end."""
        self._reach.begin()
        wanted = _names(self._using())
        for daemon in self._all.values():
            if daemon.ends or daemon.name not in wanted:
                self._reach.kill(daemon.attempt)

    def reap(self, pid: int) -> None:
        """Take the end of a child, if it is a command of ours."""
        attempt, daemon = self._starts.pop(pid, None), self._quits.pop(pid, None)
        if attempt is not None:
            self._reach.drop_leader(pid)
            self._is_due = True  # its end may have waited for this
            _tell(attempt, "its start was ended")
        if daemon is not None:
            self._reach.drop_leader(pid)
            daemon.due_us, self._is_due = 0, True

    def next_due_us(self) -> int:
        """Return when `look` has something to do; 0: not before an event."""
        if self._is_due:
            return 1
        ending = [one for one in self._all.values() if one.ends]
        return min((max(one.due_us, one.attempt.retry_us) for one in ending), default=0)

    def _using(self) -> list[Attempt]:
        """Return the attempts that use their daemon now."""
        return [one for one in self._attempts.values() if one.state != ENDED and _uses(one)]

    def _serve(self, attempt: Attempt) -> None:
        """Have the daemon of an attempt started, unless that was done or has to wait."""
        name, start, command = attempt.share
        try:
            daemon = self._all.get(name) or self._make(name, attempt.ids, command)
            if daemon.ends or attempt.key in daemon.users:
                return
            daemon.users.add(attempt.key)
            pid = self._spawn(daemon, start, {b"XCE_TELL": os.fsencode(_told_path(attempt))})
        except OSError as error:
            _tell(attempt, f"the daemon that it shares cannot be started: {error}")
            del self._attempts[attempt.key]
        else:
            self._starts[pid] = attempt

    def _make(self, name: str, ids: Ids, command: list[str]) -> _Daemon:
        """Make the place of a daemon.

        Raises:
            OSError: It cannot be made; nothing is left of it.
        """
        path = f"{self._runs}/{_PREFIX}{name}.{os.urandom(6).hex()}"
        try:
            os.mkdir(path, 0o700)  # noqa: PTH102
            if ids.uid != os.geteuid():
                os.chown(path, ids.uid, ids.gid, follow_symlinks=False)
            _store(path, ids, command, ends=False)
        except OSError:
            rundir.clean(path, kept="")
            raise
        return self._add(path, ids, command)

    def _restore(self, path: str, now_us: int) -> None:
        try:
            stored = json.loads(proc.load_file(path, 65_536))
            ids = Ids(stored["uid"], stored["gid"], tuple(stored["groups"]))
            daemon = self._add(path.removesuffix(_RECORD), ids, stored["quit"])
        except (ValueError, TypeError, KeyError):
            os.unlink(path)  # noqa: PTH108 - it was never ours
            return
        if stored["ends"]:
            self._begin_end(daemon, now_us)

    def _add(self, path: str, ids: Ids, command: list[str]) -> _Daemon:
        label = path.rpartition("/")[2]
        attempt = Attempt((0, 0, 0), path, ids=ids, note="", mark=label)
        attempt.name, attempt.is_child = label, False
        attempt.grouped = self._reach.groups is not None
        daemon = _Daemon(attempt, command)
        self._all[daemon.name] = daemon
        self._reach.add(attempt)
        return daemon

    def _begin_end(self, daemon: _Daemon, now_us: int) -> None:
        daemon.ends = True
        with contextlib.suppress(OSError):
            # Another shepherd must not take it for one that goes on.
            _store(daemon.attempt.path, daemon.attempt.ids, daemon.command, ends=True)
        with contextlib.suppress(OSError):  # it is killed, then
            self._quits[self._spawn(daemon, daemon.command, {})] = daemon
            daemon.due_us = now_us + LAST_US

    def _go_on(self, daemon: _Daemon, now_us: int) -> None:
        """Go on ending a daemon."""
        attempt = daemon.attempt
        if daemon.due_us > now_us:
            return
        self._reach.begin()
        if not self._reach.is_gone(attempt):
            self._reach.kill_again(attempt, now_us)
            return
        self._reach.drop(attempt)
        rundir.clean(attempt.path, kept="")
        with contextlib.suppress(OSError):
            os.unlink(f"{attempt.path}{_RECORD}")  # noqa: PTH108
        del self._all[daemon.name]
        self._is_due = True  # somebody may wait for another one of this name

    def _spawn(self, daemon: _Daemon, command: list[str], more: dict[bytes, bytes]) -> int:
        """Start a command beside a daemon.

        Raises:
            OSError: It cannot be started.
        """
        env = environment(daemon.attempt, daemon.attempt.path) | more
        argv = list(map(os.fsencode, command))
        pid = self._starter.spawn_beside(daemon.attempt, argv, env, [self._null] * 3)
        self._reach.add_leader(pid, daemon.attempt)
        return pid


def _names(attempts: Iterable[Attempt]) -> set[str]:
    """Return the names of the daemons that attempts share."""
    return {one.share[0] for one in attempts}


def _uses(attempt: Attempt) -> bool:
    """Whether an attempt has come to its job, and something may be left of that."""
    return attempt.course is None or attempt.course.step.kind == MAIN


def _store(path: str, ids: Ids, command: list[str], *, ends: bool) -> None:
    """Write down what is known of a daemon.

    Raises:
        OSError: The host is to blame.
    """
    stored: dict[str, Any] = {
        "uid": ids.uid, "gid": ids.gid, "groups": list(ids.groups), "quit": command, "ends": ends,
    }  # fmt: skip
    with open(f"{path}{_NEW}", "w", encoding="ascii") as file:  # noqa: PTH123
        json.dump(stored, file)
    os.replace(f"{path}{_NEW}", f"{path}{_RECORD}")  # noqa: PTH105


def _told_path(attempt: Attempt) -> str:
    return f"{attempt.path}/{rundir.JOB}/{_TOLD}"


def _tell(attempt: Attempt, text: str) -> None:
    """Tell an attempt why it has no daemon, unless it was told something."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        with As(attempt.ids):
            fd = os.open(_told_path(attempt), flags, 0o600)
        try:
            os.write(fd, f"no {text}\n".encode())
        finally:
            os.close(fd)
