"""Parts of a job that are changed as one: all of it, or elements of an array that are alike."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from xce.control.selection import index_runs, waiting_positions
from xce.control.submit import Draft
from xce.model.command import Modification
from xce.model.ids import Index
from xce.model.job import JobSpec, Stop, Submission
from xce.model.ranges import (
    EMPTY,
    Ranges,
    contains,
    from_runs,
    from_sorted,
    intersect,
    subtract,
    unite,
)
from xce.model.record import Record, StopsChanged
from xce.model.request import ClassKey
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job, Variant

PARTS_MAX: Final = 1_000
"""In so many ways at most elements of an array are unlike each other."""
_SPEC_OF_STARTED: Final = {
    "run_limit_s": "run_limit_asked_us",
    "mem_limit_kib": "mem_limit_kib",
    "rerunnable": "rerunnable",
    "description": "description",
    "cpu_limit_s": "limits",
    "checkpoint_period_s": "checkpoints",
}
"""What becomes another of the spec of something that has started, by what is changed."""


class Part(msgspec.Struct, frozen=True):
    """What is changed of a job."""

    job: Job
    cls: int
    spec_id: int
    positions: Ranges
    """Those that have not ended."""
    is_rest: bool
    """The job itself is meant, and all that is as it is."""
    named: Ranges = EMPTY
    """Where what has ended is meant, too: all that it is about."""

    @property
    def waits(self) -> bool:
        """Whether anything of it may become another thing as a whole."""
        waiting = intersect(self.positions, waiting_positions(self.job))
        return bool(waiting) or (self.is_rest and not self.positions)

    def live(self) -> Iterator[tuple[int, Attempt]]:
        """Yield the live attempts by position."""
        for place, attempt in (self.job.live or {}).items():
            if contains(self.positions, place, place):
                yield place, attempt

    def runs(self) -> tuple[list[Index], list[Index]]:
        """Return the first and the last index of each run, as a record has them."""
        found = [] if self.is_rest else index_runs(self.job, self.named or self.positions)
        return [first for first, _ in found], [last for _, last in found]


def alive_positions(job: Job) -> Ranges:
    """Return the positions that have not ended."""
    return unite(waiting_positions(job), from_sorted(sorted(job.live or ())))


def rest_of(job: Job) -> Part:
    """Return a job with all elements that were not set apart."""
    alive = alive_positions(job)
    for variant in job.variants:
        alive = subtract(alive, variant.ranges)
    return Part(job, job.cls, job.spec_id, alive, is_rest=True)


def parts_of(job: Job, named: Ranges | None) -> list[Part]:
    """Return what is changed of a job when elements of it are named; None: when it is itself."""
    if named is None:
        apart = [apart_of(job, (one.cls, one.spec_id), EMPTY) for one in job.variants]
        return [rest_of(job), *apart]
    alive = alive_positions(job)
    meant = intersect(alive, named)
    if not job.variants and meant == alive:
        return [rest_of(job)]
    return [Part(job, *form, is_rest=False) for form in job.forms(meant)]


def apart_of(job: Job, form: tuple[int, int], named: Ranges) -> Part:
    """Return all elements that were set apart in one way, as they are changed with their job.

    What of them has ended is what they are if it is ever started anew. Those that are ``named`` may
    have become as the job by what the same command made of it.
    """
    if form != (job.cls, job.spec_id):
        named = from_runs(run for one in job.variants if _is(one, form) for run in one.ranges)
    return Part(job, *form, intersect(named, alive_positions(job)), is_rest=False, named=named)


class Wish(msgspec.Struct, frozen=True):
    """What of a job one item of a command is about."""

    form: tuple[int, int]
    """Class and spec."""
    runs: tuple[tuple[Index, Index], ...] = ()
    variants: list[tuple[int, int]] = []
    goes_with_job: bool = False

    def modification(self, job: Job, wanted: Submission, array_limit: int) -> Modification:
        """Return the item."""
        cls, spec_id = self.form
        return Modification(
            job.id, spec_id, cls, wanted, array_limit, self.runs, self.variants, self.goes_with_job
        )


def wishes_of(job: Job, runs: tuple[tuple[Index, Index], ...]) -> list[Wish]:
    """Return the items of a command that changes a job, or the elements that are named."""
    own = (job.cls, job.spec_id)
    if not runs:
        apart = [
            Wish((one.cls, one.spec_id), tuple(index_runs(job, one.ranges)), goes_with_job=True)
            for one in job.variants
        ]
        return [Wish(own, (), job.own_forms()[1:]), *apart]
    named = from_runs(run for first, last in runs for run in job.positions(first, last))
    if not job.variants or not all(job.positions(*run) for run in runs):
        return [Wish(own, runs)]
    alive = alive_positions(job)
    alike = [one for one in job.forms(named) if intersect(one[2], alive)]
    found = [Wish((cls, spec), tuple(index_runs(job, part))) for cls, spec, part in alike]
    return found or [Wish(own, runs)]


def _is(one: Variant, form: tuple[int, int]) -> bool:
    return (one.cls, one.spec_id) == form


def as_it_is(state: ClusterState, job: Job, form: tuple[int, int] | None = None) -> Submission:
    """Return a job as if it was submitted as it is now: what a change begins with.

    Args:
        state: Knows what it is.
        job: The job.
        form: Class and spec of elements that were set apart; None: of the job itself.
    """
    cls, spec_id = form or (job.cls, job.spec_id)
    spec, key = state.specs[spec_id], state.classes[cls].key
    return Submission(
        spec=spec,
        request=key.request,
        queue=key.queue,
        project=key.project,
        array=job.array,
        run_limit_us=key.run_limit_us,
        estimate_us=key.estimate_us,
        priority=key.priority,
        rerunnable=spec.rerunnable,
        group=key.group,
        app=key.app,
    )


def map_live(
    state: ClusterState, draft: Draft, part: Part, become: Callable[[ClassKey], ClassKey]
) -> tuple[list[int], list[int]]:
    """Return the classes of live attempts that change, and which they become."""
    before: list[int] = []
    after: list[int] = []
    for cls in sorted({attempt.cls for _, attempt in part.live()}):
        key = state.classes[cls].key
        wanted = become(key)
        if wanted != key:
            before.append(cls)
            after.append(draft.class_of(wanted))
    return before, after


def map_specs(
    state: ClusterState, draft: Draft, part: Part, wanted: JobSpec, changed: Sequence[str]
) -> dict[int, int]:
    """Return the specs of live attempts that change, and which they become: what runs is what was
    started, and only its limits and whether it is started anew are others.
    """
    names = [name for word, name in _SPEC_OF_STARTED.items() if word in changed]
    found: dict[int, int] = {}
    for spec_id in sorted({state.spec_id_at(part.job, place) for place, _ in part.live()}):
        before = state.specs[spec_id]
        members = {name: getattr(wanted, name) for name in names}
        if "limits" in members:
            cpu_us = wanted.limits.cpu_us
            members["limits"] = msgspec.structs.replace(before.limits, cpu_us=cpu_us)
        after = msgspec.structs.replace(before, **members)
        if after != before:
            found[spec_id] = draft.spec_of(after)
    return found


def decide_stops(state: ClusterState, part: Part, queue: str) -> list[Record]:
    """Return what the run windows of its queue do to what runs of a part."""
    job, is_open = part.job, state.is_window_open(queue)
    wrong = [
        place
        for place, attempt in part.live()
        if bool(attempt.stops & Stop.WINDOW) == is_open and not attempt.is_firm
    ]
    if not wrong:
        return []
    runs = index_runs(job, from_sorted(sorted(wrong)))
    firsts, lasts = [first for first, _ in runs], [last for _, last in runs]
    return [StopsChanged([job.id] * len(runs), firsts, lasts, Stop.WINDOW, not is_open)]
