"""What is told of each job that an action was about."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from xce.apiserver.problems import Problem
from xce.model.command import Accepted
from xce.model.refusal import Refusal

RUNS: Final = "XCE-Runs"
"""A header; ``1``: who asks understands `JobResult.count`."""


class ActionError(msgspec.Struct, frozen=True):
    """Why something was not done."""

    code: str
    text: str
    lsf: str
    permission: str | UnsetType = UNSET
    """The permission that is missing."""


class JobResult(msgspec.Struct, frozen=True, gc=False):
    """What was done to a job or element, or why nothing was."""

    job: str
    """``12`` or ``12[3]``; of a modification also ``12[3-5,7]``; empty when nothing matched."""
    jobid: int | UnsetType = UNSET
    text: str | UnsetType = UNSET
    error: ActionError | UnsetType = UNSET
    position: int | UnsetType = UNSET
    """Of a moved job: where it stands now among the jobs that it could be moved among."""
    queue: str | UnsetType = UNSET
    """Of a switched or modified job: in which it is now."""
    warning: str | UnsetType = UNSET
    count: int | UnsetType = UNSET
    """Where ``XCE-Runs: 1`` was sent: so many jobs it is about, with ids that follow ``jobid``."""


def job_label(job: int, first: int, last: int) -> str:
    """Return ``12``, ``12[3]`` or ``12[3-5]``; ``first`` -1: the whole job."""
    if first < 0:
        return str(job)
    return f"{job}[{first}]" if first == last else f"{job}[{first}-{last}]"


def label_of(job: int, runs: Sequence[tuple[int, int]]) -> str:
    """Return a job with the elements that were named: ``12``, ``12[3]`` or ``12[3-5,7]``."""
    words = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return f"{job}[{','.join(words)}]" if words else str(job)


def tell_done(item: Accepted) -> JobResult:
    """Return what is told of what was done."""
    label = job_label(item.job, item.first, item.last)
    return JobResult(
        label, item.job, item.text, position=item.number or UNSET, queue=item.queue or UNSET,
        warning=item.warning or UNSET,
        count=item.last_job - item.job + 1 if item.last_job else UNSET,
    )  # fmt: skip


def tell_problem(label: str, problem: Problem) -> JobResult:
    """Return what is told of a job of which a request cannot be served."""
    error = ActionError(problem.code, problem.detail, problem.lsf, problem.permission or UNSET)
    return JobResult(label, error=error)


def each_of(item: Accepted | Refusal) -> Iterator[Accepted | Refusal]:
    """Yield what is told of each job of a run."""
    if isinstance(item, Accepted) and item.last_job:
        yield from (Accepted(job, text=item.text) for job in range(item.job, item.last_job + 1))
    else:
        yield item
