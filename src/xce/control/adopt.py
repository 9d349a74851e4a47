"""After a restore: what a host tells of a stranger, to the records that take it up again (X-32).

It runs on as a live attempt of a job with the id, owner, queue and name that it had, on the hosts,
slots, GPUs and processors that it has. An array comes back whole: the elements of which nothing is
told are held. What does not fit the state as it is, is refused with the reason and stays a
stranger.

A host's word is all that is known of a job that the journal lacks, so that it counts for as little
as can be: what is taken up is never started anew from it, reads no files of other hosts, and on
other hosts only what was there already goes on.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from xce.control.accept import Ledger
from xce.control.strangers import Key, gone_from, last_number
from xce.control.submit import Draft, check_array, check_spec
from xce.model.device import DeviceGrant
from xce.model.effect import Claim, Launch
from xce.model.host_record import AdoptionRefused
from xce.model.ids import HostNumber, Micros
from xce.model.job import JobSpec, Submission
from xce.model.observation import AttemptTold
from xce.model.ranges import contains
from xce.model.record import (
    GangPlaced,
    Held,
    JobSubmitted,
    Record,
    Started,
    SuspensionAsked,
    SuspensionDone,
    Unheld,
)
from xce.model.record_elements import ElementsReleased
from xce.model.request import ClassKey
from xce.sched.certify import find_faults, own_domains
from xce.sched.certify_devices import find_device_faults
from xce.sched.certify_processors import find_processor_faults
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.needs import Form, compile_forms, of_pools, on_hosts, open_form
from xce.state.processors import is_held

LOST: Final = "0" * 32
"""In place of the hashes of script, environment and input of a job that the journal lacks: it has
them no more, and what a host calls them is not believed."""


_STRANGE: Final = "what its host tells of it does not fit together"


class _RefusedError(Exception):
    """Something cannot be taken up; the text says why."""


class _Placement(NamedTuple):
    form: Form
    hosts: list[HostNumber]
    tasks: list[int]
    parts: list[int]
    """Empty: there is one."""
    devices: list[list[int]]
    processors: list[list[int]]
    alone: list[HostNumber]


def decide_adoption(
    state: ClusterState, host: str, told: AttemptTold, now_us: Micros
) -> list[Record]:
    """Return the records that take up a stranger, or refuse it; nothing where none is wanted.

    Args:
        state: The state.
        host: Whose word it is.
        told: What is told.
        now_us: The present instant.
    """
    number = state.hosts.number.get(host, -1)
    key: Key = (told.launch.job, told.index, told.attempt)
    if key not in state.hosts.adopting.get(number, ()):
        return []
    if any(state.hosts.number.get(name) in state.hosts.away for name, _ in told.launch.hosts):
        # It stays wanted: its host is asked again when the other one comes.
        return []
    try:
        return _take_up(state, number, told, now_us)
    except _RefusedError as refused:
        return [AdoptionRefused(number, *key, str(refused))]


def _demand(holds: object, text: str) -> None:
    if not holds:
        raise _RefusedError(text)


def _take_up(
    state: ClusterState, number: HostNumber, told: AttemptTold, now_us: Micros
) -> list[Record]:
    launch, claim = told.launch, told.launch.claim
    first = launch.hosts[0][0] if launch.hosts else "another one"
    _demand(not told.is_part, f"host {first} leads it: adopt it there")
    if claim is None:
        raise _RefusedError("its host does not know what it needs: an older release started it")
    is_one = (launch.indices, launch.attempts) == ([told.index], [told.attempt])
    _demand(is_one and launch.hosts, _STRANGE)
    key = replace(claim.key, user=launch.owner.user, run_limit_us=launch.run_limit_us)
    _check_queue(state, key)
    placement = _find_placement(state, number, launch, claim, now_us)
    _check_room(state, key, placement)
    draft = Draft(state)
    cls = draft.class_of(key)
    job = state.jobs.get(launch.job)
    if job is None:
        _begin(state, draft, cls, told, claim, now_us)
    else:
        _find(state, draft, job, key, told)
    rule = claim.rule
    since_us = max(launch.submit_at_us, now_us - told.age_us) if told.running else now_us
    one, only = [launch.job], [told.index]
    records = draft.records
    records.append(
        GangPlaced(
            cls, launch.job, told.index, placement.hosts, placement.tasks, since_us,
            placement.parts, claim.alternative, rule, placement.devices, alone=placement.alone,
            processors=placement.processors, number=told.attempt, signals=told.signals,
        )
    )  # fmt: skip
    if told.running:
        records.append(Started(one, only, [told.pid], [min(since_us, now_us)]))
        if told.shall_stop:
            records.append(SuspensionAsked(one, only, only, suspended=True, by=""))
        if told.suspended:
            records.append(SuspensionDone(one, only, suspended=True))
    stranger: Key = (launch.job, told.index, told.attempt)
    records.append(
        gone_from(
            (host, stranger)
            for host in dict.fromkeys((number, *placement.hosts))
            if stranger in state.hosts.strange.get(host, ())
        )
    )
    return records


def _check_queue(state: ClusterState, key: ClassKey) -> None:
    queue = state.queues.get(key.queue)
    if queue is None:
        raise _RefusedError(f"there is no queue {key.queue}")
    _demand(
        not queue.users or key.user in queue.users,
        f"user {key.user} may not use queue {key.queue}",
    )
    _demand(not key.request.constraints, "its relations to other jobs cannot be found again")


def _find_placement(
    state: ClusterState, number: HostNumber, launch: Launch, claim: Claim, now_us: Micros
) -> _Placement:
    """Return how an attempt lies, in the state's own terms."""
    table = state.hosts
    rows = claim.rows or tuple((name, tasks, 0) for name, tasks in launch.hosts)
    for name, _, _ in rows:
        host = table.number.get(name)
        if host is None:
            raise _RefusedError(f"there is no host {name}")
        _demand(table.is_up[host], f"its host {name} is not there")
    hosts = [table.number[name] for name, _, _ in rows]
    tasks = [size for _, size, _ in rows]
    parts = [part for _, _, part in rows] if claim.rows else []
    _demand(hosts[:1] == [number], _STRANGE)
    request = claim.key.request
    forms = compile_forms(request, table.row, table.width, table.word_row)
    form = open_form(request, forms, claim.alternative, max(0, now_us - launch.submit_at_us))
    if form is None:
        raise _RefusedError("it asks for something that it cannot have yet")
    _refuse_faults(find_faults(form, hosts, tasks, parts, table, state.config))
    devices = _devices_of(state, launch, form, hosts, tasks, parts)
    _refuse_faults(find_device_faults(form.roles, hosts, tasks, parts, devices, table))
    processors = claim.processors[0] if claim.processors else []
    _refuse_faults(find_processor_faults(form.roles, hosts, tasks, parts, processors, table))
    for words, size in zip(processors, tasks, strict=True) if processors else ():
        _demand(len(words) <= table.processors.words * (size + 1), "there are no such processors")
    alone = own_domains(form, hosts, table, state.config)
    return _Placement(form, hosts, tasks, parts, devices, processors, alone)


