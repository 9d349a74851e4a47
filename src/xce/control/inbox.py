"""What waits to be decided: bounded, and shared fairly among those who ask.

Rule 1: what components say is taken whole and first; they are bounded by what they have in flight.
Rule 2: while there is little, everything is taken in the order in which it came.
Rule 3: while there is much, one turn decides about `TURN_MAX` jobs, a command of each who asks in
turn; what one of them asked for stays in its order.
Rule 4: whoever has `SHARE_MAX` waiting, or comes when `WAITING_MAX` wait, is refused and may come
again: nothing of it was decided.
"""

from collections import deque
from typing import Final

from xce.control.controller import Input
from xce.model.command import (
    DeleteGroups,
    ForceJob,
    KillJobs,
    ModifyJobs,
    MoveJobs,
    PostMessage,
    RequeueJobs,
    ResumeJobs,
    SetGroup,
    SignalJobs,
    StopJobs,
    SubmitJobs,
    SwitchJobs,
)

TURN_MAX: Final = 10_000
"""About so many jobs are decided in one turn."""
WAITING_MAX: Final = 200_000
"""With so many jobs in commands that wait, nobody's are taken any more."""
SHARE_MAX: Final = WAITING_MAX // 4
"""With so many of one user's, his are not."""
_WEIGHED_BYTES: Final = 4_096
"""So many bytes of scripts and environments weigh as much as a job."""
_ASKED: Final = frozenset((
    KillJobs, SignalJobs, StopJobs, ResumeJobs, RequeueJobs, MoveJobs, SwitchJobs, SetGroup,
    DeleteGroups, ForceJob,
))  # fmt: skip
_LARGE: Final = (SubmitJobs, ModifyJobs, PostMessage)


def weigh(given: Input) -> int:
    """Return how many jobs it is worth to decide this; 0: a component says it."""
    body = given.body
    if isinstance(body, _LARGE):
        content = sum(len(blob) for _, blob in body.blobs)
        jobs = 1 if isinstance(body, PostMessage) else len(body.jobs)
        return jobs + content // _WEIGHED_BYTES
    return 1 if type(body) in _ASKED else 0


class Inbox:
    """Inputs that wait for a turn."""

    def __init__(self) -> None:
        self._inputs: deque[tuple[Input, int]] = deque()
        self._asked: dict[str, int] = {}
        """How much of each who asks is waiting."""
        self._waiting = 0
        self._last = ""
        """Who was served last when there was much."""

    def __bool__(self) -> bool:
        """Return whether something waits."""
        return bool(self._inputs)

    def refuse(self, given: Input) -> str:
        """Return why an input is not taken now; empty: it is."""
        if not weigh(given):
            return ""
        if self._waiting >= WAITING_MAX:
            return f"{self._waiting} jobs in commands wait to be decided"
        if self._asked.get(given.by, 0) >= SHARE_MAX:
            return f"{self._asked[given.by]} jobs in commands of {given.by} wait to be decided"
        return ""

    def add(self, given: Input) -> None:
        """Take an input."""
        weight = weigh(given)
        self._inputs.append((given, weight))
        if weight:
            self._asked[given.by] = self._asked.get(given.by, 0) + weight
            self._waiting += weight

    def add_first(self, given: Input) -> None:
        """Take an input that is decided before all that came before it."""
        self._inputs.appendleft((given, 0))

    def take_all(self) -> list[Input]:
        """Return everything, in order."""
        inputs = [given for given, _ in self._inputs]
        self._inputs.clear()
        self._asked.clear()
        self._waiting = 0
        return inputs

    def take(self) -> list[Input]:
        """Return what one turn decides."""
        if self._waiting <= TURN_MAX:
            return self.take_all()
        taken = [given for given, weight in self._inputs if not weight]
        fair, left = self._take_fairly([item for item in self._inputs if item[1]])
        self._inputs = deque(left)
        return taken + fair

    def _take_fairly(
        self, waiting: list[tuple[Input, int]]
    ) -> tuple[list[Input], list[tuple[Input, int]]]:
        """Return what is decided now, and what is left, still in the order in which it came."""
        queues: dict[str, deque[int]] = {}
        for place, (given, _) in enumerate(waiting):
            queues.setdefault(given.by, deque()).append(place)
        names = sorted(queues)
        # Whoever comes behind the one that was last is first now.
        names = [name for name in names if name > self._last] + [
            name for name in names if name <= self._last
        ]
        chosen: list[int] = []
        room = TURN_MAX
        while room > 0 and queues:
            for name in names:
                if name not in queues:
                    continue
                place = queues[name].popleft()
                if not queues[name]:
                    del queues[name]
                chosen.append(place)
                self._last = name
                weight = waiting[place][1]
                room -= weight
                self._forget(name, weight)
                if room <= 0:
                    break
        gone = frozenset(chosen)
        left = [item for place, item in enumerate(waiting) if place not in gone]
        return [waiting[place][0] for place in chosen], left

    def _forget(self, name: str, weight: int) -> None:
        self._waiting -= weight
        self._asked[name] -= weight
        if not self._asked[name]:
            del self._asked[name]
