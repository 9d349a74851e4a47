"""Small clusters, jobs, plans and reports for tests: short to write, with defaults that fit.

Everything goes through `Controller.step`, as in life; nothing here reaches into the state.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from xce.control.part import as_it_is, wishes_of
from xce.model.command import (
    Accepted,
    ApplyConfig,
    KillJobs,
    ModifyJobs,
    ProposePlan,
    ResumeJobs,
    StopJobs,
    SubmitJobs,
    SwitchJobs,
    Tick,
)
from xce.model.config import HostConfig, QueueConfig
from xce.model.device import Device
from xce.model.ids import NO_HOST, SECOND_US, HostNumber, Index, JobId, Micros
from xce.model.job import EndCause, JobSpec, Owner, Submission
from xce.model.observation import (
    AttemptEnded,
    AttemptSeen,
    AttemptStarted,
    HostDisconnected,
    HostJoined,
    Reported,
    SuspensionSeen,
)
from xce.model.plan import BulkStart, GangStart, Plan
from xce.model.processor import Processor
from xce.model.reason import Reason
from xce.model.refusal import Refusal
from xce.state.cluster import ClusterState
from xce.testing.recorded import START_US, RecordedController, replayed
from xce.testing.values import ALICE, BOB, array, chosen, config, request, submission

__all__ = [
    "ALICE", "BOB", "START_US", "RecordedController", "array", "bulk", "chosen", "cluster",
    "config", "first_host", "gang", "join_host", "kill", "leave_host", "modify", "place", "plan",
    "propose", "replayed", "report", "report_ended", "report_started", "request", "resume",
    "run_job", "stop", "submission", "submit", "switch", "tick", "try_submit",
]  # fmt: skip


def cluster(
    hosts: Mapping[str, int] | Sequence[str | HostConfig] = ("h1", "h2"),
    *,
    queues: Sequence[QueueConfig] = (),
    counters: Sequence[str] = (),
    pools: Mapping[str, int] | None = None,
    join: bool = True,
    **settings: object,
) -> RecordedController:
    """Return a controller whose configuration is in effect and whose hosts have joined."""
    controller = RecordedController(ClusterState())
    wanted = config(hosts, queues=queues, counters=counters, pools=pools, **settings)
    controller.tell(ApplyConfig("root", wanted, is_admin=True), by="root")
    if join:
        for host in wanted.hosts:
            join_host(controller, host.name)
    return controller


def join_host(  # noqa: PLR0913 - a builder takes whatever a test wants to say
    controller: RecordedController,
    host: str,
    *,
    boot_id: str = "boot-1",
    cpus: int = 4,
    mem_mib: int = 8_192,
    attempts: Sequence[AttemptSeen] = (),
    unreported: Sequence[tuple[JobId, Index, int]] = (),
    attributes: Mapping[str, int | str | bool] | None = None,
    devices: Sequence[Device] = (),
    processors: Sequence[Processor] = (),
) -> tuple[Accepted | Refusal, ...]:
    """Let the worker of ``host`` connect."""
    return controller.tell(
        HostJoined(
            host,
            boot_id,
            cpus,
            mem_mib,
            tuple(attempts),
            tuple(unreported),
            attributes=dict(attributes or {}),
            devices=tuple(devices),
            processors=tuple(processors),
        ),
        by=f"host {host}",
    )


def leave_host(controller: RecordedController, host: str) -> None:
    """Let the worker of ``host`` lose its connection."""
    controller.tell(HostDisconnected(host), by=f"host {host}")


def submit(
    controller: RecordedController, *jobs: Submission, owner: Owner = ALICE, key: str = ""
) -> JobId:
    """Submit jobs (one plain job when none is given) and return the id of the last."""
    results = try_submit(controller, *jobs, owner=owner, key=key)
    for result in results:
        assert isinstance(result, Accepted), result
    last = results[-1]
    assert isinstance(last, Accepted)
    return last.job


def try_submit(
    controller: RecordedController,
    *jobs: Submission,
    owner: Owner = ALICE,
    key: str = "",
    line: int = 0,
    past: Sequence[tuple[JobId, int, int]] = (),
    past_elements: Sequence[tuple[JobId, Index, int, int]] = (),
) -> tuple[Accepted | Refusal, ...]:
    """Submit jobs and return the result of each."""
    given = SubmitJobs(
        owner,
        jobs or (submission(),),
        key=key,
        line=line,
        past=tuple(past),
        past_elements=tuple(past_elements),
    )
    return controller.tell(given, by=owner.user)


def bulk(
    controller: RecordedController,
    *items: JobId | tuple[JobId, Index, Index],
    hosts: Mapping[str, int],
) -> BulkStart:
    """Return the plan item that starts elements of one class.

    Args:
        controller: Knows the jobs and hosts.
        items: Jobs (all of their elements), or ``(job, first, last)`` runs of indices.
        hosts: How many elements each host takes.
    """
    jobs, firsts, lasts = [], [], []
    for item in items:
        job_id, first, last = item if isinstance(item, tuple) else (item, -1, -1)
        job = controller.job(job_id)
        jobs.append(job_id)
        firsts.append(job.index(0) if first < 0 else first)
        lasts.append(job.index(job.size - 1) if last < 0 else last)
    number = controller.state.hosts.number
    return BulkStart(
        _class_of(controller, jobs[0], firsts[0]),
        jobs,
        firsts,
        lasts,
        [number[name] for name in hosts],
        list(hosts.values()),
    )


def gang(
    controller: RecordedController, job: JobId, *, hosts: Mapping[str, int], index: Index = 0
) -> GangStart:
    """Return the plan item that starts one parallel job: host to tasks, in rank order."""
    number: dict[str, HostNumber] = controller.state.hosts.number
    places = [number.get(name, NO_HOST) for name in hosts]
    return GangStart(_class_of(controller, job, index), job, index, places, list(hosts.values()))


def _class_of(controller: RecordedController, job: JobId, index: Index) -> int:
    found = controller.job(job)
    return found.form_at(found.position(index) or 0)[0]


def plan(
    controller: RecordedController,
    *items: BulkStart | GangStart,
    reasons: Sequence[tuple[int, Reason]] = (),
) -> Plan:
    """Return a plan that was made on the state as it is."""
    state = controller.state
    return Plan(
        state.seq,
        state.config_version,
        state.now_us,
        tuple(item for item in items if isinstance(item, BulkStart)),
        tuple(item for item in items if isinstance(item, GangStart)),
        tuple(reasons),
    )


def propose(controller: RecordedController, *items: BulkStart | GangStart) -> None:
    """Propose a plan of these items."""
    controller.tell(ProposePlan(plan(controller, *items)), by="scheduler")


def place(controller: RecordedController, job: JobId, *indices: Index, host: str = "h1") -> None:
    """Place a job, or some elements of an array, on one host."""
    found = controller.job(job)
    chosen = indices or tuple(found.index(place) for place in range(found.size))
    items: list[BulkStart | GangStart] = []
    for index in chosen:
        asked = controller.state.classes[_class_of(controller, job, index)].key.request
        items.append(
            bulk(controller, (job, index, index), hosts={host: 1})
            if asked.is_serial
            else gang(controller, job, hosts={host: asked.tasks_min}, index=index)
        )
    propose(controller, *items)


def report(
    controller: RecordedController,
    host: str,
    *items: AttemptStarted | AttemptEnded | SuspensionSeen,
) -> None:
    """Let a worker report."""
    controller.tell(
        Reported(
            host,
            1,
            tuple(item for item in items if isinstance(item, AttemptStarted)),
            tuple(item for item in items if isinstance(item, AttemptEnded)),
            tuple(item for item in items if isinstance(item, SuspensionSeen)),
        ),
        by=f"host {host}",
    )


def first_host(controller: RecordedController, job: JobId, index: Index = 0) -> str:
    """Return the name of the first host of a live attempt."""
    return controller.state.hosts.names[controller.attempt(job, index).hosts[0]]


def report_started(controller: RecordedController, job: JobId, index: Index = 0) -> None:
    """Let the host report that the live attempt runs."""
    number = controller.attempt(job, index).number
    seen = AttemptStarted(job, index, number, pid=4_000 + job, age_us=10)
    report(controller, first_host(controller, job, index), seen)


def report_ended(  # noqa: PLR0913 - a builder takes whatever a test wants to say
    controller: RecordedController,
    job: JobId,
    index: Index = 0,
    *,
    exit_code: int = 0,
    signal: int = 0,
    cause: EndCause = EndCause.NONE,
    host_fault: bool = False,
    detail: str = "",
    post: int = 0,
) -> None:
    """Let the host report that the live attempt is over."""
    seen = AttemptEnded(
        job,
        index,
        controller.attempt(job, index).number,
        exit_code=exit_code,
        signal=signal,
        cause=cause,
        host_fault=host_fault,
        detail=detail,
        ended_age_us=5,
        user_us=2_000,
        system_us=1_000,
        max_mem_kib=1_024,
        post=post,
    )
    report(controller, first_host(controller, job, index), seen)


def run_job(
    controller: RecordedController, job: JobId, *, exit_code: int = 0, host: str = "h1"
) -> None:
    """Take a job that is no array through its whole life."""
    place(controller, job, host=host)
    report_started(controller, job)
    report_ended(controller, job, exit_code=exit_code)


def kill(
    controller: RecordedController,
    *jobs: JobId | tuple[JobId, Index, Index],
    by: str = "alice",
    is_admin: bool = False,
    force: bool = False,
    as_done: bool = False,
) -> tuple[Accepted | Refusal, ...]:
    """Kill jobs or runs of elements."""
    command = KillJobs(by, is_admin, chosen(*jobs), force, as_done=as_done)
    return controller.tell(command, by=by)


def stop(
    controller: RecordedController,
    *jobs: JobId | tuple[JobId, Index, Index],
    by: str = "alice",
    is_admin: bool = False,
) -> tuple[Accepted | Refusal, ...]:
    """Stop jobs or runs of elements."""
    return controller.tell(StopJobs(by, is_admin, chosen(*jobs)), by=by)


def resume(
    controller: RecordedController,
    *jobs: JobId | tuple[JobId, Index, Index],
    by: str = "alice",
    is_admin: bool = False,
) -> tuple[Accepted | Refusal, ...]:
    """Resume jobs or runs of elements."""
    return controller.tell(ResumeJobs(by, is_admin, chosen(*jobs)), by=by)


def modify(
    controller: RecordedController,
    job: JobId,
    *elements: tuple[Index, Index],
    by: str = "alice",
    is_admin: bool = False,
    array_limit: int = 0,
    **changed: object,
) -> Accepted | Refusal:
    """Change members of a job's submission or of its spec; return what came of it."""
    found = controller.job(job)
    in_spec = {name: changed[name] for name in changed if name in JobSpec.__struct_fields__}
    others = {name: changed[name] for name in changed if name not in in_spec}

    def wish(form: tuple[int, int]) -> Submission:
        given = as_it_is(controller.state, found, form)
        return replace(given, spec=replace(given.spec, **in_spec), **others)

    names = {
        "run_limit_us": "run_limit_s", "request": "resreq", "begin_at_us": "begin_at",
        "deadline_us": "deadline_at",
    }  # fmt: skip
    told = tuple(names.get(name, name) for name in changed)
    told += ("array_limit",) if array_limit else ()
    items = tuple(
        item.modification(found, wish(item.form), array_limit)
        for item in wishes_of(found, elements)
    )
    command = ModifyJobs(by, is_admin, items, told, ", ".join(told))
    results = controller.tell(command, by=by)
    return next((item for item in results if isinstance(item, Refusal)), results[0])


def switch(
    controller: RecordedController,
    queue: str,
    *jobs: JobId | tuple[JobId, Index, Index],
    by: str = "alice",
    is_admin: bool = False,
) -> tuple[Accepted | Refusal, ...]:
    """Switch jobs to another queue."""
    return controller.tell(SwitchJobs(by, is_admin, chosen(*jobs), queue), by=by)


def tick(
    controller: RecordedController, *, after_us: Micros = SECOND_US, history_seq: int | None = None
) -> None:
    """Let time pass; the history has everything unless ``history_seq`` says otherwise."""
    seq = controller.state.seq if history_seq is None else history_seq
    controller.tell(Tick(seq), after_us=after_us)
