"""Records about jobs that are changed after they were submitted, beside `xce.model.record`."""

from typing import ClassVar

import msgspec

from xce.model.dependency import Dependency
from xce.model.ids import Index, JobId, Micros
from xce.model.reason import Wake


class JobModified(msgspec.Struct, frozen=True, tag="job-modified", array_like=True):
    """A job, or some elements of one, is another one from now on: as if it was submitted so.

    Live attempts hold what they were given. They are of another class only where that asks for the
    same and differs in queue, limits or priority.
    """

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING, Wake.RESERVATION})

    job: JobId
    spec_id: int
    cls: int
    begin_at_us: Micros = 0
    """It may not start before; 0: at once."""
    dependency: Dependency | None = None
    """Resolved; None: none, or satisfied."""
    array_limit: int = 0
    before: list[int] = []
    """Classes of live attempts, and in ``after`` of which ones these attempts are now."""
    after: list[int] = []
    has_new_limits: bool = False
    """Its hosts are told new limits of its live attempts."""
    queue: str = ""
    """The queue that it was switched to; empty: it stayed in its own."""
    changes: str = ""
    """What was changed, for people; empty: only the queue."""
    keeps_elements: bool = False
    """What its elements wait for of other arrays stays as it is; else it begins anew."""
    keeps_specs: bool = False
    """Live attempts have the specs that they were placed with, but for the next two columns. False
    in records of before 2027: what an attempt has is what its job has."""
    specs_before: list[int] = []
    """Specs of live attempts, and in ``specs_after`` which ones these attempts have now."""
    specs_after: list[int] = []
    firsts: list[Index] = []
    """Runs of the elements that are meant, up to ``lasts``; none: all that were not set apart from
    the rest by such runs before, and the job itself."""
    lasts: list[Index] = []
