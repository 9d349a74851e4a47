"""Records about elements that wait for those of other arrays (``-w "done(name[*])"``)."""

from typing import ClassVar

import msgspec

from xce.model.host_record import NO_WAKES
from xce.model.ids import Index, JobId, Micros
from xce.model.reason import Wake


class ElementsReleased(msgspec.Struct, frozen=True, tag="elements-released", array_like=True):
    """What these elements waited for has come: runs ``jobs[i]: firsts[i]..lasts[i]``."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]


class ElementsDoomed(msgspec.Struct, frozen=True, tag="elements-doomed", array_like=True):
    """What these elements wait for can never come; they end at ``ends_at_us`` (0: never). Runs."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]
    ends_at_us: Micros
