"""How long attempts may outlive a lost contact to the controller. Pure.

Instants are of the clock that goes on while the machine sleeps: the controller does not wait for a
machine to wake up. A worker that has just come knows nothing of what was proved before; what the
shepherd has from an earlier one stays as it is until there is a proof.
"""

from collections.abc import Iterable

from xce.model.ids import Micros
from xce.worker import action as a
from xce.worker.attempt import Live


class Fence:
    """When the controller is known to have been there."""

    def __init__(self) -> None:
        self._contact_us: Micros = 0
        """Last; 0: no beat was answered yet."""
        self._met_us: Micros = 0
        """When it welcomed us last."""

    def meet(self, at_us: Micros) -> None:
        """Note that it welcomes us."""
        self._met_us = at_us

    def contact(self, at_us: Micros) -> None:
        """Note that it was there at that instant or later: it has answered a beat sent then."""
        self._contact_us = max(self._contact_us, at_us)

    def begin(self, live: Live) -> Live:
        """Return an attempt that it has just launched here, though it has answered nothing yet."""
        live.launched_us = self._met_us
        return live

    def lease(self, lives: Iterable[Live], *, is_news: bool = False) -> list[a.Action]:
        """Return until when the attempts may run and be there that shall not outlive it.

        Args:
            lives: All attempts.
            is_news: There may be fewer of them than the shepherd knows.
        """
        until = [(*one.key, *self._until(one)) for one in lives if one.launch.fence_us]
        return [a.Lease(until)] if until or is_news else []

    def _until(self, live: Live) -> tuple[Micros, Micros]:
        since_us = max(self._contact_us, live.launched_us)
        if not since_us:
            return a.KEPT, a.KEPT
        frozen_us = since_us + live.launch.fence_us
        return frozen_us, max(frozen_us, since_us + live.launch.fence_kill_us)
