"""Records about waiting as time goes by, and in vain; the rules of `xce.model.record` hold."""

from typing import ClassVar

import msgspec

from xce.model.host_record import NO_WAKES
from xce.model.ids import JobId, Micros
from xce.model.reason import Wake


class DelaysPassed(msgspec.Struct, frozen=True, tag="delays-passed", array_like=True):
    """These jobs have waited so long that their requests ask for less now. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    jobs: list[JobId]
    waited_us: list[Micros]
    """The longest delay in the request that has passed since the job was submitted."""


class DependencyDoomed(msgspec.Struct, frozen=True, tag="dependency-doomed", array_like=True):
    """The dependency of these jobs can never hold; they end at ``ends_at_us`` (0: never)."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    jobs: list[JobId]
    ends_at_us: Micros
