"""The time after a start or a failover in which nothing is declared lost (decision P8).

It is over when every host that was up before has joined again, at the latest after a while.
"""

from collections.abc import Collection, Iterable

from xce.model.ids import Micros


class SettleWindow:
    """Whether a new reign still waits for the workers of the one before.

    Args:
        expected: The hosts that were up.
        until_us: When it is over at the latest, by the controller's clock.
    """

    def __init__(self, expected: Iterable[str], until_us: Micros) -> None:
        self._missing = set(expected)
        self._until_us = until_us

    def is_open(self, joined: Collection[str], now_us: Micros) -> bool:
        """Return whether there is still something to wait for.

        Args:
            joined: The hosts whose workers are connected now.
            now_us: The present instant.
        """
        self._missing.difference_update(joined)
        if self._missing and now_us < self._until_us:
            return True
        self._missing.clear()
        return False
