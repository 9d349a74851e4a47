"""Work that is done at a steady pace, so that other work never waits behind much of it.

The pieces of files that travel between hosts are passed on so: however many are copied at once,
the controller spends a bounded part of its time on them, and each copy has its turn.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

Later: TypeAlias = Callable[[float, Callable[[], None]], object]
"""Has a call made after so many seconds."""
WAITING_MAX: Final = 512


class Pacer:
    """Does one thing after another, in the order in which they came.

    Args:
        pace_s: So much time lies between two of them.
        later: Has a call made later.
    """

    def __init__(self, pace_s: float, later: Later) -> None:
        self._pace_s = pace_s
        self._later = later
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_resting = False

    def put(self, do: Callable[[], None]) -> bool:
        """Have something done when its turn comes; False: too much waits."""
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._waiting.append(do)
        if not self._is_resting:
            self._go_on()
        return True

    def _go_on(self) -> None:
        self._is_resting = bool(self._waiting)
        if self._waiting:
            self._later(self._pace_s, self._go_on)
            self._waiting.popleft()()
