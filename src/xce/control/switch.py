"""`SwitchJobs` to records: jobs, or elements of them, that come into another queue.

What waits is as if it was submitted there; what has started keeps what it was given.
"""

from collections.abc import Sequence

import msgspec

from xce.control.modify import refuse_place
from xce.control.part import Part, alive_positions, as_it_is, decide_stops, map_live, parts_of
from xce.control.profile import find_profile
from xce.control.selection import Selected, refuse_finished, refuse_unknown
from xce.control.submit import (
    Draft,
    check_submission,
    choose_queue,
    default_limit_us,
    make_key,
)
from xce.model.command import Accepted, SwitchJobs
from xce.model.config import AppConfig, QueueConfig
from xce.model.ids import JobId, Micros
from xce.model.job import Submission
from xce.model.permission import Actor
from xce.model.ranges import EMPTY, Ranges, intersect, unite
from xce.model.record import Record
from xce.model.record_modify import JobModified
from xce.model.refusal import Refusal
from xce.model.request import ClassKey, Request
from xce.state.cluster import ClusterState
from xce.state.job import Job


def decide_switch(
    state: ClusterState, command: SwitchJobs, items: Sequence[Selected]
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return what lets jobs be in another queue."""
    draft = Draft(state)
    named: dict[JobId, Ranges | None] = {}
    for item in items:
        before = named.get(item.job, EMPTY)
        is_whole = item.positions is None or before is None
        named[item.job] = None if is_whole else unite(before or EMPTY, item.positions or EMPTY)
    decided: dict[JobId, Refusal | None] = {}
    results: list[Accepted | Refusal] = []
    for item in items:
        job = state.jobs.get(item.job)
        if job is None or _is_over(job, item.positions):
            refusal = refuse_unknown(item.job) if job is None else refuse_finished(item.job)
            results.append(msgspec.structs.replace(refusal, first=item.first, last=item.last))
            continue
        if job.id not in decided:
            decided[job.id] = _switch(state, draft, command, parts_of(job, named[job.id]))
        stays = decided[job.id]
        if stays is None:
            done = Accepted(item.job, item.first, item.last, "switched", queue=command.queue)
            results.append(done)
        else:
            results.append(msgspec.structs.replace(stays, first=item.first, last=item.last))
    return draft.records, results


def _is_over(job: Job, positions: Ranges | None) -> bool:
    if positions is None or job.is_finished:
        return job.is_finished
    return not intersect(alive_positions(job), positions)


def _switch(
    state: ClusterState, draft: Draft, command: SwitchJobs, parts: Sequence[Part]
) -> Refusal | None:
    """Add what switches the parts of a job, or return why it stays."""
    judged = [(part, _judge(state, command, part)) for part in parts]
    for part, found in judged:
        if isinstance(found, Refusal):
            return msgspec.structs.replace(found, job=part.job.id)
    for part, found in judged:
        if found is not None and not isinstance(found, Refusal):
            draft.records.extend(_records(state, draft, part, *found))
    return None


def _judge(
    state: ClusterState, command: SwitchJobs, part: Part
) -> tuple[Submission, QueueConfig] | Refusal | None:
    """Return what a part becomes and where, or why it stays; None: it is there already."""
    job, key, spec = part.job, state.classes[part.cls].key, state.specs[part.spec_id]
    if key.queue == command.queue:
        return None
    before = state.queues.get(key.queue)
    submission = msgspec.structs.replace(
        as_it_is(state, job, (part.cls, part.spec_id)),
        request=_asked(key.request, spec.tasks_asked),
        queue=command.queue,
        run_limit_us=spec.run_limit_asked_us
        or _own_limit_us(key, before, find_profile(state, key.app)),
    )
    owns = command.by == job.owner.user
    actor = Actor(job.owner.user, command.groups if owns else (), command.is_admin and owns)
    queue = choose_queue(state, submission, actor, for_another=not owns)
    if isinstance(queue, Refusal):
        return queue
    refusal = refuse_place(state, command, submission, part, queue.name)
    if refusal is None and part.waits:
        refusal = check_submission(state, submission, queue)
    return refusal or (submission, queue)


def _records(
    state: ClusterState, draft: Draft, part: Part, submission: Submission, queue: QueueConfig
) -> list[Record]:
    """Return what brings a part into a queue."""
    job, key = part.job, state.classes[part.cls].key

    def become(live: ClassKey) -> ClassKey:
        return msgspec.structs.replace(live, queue=queue.name)

    wanted = make_key(state, submission, queue, job.owner.user)
    cls = draft.class_of(wanted if part.waits else become(key))
    live = map_live(state, draft, part, become)
    firsts, lasts = part.runs()
    record = JobModified(
        job.id, part.spec_id, cls, job.begin_at_us,
        job.dependency if job.is_conditional else None,
        job.array.limit if job.array is not None else 0, *live, queue=queue.name,
        keeps_elements=bool(job.awaiting), keeps_specs=True, firsts=firsts, lasts=lasts,
    )  # fmt: skip
    return [record, *decide_stops(state, part, queue.name)]


def _asked(request: Request, tasks: tuple[int, int]) -> Request:
    """Return a request with the tasks that were asked for, which its queue may have cut."""
    if tasks == (0, 0) or request.whole_hosts:
        return request
    return request.with_tasks(*tasks)


def _own_limit_us(key: ClassKey, queue: QueueConfig | None, app: AppConfig) -> Micros:
    """Return the run limit of a job, unless it is its queue's or its profile's."""
    if queue is None or key.run_limit_us == default_limit_us(queue, app):
        return 0
    return key.run_limit_us
