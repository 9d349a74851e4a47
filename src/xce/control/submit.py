"""`SubmitJobs` to records: every check that needs the state, each refusal by name.

Each job is judged on its own. What its text means was settled before (``xce.resreq``); here it is
compared with queues, hosts, resources and other jobs.
"""

import msgspec

from xce.control.deadline import refuse_times
from xce.control.dependency import decide_dependency
from xce.control.misfit import find_misfit
from xce.control.profile import check_profile, find_profile
from xce.control.relations import resolve_relations
from xce.control.task_range import bounded, check_size
from xce.control.terminal import check_terminal
from xce.control.transfers import describe_unreachable, refuse_unreachable
from xce.control.user_group import check_user_group
from xce.model.command import Accepted, SubmitJobs
from xce.model.config import AppConfig, QueueConfig
from xce.model.constraint import Exclusive
from xce.model.ids import Micros
from xce.model.job import COMMAND_MAX, NAME_MAX, JobSpec, Submission
from xce.model.permission import Actor, Permission
from xce.model.process_limits import ProcessLimits, fill, find_above, render_limit
from xce.model.record import ClassStored, JobSubmitted, KeyUsed, Record, SpecStored
from xce.model.refusal import Refusal, RefusalCode
from xce.model.request import ClassKey
from xce.model.units import render_span
from xce.resreq.compile import render_request
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.key_use import key_time_us
from xce.state.needs import forms_of


class Draft:
    """Records of one command as they grow, and the ids they give out."""

    def __init__(self, state: ClusterState) -> None:
        self.records: list[Record] = []
        self.next_job = state.next_job
        self.next_spec = state.next_spec
        self.next_class = state.next_class
        self.specs: dict[JobSpec, int] = {}
        self.classes: dict[ClassKey, int] = {}
        self.warnings: dict[int, str] = {}
        self._state = state

    def class_of(self, key: ClassKey) -> int:
        """Return the class of a key; a new one is stored."""
        cls = self._state.class_ids.get(key) or self.classes.get(key)
        if cls is None:
            cls = self.classes[key] = self.next_class
            self.next_class += 1
            self.records.append(ClassStored(cls, key, render_request(key.request)))
        return cls

    def spec_of(self, spec: JobSpec) -> int:
        """Return the id of a spec; a new one is stored."""
        spec_id = self._state.spec_ids.get(spec) or self.specs.get(spec)
        if spec_id is None:
            spec_id = self.specs[spec] = self.next_spec
            self.next_spec += 1
            self.records.append(SpecStored(spec_id, spec))
        return spec_id


