"""The whole state as parts of bytes and back. Equal states give equal parts.

Indexes are not in it; they are made again by `xce.state.index.index_job`. A snapshot carries a
format number; one of another format is not read, since it can be made again from the journal.
"""

import hashlib
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from xce.model.config import ClusterConfig
from xce.model.device import Device
from xce.model.errors import CorruptJournalError
from xce.model.group import JobGroup
from xce.model.ids import HostNumber, Index, JobId, Micros, Seq
from xce.model.job import JobSpec
from xce.model.plan import Reservation
from xce.model.processor import Processor
from xce.model.reason import Reason
from xce.model.record import RoomHeld
from xce.model.record_access import LoginRefreshed, LoginRevoked
from xce.model.request import ClassKey
from xce.model.trace import TraceRule
from xce.model.trust import HostToken, RevokedKey, TrustedKey
from xce.state import shares, usage
from xce.state.account import Account
from xce.state.cluster import ClusterState, RequestClass, Shut, Switch, Window
from xce.state.host_devices import HostDevices
from xce.state.hosts import HostTable
from xce.state.index import await_return, index_job, settle_owed, use_spec
from xce.state.ineligible import settle_queues
from xce.state.job import EndedChunk, Job
from xce.state.key_use import KeyUse
from xce.state.logins import LoginTable
from xce.state.members import note_member

FORMAT: Final = 1
JOBS_IN_PART: Final = 10_000


class _Host(msgspec.Struct, array_like=True):
    is_open: bool
    is_up: bool
    boot_id: str
    cpus: int
    mem_mib: int
    isolation: str
    version: str
    comment: str
    failures: int
    reported: dict[str, int | str | bool]
    fault_at_us: Micros
    down_at_us: Micros = 0
    is_silent: bool = False
    is_lost: bool = False
    fence: int = 0
    losses_us: list[Micros] = []
    stale: list[tuple[JobId, Index, int]] = []
    reported_devices: tuple[Device, ...] = ()
    devices: HostDevices | None = None
    load: list[int] = []
    layout: int = -1
    """Which of `_Head.layouts` its worker reported; -1: nobody wrote that down."""
    strange: list[tuple[JobId, Index, int]] = []
    adopting: list[tuple[JobId, Index, int]] = []
    unadopted: list[tuple[JobId, Index, int, str]] = []
    is_unasked: bool = False


_Layouts: TypeAlias = dict[tuple[Processor, ...], int]


class _Class(msgspec.Struct, array_like=True):
    cls: int
    key: ClassKey
    resreq: str
    reason: Reason
    jobs: int
    pending: int
    held: int
    live: int
    suspended: int


class _Head(msgspec.Struct, array_like=True):
    format: int
    seq: Seq
    now_us: Micros
    config: ClusterConfig
    config_version: int
    next_job: JobId
    next_spec: int
    next_class: int
    host_names: tuple[str, ...]
    hosts: list[_Host]
    keys: list[tuple[str, str, KeyUse]]
    classes: list[_Class]
    finished: list[tuple[Micros, JobId, Seq]]
    reservations: list[Reservation] = []
    windows: dict[str, Window] = {}
    holds: list[RoomHeld] = []
    windows_version: int = 0
    shares: list[tuple[str, str, int, Micros]] = []
    """Decayed use by queue and user; the rest of an account is made again from live attempts."""
    long_grace_us: tuple[Micros, Micros] = (0, 0)
    traces: list[TraceRule] = []
    next_trace: int = 1
    trusted: list[TrustedKey] = []
    revoked: list[RevokedKey] = []
    tokens: list[HostToken] = []
    logins: list[LoginRevoked] = []
    switches: dict[str, Switch] = {}
    refreshed: list[LoginRefreshed] = []
    groups: dict[str, JobGroup] = {}
    processor_words: int = 0
    layouts: list[tuple[Processor, ...]] = []
    lost_jobs: list[tuple[JobId, JobId]] = []
    attempts_above: int = 0
    shut: dict[str, Shut] = {}
    timed_from: JobId = -1
    """-1: a release wrote it that did not keep how long jobs were ineligible."""


