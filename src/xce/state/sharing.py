"""Equal parts of jobs are kept once: a bulk of a million jobs has one directory, not a million.

What is read from the journal, a snapshot or a connection comes as a copy for each job. What the job
before had is tried first, then some thousand texts that were seen lately: a cache, not a table,
since nothing depends on a hit.
"""

from typing import Any, Final

from msgspec.structs import force_setattr

from xce.model.job import JobSpec, Owner
from xce.model.ranges import ZERO
from xce.state.job import Job

KEPT_MAX: Final = 4_096

_PARTS: Final = ("env", "cwd", "from_host", "home", "files")
"""Of a `JobSpec`: what many jobs have alike."""


class Sharing:
    """Parts of jobs that were seen lately."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}
        self._last = JobSpec()
        self._owner = Owner("", 0, 0)

    def share_spec(self, spec: JobSpec) -> None:
        """Let a spec use what an earlier one has; it stays equal to itself."""
        last, self._last = self._last, spec
        for name in _PARTS:
            own, before = getattr(spec, name), getattr(last, name)
            if own is before:
                continue
            if own != before:
                before = self._seen(own)
            force_setattr(spec, name, before)

    def _seen(self, part: object) -> object:
        """Return an equal part that was seen before, or this one."""
        if len(self._kept) > KEPT_MAX:
            self._kept.clear()
        return self._kept.setdefault(part, part)

    def share_owner(self, owner: Owner) -> Owner:
        """Return the owner, or an equal one that was there before."""
        if owner is not self._owner and owner != self._owner:
            self._owner = owner
        return self._owner

    def share_job(self, job: Job) -> None:
        """Let a job that was loaded use what is there once."""
        job.owner = self.share_owner(job.owner)
        if job.pending == ZERO:
            job.pending = ZERO
