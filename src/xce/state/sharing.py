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


class Sharing:
    """Parts of jobs that were seen lately."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}
        self._last = JobSpec()
        self._owner = Owner("", 0, 0)

    def share_spec(self, spec: JobSpec) -> None:
        """Let a spec use what an earlier one has; it stays equal to itself."""
        # Written out: a start goes through here for each of perhaps millions of jobs.
        last, self._last = self._last, spec
        if spec.env is not last.env:
            force_setattr(spec, "env", last.env if spec.env == last.env else self._seen(spec.env))
        if spec.cwd is not last.cwd:
            force_setattr(spec, "cwd", last.cwd if spec.cwd == last.cwd else self._seen(spec.cwd))
        if spec.home is not last.home:
            home = last.home if spec.home == last.home else self._seen(spec.home)
            force_setattr(spec, "home", home)
        if spec.from_host is not last.from_host:
            host = (
                last.from_host if spec.from_host == last.from_host else self._seen(spec.from_host)
            )
            force_setattr(spec, "from_host", host)
        if spec.files is not last.files:
            files = last.files if spec.files == last.files else self._seen(spec.files)
            force_setattr(spec, "files", files)
        if spec.limits is not last.limits:
            limits = last.limits if spec.limits == last.limits else self._seen(spec.limits)
            force_setattr(spec, "limits", limits)
        if spec.tasks_asked is not last.tasks_asked:
            asked, known = spec.tasks_asked, last.tasks_asked
            force_setattr(spec, "tasks_asked", known if asked == known else self._seen(asked))

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
