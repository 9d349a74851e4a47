"""Small clusters, jobs, plans and reports for tests: short to write, with defaults that fit.

Everything goes through `Controller.step`, as in life; nothing here reaches into the state.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from xce.control.controller import Controller, Input, Step
from xce.model.command import (
    Accepted,
    ApplyConfig,
    Command,
    KillJobs,
    ProposePlan,
    ResumeJobs,
    Selection,
    StopJobs,
    SubmitJobs,
    Tick,
)
from xce.model.config import ClusterConfig, HostConfig, PoolConfig, QueueConfig, ResourceConfig
from xce.model.effect import Effect
from xce.model.entry import Entry
from xce.model.ids import NO_HOST, SECOND_US, HostNumber, Index, JobId, Micros
from xce.model.job import ArraySpec, EndCause, JobSpec, Owner, Submission
from xce.model.observation import (
    AttemptEnded,
    AttemptSeen,
    AttemptStarted,
    HostDisconnected,
    HostJoined,
    Observation,
    Reported,
    SuspensionSeen,
)
from xce.model.plan import BulkStart, GangStart, Plan
from xce.model.reason import Reason
from xce.model.refusal import Refusal
from xce.model.request import Amount, HostChoice, Request
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job

START_US: Final = 1_700_000_000 * SECOND_US
"""The instant at which a built cluster begins."""
ALICE: Final = Owner("alice", 1001, 1001)
BOB: Final = Owner("bob", 1002, 1002)


class RecordedController(Controller):
    """A controller with a clock of its own that keeps everything it gave."""

    def __init__(self, state: ClusterState, *, now_us: Micros = START_US) -> None:
        super().__init__(state)
        self.now_us = now_us
        self.entries: list[Entry] = []
        self.steps: list[Step] = []
        self._tickets = 0

    def step(self, inputs: Sequence[Input], now_us: Micros) -> Step:
        """Decide as `Controller.step` and keep the step."""
        self.now_us = now_us
        step = super().step(inputs, now_us)
        self.steps.append(step)
        self.entries.extend(step.entries)
        return step

    @property
    def last(self) -> Step:
        """The step made last."""
        return self.steps[-1]

    def tell(
        self,
        body: Command | Observation,
        *,
        by: str = "",
        basis: str = "owner",
        after_us: Micros = 1_000,
    ) -> tuple[Accepted | Refusal, ...]:
        """Give one input ``after_us`` later, let its slices be decided, return its results."""
        self._tickets += 1
        ticket = self._tickets
        step = self.step([Input(body, by, basis, ticket)], self.now_us + after_us)
        while not any(reply.ticket == ticket for reply in step.replies):
            assert self.has_more, "an input got no reply"
            step = self.step([], self.now_us + 1)
        return next(reply.results for reply in step.replies if reply.ticket == ticket)

    def effects(self, since: int = -1) -> list[tuple[str, Effect]]:
        """Return what hosts were told in the steps from ``since`` on: ``(host, effect)``."""
        return [
            (self.state.hosts.names[number], effect)
            for step in self.steps[since:]
            for number, effects in step.effects
            for effect in effects
        ]

    def job(self, job_id: JobId) -> Job:
        """Return a job of the state."""
        return self.state.jobs[job_id]

    def attempt(self, job_id: JobId, index: Index = 0) -> Attempt:
        """Return the live attempt of an element; it must have one."""
        job = self.state.jobs[job_id]
        position = job.position(index)
        assert position is not None, f"job {job_id} has no element {index}"
        attempt = self.state.attempt(job_id, position)
        assert attempt is not None, f"element {index} of job {job_id} is not live"
        return attempt


def replayed(entries: Iterable[Entry]) -> ClusterState:
    """Return the state that ``entries`` make of nothing."""
    state = ClusterState()
    for entry in entries:
        apply(state, entry)
    return state


def config(
    hosts: Mapping[str, int] | Sequence[str | HostConfig] = (),
    *,
    queues: Sequence[QueueConfig] = (),
    counters: Sequence[str] = (),
    pools: Mapping[str, int] | None = None,
    **settings: object,
) -> ClusterConfig:
    """Return a configuration; ``hosts`` maps names to slots, or lists names of 4 slots."""
    if isinstance(hosts, Mapping):
        found = [HostConfig(name=name, slots=slots) for name, slots in hosts.items()]
    else:
        found = [
            item if isinstance(item, HostConfig) else HostConfig(name=item, slots=4)
            for item in hosts
        ]
    given = ClusterConfig(
        hosts=tuple(found),
        resources=tuple(ResourceConfig(name=name, kind="counter") for name in counters),
        pools=tuple(PoolConfig(name=name, total=size) for name, size in (pools or {}).items()),
    )
    if queues:
        given = msgspec.structs.replace(given, queues=tuple(queues))
    return msgspec.structs.replace(given, **settings)


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
    controller.tell(ApplyConfig("root", wanted), by="root")
    if join:
        for host in wanted.hosts:
            join_host(controller, host.name)
    return controller


def join_host(
    controller: RecordedController,
    host: str,
    *,
    boot_id: str = "boot-1",
    cpus: int = 4,
    mem_mib: int = 8_192,
    attempts: Sequence[AttemptSeen] = (),
    unreported: Sequence[tuple[JobId, Index, int]] = (),
    attributes: Mapping[str, int | str | bool] | None = None,
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
        ),
        by=f"host {host}",
    )


def leave_host(controller: RecordedController, host: str) -> None:
    """Let the worker of ``host`` lose its connection."""
    controller.tell(HostDisconnected(host), by=f"host {host}")


def request(
    tasks: int | tuple[int, int] = 1,
    *,
    mem_mib: int = 0,
    amounts: Sequence[Amount] = (),
    hosts: Sequence[str] = (),
    one_host: bool = False,
    ptile: int = 0,
    exclusive: bool = False,
) -> Request:
    """Return a compiled resource request; ``mem_mib`` is for each task."""
    tasks_min, tasks_max = (tasks, tasks) if isinstance(tasks, int) else tasks
    found = [*amounts, *([Amount("mem", mem_mib)] if mem_mib else [])]
    return Request(
        tasks_min=tasks_min,
        tasks_max=tasks_max,
        amounts=tuple(sorted(found)),
        hosts=tuple(HostChoice(name) for name in hosts),
        one_host=one_host,
        ptile=ptile,
        exclusive=exclusive,
    )


def array(text: str, limit: int = 0) -> ArraySpec:
    """Return the array that a text like ``1-10:2,15`` means."""
    runs = []
    for item in text.split(","):
        bounds, _, step = item.partition(":")
        first, _, last = bounds.partition("-")
        runs.append((int(first), int(last or first), int(step or 1)))
    return ArraySpec(tuple(runs), limit)


def submission(  # noqa: PLR0913 - a builder takes whatever a test wants to say
    command: str = "true",
    *,
    name: str = "",
    tasks: int | tuple[int, int] = 1,
    mem_mib: int = 0,
    after: str = "",
    elements: str = "",
    limit: int = 0,
    asks: Request | None = None,
    queue: str = "",
    project: str = "",
    hold: bool = False,
    begin_at_us: Micros = 0,
    run_limit_us: Micros = 0,
    mem_limit_kib: int = 0,
    priority: int = 0,
) -> Submission:
    """Return one job as a submit command carries it.

    Args:
        command: Its command line; also its script's name.
        name: As ``-J`` without index list.
        tasks: As ``-n``.
        mem_mib: Memory to reserve for each task.
        after: As ``-w``.
        elements: The index list of an array; empty: none.
        limit: How many elements may run at once.
        asks: The whole request, instead of ``tasks`` and ``mem_mib``.
        queue: As ``-q``.
        project: As ``-P``.
        hold: As ``-H``.
        begin_at_us: As ``-b``.
        run_limit_us: As ``-W``.
        mem_limit_kib: As ``-M``.
        priority: As ``-sp``.
    """
    return Submission(
        spec=JobSpec(
            name=name,
            command=command,
            script=f"blob of {command}" if command else "",
            dependency=after,
            array=elements,
            mem_limit_kib=mem_limit_kib,
        ),
        request=asks or request(tasks, mem_mib=mem_mib),
        queue=queue,
        project=project,
        array=array(elements, limit) if elements else None,
        hold=hold,
        begin_at_us=begin_at_us,
        run_limit_us=run_limit_us,
        priority=priority,
    )


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
) -> tuple[Accepted | Refusal, ...]:
    """Submit jobs and return the result of each."""
    given = SubmitJobs(owner, jobs or (submission(),), key=key, line=line, past=tuple(past))
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
        controller.job(jobs[0]).cls,
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
    return GangStart(controller.job(job).cls, job, index, places, list(hosts.values()))


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
    if not controller.state.key(found).request.is_serial:
        tasks = controller.state.key(found).request.tasks_min
        items = [gang(controller, job, hosts={host: tasks}, index=index) for index in chosen]
        propose(controller, *items)
        return
    propose(
        controller, *(bulk(controller, (job, index, index), hosts={host: 1}) for index in chosen)
    )


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


def report_ended(
    controller: RecordedController,
    job: JobId,
    index: Index = 0,
    *,
    exit_code: int = 0,
    signal: int = 0,
    cause: EndCause = EndCause.NONE,
    host_fault: bool = False,
    detail: str = "",
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
) -> tuple[Accepted | Refusal, ...]:
    """Kill jobs or runs of elements."""
    command = KillJobs(by, is_admin, chosen(*jobs), force)
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


def chosen(*jobs: JobId | tuple[JobId, Index, Index]) -> Selection:
    """Return the selection that names jobs, or ``(job, first, last)`` runs of elements."""
    named: list[tuple[JobId, tuple[tuple[Index, Index], ...]]] = []
    for item in jobs:
        named.append((item, ()) if isinstance(item, int) else (item[0], ((item[1], item[2]),)))
    return Selection(jobs=tuple(named))


def tick(
    controller: RecordedController, *, after_us: Micros = SECOND_US, history_seq: int | None = None
) -> None:
    """Let time pass; the history has everything unless ``history_seq`` says otherwise."""
    seq = controller.state.seq if history_seq is None else history_seq
    controller.tell(Tick(seq), after_us=after_us)
