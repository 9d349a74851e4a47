"""`ModifyJobs` and `SwitchJobs` to records: jobs that are changed after they were submitted.

A job is judged as if it was submitted so. What waits of it is all that was changed; what has
started keeps what it was given, and only its queue, its limits and whether it is started anew can
be changed.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from xce.control.dependency import decide_dependency, find_circle
from xce.control.misfit import describe_misfit
from xce.control.profile import check_profile, find_profile
from xce.control.selection import (
    Selected,
    basis_of,
    index_runs,
    refuse_denied,
    refuse_finished,
    refuse_unknown,
    waiting_positions,
)
from xce.control.submit import (
    Draft,
    bound_spec,
    check_limits,
    check_submission,
    choose_queue,
    default_limit_us,
    find_denial,
    make_key,
)
from xce.control.user_group import check_user_group
from xce.model.command import Accepted, Modification, ModifyJobs, SwitchJobs
from xce.model.config import AppConfig, QueueConfig
from xce.model.dependency import Dependency
from xce.model.ids import Micros
from xce.model.job import JobSpec, Stop, Submission
from xce.model.permission import Actor, Permission
from xce.model.ranges import Ranges, from_sorted, subtract, unite
from xce.model.record import Record, StopsChanged
from xce.model.record_modify import JobModified
from xce.model.refusal import Refusal, RefusalCode
from xce.model.request import ClassKey, Request
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.rights import OWNER

OF_STARTED: Final = frozenset(
    [
        "run_limit_s",
        "estimate_s",
        "mem_limit_kib",
        "rerunnable",
        "queue",
        "description",
        "cpu_limit_s",
        "checkpoint_period_s",
    ]
)
"""What can be changed of a job of which everything has started."""
OF_OWNER: Final = frozenset(
    ["command", "script", "args", "input", "output", "error", "cwd_given", "env", "output_dir",
     "transfers", "login_shell", "mail_to"]
)  # fmt: skip
"""What runs, and which files that uses: nobody else may have a user run something."""
_LIMITS: Final = frozenset(
    ["run_limit_s", "mem_limit_kib", "rerunnable", "cpu_limit_s", "checkpoint_period_s"]
)
_SPEC_OF_STARTED: Final = {
    "run_limit_s": "run_limit_asked_us",
    "mem_limit_kib": "mem_limit_kib",
    "rerunnable": "rerunnable",
    "description": "description",
    "cpu_limit_s": "limits",
    "checkpoint_period_s": "checkpoints",
}
"""What becomes another of the spec of something that has started, by what is changed."""
Decided = tuple[list[Record], Accepted | Refusal]


def as_it_is(state: ClusterState, job: Job) -> Submission:
    """Return a job as if it was submitted as it is now: what a change begins with."""
    spec, key = state.spec(job), state.key(job)
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


def decide_modification(
    state: ClusterState, command: ModifyJobs, item: Modification, now_us: Micros
) -> Decided:
    """Return what makes one job what it shall be."""
    job = state.jobs.get(item.job)
    refusal = _refuse(state, command, item, job)
    if refusal is not None or job is None:
        return [], refusal or refuse_unknown(item.job)
    queue = _queue_of(state, command, item.submission, job)
    if isinstance(queue, Refusal):
        return [], _about(queue, job)
    refusal = _refuse_place(state, command, item.submission, job, queue.name)
    if refusal is not None:
        return [], _about(refusal, job)
    waits = bool(waiting_positions(job))
    check = check_submission if waits else check_limits
    refusal = check_profile(state, item.submission) or check(state, item.submission, queue)
    if refusal is None and "user_group" in command.changed:
        user_group = item.submission.spec.user_group
        refusal = check_user_group(queue, job.owner.user, user_group)
    if refusal is not None:
        return [], _about(refusal, job)
    dependency = _dependency(state, command, item, job)
    if isinstance(dependency, Refusal):
        return [], _about(dependency, job)
    draft = Draft(state)
    wanted = make_key(state, item.submission, queue, job.owner.user)
    key = wanted if waits else _restrict(state.key(job), wanted, command.changed)
    before, after = _map_live(
        state, draft, job, lambda live: _restrict(live, wanted, command.changed)
    )
    spec = bound_spec(item.submission, queue, find_profile(state, item.submission.app))
    specs = _map_specs(state, draft, job, spec, command.changed)
    begins = item.submission.begin_at_us if "begin_at" in command.changed else job.begin_at_us
    limit = job.array.limit if job.array is not None else 0
    record = JobModified(
        job=job.id,
        cls=draft.class_of(key),
        spec_id=draft.spec_of(spec),
        begin_at_us=begins if begins > now_us or "begin_at" not in command.changed else 0,
        dependency=dependency,
        array_limit=item.array_limit if "array_limit" in command.changed else limit,
        before=before,
        after=after,
        has_new_limits=bool(job.live) and not _LIMITS.isdisjoint(command.changed),
        queue=queue.name if "queue" in command.changed else "",
        changes=command.changes,
        keeps_elements=bool(job.awaiting) and "dependency" not in command.changed,
        keeps_specs=True,
        specs_before=list(specs),
        specs_after=list(specs.values()),
    )
    warning = describe_misfit(state, key) if waits else ""
    accepted = Accepted(job.id, text="modified", queue=queue.name, warning=warning)
    return [*draft.records, record, *_stops(state, job, queue.name)], accepted


def basis_of_modification(state: ClusterState, command: ModifyJobs, job_id: int) -> str:
    """Return on what ground a job may be changed."""
    job = state.jobs.get(job_id)
    actor = Actor(command.by, command.groups, command.is_admin)
    return basis_of(state, job, actor, Permission.JOB_MODIFY) if job is not None else ""


def _refuse(
    state: ClusterState, command: ModifyJobs, item: Modification, job: Job | None
) -> Refusal | None:
    """Return why a job is not changed, whatever it shall be."""
    if job is None:
        return refuse_unknown(item.job)
    actor = Actor(command.by, command.groups, command.is_admin)
    refusal = refuse_denied(state, job, actor, Permission.JOB_MODIFY)
    if refusal is not None:
        return refusal
    if job.is_finished:
        return refuse_finished(job.id)
    private = sorted(OF_OWNER.intersection(command.changed))
    is_own = basis_of(state, job, actor, Permission.JOB_MODIFY) == OWNER
    if private and not is_own and not command.is_admin:
        text = f"job {job.id} belongs to {job.owner.user}, who alone changes its {private[0]}"
        return Refusal(RefusalCode.NOT_YOURS, text, lsf="User permission denied", job=job.id)
    if (job.spec_id, job.cls) != (item.spec_id, item.cls):
        text = f"job {job.id} was modified meanwhile: look at it again"
        return Refusal(RefusalCode.STALE, text, job=job.id)
    named: Ranges = ()
    for first, last in item.runs:
        found = job.positions(first, last)
        if not found:
            return msgspec.structs.replace(refuse_unknown(job.id), first=first, last=last)
        named = unite(named, found)
    refusal = _refuse_part(job, named if item.runs else None, "modified")
    if refusal is not None:
        return refusal
    if "array_limit" in command.changed and job.array is None:
        text = f"job {job.id} is no array: it has no limit of elements"
        return Refusal(RefusalCode.BAD_ARRAY, text, lsf="Job array does not exist", job=job.id)
    more = sorted(set(command.changed) - OF_STARTED)
    if more and not waiting_positions(job):
        return Refusal(
            RefusalCode.WRONG_STATE,
            f"job {job.id} has started: its {more[0]} cannot be changed any more",
            lsf="Only the following parameters can be used to modify a running job: "
            "-c, -M, -W, -We, -r, -rn, -q, -Jd",
            job=job.id,
        )
    return None


def _refuse_part(job: Job, named: Ranges | None, what: str) -> Refusal | None:
    """Refuse to treat some elements of an array otherwise than the rest of it."""
    if named is None:
        return None
    alive = unite(waiting_positions(job), from_sorted(sorted(job.live or ())))
    if not subtract(alive, named):
        return None
    text = f"elements of job {job.id} cannot be {what} apart from each other: name the job"
    return Refusal(RefusalCode.NOT_BUILT, text, job=job.id)


def _about(refusal: Refusal, job: Job) -> Refusal:
    return msgspec.structs.replace(refusal, job=job.id)


def _queue_of(
    state: ClusterState, command: ModifyJobs, submission: Submission, job: Job
) -> QueueConfig | Refusal:
    """Return the queue that a job shall be in."""
    if "queue" not in command.changed:
        queue = state.queues.get(state.key(job).queue)
        if queue is not None:
            return queue
    owns = command.by == job.owner.user
    actor = Actor(job.owner.user, command.groups if owns else (), command.is_admin and owns)
    return choose_queue(state, submission, actor, for_another=not owns)


def _refuse_place(
    state: ClusterState,
    command: ModifyJobs | SwitchJobs,
    submission: Submission,
    job: Job,
    queue: str,
) -> Refusal | None:
    """Return why a job may not come into a queue and project; None: it may, or is there already.

    Its owner needs what he needs to submit there. Somebody else brings it only to where he may
    change jobs too, so that nobody gets it out of a scope, or into another, by a grant for one.
    """
    key, project = state.key(job), submission.project or state.config.default_project
    if (queue, project) == (key.queue, key.project):
        return None
    actor = Actor(command.by, command.groups, command.is_admin)
    if command.by == job.owner.user:
        return find_denial(state, submission, actor, queue)
    permission = Permission.JOB_MODIFY
    if state.rights.basis(actor, permission, queue=queue, project=project):
        return None
    return Refusal(
        RefusalCode.NOT_YOURS,
        f"job {job.id} belongs to {job.owner.user}; you lack the permission {permission} in queue "
        f"{queue} and project {project}",
        lsf="User permission denied",
        permission=permission,
    )


def _dependency(
    state: ClusterState, command: ModifyJobs, item: Modification, job: Job
) -> Dependency | Refusal | None:
    """Return what a job shall wait for."""
    if "dependency" not in command.changed:
        return job.dependency if job.is_conditional else None
    actor = Actor(command.by, command.groups, command.is_admin)
    text = item.submission.spec.dependency
    known = (command.past, command.past_elements)
    found = decide_dependency(state, text, job.owner.user, actor, *known, array=job.array)
    if found is None or isinstance(found, Refusal):
        return found
    circle = find_circle(state, job.id, found)
    if circle:
        text = f"-w: job {job.id} would wait for itself ({circle})"
        return Refusal(RefusalCode.BAD_DEPENDENCY, text, job=job.id)
    return found


def _restrict(key: ClassKey, wanted: ClassKey, changed: Sequence[str]) -> ClassKey:
    """Return what the class of something that has started becomes: it asks for the same."""
    run_limit_us = wanted.run_limit_us if "run_limit_s" in changed else key.run_limit_us
    estimate_us = wanted.estimate_us if "estimate_s" in changed else key.estimate_us
    queue = wanted.queue if "queue" in changed else key.queue
    return msgspec.structs.replace(
        key, queue=queue, run_limit_us=run_limit_us, estimate_us=estimate_us
    )


def _map_live(
    state: ClusterState, draft: Draft, job: Job, become: Callable[[ClassKey], ClassKey]
) -> tuple[list[int], list[int]]:
    """Return the classes of live attempts that change, and which they become."""
    before: list[int] = []
    after: list[int] = []
    for cls in sorted({attempt.cls for attempt in (job.live or {}).values()}):
        key = state.classes[cls].key
        wanted = become(key)
        if wanted != key:
            before.append(cls)
            after.append(draft.class_of(wanted))
    return before, after


def _map_specs(
    state: ClusterState, draft: Draft, job: Job, wanted: JobSpec, changed: Sequence[str]
) -> dict[int, int]:
    """Return the specs of live attempts that change, and which they become: what runs is what was
    started, and only its limits and whether it is started anew are others.
    """
    names = [name for word, name in _SPEC_OF_STARTED.items() if word in changed]
    found: dict[int, int] = {}
    for spec_id in sorted({state.spec_id_at(job, place) for place in job.live or ()}):
        before = state.specs[spec_id]
        members = {name: getattr(wanted, name) for name in names}
        if "limits" in members:
            cpu_us = wanted.limits.cpu_us
            members["limits"] = msgspec.structs.replace(before.limits, cpu_us=cpu_us)
        after = msgspec.structs.replace(before, **members)
        if after != before:
            found[spec_id] = draft.spec_of(after)
    return found


def _stops(state: ClusterState, job: Job, queue: str) -> list[Record]:
    """Return what the run windows of a job's queue do to what runs of it."""
    is_open = state.is_window_open(queue)
    wrong = [
        place
        for place, attempt in (job.live or {}).items()
        if bool(attempt.stops & Stop.WINDOW) == is_open and not attempt.is_firm
    ]
    if not wrong:
        return []
    runs = index_runs(job, from_sorted(sorted(wrong)))
    firsts, lasts = [first for first, _ in runs], [last for _, last in runs]
    return [StopsChanged([job.id] * len(runs), firsts, lasts, Stop.WINDOW, not is_open)]