def _refuse_faults(faults: list[str]) -> None:
    _demand(not faults, f"it does not lie as it asks: {', '.join(faults[:1])}")


def _devices_of(
    state: ClusterState,
    launch: Launch,
    form: Form,
    hosts: list[HostNumber],
    tasks: list[int],
    parts: list[int],
) -> list[list[int]]:
    """Return the places of the GPUs of each row; a launch has them for neighbours together."""
    if not launch.devices:
        return []
    rows = zip(hosts, tasks, parts or [0] * len(hosts), strict=True)
    begun: set[int] = set()
    found: list[list[int]] = []
    same = groupby(rows, key=itemgetter(0))
    for (host, group), grants in zip(same, launch.devices[0], strict=False):
        left = iter(grants)
        for _, size, part in group:
            wish = form.roles[part].gpu
            count = wish.items(size, is_first=part not in begun) if wish is not None else 0
            begun.add(part)
            found.append(list(_places(state, host, left, count)))
    return found


def _places(
    state: ClusterState, host: HostNumber, grants: Iterator[DeviceGrant], count: int
) -> Iterator[int]:
    for _, grant in zip(range(count), grants, strict=False):
        place = state.hosts.devices.hosts[host].find(grant.name)
        if place is None:
            raise _RefusedError(f"host {state.hosts.names[host]} has no GPU {grant.name}")
        yield place


