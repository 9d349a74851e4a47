"""A plan to records, where it still holds (optimistic plans).

Each item is checked against the authoritative state with integers, run by run and host by host: a
bulk item is trimmed to what still holds, a parallel one is taken or dropped whole.
"""

import hashlib
from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from xce.control.devices import fitting_devices, take_devices
from xce.control.preempt import Room, decide_resumes
from xce.control.processors import fitting_processors, take_processors
from xce.model.constraint import Exclusive, Near
from xce.model.ids import HostNumber, Index, JobId, Micros
from xce.model.plan import FORCED_RULES, BulkStart, GangStart, Plan, Reservation, StartRule
from xce.model.ranges import Ranges, contains, count, intersect, subtract, take_first
from xce.model.record import (
    BulkPlaced,
    GangPlaced,
    ReasonsChanged,
    Record,
    ReservationsChanged,
    RoomReleased,
    SessionRan,
)
from xce.model.request import Request
from xce.sched.certify import find_faults, own_domains
from xce.sched.certify_devices import find_device_faults
from xce.sched.certify_processors import find_processor_faults
from xce.sched.certify_relations import Placed, find_relation_faults
from xce.state.cluster import ClusterState, RequestClass
from xce.state.deadline import is_late
from xce.state.groups import GroupRooms
from xce.state.hosts import Column
from xce.state.job import Job
from xce.state.members import groups_of
from xce.state.needs import Form, of_pools, on_hosts, open_form
from xce.state.processors import is_held

_ENCODER: Final = msgspec.msgpack.Encoder()


def plan_digest(plan: Plan) -> str:
    """Return a hash of what a plan says."""
    return hashlib.blake2b(_ENCODER.encode(plan), digest_size=16).hexdigest()


