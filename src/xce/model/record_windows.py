"""Records about the run windows of queues; the rules of `xce.model.record` hold."""

from typing import ClassVar

import msgspec

from xce.model.ids import Micros
from xce.model.reason import Wake


class WindowsResolved(msgspec.Struct, frozen=True, tag="windows-resolved", array_like=True):
    """When run windows of queues are open. Columns; a queue that is not named has none."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    queues: list[str]
    intervals: list[tuple[tuple[Micros, Micros], ...]]
    version: int = 0
    """Of the configuration whose windows these are."""


class WindowsMoved(msgspec.Struct, frozen=True, tag="windows-moved", array_like=True):
    """Run windows of queues have opened or closed."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    queues: list[str]
    is_open: bool
