"""Records about queues, beside those of `xce.model.record`."""

from typing import ClassVar

import msgspec

from xce.model.reason import Wake


class QueuesSwitched(msgspec.Struct, frozen=True, tag="queues-switched", array_like=True):
    """An administrator opened, closed, activated or inactivated queues."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    queues: list[str]
    is_open: bool | None = None
    """Whether they take new jobs; None: as before."""
    is_active: bool | None = None
    """Whether their jobs may start; None: as before."""
    comment: str = ""