class _Part(msgspec.Struct, array_like=True):
    specs: list[tuple[int, JobSpec]]
    jobs: list[Job]


def _encode_other(value: Any) -> Any:  # noqa: ANN401 - msgspec's hook takes anything
    if isinstance(value, EndedChunk):
        return value.rows.tobytes()
    raise NotImplementedError(type(value))


def _decode_other(kind: type, value: Any) -> Any:  # noqa: ANN401 - msgspec's hook takes anything
    if kind is EndedChunk:
        return EndedChunk(value)
    raise NotImplementedError(kind)


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_encode_other)
_HEAD: Final = msgspec.msgpack.Decoder(_Head, dec_hook=_decode_other)
_PART: Final = msgspec.msgpack.Decoder(_Part, dec_hook=_decode_other)


def _dump_host(table: HostTable, n: HostNumber, layouts: _Layouts) -> _Host:
    return _Host(
        bool(table.is_open[n]), bool(table.is_up[n]), table.boot_ids[n], table.cpus[n],
        table.mem_mib[n], table.isolation[n], table.versions[n], table.comments[n],
        table.failures[n], table.reported[n], table.fault_at_us[n], table.down_at_us[n],
        table.is_silent[n], table.is_lost[n], table.fences[n], table.losses_us[n],
        list(table.stale.get(n, ())), table.devices.reported[n], table.devices.hosts[n],
        table.load[:, n].tolist(),
        layouts.setdefault(table.processors.reported[n], len(layouts)),
        list(table.strange.get(n, ())), list(table.adopting.get(n, ())),
        [(*key, reason) for key, reason in table.unadopted.get(n, {}).items()],
        n in table.unasked,
    )  # fmt: skip


def dump(state: ClusterState) -> list[bytes]:
    """Return the state as parts: a head, and the jobs with their specs, 10,000 a part."""
    table = state.hosts
    layouts: _Layouts = {}
    head = _Head(
        format=FORMAT,
        seq=state.seq,
        now_us=state.now_us,
        config=state.config,
        config_version=state.config_version,
        next_job=state.next_job,
        next_spec=state.next_spec,
        next_class=state.next_class,
        host_names=tuple(table.names),
        hosts=[_dump_host(table, n, layouts) for n in range(table.count)],
        keys=[(user, key, use) for (user, key), use in state.keys.items()],
        classes=[_dump_class(found) for _, found in sorted(state.classes.items())],
        finished=list(state.finished),
        reservations=[
            item
            for _, kept in sorted(state.reservations.items())
            for _, item in sorted(kept.items())
        ],
        windows=dict(sorted(state.windows.items())),
        windows_version=state.windows_version,
        long_grace_us=state.long_grace_us,
        holds=[hold for _, hold in sorted(state.holds.items())],
        shares=[
            (*key, account.used, account.since_us) for key, account in sorted(state.shares.items())
        ],
        traces=[rule for _, rule in sorted(state.traces.items())],
        next_trace=state.next_trace,
        trusted=[item for _, item in sorted(state.trust.keys.items())],
        revoked=[item for _, item in sorted(state.trust.revoked.items())],
        tokens=[item for _, item in sorted(state.trust.tokens.items())],
        logins=list(state.logins.revoked.values()),
        refreshed=list(state.logins.refreshed.values()),
        switches=dict(sorted(state.switches.items())),
        groups=dict(sorted(state.groups.items())),
        processor_words=table.processors.words,
        layouts=list(layouts),
        lost_jobs=list(state.lost_jobs),
        attempts_above=state.attempts_above,
        shut=dict(sorted(state.shut.items())),
        timed_from=state.timed_from,
    )  # fmt: skip
    parts = [_ENCODER.encode(head)]
    jobs = iter(state.jobs.values())
    written: set[int] = set()
    while chunk := list(islice(jobs, JOBS_IN_PART)):
        fresh = {job.spec_id: None for job in chunk if job.spec_id not in written}
        for job in chunk:
            if job.live or job.variants:
                fresh.update((one, None) for one in job.other_specs() if one not in written)
        written.update(fresh)
        specs = [(spec_id, state.specs[spec_id]) for spec_id in fresh]
        parts.append(_ENCODER.encode(_Part(specs, chunk)))
    return parts