def decide_submit(
    state: ClusterState, command: SubmitJobs, now_us: Micros
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the records and one result for each job of ``command``."""
    if command.key:
        known = _repeat(state, command, now_us)
        if known is not None:
            return [], known
    draft = Draft(state)
    results: list[Accepted | Refusal] = []
    for submission in command.jobs:
        results.append(_judge(state, draft, command, submission, now_us))
    if command.key:
        jobs = [item.job if isinstance(item, Accepted) else 0 for item in results]
        draft.records.append(KeyUsed(command.owner.user, command.key, command.line, jobs))
    return draft.records, results


def _repeat(
    state: ClusterState, command: SubmitJobs, now_us: Micros
) -> list[Accepted | Refusal] | None:
    """Return the answer to a repeated submit, or None when it is new (decision X-20)."""
    use = state.keys.get((command.owner.user, command.key))
    wanted = range(command.line, command.line + len(command.jobs))
    if use is None or not use.has_any(command.line, len(command.jobs)):
        return _refuse_expired(state, command, now_us)
    results: list[Accepted | Refusal] = []
    for line, submission in zip(wanted, command.jobs, strict=True):
        job_id = use.job_of(line)
        job = state.jobs.get(job_id)
        if job_id == 0:
            results.append(Refusal(RefusalCode.KEY_REUSED, "refused when it was first submitted"))
        elif job is not None and not job.is_modified and not _is_same(state, job, submission):
            # As far as it is known: a job that has left the state is taken for the same.
            text = f"this key was used to submit something else (job {job_id}): take a new one"
            results.append(Refusal(RefusalCode.KEY_REUSED, text))
        else:
            queue = state.key(job).queue if job is not None else ""
            results.append(Accepted(job=job_id, text="submitted", queue=queue))
    return results


def _is_same(state: ClusterState, job: Job, submission: Submission) -> bool:
    """Return whether a job is what is submitted; what its queue said counts as said.

    One that was modified since is taken for the same.
    """
    spec, given = state.spec(job), submission.rerunnable
    wanted = msgspec.structs.replace(
        submission.spec,
        rerunnable=spec.rerunnable if given is None else given,
        mem_limit_kib=submission.spec.mem_limit_kib or spec.mem_limit_kib,
        limits=fill(submission.spec.limits, spec.limits),
    )
    return job.is_modified or (spec == wanted and job.array == submission.array)


def _refuse_expired(
    state: ClusterState, command: SubmitJobs, now_us: Micros
) -> list[Accepted | Refusal] | None:
    """Refuse a timed key ``<epoch seconds>-<random>`` whose first try is older than the window."""
    made_us = key_time_us(command.key)
    if not made_us:
        return None
    age_us = (command.wall_us or now_us) - made_us
    window = state.config.key_window_us
    if age_us <= window:
        return None
    text = (
        f"the idempotency key is {render_span(age_us)} old; keys count for {render_span(window)}, "
        "so it is not known whether the first try ran: look before submitting again"
    )
    return [Refusal(RefusalCode.KEY_EXPIRED, text) for _ in command.jobs]


def _judge(
    state: ClusterState,
    draft: Draft,
    command: SubmitJobs,
    submission: Submission,
    now_us: Micros,
) -> Accepted | Refusal:
    actor = Actor(command.owner.user, command.groups, command.is_admin)
    queue = choose_queue(state, submission, actor)
    if isinstance(queue, Refusal):
        return queue
    refusal = check_profile(state, submission) or check_submission(state, submission, queue)
    refusal = refusal or check_user_group(queue, actor.user, submission.spec.user_group)
    refusal = refusal or refuse_times(submission, now_us)
    refusal = refusal or refuse_unreachable(state, submission.spec)
    if refusal is not None:
        return refusal
    dependency = decide_dependency(
        state, submission.spec.dependency, actor.user, actor, command.past, command.past_elements,
        array=submission.array,
    )  # fmt: skip
    if isinstance(dependency, Refusal):
        return dependency
    request = resolve_relations(state, command, submission.request)
    if isinstance(request, Refusal):
        return request
    submission = msgspec.structs.replace(submission, request=request)
    key = make_key(state, submission, queue, command.owner.user)
    cls = draft.class_of(key)
    job = draft.next_job
    draft.next_job += 1
    app = find_profile(state, submission.app)
    draft.records.append(
        JobSubmitted(
            job=job,
            spec_id=draft.spec_of(bound_spec(submission, queue, app)),
            cls=cls,
            owner=command.owner,
            submit_at_us=now_us,
            array=submission.array,
            hold=submission.hold,
            begin_at_us=submission.begin_at_us if submission.begin_at_us > now_us else 0,
            dependency=dependency,
        )
    )
    if cls not in draft.warnings:
        draft.warnings[cls] = find_misfit(state, cls, key)
    warning = draft.warnings[cls] or describe_unreachable(state, submission.spec)
    return Accepted(job=job, text="submitted", queue=queue.name, warning=warning, at_us=now_us)


def check_submission(
    state: ClusterState, submission: Submission, queue: QueueConfig
) -> Refusal | None:
    """Return why a queue does not take a job as it is; None: it does."""
    checks = (
        check_spec, check_array, check_size, check_limits, _check_request, check_terminal
    )  # fmt: skip
    for check in checks:
        refusal = check(state, submission, queue)
        if refusal is not None:
            return refusal
    return None


def make_key(
    state: ClusterState, submission: Submission, queue: QueueConfig, user: str
) -> ClassKey:
    """Return what decides where and when a job may run."""
    app = find_profile(state, submission.app)
    return ClassKey(
        request=bounded(submission.request, queue, app),
        queue=queue.name,
        user=user,
        project=submission.project or state.config.default_project,
        priority=submission.priority,
        run_limit_us=submission.run_limit_us or default_limit_us(queue, app),
        estimate_us=submission.estimate_us or app.estimate_us,
        app=submission.app,
        group=submission.group,
    )


def default_limit_us(queue: QueueConfig, app: AppConfig) -> Micros:
    """Return the run limit of a job that says none: its profile's, as far as its queue allows."""
    if not app.run_limit_us:
        return queue.default_run_limit_us or queue.run_limit_us
    return min(app.run_limit_us, queue.run_limit_us or app.run_limit_us)


def choose_queue(
    state: ClusterState, submission: Submission, actor: Actor, *, for_another: bool = False
) -> QueueConfig | Refusal:
    """Return the first queue asked for that may take the job (``-q "a b"`` is tried in order).

    Args:
        state: Knows the queues.
        submission: The job.
        actor: Whose job it is.
        for_another: Somebody else asks, so that it is not known what the owner's groups may do.
    """
    user = actor.user
    names = submission.queue.split() or [state.default_queue]
    first: Refusal | None = None
    for name in names:
        queue = state.queues.get(name)
        if queue is None:
            known = ", ".join(sorted(state.queues))
            refusal = Refusal(
                RefusalCode.UNKNOWN_QUEUE,
                f"no queue is called {name!r}; known are: {known}",
                lsf=f"{name}: No such queue",
            )
        elif not queue.open:
            refusal = Refusal(
                RefusalCode.QUEUE_CLOSED,
                f"queue {name} takes no new jobs",
                lsf=f"{name}: Queue has been closed",
            )
        elif queue.users and user not in queue.users:
            refusal = Refusal(
                RefusalCode.DENIED,
                f"user {user} may not submit to queue {name}",
                lsf=f"{name}: User cannot use the queue",
                permission=Permission.QUEUE_SUBMIT,
            )
        elif not for_another and (denied := find_denial(state, submission, actor, name)):
            refusal = denied
        else:
            return queue
        first = first or refusal
    assert first is not None
    return first


def _project(state: ClusterState, submission: Submission) -> str:
    return submission.project or state.config.default_project


def find_denial(
    state: ClusterState, submission: Submission, actor: Actor, queue: str
) -> Refusal | None:
    """Return why a job may not be submitted to a queue in its project; None: it may."""
    project = _project(state, submission)
    _, missing = state.rights.basis_to_submit(actor, queue=queue, project=project)
    return refuse_submit(actor.user, queue, project, missing) if missing is not None else None


def refuse_submit(user: str, queue: str, project: str, missing: Permission) -> Refusal:
    """Return the refusal of a submission for want of a permission."""
    if missing is Permission.PROJECT_SUBMIT:
        what, lsf = f"in project {project}", "User permission denied"
    else:
        what, lsf = f"to queue {queue}", f"{queue}: User cannot use the queue"
    text = f"user {user} may not submit {what}: the permission {missing} is missing"
    return Refusal(RefusalCode.DENIED, text, lsf=lsf, permission=missing)


def basis_of_submit(
    state: ClusterState, command: SubmitJobs, results: list[Accepted | Refusal]
) -> str:
    """Return on what grounds the jobs that were taken might be submitted."""
    pairs = {
        (result.queue, submission.project): submission
        for submission, result in zip(command.jobs, results, strict=True)
        if isinstance(result, Accepted)
    }
    actor = Actor(command.owner.user, command.groups, command.is_admin)
    bases = {
        state.rights.basis_to_submit(actor, queue=queue, project=_project(state, item))[0]
        for (queue, _), item in pairs.items()
    }
    return ", ".join(sorted(bases))


def check_spec(state: ClusterState, submission: Submission, queue: QueueConfig) -> Refusal | None:
    """Return what is wrong with what a job runs; None: nothing."""
    spec = submission.spec
    if not spec.script:
        return Refusal(RefusalCode.EMPTY_JOB, "there is no command and no script", lsf="Empty job")
    if len(spec.name) > NAME_MAX:
        return Refusal(
            RefusalCode.TOO_LARGE,
            f"the job name has {len(spec.name)} characters, at most {NAME_MAX} are allowed",
            lsf="Bad job name",
        )
    if len(spec.command) > COMMAND_MAX:
        return Refusal(
            RefusalCode.TOO_LARGE,
            f"the command has {len(spec.command)} characters, at most {COMMAND_MAX} are shown",
        )
    return None


def check_array(state: ClusterState, submission: Submission, queue: QueueConfig) -> Refusal | None:
    """Return what is wrong with an array; None: nothing."""
    array = submission.array
    if array is None:
        return None
    end = 0
    for first, last, step in array.runs:
        if not end < first <= last or step < 1:
            return Refusal(
                RefusalCode.BAD_ARRAY,
                f"{first}-{last}:{step} cannot stand in an index list: expected rising indices "
                "from 1 on and a step of at least 1",
                lsf="Job array index error",
            )
        end = last
    if end == 0 or array.limit < 0:
        return Refusal(
            RefusalCode.BAD_ARRAY,
            "an array needs an element, and a limit that is not negative",
            lsf="Job array index error",
        )
    bound = state.config.max_array_size
    if array.count > bound or end > bound:
        return Refusal(
            RefusalCode.ARRAY_TOO_LARGE,
            f"the array has {array.count} elements up to index {end}; at most {bound} are allowed "
            "(max_array_size)",
            lsf="Job array index too large",
        )
    return None


def bound_spec(submission: Submission, queue: QueueConfig, app: AppConfig) -> JobSpec:
    """Return what runs, with what profile and queue say where the submission does not."""
    spec, given = submission.spec, submission.rerunnable
    given = app.rerunnable if given is None else given
    rerunnable = queue.rerunnable if given is None else given
    rerunnable = rerunnable and spec.terminal is None
    mem_limit_kib = spec.mem_limit_kib or app.mem_limit_mib * 1024
    limits = fill(spec.limits, given_limits(queue, app))
    if (spec.rerunnable, spec.mem_limit_kib, spec.limits) == (rerunnable, mem_limit_kib, limits):
        return spec
    return msgspec.structs.replace(
        spec, rerunnable=rerunnable, mem_limit_kib=mem_limit_kib, limits=limits
    )


def given_limits(queue: QueueConfig, app: AppConfig) -> ProcessLimits:
    """Return the limits of a job that says none: its profile's, else its queue's."""
    cpu_us = queue.default_cpu_limit_us or queue.limits.cpu_us
    return fill(app.limits, msgspec.structs.replace(queue.limits, cpu_us=cpu_us))


def check_limits(state: ClusterState, submission: Submission, queue: QueueConfig) -> Refusal | None:
    """Return which limit of a queue a job goes beyond; None: none."""
    if queue.run_limit_us and submission.run_limit_us > queue.run_limit_us:
        return Refusal(
            RefusalCode.OVER_QUEUE_LIMIT,
            f"run limit {render_span(submission.run_limit_us)}; queue {queue.name} allows "
            f"{render_span(queue.run_limit_us)}",
            lsf="Cannot exceed queue's hard limit(s)",
        )
    wanted_mib = -(-submission.spec.mem_limit_kib // 1024)
    if queue.mem_limit_mib and wanted_mib > queue.mem_limit_mib:
        return Refusal(
            RefusalCode.OVER_QUEUE_LIMIT,
            f"memory limit {wanted_mib} MiB; queue {queue.name} allows {queue.mem_limit_mib} MiB",
            lsf="Cannot exceed queue's hard limit(s)",
        )
    above = find_above(submission.spec.limits, queue.limits)
    if above is not None:
        return Refusal(
            RefusalCode.OVER_QUEUE_LIMIT,
            f"{render_limit(submission.spec.limits, above)}; queue {queue.name} allows "
            f"{render_limit(queue.limits, above)}",
            lsf="Cannot exceed queue's hard limit(s)",
        )
    isolates = any(isinstance(item, Exclusive) for item in submission.request.constraints)
    if isolates and not queue.exclusive:
        return Refusal(
            RefusalCode.QUEUE_REFUSES_EXCLUSIVE,
            f"queue {queue.name} takes no exclusive jobs, so no relations of kind isolate",
            lsf="Queue does not accept EXCLUSIVE jobs",
        )
    if not queue.exclusive and any(
        form.cu is not None and form.cu.exclusive for form in forms_of(submission.request)
    ):
        return Refusal(
            RefusalCode.QUEUE_REFUSES_EXCLUSIVE,
            f"queue {queue.name} takes no exclusive jobs, so no cu[excl]",
            lsf="Queue does not accept EXCLUSIVE jobs",
        )
    if submission.request.exclusive and not queue.exclusive:
        return Refusal(
            RefusalCode.QUEUE_REFUSES_EXCLUSIVE,
            f"queue {queue.name} takes no exclusive (-x) jobs",
            lsf="Queue does not accept EXCLUSIVE jobs",
        )
    return None


def _check_request(
    state: ClusterState, submission: Submission, queue: QueueConfig
) -> Refusal | None:
    request = submission.request
    for name in (*(choice.host for choice in request.hosts), *request.hosts_excluded):
        if not state.hosts.named(name):
            return Refusal(
                RefusalCode.UNKNOWN_HOST,
                f"no host is called {name!r}",
                lsf=f"{name}: Bad host name, host group name or cluster name",
            )
    for choice in request.hosts:
        names = {state.hosts.names[number] for number in state.hosts.named(choice.host)}
        if queue.hosts and names.isdisjoint(queue.hosts):
            return Refusal(
                RefusalCode.UNKNOWN_HOST,
                f"queue {queue.name} does not use host {choice.host}",
                lsf=f"{choice.host}: Host or host group is not used by the queue",
            )
    for amount in submission.request.amounts:
        if amount.resource not in state.hosts.row and amount.resource not in state.pools.total:
            known = ", ".join([*state.hosts.resources, *sorted(state.pools.total)])
            return Refusal(
                RefusalCode.UNKNOWN_RESOURCE,
                f"no counter or pool is called {amount.resource!r}; known are: {known}",
                lsf="Bad resource name",
            )
    return None
