"""Jobs by user and name. Most names belong to one job: it stands there without a dict around it,
which would be most of what the index takes.
"""

from collections.abc import Iterable
from typing import TypeAlias

from xce.model.ids import JobId
from xce.model.job import JobSpec

Named: TypeAlias = JobId | dict[JobId, None]
"""The only job of a name, or several."""
Names: TypeAlias = dict[str, dict[str, Named]]
"""By user and job name, finished jobs too."""


class Lookups:
    """Indexes that are made when they are first asked for; None: they are not made yet."""

    def __init__(self) -> None:
        self.names: Names | None = {}
        self.spec_ids: dict[JobSpec, int] | None = {}


def note_name(names: Names, user: str, name: str, job: JobId) -> None:
    """Add a job."""
    own = names.get(user)
    if own is None:
        own = names[user] = {}
    named = own.get(name)
    if named is None:
        own[name] = job
    elif isinstance(named, dict):
        named[job] = None
    elif named != job:
        own[name] = {named: None, job: None}


def forget_name(names: Names, user: str, name: str, job: JobId) -> None:
    """Remove a job."""
    own = names[user]
    named = own[name]
    if isinstance(named, dict):
        named.pop(job, None)
        if len(named) == 1:
            (own[name],) = named
    elif named == job:
        del own[name]
    if not own:
        del names[user]


def jobs_of(named: Named) -> Iterable[JobId]:
    """Return the jobs of a name."""
    return named if isinstance(named, dict) else (named,)


def all_jobs_of(names: Names, user: str) -> list[JobId]:
    """Return all jobs of a user."""
    return [job for named in names.get(user, {}).values() for job in jobs_of(named)]