class Ledger:
    """What is free while the items of one plan are taken one after another."""

    def __init__(self, state: ClusterState) -> None:
        table = state.hosts
        self.free: Column = table.free()
        self.word_row = table.word_row
        self.usable = table.usable()
        self.empty = (table.attempts == 0) & ~table.held.any(axis=0)
        self.pools = {name: state.pools.free(name) for name in state.pools.total}
        self.rooms: dict[JobId, int] = {}
        self._pending: dict[JobId, Ranges] = {}
        self._opened: set[tuple[JobId, Index]] = set()
        self._placed: dict[str, list[HostNumber]] = {}
        """By job and group: hosts that items of the plan give to it."""
        self.groups = GroupRooms(state)

    def pending(self, job: Job) -> Ranges:
        """Return the elements of ``job`` that pend and that no earlier item took."""
        return self._pending.get(job.id, job.ready)

    def take_elements(self, job: Job, positions: Ranges) -> None:
        """Take elements out of what pends."""
        self._pending[job.id] = subtract(self.pending(job), positions)

    def open_hold(self, state: ClusterState, place: tuple[JobId, Index]) -> bool:
        """Give the room that is held for an element free for it; return whether there is any."""
        if place not in state.holds or place in self._opened:
            return False
        self._opened.add(place)
        self._move_hold(state, place, 1)
        return True

    def close_hold(self, state: ClusterState, place: tuple[JobId, Index]) -> None:
        """Hold it again."""
        self._opened.discard(place)
        self._move_hold(state, place, -1)

    def _move_hold(self, state: ClusterState, place: tuple[JobId, Index], sign: int) -> None:
        hold = state.holds[place]
        needs = state.classes[hold.cls].forms[hold.alternative].needs
        for host, amounts in on_hosts(
            needs, hold.hosts, hold.tasks, hold.parts, hold.devices
        ).items():
            self.free[:, host] += sign * amounts
            # Nobody else is there when all of the host's slots are free.
            self.empty[host] = self.free[0, host] >= state.hosts.total[0, host]
        for name, value in of_pools(needs, hold.tasks, hold.parts).items():
            self.pools[name] = self.pools.get(name, 0) + sign * value

    def most(self, found: RequestClass, host: HostNumber) -> int:
        """Return how many single-host attempts of a class ``host`` can take now."""
        if not 0 <= host < len(self.usable) or not self.usable[host]:
            return 0
        if found.key.request.exclusive and not self.empty[host]:
            return 0
        each = found.forms[0].needs[0].on_host(found.key.request.tasks_max)
        rows = np.nonzero(each)[0]
        most = int((self.free[rows, host] // each[rows]).min())
        return min(most, 1) if found.key.request.exclusive else max(most, 0)

    def take(self, found: RequestClass, host: HostNumber, amounts: Column) -> None:
        """Give out ``amounts`` on ``host``."""
        self.free[:, host] -= amounts
        self.empty[host] = False
        if found.key.request.exclusive:
            self.usable[host] = False

    def note_gang(self, found: RequestClass, gang: GangStart) -> None:
        """Note where a parallel element goes, for relations of others."""
        self.usable[gang.alone] = False
        for subject in (*groups_of(found.key.request), f"job:{gang.job}"):
            self._placed.setdefault(subject, []).extend(gang.hosts)

    def hosts_of(self, state: ClusterState, request: Request) -> dict[str, list[HostNumber]]:
        """Return the hosts of each job and group that a request names, as the certifier wants."""
        found: dict[str, list[HostNumber]] = {}
        for constraint in request.constraints:
            if not isinstance(constraint, Near):
                continue
            subject = constraint.subject
            hosts = list(self._placed.get(subject, ()))
            if subject.startswith("group:"):
                places = list(state.members.get(subject, ()))
                is_there = bool(hosts or places)
            else:
                job = state.jobs.get(int(subject.removeprefix("job:")))
                is_there = job is not None and not job.is_finished
                places = [(job.id, position) for position in job.live or ()] if job else []
            for job_id, position in places:
                attempt = state.attempt(job_id, position)
                hosts += attempt.hosts if attempt is not None else []
            if is_there:
                found[subject] = hosts
        return found

    def pool_attempts(self, needs: Mapping[str, int], wanted: int) -> int:
        """Return for how many of ``wanted`` attempts, each with ``needs``, the pools last."""
        for name, value in needs.items():
            wanted = min(wanted, max(0, self.pools.get(name, 0) // value))
        return wanted

    def take_pools(self, needs: Mapping[str, int], attempts: int) -> None:
        """Give out of the pools what ``attempts`` attempts need."""
        for name, value in needs.items():
            self.pools[name] -= value * attempts


def decide_plan(state: ClusterState, plan: Plan, now_us: Micros) -> list[Record]:
    """Return the records of what still holds of ``plan``, and the session's record.

    A plan made under another configuration is stale as a whole.
    """
    if plan.is_empty:
        return []
    records: list[Record] = []
    stale = 0
    if plan.config_version == state.config_version:
        ledger = Ledger(state)
        released = [place for place in plan.released if place in state.holds]
        for place in released:
            ledger.open_hold(state, place)
        if released:
            records.append(
                RoomReleased([job for job, _ in released], [index for _, index in released])
            )
        records.extend(decide_resumes(state, ledger.free, plan.resumed))
        for bulk in plan.bulk:
            if bulk.rule in FORCED_RULES:
                stale += sum(bulk.counts)
                continue
            record, dropped = _accept_bulk(state, ledger, bulk, now_us)
            stale += dropped
            if record is not None:
                records.append(record)
        for gang in plan.gangs:
            is_ours = gang.rule not in FORCED_RULES
            placed = _accept_gang(state, ledger, gang, now_us) if is_ours else None
            stale += placed is None
            if placed is not None:
                records.append(placed)
        room = Room(state, ledger.free, ledger.pools, ledger.pending, ledger.rooms)
        for item in plan.preemptions:
            decided = room.decide(item, now_us)
            stale += not decided
            records.extend(decided)
        reasons = [(cls, reason) for cls, reason in plan.reasons if cls in state.classes]
        if reasons:
            records.append(
                ReasonsChanged([cls for cls, _ in reasons], [reason for _, reason in reasons])
            )
        records.extend(_accept_reservations(state, ledger, plan))
    else:
        stale = sum(sum(bulk.counts) for bulk in plan.bulk)
        stale += len(plan.gangs) + len(plan.preemptions)
    records.append(SessionRan(plan.seq, plan.now_us, plan_digest(plan), stale))
    return records


def accept_start(
    state: ClusterState, start: BulkStart | GangStart, now_us: Micros
) -> BulkPlaced | GangPlaced | None:
    """Return the record of one start that no plan holds, or None when it does not hold."""
    ledger = Ledger(state)
    if isinstance(start, GangStart):
        return _accept_gang(state, ledger, start, now_us)
    record, _ = _accept_bulk(state, ledger, start, now_us)
    return record


def _accept_reservations(state: ClusterState, ledger: Ledger, plan: Plan) -> list[Record]:
    """Return what is kept for elements that still wait; who is started by the plan does not."""
    reserved: list[Reservation] = []
    for item in plan.reserved:
        job = state.jobs.get(item.job)
        if job is None or not job.waiting_since_us:
            continue
        position, waiting = job.position(item.index), job.of_class(item.cls, ledger.pending(job))
        if position is None or not contains(waiting, position, position):
            continue
        if ledger.rooms.get(item.job, 1) > 0:
            reserved.append(item)
    gone = [
        (job, index) for job, index in plan.unreserved if index in state.reservations.get(job, ())
    ]
    if not reserved and not gone:
        return []
    return [ReservationsChanged(reserved, [job for job, _ in gone], [index for _, index in gone])]


def _accept_bulk(
    state: ClusterState, ledger: Ledger, bulk: BulkStart, now_us: Micros
) -> tuple[BulkPlaced | None, int]:
    """Return what holds of a bulk item, and how many elements do not; see `Ledger.open_hold`."""
    place = (bulk.jobs[0], bulk.firsts[0]) if bulk.jobs else (0, 0)
    is_opened = ledger.open_hold(state, place)
    record, dropped = _check_bulk(state, ledger, bulk, now_us)
    if record is None and is_opened:
        ledger.close_hold(state, place)
    return record, dropped


def _check_bulk(
    state: ClusterState, ledger: Ledger, bulk: BulkStart, now_us: Micros
) -> tuple[BulkPlaced | None, int]:
    wanted = sum(bulk.counts)
    found = state.classes.get(bulk.cls)
    if found is None or not found.key.request.is_serial or not _may_start(state, found, bulk.rule):
        return None, wanted
    runs = _valid_runs(state, ledger, bulk)
    tasks = found.key.request.tasks_max
    budget = sum(last - first + 1 for _, first, last in runs)
    needs = of_pools(found.forms[0].needs, (tasks,), ())
    budget = min(ledger.pool_attempts(needs, budget), ledger.groups.room(found.key.group))
    hosts: list[HostNumber] = []
    counts: list[int] = []
    each = found.forms[0].needs[0].on_host(tasks)
    wanted_devices = iter(bulk.devices)
    wanted_processors = iter(bulk.processors)
    devices: list[list[int]] = []
    processors: list[list[int]] = []
    for host, share in zip(bulk.hosts, bulk.counts, strict=True):
        mine = list(islice(wanted_devices, share))
        bound = list(islice(wanted_processors, share))
        size = min(share, budget, ledger.most(found, host))
        if found.key.request.affinity and size > 0:
            places = fitting_processors(state, ledger.free, found, host, bound)[:size]
            size, bound = len(places), [bound[place] for place in places]
            mine = [mine[place] for place in places] if mine else mine
        if found.key.request.gpu is not None and size > 0:
            kept = fitting_devices(state, ledger.free, found, host, mine)[:size]
            # Processors and GPUs of an element belong together.
            size = 0 if bound and kept != mine[:size] else len(kept)
            devices += kept[:size]
            take_devices(state, ledger.free, found, host, kept[:size])
        if bound:
            processors += bound[:size]
            take_processors(state, ledger.free, found, host, bound[:size])
        if size > 0:
            hosts.append(host)
            counts.append(size)
            ledger.take(found, host, each * size)
            budget -= size
    total = sum(counts)
    jobs, firsts, lasts = _cut(state, ledger, runs, total)
    if total == 0:
        return None, wanted
    ledger.take_pools(needs, total)
    ledger.groups.take(found.key.group, total)
    record = BulkPlaced(
        bulk.cls, jobs, firsts, lasts, hosts, counts, now_us, rule=bulk.rule, devices=devices,
        processors=processors,
    )  # fmt: skip
    return record, wanted - total


def _may_start(state: ClusterState, found: RequestClass, rule: StartRule) -> bool:
    """Return whether the run windows of the queue let jobs start."""
    return rule is StartRule.FIRM or state.is_window_open(found.key.queue)


_Run = tuple[JobId, int, int]


def _valid_runs(state: ClusterState, ledger: Ledger, bulk: BulkStart) -> list[_Run]:
    """Take the elements that still pend out of the ledger, as ``(job, first, last position)``."""
    runs: list[_Run] = []
    for job_id, first, last in zip(bulk.jobs, bulk.firsts, bulk.lasts, strict=True):
        job = state.jobs.get(job_id)
        if job is None or job.waits or is_late(state, job):
            continue
        room = ledger.rooms.setdefault(job_id, state.room(job))
        if room <= 0:
            continue
        still = intersect(ledger.pending(job), job.positions(first, last))
        still = job.of_class(bulk.cls, still)
        kept, _ = take_first(still, room)
        ledger.rooms[job_id] = room - count(kept)
        ledger.take_elements(job, kept)
        runs.extend((job_id, lo, hi) for lo, hi in kept)
    return runs


def _cut(
    state: ClusterState, ledger: Ledger, runs: list[_Run], total: int
) -> tuple[list[JobId], list[Index], list[Index]]:
    """Return the first ``total`` elements of ``runs`` as columns of index runs.

    The others may be taken by a later item again, which only a plan of doubtful sense has.
    """
    jobs: list[JobId] = []
    firsts: list[Index] = []
    lasts: list[Index] = []
    for job_id, lo, hi in runs:
        size = min(total, hi - lo + 1)
        ledger.rooms[job_id] += hi - lo + 1 - size
        if size <= 0:
            continue
        job = state.jobs[job_id]
        jobs.append(job_id)
        firsts.append(job.index(lo))
        lasts.append(job.index(lo + size - 1))
        total -= size
    return jobs, firsts, lasts


def _accept_gang(
    state: ClusterState, ledger: Ledger, gang: GangStart, now_us: Micros
) -> GangPlaced | None:
    """Return a parallel item if it holds; see `Ledger.open_hold`."""
    place = (gang.job, gang.index)
    is_opened = ledger.open_hold(state, place)
    record = _check_gang(state, ledger, gang, now_us)
    if record is None and is_opened:
        ledger.close_hold(state, place)
    return record


def _check_gang(
    state: ClusterState, ledger: Ledger, gang: GangStart, now_us: Micros
) -> GangPlaced | None:
    found = state.classes.get(gang.cls)
    job = state.jobs.get(gang.job)
    if found is None or job is None or job.waits or not gang.hosts or is_late(state, job):
        return None
    if not _may_start(state, found, gang.rule) or not ledger.groups.room(found.key.group):
        return None
    position = job.position(gang.index)
    room = ledger.rooms.get(gang.job, state.room(job))
    waiting = job.of_class(gang.cls, ledger.pending(job))
    if position is None or room <= 0 or not contains(waiting, position, position):
        return None
    form = open_form(found.key.request, found.forms, gang.alternative, job.waited_us)
    if form is None or find_faults(
        form, gang.hosts, gang.tasks, gang.parts, state.hosts, state.config
    ):
        return None
    if find_device_faults(
        form.roles, gang.hosts, gang.tasks, gang.parts, gang.devices, state.hosts
    ):
        return None
    if find_processor_faults(
        form.roles, gang.hosts, gang.tasks, gang.parts, gang.processors, state.hosts
    ):
        return None
    if form.request.constraints:
        if not _relations_hold(state, ledger, form, gang):
            return None
    elif not _has_its_domains(state, ledger, form, gang):
        return None
    amounts = on_hosts(
        form.needs, gang.hosts, gang.tasks, gang.parts, gang.devices, gang.processors
    )
    pools = of_pools(form.needs, gang.tasks, gang.parts)
    if not _hosts_hold(ledger, found, amounts) or ledger.pool_attempts(pools, 1) < 1:
        return None
    for host, needed in amounts.items():
        ledger.take(found, host, needed)
    ledger.take_pools(pools, 1)
    ledger.note_gang(found, gang)
    ledger.groups.take(found.key.group, 1)
    ledger.rooms[gang.job] = room - 1
    ledger.take_elements(job, ((position, position),))
    return GangPlaced(
        gang.cls, gang.job, gang.index, gang.hosts, gang.tasks, now_us, gang.parts,
        gang.alternative, gang.rule, gang.devices, gang.proofs, gang.topology, gang.alone,
        gang.processors,
    )  # fmt: skip


def _has_its_domains(state: ClusterState, ledger: Ledger, form: Form, gang: GangStart) -> bool:
    """Return whether the hosts that it has for itself are those that it asks for, and idle."""
    wanted = own_domains(form, gang.hosts, state.hosts, state.config)
    return gang.alone == wanted and bool(ledger.empty[wanted].all())


def _relations_hold(state: ClusterState, ledger: Ledger, form: Form, gang: GangStart) -> bool:
    """Return whether a placement keeps what relations ask, and its certificate is right."""
    if gang.topology != state.config_version or not ledger.empty[gang.alone].all():
        return False
    isolates = any(isinstance(item, Exclusive) for item in form.request.constraints)
    busy = np.flatnonzero(~ledger.empty).tolist() if isolates else []
    placed = Placed(
        form, gang.hosts, gang.tasks, gang.parts, gang.alone, gang.proofs,
        state.hosts, state.config, ledger.hosts_of(state, form.request), busy, gang.devices,
    )  # fmt: skip
    return not find_relation_faults(placed)


def _hosts_hold(ledger: Ledger, found: RequestClass, amounts: Mapping[HostNumber, Column]) -> bool:
    for host, needed in amounts.items():
        if not ledger.usable[host]:
            return False
        if found.key.request.exclusive and not ledger.empty[host]:
            return False
        if not is_held(ledger.free[:, host], needed, ledger.word_row):
            return False
    return True
