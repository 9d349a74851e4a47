"""Leases of attempts that shall not outlive a lost contact to the controller.

First they are frozen, then they are killed: somebody else may be about to start them.

A worker says for each until when it may run and until when it may be there, by the clock that goes
on while the machine sleeps. Both hold though the worker is stopped or gone, and are kept in a file,
so that the next shepherd has them too. What is frozen stays so until a lease comes that lets it run
(or no lease is wanted any more); whether its user has stopped it is another matter, and then it
stays stopped. An attempt of which only post hooks run is left alone, as it is by whoever ends it.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from xce.worker.shepherd import rundir
from xce.worker.shepherd.attempts import ENDED, LEAVING, RUNNING, Attempt, Event
from xce.worker.shepherd.boot_clock import boot_us
from xce.worker.shepherd.reach import Reach
from xce.worker.shepherd.rundir import Key

LEASES: Final = ".leases"
"""Beside the run directories."""
KEPT: Final = -1
"""`xce.worker.action.KEPT`, which this program cannot import."""
_NEVER: Final = 1 << 62
"""Of what is frozen, where the lease is lost: until a worker says more."""


class Fences:
    """The leases of a host's attempts.

    Args:
        runs: Directory of the run directories.
        boot: The present boot: leases of another one mean nothing.
        attempts: All attempts.
        reach: Finds their processes.
        clock_us: The clock by which it is counted how long they stand still.
    """

    def __init__(
        self, runs: str, boot: str, attempts: Mapping[Key, Attempt], reach: Reach,
        clock_us: Callable[[], int],
    ) -> None:  # fmt: skip
        self._path = f"{runs}/{LEASES}"
        self._boot = boot
        self._attempts = attempts
        self._reach = reach
        self._clock_us = clock_us
        self._until = self._load()
        """When each is to be frozen, and killed."""
        self._may_tell = False
        """Whether the worker knows what it is to be frozen."""

    def take(self, rows: list[list[int]]) -> None:
        """Take new leases in place of all earlier ones."""
        until: dict[Key, tuple[int, int]] = {}
        for job, index, number, *instants in rows:
            key = (job, index, number)
            if len(instants) == 1:
                # Of a worker of an older release: by the other clock, and only to be killed.
                at_us = instants[0] + boot_us() - self._clock_us()
                until[key] = (at_us, at_us)
            elif instants[0] != KEPT:
                until[key] = (instants[0], instants[1])
            elif key in self._until:
                until[key] = self._until[key]
        self._may_tell = all(len(row) > 4 for row in rows)
        if until != self._until:
            self._until = until
            self._store()

    def leave_worker(self) -> None:
        """Note that another worker may come, of whatever release."""
        self._may_tell = False

    def look(self) -> tuple[list[Attempt], list[Event]]:
        """Freeze and thaw what is to be; return what is to be killed, and what is to be told."""
        now_us, told = boot_us(), []
        late: list[Attempt] = []
        for key, (frozen_us, killed_us) in list(self._until.items()):
            attempt = self._attempts.get(key)
            if attempt is None:
                continue
            if killed_us <= now_us:
                late.append(attempt)
                del self._until[key]  # once is enough, and nobody is woken for it again
            elif frozen_us <= now_us and _may_freeze(attempt):
                told += self._freeze(attempt)
        for attempt in self._frozen():
            if attempt in late:
                self._note(attempt, frozen=False)
            elif self._until.get(attempt.key, (_NEVER, _NEVER))[0] > now_us:
                told += self._thaw(attempt)
        return late, told if self._may_tell else []

    def freeze_again(self) -> None:
        """Make sure of what an earlier shepherd has frozen, or was about to."""
        for attempt in self._frozen():
            self._until.setdefault(attempt.key, (1, _NEVER))
            self._reach.begin()
            self._reach.stop(attempt)

    def next_due_us(self) -> int:
        """Return when `look` has something to do, by the clock that it goes by; 0: never."""
        due = []
        for key, instants in self._until.items():
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.state != ENDED:
                due.append(instants[0 if _may_freeze(attempt) else 1])
        return min(due, default=0)

    def _frozen(self) -> list[Attempt]:
        return [one for one in self._attempts.values() if one.frozen_us]

    def _freeze(self, attempt: Attempt) -> list[Event]:
        self._note(attempt, frozen=True)
        self._reach.begin()
        self._reach.stop(attempt)
        return [["frozen", *attempt.key, True]]

    def _thaw(self, attempt: Attempt) -> list[Event]:
        self._note(attempt, frozen=False)
        attempt.retry_us = 0
        if attempt.state != ENDED and not attempt.suspended_us:
            self._reach.begin()
            self._reach.go_on(attempt)
        return [["frozen", *attempt.key, False]]

    def _note(self, attempt: Attempt, *, frozen: bool) -> None:
        now_us = self._clock_us()
        rundir.note(attempt.path, ["frozen", frozen, now_us])
        attempt.note_still(now_us, still=frozen, by_lease=True)

    def _load(self) -> dict[Key, tuple[int, int]]:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            with open(self._path, encoding="ascii") as file:  # noqa: PTH123
                found: dict[str, Any] = json.load(file)
            if found["boot"] == self._boot:
                return {(job, i, n): (at, end) for job, i, n, at, end in found["until"]}
        return {}

    def _store(self) -> None:
        """Keep the leases. A full disk keeps the earlier ones there, which are the shorter ones."""
        rows = [[*key, *instants] for key, instants in self._until.items()]
        with contextlib.suppress(OSError):
            with open(f"{self._path}.new", "w", encoding="ascii") as file:  # noqa: PTH123
                json.dump({"boot": self._boot, "until": rows}, file)
            os.replace(f"{self._path}.new", self._path)  # noqa: PTH105


def _may_freeze(attempt: Attempt) -> bool:
    """Whether something runs that is to be frozen, and is not."""
    is_posting = attempt.course is not None and attempt.course.is_posting
    return attempt.state in (RUNNING, LEAVING) and not attempt.frozen_us and not is_posting