def _dump_class(found: RequestClass) -> _Class:
    return _Class(
        found.cls, found.key, found.resreq, found.reason, found.jobs, found.pending, found.held,
        found.live, found.suspended,
    )  # fmt: skip


def load(parts: Iterable[bytes]) -> ClusterState:
    """Return the state that `dump` gave as ``parts``, which are taken one by one.

    Raises:
        CorruptJournalError: The parts are no snapshot of this format.
    """
    rest = iter(parts)
    try:
        head = _HEAD.decode(next(rest, b""))
    except msgspec.DecodeError as error:
        raise _unreadable(error) from error
    if head.format != FORMAT:
        raise CorruptJournalError(f"the snapshot has format {head.format}, expected {FORMAT}")
    state = ClusterState()
    state.seq, state.now_us = head.seq, head.now_us
    state.config, state.config_version = head.config, head.config_version
    state.next_job, state.next_spec, state.next_class = (
        head.next_job, head.next_spec, head.next_class,
    )  # fmt: skip
    state.lost_jobs, state.attempts_above = head.lost_jobs, head.attempts_above
    state.switches, state.groups = head.switches, head.groups
    state.set_queues()
    state.hosts.processors.words = head.processor_words
    state.hosts.configure(head.config, head.host_names)
    state.pools.configure(head.config)
    for number, host in enumerate(head.hosts):
        _load_host(state, number, host, head.layouts)
    state.keys = {(user, key): use for user, key, use in head.keys}
    for use in state.keys.values():
        use.settle()
    _load_classes(state, head.classes)
    state.long_grace_us = head.long_grace_us
    state.windows, state.windows_version = head.windows, head.windows_version
    for hold in head.holds:
        state.holds[hold.job, hold.index] = hold
        usage.move_hold(state, hold, 1)
    state.shares = {(q, user): Account(used, since_us) for q, user, used, since_us in head.shares}
    state.traces = {rule.number: rule for rule in head.traces}
    state.next_trace = head.next_trace
    state.shut, state.timed_from = head.shut, head.timed_from
    if head.timed_from < 0:
        state.timed_from = head.next_job
        settle_queues(state)
    state.trust.load(head.trusted, head.revoked, head.tokens)
    state.logins = LoginTable(head.logins, head.refreshed)
    _load_jobs(state, rest)
    state.finished.clear()
    state.finished.extend(head.finished)
    for item in head.reservations:
        state.reservations.setdefault(item.job, {})[item.index] = item
    return state


def _load_host(
    state: ClusterState, number: HostNumber, host: _Host, layouts: list[tuple[Processor, ...]]
) -> None:
    table = state.hosts
    table.is_open[number], table.is_up[number] = host.is_open, host.is_up
    table.boot_ids[number] = host.boot_id
    table.cpus[number], table.mem_mib[number] = host.cpus, host.mem_mib
    table.isolation[number], table.versions[number] = host.isolation, host.version
    table.comments[number], table.failures[number] = host.comment, host.failures
    table.reported[number] = host.reported
    table.fault_at_us[number] = host.fault_at_us
    table.down_at_us[number] = host.down_at_us
    table.is_silent[number], table.is_lost[number] = host.is_silent, host.is_lost
    table.fences[number], table.losses_us[number] = host.fence, host.losses_us
    table.set_stale(number, host.stale)
    if host.strange:
        table.strange[number] = dict.fromkeys(host.strange)
    if host.adopting:
        table.adopting[number] = dict.fromkeys(host.adopting)
    if host.unadopted:
        table.unadopted[number] = {(job, index, n): why for job, index, n, why in host.unadopted}
    if host.down_at_us and not (host.is_up or host.is_lost):
        table.away[number] = None
        if host.is_unasked:
            table.unasked[number] = None
    table.devices.reported[number] = host.reported_devices
    table.devices.load(number, host.devices or HostDevices())
    if host.layout >= 0:
        table.processors.report(number, layouts[host.layout])
    table.join(number, is_loading=True)
    if host.load:
        table.load[:, number] = host.load