def _check_room(state: ClusterState, key: ClassKey, placement: _Placement) -> None:
    """Refuse what others have been given in the meantime."""
    table, ledger = state.hosts, Ledger(state)
    form, hosts, tasks, parts = placement[:4]
    if key.request.is_serial:
        _demand(tasks == [key.request.tasks_max], "it does not lie as it asks")
    amounts = on_hosts(form.needs, hosts, tasks, parts, placement.devices, placement.processors)
    for host, needed in amounts.items():
        name, free = table.names[host], ledger.free[:, host]
        short = [row for row in range(table.word_row) if free[row] < needed[row] > 0]
        what = table.resource_of(short[0]) if short else "processors"
        _demand(
            is_held(free, needed, table.word_row),
            f"host {name} has less {what} free than it needs",
        )
        _demand(not table.exclusive[host], f"host {name} is another job's alone")
    alone = [*placement.alone, *(amounts if key.request.exclusive else ())]
    for host in alone:
        _demand(ledger.empty[host], f"host {table.names[host]} is not its alone")
    for name, value in of_pools(form.needs, tasks, parts).items():
        _demand(ledger.pools.get(name, 0) >= value, f"pool {name} has less free than it needs")


def _begin(
    state: ClusterState, draft: Draft, cls: int, told: AttemptTold, claim: Claim, now_us: Micros
) -> None:
    """Add the records of a job that the journal lacks, with nothing of it but what is told."""
    launch, array = told.launch, claim.array
    _demand(state.is_lost(launch.job), "no job can have had its id")
    spec = _unknown(launch.spec)
    _demand(not spec.transfers, "it copies files (-f), for which a host's word is not enough")
    queue = state.queues[claim.key.queue]
    given = Submission(spec, array=array)
    for refusal in (check_spec(state, given, queue), check_array(state, given, queue)):
        _demand(refusal is None, refusal.text if refusal is not None else "")
    _demand(told.index == 0 if array is None else array.has(told.index), "it has no such element")
    draft.records.append(
        JobSubmitted(
            launch.job, draft.spec_of(spec), cls, launch.owner, min(launch.submit_at_us, now_us),
            array,
        )
    )  # fmt: skip
    if array is None or array.count == 1:
        return
    first, last = array.runs[0][0], array.runs[-1][1]
    runs = ((first, told.index - 1), (told.index + 1, last))
    others = [(lo, hi) for lo, hi in runs if array.position_from(lo) < array.position_from(hi + 1)]
    firsts, lasts = [lo for lo, _ in others], [hi for _, hi in others]
    draft.records.append(Held([launch.job] * len(others), firsts, lasts, by_admin=True))


def _unknown(spec: JobSpec) -> JobSpec:
    """Return what runs without what it would be started from."""
    files = replace(spec.files, input_blob=LOST if spec.files.input_blob else "")
    return replace(spec, script=LOST, env=LOST if spec.env else "", files=files)


def _find(state: ClusterState, draft: Draft, job: Job, key: ClassKey, told: AttemptTold) -> None:
    """Add the records by which an element that the journal has may live."""
    launch, position = told.launch, job.position(told.index)
    if position is None:
        raise _RefusedError("its job has no such element")
    _demand(state.attempt(job.id, position) is None, "another attempt of it lives")
    is_kept = contains(job.held, position, position)
    _demand(is_kept or contains(job.pending, position, position), "it has ended")
    _demand(told.attempt > last_number(job, position), "a later attempt of it is known")
    cls, spec_id = job.form_at(position)
    spec = state.specs[spec_id]
    is_same = state.classes[cls].key == key and spec in (launch.spec, _unknown(launch.spec))
    _demand(job.owner == launch.owner and is_same, "its job is another one, or was changed since")
    run = [job.id], [told.index], [told.index]
    if is_kept:
        draft.records.append(Unheld(*run))
    if contains(job.awaiting, position, position):
        draft.records.append(ElementsReleased(*run))
