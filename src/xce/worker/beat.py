"""The beats of a worker: when to say that it is there, and what the answers prove. Pure.

An answer proves that the controller was there when its beat was sent, or later; when the answer
came proves nothing, since it may have lain unread for long.
"""

from xce.model.config import MISSED_BEATS
from xce.model.ids import Micros


class Beat:
    """The beats on one connection.

    Args:
        beat_us: How often to send one; 0: never.
        now_us: When the connection was made.
    """

    def __init__(self, beat_us: Micros, now_us: Micros) -> None:
        self._beat_us = beat_us
        self._sent: dict[int, Micros] = {}
        self._number = 0
        self._next_us = now_us
        self._waits_since_us = 0
        """When the first beat was sent that is not answered; 0: all are."""

    def next_us(self) -> Micros:
        """Return when `take` has something to do; 0: never."""
        return self._next_us if self._beat_us else 0

    def ask(self, beat_us: Micros) -> bool:
        """Take how often the controller wants beats now; return whether that is another span.

        The next one is due so long after the last one. 0 leaves it as it is: a controller of an
        older release says nothing.
        """
        if not beat_us or not self._beat_us or beat_us == self._beat_us:
            return False
        self._next_us += beat_us - self._beat_us
        self._beat_us = beat_us
        return True

    def take(self, now_us: Micros) -> int:
        """Return the number of the beat to send now; 0: none is due."""
        if not self._beat_us or now_us < self._next_us:
            return 0
        self._number += 1
        self._sent[self._number] = now_us
        self._waits_since_us = self._waits_since_us or now_us
        self._next_us = now_us + self._beat_us
        return self._number

    def answered(self, number: int) -> Micros:
        """Return since when the controller is known to be there; 0: the answer is to no beat."""
        at_us = self._sent.get(number, 0)
        for earlier in [one for one in self._sent if one <= number]:
            del self._sent[earlier]
        self._waits_since_us = min(self._sent.values(), default=0)
        return at_us

    def is_silent(self, now_us: Micros) -> bool:
        """Return whether so many beats are unanswered that the connection is as good as lost."""
        waits = self._waits_since_us
        return bool(waits) and now_us - waits >= MISSED_BEATS * self._beat_us