def _load_classes(state: ClusterState, classes: Iterable[_Class]) -> None:
    for item in classes:
        found = RequestClass(item.cls, item.key, item.resreq)
        found.compile(state.hosts)
        found.reason, found.jobs = item.reason, item.jobs
        found.pending, found.held = item.pending, item.held
        found.live, found.suspended = item.live, item.suspended
        state.classes[item.cls] = found
        state.class_ids[item.key] = item.cls
        if not item.jobs:
            state.left_classes[item.cls] = None


def _load_jobs(state: ClusterState, parts: Iterable[bytes]) -> None:
    """Load the jobs: there may be millions, and somebody waits."""
    jobs, share_job = state.jobs, state.sharing.share_job
    state.begin_loading()
    serial: dict[tuple[int, int], dict[HostNumber, int]] = {}
    for part in parts:
        try:
            body = _PART.decode(part)
        except msgspec.DecodeError as error:
            raise _unreadable(error) from error
        unused = _load_specs(state, body)
        for job in body.jobs:
            jobs[job.id] = job
            _use_spec(state, job.spec_id, unused)
            share_job(job)
            index_job(state, job)
            for spec_id in job.other_specs() if job.live or job.variants else ():
                _use_spec(state, spec_id, unused)
            if job.live:
                for position in job.live:
                    _index_live(state, job, position, serial)
    for (cls, stage), counts in serial.items():
        usage.take_bulk(state, state.classes[cls], list(counts), list(counts.values()), stage=stage)


def _use_spec(state: ClusterState, spec_id: int, unused: set[int]) -> None:
    """Count a use of a spec; that of one that has just been loaded is counted already."""
    if spec_id in unused:
        unused.discard(spec_id)
    else:
        use_spec(state, spec_id)


def _load_specs(state: ClusterState, body: _Part) -> set[int]:
    """Load the specs of a part; return which: none of them has been counted yet."""
    specs, share_spec = state.specs, state.sharing.share_spec
    for spec_id, spec in body.specs:
        share_spec(spec)
        specs[spec_id] = spec
        if spec.deadline_us:
            state.deadlines[spec_id] = spec.deadline_us
    return {spec_id for spec_id, _ in body.specs}


def _unreadable(error: Exception) -> CorruptJournalError:
    return CorruptJournalError(f"the snapshot cannot be read: {error}")


def _index_live(
    state: ClusterState,
    job: Job,
    position: int,
    serial: dict[tuple[int, int], dict[HostNumber, int]],
) -> None:
    """Index a live attempt; those of serial requests are counted in ``serial``, by class and what
    they have returned, and by host.
    """
    assert job.live is not None
    attempt = job.live[position]
    state.on_host.setdefault(attempt.hosts[0], {})[job.id, position] = None
    settle_owed(state, job, position, attempt)
    await_return(state, job, position, attempt)
    if attempt.stops:
        state.stopped[job.id, position] = None
    found = state.classes[attempt.cls]
    shares.note_placed(state, found, sum(attempt.tasks))
    if found.key.request.constraints:
        note_member(state, found.key.request, job.id, position)
    if attempt.started_at_us:
        started_at_us, attempt.started_at_us = attempt.started_at_us, 0
        shares.note_started(state, attempt, started_at_us)
        attempt.started_at_us = started_at_us
    if found.key.request.is_serial:
        counts = serial.setdefault((attempt.cls, attempt.returned), {})
        counts[attempt.hosts[0]] = counts.get(attempt.hosts[0], 0) + 1
        usage.move_devices(state, found, attempt, 1)
    else:
        usage.take_gang(state, found, attempt)
    if attempt.gave_slots:
        usage.move_slots(state, attempt, -1)


def digest(state: ClusterState) -> str:
    """Return a hash of the whole state; equal on every follower at the same seq."""
    total = hashlib.blake2b(digest_size=16)
    for part in dump(state):
        total.update(part)
    return total.hexdigest()
