"""What is over on a host, so that a late launch does not start it again. Pure."""

from collections import deque
from typing import Final, TypeAlias

from xce.model.ids import Index, JobId, Micros
from xce.worker.action import Key

REMEMBER_US: Final = 120_000_000
"""How long an acknowledged end is remembered against late launches."""

Place: TypeAlias = tuple[JobId, Index]


class Past:
    """The newest attempt of each element that is over: nothing up to it is started."""

    def __init__(self) -> None:
        self._newest: dict[Place, int] = {}
        self._remembered: deque[tuple[Micros, Place, int]] = deque()

    def newest(self, place: Place) -> int:
        """Return the newest attempt of an element that is over; 0: none is."""
        return self._newest.get(place, 0)

    def note(self, key: Key) -> None:
        """Note that an attempt is over."""
        place = key[:2]
        self._newest[place] = max(key[2], self._newest.get(place, 0))

    def remember(self, key: Key, now_us: Micros) -> None:
        """Note that the end of an attempt is known for good."""
        self._remembered.append((now_us, key[:2], key[2]))

    def let_go(self, now_us: Micros) -> None:
        """Forget ends that were known for good long ago."""
        while self._remembered and self._remembered[0][0] + REMEMBER_US < now_us:
            _, place, attempt = self._remembered.popleft()
            if self._newest.get(place) == attempt:
                del self._newest[place]
