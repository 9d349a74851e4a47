"""Work that is done at a steady pace, so that other work never waits behind much of it.

The pieces of files that travel between hosts are passed on so: however many are copied at once,
the controller spends a bounded part of its time on them, and each user has his turn.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

Later: TypeAlias = Callable[[float, Callable[[], None]], object]
"""Has a call made after so many seconds."""
Call: TypeAlias = Callable[[], None]
WAITING_MAX: Final = 512


class _Work(NamedTuple):
    do: Call
    drop: Call
    """Called instead where there is no room for it."""


class Pacer:
    """Does one thing after another: of each user in turn, and his own in the order they came.

    Args:
        pace_s: So much time lies between two of them.
        later: Has a call made later.
    """

    def __init__(self, pace_s: float, later: Later) -> None:
        self._pace_s = pace_s
        self._later = later
        self._waiting: dict[str, deque[_Work]] = {}
        """By user, whose turn is next first."""
        self._count = 0
        self._is_resting = False

    def put(self, user: str, do: Call, drop: Call) -> None:
        """Have something done when its turn comes; or dropped, where too much waits.

        Of whoever has most waiting the last is dropped, so that nobody keeps others out.
        """
        self._waiting.setdefault(user, deque()).append(_Work(do, drop))
        self._count += 1
        if not self._is_resting:
            self._go_on()
        elif self._count > WAITING_MAX:
            most = max(reversed(self._waiting), key=lambda one: len(self._waiting[one]))
            self._take(most, last=True).drop()

    def _go_on(self) -> None:
        self._is_resting = bool(self._waiting)
        if self._waiting:
            self._later(self._pace_s, self._go_on)
            self._take(next(iter(self._waiting))).do()

    def _take(self, user: str, *, last: bool = False) -> _Work:
        """Take out the first work of a user, whose turn is the last one then; or his last work."""
        waiting = self._waiting[user] if last else self._waiting.pop(user)
        self._count -= 1
        work = waiting.pop() if last else waiting.popleft()
        if waiting:
            self._waiting[user] = waiting
        elif last:
            del self._waiting[user]
        return work
