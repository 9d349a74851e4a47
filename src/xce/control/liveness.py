"""Who has not been heard of for too long: the controller's side of the beats. Pure.

Only those are watched that have beaten once: a worker of an older release never does.
"""

from xce.model.config import MISSED_BEATS
from xce.model.ids import Micros


class Watch:
    """Hears beats and tells who has missed too many."""

    def __init__(self) -> None:
        self._heard_us: dict[str, Micros] = {}
        self._beat_us: dict[str, Micros] = {}
        self._looked_us: Micros = 0

    def hear(self, name: str, now_us: Micros, beat_us: Micros) -> None:
        """Note a beat.

        Args:
            name: Who beats.
            now_us: The present instant.
            beat_us: How often he is asked to in the answer: whoever was asked to beat rarely is not
                silent because the configuration says otherwise since then.
        """
        self._heard_us[name] = now_us
        self._beat_us[name] = beat_us

    def note(self, name: str, now_us: Micros) -> None:
        """Note that somebody said something; who never beat is not watched for that."""
        if name in self._heard_us:
            self._heard_us[name] = now_us

    def forget(self, name: str) -> None:
        """Watch somebody no more."""
        self._heard_us.pop(name, None)
        self._beat_us.pop(name, None)

    def silent(self, now_us: Micros, beat_us: Micros) -> list[str]:
        """Return who has missed too many beats.

        What we slept through ourselves does not count: what was said meanwhile is still unread.

        Args:
            now_us: The present instant, by a monotonic clock. To be called more often than once a
                beat.
            beat_us: How often beats shall come.
        """
        slept_us = now_us - self._looked_us - beat_us if self._looked_us else 0
        self._looked_us = now_us
        if slept_us > 0:
            for name in self._heard_us:
                self._heard_us[name] += slept_us
        return sorted(
            name
            for name, at_us in self._heard_us.items()
            if at_us < now_us - MISSED_BEATS * max(beat_us, self._beat_us[name])
        )
