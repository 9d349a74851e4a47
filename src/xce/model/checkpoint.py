"""Checkpoints that a job's own programs write: what was asked for, and how a request travels.

Somebody's request for one travels as a signal does, under a number that is none: it is durable,
counted, and delivered once.
"""

from typing import Final

import msgspec

from xce.model.ids import Micros

METHOD: Final = "default"
METHOD_FORM: Final = r"\A[A-Za-z0-9_-]{1,64}\Z"
"""It is a part of a program's name."""
CHECKPOINT: Final = 100
ENDS: Final = 1
"""Added to `CHECKPOINT`: the job ends when it is written."""
FORCED: Final = 2
"""Likewise: its program is told so."""
_LAST: Final = CHECKPOINT + ENDS + FORCED


class Checkpoints(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``-k``: where a job's checkpoints are written, by which programs, and when."""

    directory: str
    """From the root; each job has a directory of its own in it."""
    method: str = METHOD
    """The programs are ``echkpnt.METHOD`` and ``erestart.METHOD``."""
    period_us: Micros = 0
    """So often one is written; 0: only when somebody asks."""
    first_us: Micros = 0
    """So long after the start the first is; 0: as the others."""


def is_checkpoint(number: int) -> bool:
    """Whether the number of a signal is a request for a checkpoint."""
    return CHECKPOINT <= number <= _LAST


def request_number(*, ends: bool, forced: bool) -> int:
    """Return the number under which a request travels."""
    return CHECKPOINT + ENDS * ends + FORCED * forced


def wants_end(number: int) -> bool:
    """Whether the job ends when the checkpoint of this request is written."""
    return bool((number - CHECKPOINT) & ENDS)


def is_forced(number: int) -> bool:
    """Whether its program is told that it is forced."""
    return bool((number - CHECKPOINT) & FORCED)
