"""`ModifyJobs` to records: jobs, or elements of them, that are changed after they were submitted.

A job is judged as if it was submitted so. What waits of it is all that was changed; what has
started keeps what it was given, and only its queue, its limits and whether it is started anew can
be changed. Elements of an array that were named are set apart from the rest of it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from xce.control.deadline import refuse_times
from xce.control.dependency import decide_dependency, find_circle
from xce.control.misfit import describe_misfit
from xce.control.part import (
    PARTS_MAX,
    Part,
    alive_positions,
    apart_of,
    decide_stops,
    map_live,
    map_specs,
    parts_of,
    rest_of,
)
from xce.control.profile import check_profile, find_profile
from xce.control.selection import (
    basis_of,
    refuse_denied,
    refuse_elements,
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
    find_denial,
    make_key,
)
from xce.control.transfers import describe_unreachable, refuse_unreachable
from xce.control.user_group import check_user_group
from xce.model.command import Accepted, Modification, ModifyJobs, SwitchJobs
from xce.model.config import QueueConfig
from xce.model.dependency import Dependency
from xce.model.ids import Micros
from xce.model.job import Submission
from xce.model.permission import Actor, Permission
from xce.model.ranges import Ranges, intersect, unite
from xce.model.record import Record
from xce.model.record_modify import JobModified
from xce.model.refusal import Refusal, RefusalCode
from xce.model.request import ClassKey
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
     "transfers", "login_shell", "mail_to", "pre_exec", "post_exec", "checkpoints"]
)  # fmt: skip
"""What runs, and which files that uses: nobody else may have a user run something."""
OF_JOB: Final = frozenset(
    ["array_limit", "begin_at", "deadline_at", "dependency", "ends_as_orphan", "group", "name",
     "user_group"]
)  # fmt: skip
"""What a whole job has, and no element of its own; so it is with what is mailed."""
_LIMITS: Final = frozenset(
    ["run_limit_s", "mem_limit_kib", "rerunnable", "cpu_limit_s", "checkpoint_period_s"]
)
_TIMES: Final = frozenset(["begin_at", "deadline_at"])
_SAID: Final = 4
"""Most runs of elements that a refusal names."""
Decided = tuple[list[Record], Accepted | Refusal]


def decide_modification(
    state: ClusterState, command: ModifyJobs, item: Modification, now_us: Micros
) -> Decided:
    """Return what makes one job, or some elements of one, what it shall be."""
    part = _find_part(state, command, item)
    if isinstance(part, Refusal):
        return [], part
    refusal = _refuse_state(command, item, part)
    if refusal is not None:
        return [], _about(refusal, item)
    queue = _queue_of(state, command, item.submission, part)
    if isinstance(queue, Refusal):
        return [], _about(queue, item)
    refusal = refuse_place(state, command, item.submission, part, queue.name)
    refusal = refusal or _refuse_submission(state, command, item, part, queue)
    refusal = refusal or _refuse_times(command, item, part, now_us)
    if refusal is not None:
        return [], _about(refusal, item)
    dependency = _dependency(state, command, item, part.job)
    if isinstance(dependency, Refusal):
        return [], _about(dependency, item)
    draft, job = Draft(state), part.job
    wanted = make_key(state, item.submission, queue, job.owner.user)
    before, waits = state.classes[part.cls].key, _waits(item, part)
    key = wanted if waits else _restrict(before, wanted, command.changed)
    live = map_live(state, draft, part, lambda live: _restrict(live, wanted, command.changed))
    spec = bound_spec(item.submission, queue, find_profile(state, item.submission.app))
    specs = map_specs(state, draft, part, spec, command.changed)
    begins = item.submission.begin_at_us if "begin_at" in command.changed else job.begin_at_us
    limit = job.array.limit if job.array is not None else 0
    firsts, lasts = part.runs()
    record = JobModified(
        job=job.id,
        cls=draft.class_of(key),
        spec_id=draft.spec_of(spec),
        begin_at_us=begins if begins > now_us or "begin_at" not in command.changed else 0,
        dependency=dependency,
        array_limit=item.array_limit if "array_limit" in command.changed else limit,
        before=live[0],
        after=live[1],
        has_new_limits=any(part.live()) and not _LIMITS.isdisjoint(command.changed),
        queue=queue.name if "queue" in command.changed else "",
        changes=command.changes,
        keeps_elements=bool(job.awaiting) and "dependency" not in command.changed,
        keeps_specs=True,
        specs_before=list(specs),
        specs_after=list(specs.values()),
        firsts=firsts,
        lasts=lasts,
    )
    warning = (describe_misfit(state, key) or describe_unreachable(state, spec)) if waits else ""
    accepted = Accepted(job.id, text="modified", queue=queue.name, warning=warning)
    return [*draft.records, record, *decide_stops(state, part, queue.name)], accepted


def find_refusal(state: ClusterState, command: ModifyJobs, now_us: Micros) -> Refusal | None:
    """Return why nothing is changed of a job that is named as a whole, if that is so of any of the
    elements that were set apart, or of the rest: else it would be changed in part.
    """
    if not any(item.goes_with_job for item in command.jobs):
        return None
    found: Refusal | None = None
    for item in command.jobs:
        judged = decide_modification(state, command, item, now_us)[1]
        if not isinstance(judged, Refusal):
            continue
        if judged.code is RefusalCode.STALE:
            return judged
        found = found or _about_elements(state, judged, item)
    return found


def basis_of_modification(state: ClusterState, command: ModifyJobs, job_id: int) -> str:
    """Return on what ground a job may be changed."""
    job = state.jobs.get(job_id)
    actor = Actor(command.by, command.groups, command.is_admin)
    return basis_of(state, job, actor, Permission.JOB_MODIFY) if job is not None else ""


def _find_part(state: ClusterState, command: ModifyJobs, item: Modification) -> Part | Refusal:
    """Return what a modification is about, or why it is not changed, whatever it shall be."""
    job = state.jobs.get(item.job)
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
    named: Ranges = ()
    for first, last in item.runs:
        found = job.positions(first, last)
        if not found:
            return refuse_elements(job.id, first, last)
        named = unite(named, found)
    form = (item.cls, item.spec_id)
    if item.goes_with_job:
        parts = [apart_of(job, form, named)]
        is_known = parts[0].named == named
    else:
        parts = parts_of(job, named) if item.runs else [rest_of(job)]
        is_known = bool(item.runs) or item.variants == job.own_forms()[1:]
    if not parts:
        return refuse_finished(job.id)
    if not is_known or [(one.cls, one.spec_id) for one in parts] != [form]:
        text = f"job {job.id} was modified meanwhile: look at it again"
        return Refusal(RefusalCode.STALE, text, job=job.id)
    return parts[0]


def _waits(item: Modification, part: Part) -> bool:
    """Return whether what is changed may become another thing as a whole.

    A whole job may as long as any of it waits: what is alike of it and has started is then that
    thing if it ever starts anew.
    """
    is_whole = not item.runs or item.goes_with_job
    return part.waits or (is_whole and bool(waiting_positions(part.job)))


def _refuse_state(command: ModifyJobs, item: Modification, part: Part) -> Refusal | None:
    """Return why a part is not changed in this, as far as it has come."""
    job = part.job
    if "array_limit" in command.changed and job.array is None:
        text = f"job {job.id} is no array: it has no limit of elements"
        return Refusal(RefusalCode.BAD_ARRAY, text, lsf="Job array does not exist", job=job.id)
    own = [name for name in command.changed if name in OF_JOB or name.startswith("mail_")]
    if own and not part.is_rest and not item.goes_with_job:
        text = f"elements of job {job.id} have no {own[0]} of their own: name the job"
        return Refusal(RefusalCode.NOT_BUILT, text, job=job.id)
    if not (part.is_rest or item.goes_with_job) and len(job.variants) >= PARTS_MAX:
        text = f"elements of job {job.id} are unlike in {PARTS_MAX} ways already: name the job"
        return Refusal(RefusalCode.TOO_LARGE, text, job=job.id)
    more = sorted(set(command.changed) - OF_STARTED)
    if more and not _waits(item, part):
        return Refusal(
            RefusalCode.WRONG_STATE,
            f"job {job.id} has started: its {more[0]} cannot be changed any more",
            lsf="Only the following parameters can be used to modify a running job: "
            "-c, -M, -W, -We, -r, -rn, -q, -Jd",
            job=job.id,
        )
    return None


def _refuse_submission(
    state: ClusterState, command: ModifyJobs, item: Modification, part: Part, queue: QueueConfig
) -> Refusal | None:
    """Return why the queue does not take a part as it shall be."""
    check = check_submission if _waits(item, part) else check_limits
    refusal = check_profile(state, item.submission) or check(state, item.submission, queue)
    if refusal is None and "user_group" in command.changed:
        user_group = item.submission.spec.user_group
        refusal = check_user_group(queue, part.job.owner.user, user_group)
    if refusal is None and "transfers" in command.changed:
        refusal = refuse_unreachable(state, item.submission.spec)
    return refusal


def _refuse_times(
    command: ModifyJobs, item: Modification, part: Part, now_us: Micros
) -> Refusal | None:
    """Return why a part does not get another begin or deadline."""
    if _TIMES.isdisjoint(command.changed):
        return None
    begins = "begin_at" in command.changed
    begin_at_us = item.submission.begin_at_us if begins else part.job.begin_at_us
    return refuse_times(item.submission, now_us, begin_at_us=begin_at_us)


def _about_elements(state: ClusterState, refusal: Refusal, item: Modification) -> Refusal:
    """Return a refusal that says which elements it is for, where it is not for all."""
    job = state.jobs.get(item.job)
    if not item.goes_with_job or job is None:
        return refusal
    named = ",".join(f"{low}-{high}" if low < high else str(low) for low, high in item.runs[:_SAID])
    text = f"{job.id}[{named}{',...' if len(item.runs) > _SAID else ''}]"
    alive = alive_positions(job)
    if not any(intersect(job.positions(*run), alive) for run in item.runs):
        text += " has ended, and if it started anew"
    return msgspec.structs.replace(refusal, text=f"{text}: {refusal.text}; name the others")


def _about(refusal: Refusal, item: Modification) -> Refusal:
    return msgspec.structs.replace(refusal, job=item.job)


def _queue_of(
    state: ClusterState, command: ModifyJobs, submission: Submission, part: Part
) -> QueueConfig | Refusal:
    """Return the queue that a part shall be in."""
    job = part.job
    if "queue" not in command.changed:
        queue = state.queues.get(state.classes[part.cls].key.queue)
        if queue is not None:
            return queue
    owns = command.by == job.owner.user
    actor = Actor(job.owner.user, command.groups if owns else (), command.is_admin and owns)
    return choose_queue(state, submission, actor, for_another=not owns)


def refuse_place(
    state: ClusterState,
    command: ModifyJobs | SwitchJobs,
    submission: Submission,
    part: Part,
    queue: str,
) -> Refusal | None:
    """Return why a part may not come into a queue and project; None: it may, or is there already.

    Its owner needs what he needs to submit there. Somebody else brings it only to where he may
    change jobs too, so that nobody gets it out of a scope, or into another, by a grant for one.
    """
    job, key = part.job, state.classes[part.cls].key
    project = submission.project or state.config.default_project
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
