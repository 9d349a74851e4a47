"""What the controller owes the workers, read off the state.

Nothing is sent because something happened; it is sent because it is owed, and sent again until the
state owes it no more. A lost message, a restart and a failover are then the same thing.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import TypeAlias

from xce.control.exit_values import requeue_values, success_codes
from xce.control.hooks import hooks_of
from xce.control.processors import bindings_of, near_gpus
from xce.control.profile import find_profile
from xce.model.device import DeviceGrant, GpuWish, mps_of
from xce.model.effect import (
    Claim,
    Effect,
    Identify,
    Launch,
    SendSignal,
    SetLimits,
    SetSuspended,
    Terminate,
)
from xce.model.ids import HostNumber, JobId, Micros
from xce.model.job import EndCause, JobSpec, Phase
from xce.model.mail import ENDS
from xce.model.record import (
    BulkPlaced,
    EndDecided,
    GangPlaced,
    Record,
    SignalAsked,
    Started,
    StopsChanged,
    SuspensionAsked,
    SuspensionDone,
)
from xce.model.record_modify import JobModified
from xce.model.request import ClassKey, Request
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job
from xce.state.needs import on_hosts

Touched: TypeAlias = dict[HostNumber, dict[tuple[JobId, int], None]]
"""Attempts ``(job, position)`` about which something new is owed, by host."""
_Launches: TypeAlias = dict[
    tuple[JobId, int, int, tuple[tuple[str, int], ...], tuple[int, ...]], Launch
]
"""By job, class, spec, hosts and parts."""


def touch(state: ClusterState, records: Iterable[Record], touched: Touched) -> None:
    """Add to ``touched`` the attempts about which ``records`` (just applied) owe something."""
    for record in records:
        match record:
            case BulkPlaced() | EndDecided() | SuspensionAsked() | SignalAsked() | StopsChanged():
                _touch_runs(state, record, touched)
            case GangPlaced():
                job = state.jobs[record.job]
                position = job.position(record.index)
                if position is not None:
                    touched.setdefault(record.hosts[0], {})[job.id, position] = None
            case JobModified() if record.has_new_limits:
                for position, attempt in (state.jobs[record.job].live or {}).items():
                    touched.setdefault(attempt.hosts[0], {})[record.job, position] = None
            case Started() | SuspensionDone():
                # A signal or a suspension may have been asked for while it was starting, and a
                # suspension may be unwanted again by the time that it is reported.
                for job_id, index in zip(record.jobs, record.indices, strict=True):
                    _touch_started(state, job_id, index, touched)
            case _:
                pass


def _touch_started(state: ClusterState, job_id: JobId, index: int, touched: Touched) -> None:
    job = state.jobs[job_id]
    position = job.position(index)
    attempt = job.live.get(position) if job.live and position is not None else None
    if attempt is None or position is None:
        return
    if attempt.signals or attempt.has_new_limits or _is_owed(attempt):
        touched.setdefault(attempt.hosts[0], {})[job_id, position] = None


def _touch_runs(
    state: ClusterState,
    record: BulkPlaced | EndDecided | SuspensionAsked | SignalAsked | StopsChanged,
    touched: Touched,
) -> None:
    for job_id, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
        job = state.jobs[job_id]
        live = job.live or {}
        for lo, hi in job.positions(first, last):
            places = range(lo, hi + 1) if hi - lo < len(live) else live
            for position in places:
                attempt = live.get(position)
                if attempt is not None and lo <= position <= hi:
                    touched.setdefault(attempt.hosts[0], {})[job_id, position] = None


def _is_owed(attempt: Attempt) -> bool:
    return (
        attempt.phase == Phase.STARTING
        or attempt.end_cause != EndCause.NONE
        or attempt.suspended != attempt.shall_stop
    )


def is_told_anew(state: ClusterState, job: JobId, attempt: Attempt) -> bool:
    """Return whether there is something to tell of an attempt to a worker that comes."""
    is_old = state.is_from_before(job, attempt.number)
    return is_old or attempt.has_new_limits or bool(attempt.signals)


def render_effects(state: ClusterState, places: Iterable[tuple[JobId, int]]) -> tuple[Effect, ...]:
    """Return what a host must be told about these attempts, launches of one job together."""
    launches: _Launches = {}
    others: list[Effect] = []
    for job_id, position in places:
        job = state.jobs.get(job_id)
        attempt = job.live.get(position) if job is not None and job.live else None
        if job is None or attempt is None:
            continue
        index = job.index(position)
        if attempt.phase == Phase.STARTING and attempt.end_cause == EndCause.NONE:
            _add_launch(state, launches, job, position, attempt)
        others.extend(_wanted(state, job_id, index, attempt))
        if attempt.has_new_limits or state.is_from_before(job_id, attempt.number):
            others.append(_limits(state, job, position, attempt))
    return (*launches.values(), *others)


def _add_launch(
    state: ClusterState,
    launches: _Launches,
    job: Job,
    position: int,
    attempt: Attempt,
) -> None:
    names, index = state.hosts.names, job.index(position)
    hosts = tuple(
        (names[host], sum(tasks))
        for host, tasks in _neighbours(zip(attempt.hosts, attempt.tasks, strict=True))
    )
    spec_id = state.spec_id_at(job, position)
    place = job.id, attempt.cls, spec_id, hosts, tuple(attempt.parts)
    launch = launches.get(place)
    if launch is None:
        launch = launches[place] = _launch(state, job, attempt, state.specs[spec_id], hosts)
    launch.indices.append(index)
    launch.attempts.append(attempt.number)
    if attempt.devices:
        launch.devices.append(grants_of(state, attempt))
    if attempt.processors and launch.claim is not None:
        launch.claim.processors.append(attempt.processors)
    bindings = bindings_of(state, attempt) if attempt.processors else near_gpus(state, attempt)
    if bindings or launch.bindings:
        missing = len(launch.indices) - len(launch.bindings) - 1
        launch.bindings.extend([()] * missing)
        launch.bindings.append(bindings)
    if job.requeues:
        requeue = job.requeues.get(position)
        if requeue is not None and requeue.has_run:
            launch.restarted.append(index)


def _neighbours(
    entries: Iterable[tuple[HostNumber, int]],
) -> Iterator[tuple[HostNumber, list[int]]]:
    """Yield hosts in rank order; entries of two parts that stand side by side are one."""
    for host, same in groupby(entries, key=itemgetter(0)):
        yield host, [tasks for _, tasks in same]


def _launch(
    state: ClusterState,
    job: Job,
    attempt: Attempt,
    spec: JobSpec,
    hosts: tuple[tuple[str, int], ...],
) -> Launch:
    found = state.classes[attempt.cls]
    key, config = found.key, state.config
    last = job.array.runs[-1] if job.array is not None else (0, 0, 1)
    needs = found.forms[attempt.alternative].needs
    amounts = on_hosts(needs, attempt.hosts, attempt.tasks, attempt.parts)
    mem = int(sum(needed[1] for needed in amounts.values()))
    hooks = hooks_of(state, spec, key)
    fence_us, kill_us = _fence(state, spec, key)
    gpu, row_gpus = _wish_of(found.forms[attempt.alternative].roles), row_wishes(state, attempt)
    return Launch(
        job=job.id,
        indices=[],
        attempts=[],
        spec=spec,
        owner=job.owner,
        queue=key.queue,
        project=key.project,
        cluster=config.cluster_name,
        hosts=hosts,
        tasks_max=key.request.tasks_asked,
        submit_at_us=job.submit_at_us,
        run_limit_us=key.run_limit_us,
        term_grace_us=config.term_grace_us,
        kill_interval_us=config.kill_interval_us,
        resreq=found.resreq,
        array_end=last[1],
        array_step=last[2],
        mem_request_mib=mem,
        restarted=[],
        fence_us=fence_us,
        devices=[],
        bindings=[],
        gpu=gpu,
        rows=rows_of(state, spec, attempt),
        group=key.group,
        success_codes=success_codes(state, key),
        row_gpus=row_gpus,
        hooks=hooks,
        hook_limit_us=config.hook_limit_us,
        mails_report=config.mail.is_on and bool(spec.notices & ENDS),
        requeue_codes=requeue_values(state, spec, key).codes if hooks else (),
        checkpoint_programs=config.checkpoint_programs if spec.checkpoints is not None else "",
        warning_in_us=_warning_in_us(state, spec),
        fence_kill_us=kill_us,
        mps_control=config.mps_control if mps_of((gpu, *row_gpus)) else "",
        claim=_claim(state, job, attempt),
    )


def _claim(state: ClusterState, job: Job, attempt: Attempt) -> Claim:
    names, rows = state.hosts.names, zip(attempt.hosts, attempt.tasks, attempt.parts, strict=False)
    return Claim(
        state.classes[attempt.cls].key, job.array, attempt.rule, attempt.alternative,
        tuple((names[host], tasks, part) for host, tasks, part in rows), [],
    )  # fmt: skip


def _warning_in_us(state: ClusterState, spec: JobSpec) -> Micros:
    """Return how long it is to the warning before the deadline; 0: there is none."""
    if not spec.deadline_us or not spec.is_warned:
        return 0
    return max(1, spec.deadline_us - spec.warning_us - state.now_us)


def render_part(state: ClusterState, job_id: JobId, index: int) -> Launch | None:
    """Return one live element as its other hosts are told of it; None: it does not live."""
    job = state.jobs.get(job_id)
    position = job.position(index) if job is not None else None
    attempt = state.attempt(job_id, position) if position is not None else None
    if job is None or attempt is None or position is None:
        return None
    launches: _Launches = {}
    _add_launch(state, launches, job, position, attempt)
    return next(iter(launches.values()))


def rows_of(
    state: ClusterState, spec: JobSpec, attempt: Attempt
) -> tuple[tuple[str, str, int], ...]:
    """Return which tasks of which role are where, in rank order; nothing without roles."""
    names = state.hosts.names
    parts = state.classes[attempt.cls].forms[attempt.alternative].request.parts
    if parts and attempt.parts:
        return tuple(
            (parts[part].name, names[host], tasks)
            for host, tasks, part in zip(attempt.hosts, attempt.tasks, attempt.parts, strict=True)
        )
    first = next((role.name for role in spec.roles if not role.attach), "")
    if not first:
        return ()
    placed = zip(attempt.hosts, attempt.tasks, strict=True)
    return tuple((first, names[host], tasks) for host, tasks in placed)


def row_wishes(state: ClusterState, attempt: Attempt) -> tuple[GpuWish | None, ...]:
    """Return what the role of each row asked for of GPUs; nothing where none did."""
    roles = state.classes[attempt.cls].forms[attempt.alternative].roles
    if not any(role.gpu is not None for role in roles):
        return ()
    return tuple(roles[part].gpu for part in attempt.parts or [0] * len(attempt.hosts))


def _fence(state: ClusterState, spec: JobSpec, key: ClassKey) -> tuple[Micros, Micros]:
    """Return how long after its last word a host freezes a job, and kills it; zeros: never."""
    wanted = find_profile(state, key.app).self_fence
    return state.config.fence_spans(wanted) if spec.rerunnable else (0, 0)


def _limits(state: ClusterState, job: Job, position: int, attempt: Attempt) -> SetLimits:
    key, spec = state.classes[attempt.cls].key, state.spec_at(job, position)
    fence_us, kill_us = _fence(state, spec, key)
    return SetLimits(
        job.id, job.index(position), attempt.number, key.run_limit_us, spec.mem_limit_kib,
        fence_us, spec.limits.cpu_us,
        spec.checkpoints.period_us if spec.checkpoints is not None else 0,
        kill_us,
    )  # fmt: skip


def _wish_of(roles: Iterable[Request]) -> GpuWish | None:
    return next((role.gpu for role in roles if role.gpu is not None), None)


def grants_of(state: ClusterState, attempt: Attempt) -> tuple[tuple[DeviceGrant, ...], ...]:
    """Return the GPUs of an attempt, for each of the hosts that a launch names."""
    roles = state.classes[attempt.cls].forms[attempt.alternative].roles
    parts = attempt.parts or [0] * len(attempt.hosts)
    rows = zip(attempt.hosts, parts, attempt.devices, strict=True)
    found = []
    for host, same in groupby(rows, key=itemgetter(0)):
        mine: list[DeviceGrant] = []
        for _, part, places in same:
            wish = roles[part].gpu
            for place in places if wish is not None else ():
                device = state.hosts.devices.hosts[host].devices[place]
                milli = wish.milli if wish is not None else 0
                mine.append(
                    DeviceGrant(
                        device.index, device.uuid, milli, device.model, device.numa,
                        device.profile, device.is_enforced,
                    )
                )  # fmt: skip
        found.append(tuple(mine))
    return tuple(found)


def _wanted(state: ClusterState, job: JobId, index: int, attempt: Attempt) -> list[Effect]:
    effects: list[Effect] = []
    if attempt.end_cause != EndCause.NONE:
        effects.append(
            Terminate(
                job,
                index,
                attempt.number,
                EndCause(attempt.end_cause),
                force=attempt.end_force,
                kill_interval_us=state.config.kill_interval_us,
            )
        )
    # Its host may have been told otherwise by entries that the journal has lost.
    is_old = state.is_from_before(job, attempt.number)
    is_running = attempt.phase == Phase.RUNNING
    if is_old or (is_running and attempt.suspended != attempt.shall_stop):
        effects.append(SetSuspended(job, index, attempt.number, attempt.shall_stop))
    if is_running:
        first = 1 + max(attempt.signals_before, state.attempts_above if is_old else 0)
        effects.extend(
            SendSignal(job, index, attempt.number, number, signal)
            for number, signal in enumerate(attempt.signals, first)
        )
    return effects


def render_stale(state: ClusterState, host: HostNumber) -> tuple[Effect, ...]:
    """Return the end of what a host still runs though it was given up, and the questions what
    strangers are that shall be taken up.
    """
    ends = (
        Terminate(*key, EndCause.NONE, force=True, forget=True)
        for key in state.hosts.stale.get(host, ())
    )
    return (*ends, *(Identify(*key) for key in state.hosts.adopting.get(host, ())))


def owed_keys(state: ClusterState, host: HostNumber) -> frozenset[tuple[int, ...]]:
    """Return what a host must be told about, so that it is seen what it is owed for long."""
    table = state.hosts
    keys = (state.owed.get(host, ()), table.stale.get(host, ()), table.adopting.get(host, ()))
    return frozenset(chain.from_iterable(keys))


def owed(state: ClusterState, host: HostNumber) -> tuple[Effect, ...]:
    """Return everything that ``host`` must be told: what a (re)connected worker is sent."""
    places = dict(state.owed.get(host, {}))
    for job_id, position in state.on_host.get(host, ()):
        attempt = state.attempt(job_id, position)
        if attempt is not None and (attempt.signals or attempt.has_new_limits):
            places[job_id, position] = None
    return (*render_stale(state, host), *render_effects(state, places))