def decide_switch(
    state: ClusterState, command: SwitchJobs, items: Sequence[Selected]
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return what lets jobs be in another queue."""
    draft = Draft(state)
    results: list[Accepted | Refusal] = []
    switched: set[int] = set()
    for item in items:
        job = state.jobs.get(item.job)
        if job is None or job.is_finished:
            results.append(refuse_unknown(item.job) if job is None else refuse_finished(item.job))
            continue
        refusal = None
        if job.id not in switched:
            refusal = _refuse_part(job, item.positions, "switched")
            refusal = refusal or _switch(state, draft, command, job)
            switched.add(job.id)
        done = Accepted(item.job, item.first, item.last, "switched", queue=command.queue)
        results.append(refusal or done)
    return draft.records, results


def _switch(state: ClusterState, draft: Draft, command: SwitchJobs, job: Job) -> Refusal | None:
    """Add what switches one job, or return why it stays."""
    key, spec = state.key(job), state.spec(job)
    if key.queue == command.queue:
        return None
    before = state.queues.get(key.queue)
    submission = msgspec.structs.replace(
        as_it_is(state, job),
        request=_asked(key.request, spec.tasks_asked),
        queue=command.queue,
        run_limit_us=spec.run_limit_asked_us
        or _own_limit_us(key, before, find_profile(state, key.app)),
    )
    owns = command.by == job.owner.user
    actor = Actor(job.owner.user, command.groups if owns else (), command.is_admin and owns)
    queue = choose_queue(state, submission, actor, for_another=not owns)
    if isinstance(queue, Refusal):
        return _about(queue, job)
    waits = bool(waiting_positions(job))
    refusal = _refuse_place(state, command, submission, job, queue.name)
    if refusal is None and waits:
        refusal = check_submission(state, submission, queue)
    if refusal is not None:
        return _about(refusal, job)
    wanted = make_key(state, submission, queue, job.owner.user)

    def become(live: ClassKey) -> ClassKey:
        return msgspec.structs.replace(live, queue=queue.name)

    cls = draft.class_of(wanted if waits else become(key))
    live = _map_live(state, draft, job, become)
    draft.records.append(
        JobModified(
            job.id, job.spec_id, cls, job.begin_at_us,
            job.dependency if job.is_conditional else None,
            job.array.limit if job.array is not None else 0, *live, queue=queue.name,
            keeps_elements=bool(job.awaiting), keeps_specs=True,
        )
    )  # fmt: skip
    draft.records.extend(_stops(state, job, queue.name))
    return None


def _asked(request: Request, tasks: tuple[int, int]) -> Request:
    """Return a request with the tasks that were asked for, which its queue may have cut."""
    is_fixed = bool(request.parts) and not request.parts[-1].is_ranged
    if tasks == (0, 0) or is_fixed or request.alternatives or request.whole_hosts:
        return request
    return msgspec.structs.replace(request, tasks_min=tasks[0], tasks_max=tasks[1])


def _own_limit_us(key: ClassKey, queue: QueueConfig | None, app: AppConfig) -> Micros:
    """Return the run limit of a job, unless it is its queue's or its profile's."""
    if queue is None or key.run_limit_us == default_limit_us(queue, app):
        return 0
    return key.run_limit_us
