"""What administrators say about hosts, and what connections of workers mean, to records."""

from collections.abc import Collection, Iterator
from typing import Final, TypeAlias

from xce.control.loss import (
    add_end,
    each_place,
    end_or_requeue,
    end_parts,
    give_up,
    with_parts,
)
from xce.control.strangers import (
    Key,
    ask_strangers,
    decide_restored,
    decide_strangers,
    decide_unstarted,
    detail_of,
    end_strangers,
    find_strangers,
)
from xce.model.command import (
    Accepted,
    AdoptStrangers,
    ApplyConfig,
    DeclareHostsLost,
    EndStrangers,
    SetDevicesOpen,
    SetHostsOpen,
)
from xce.model.host_record import HostDown, HostsOpened, HostUp, ReignBegun
from xce.model.ids import HostNumber, Micros
from xce.model.job import EndCause, Phase
from xce.model.observation import HOLLOW, HostDisconnected, HostJoined, ReignBegan
from xce.model.permission import Actor, Permission
from xce.model.record import ConfigApplied, Ended, Record
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job

StrangersCommand: TypeAlias = EndStrangers | AdoptStrangers
HostCommand: TypeAlias = SetHostsOpen | DeclareHostsLost | SetDevicesOpen | StrangersCommand
_DONE: Final = {
    Permission.HOST_OPEN: "opened",
    Permission.HOST_CLOSE: "closed",
    Permission.HOST_LOST: "given up",
}


def permission_to(command: HostCommand) -> Permission:
    """Return what one needs to open, close or give up hosts; for their GPUs it is the same."""
    if isinstance(command, DeclareHostsLost | EndStrangers | AdoptStrangers):
        return Permission.HOST_LOST
    return Permission.HOST_OPEN if command.is_open else Permission.HOST_CLOSE


def basis_of(state: ClusterState, command: HostCommand) -> str:
    """Return on what ground that may be done; empty: it may not."""
    actor = Actor(command.by, command.groups, command.is_admin)
    return state.rights.basis(actor, permission_to(command))


def refuse_hosts(permission: Permission, what: str = "hosts") -> Refusal:
    """Return the refusal of opening, closing or giving up ``what``."""
    return Refusal(
        RefusalCode.DENIED,
        f"{what} are {_DONE[permission]} by administrators and by those who have the permission "
        f"{permission}",
        lsf="User permission denied",
        permission=permission,
    )


def decide_hosts(
    state: ClusterState, command: SetHostsOpen | DeclareHostsLost | StrangersCommand, now_us: Micros
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the records that a command about hosts gives, and a result for each name."""
    match command:
        case SetHostsOpen():
            return decide_open(state, command)
        case DeclareHostsLost():
            return decide_lost(state, command, now_us)
        case EndStrangers() | AdoptStrangers():
            return decide_strange(state, command)


def decide_open(
    state: ClusterState, command: SetHostsOpen
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the record that opens or closes hosts, and a result for each name."""
    if not basis_of(state, command):
        return [], [refuse_hosts(permission_to(command)) for _ in command.hosts]
    results: list[Accepted | Refusal] = []
    changed: list[HostNumber] = []
    word = "opened" if command.is_open else "closed"
    for name in command.hosts:
        number = state.hosts.number.get(name)
        if number is None:
            results.append(_unknown(name))
            continue
        if _is_news(state, number, command) and number not in changed:
            changed.append(number)
        results.append(Accepted(text=word))
    records: list[Record] = []
    if changed:
        records.append(HostsOpened(changed, command.is_open, command.comment))
    return records, results


def _unknown(name: str) -> Refusal:
    return Refusal(
        RefusalCode.UNKNOWN_HOST,
        f"no host is called {name!r}",
        lsf=f"{name}: Bad host name, host group name or cluster name",
    )


def _is_news(state: ClusterState, number: HostNumber, command: SetHostsOpen) -> bool:
    """Return whether opening or closing a host changes anything."""
    table = state.hosts
    if bool(table.is_open[number]) != command.is_open:
        return True
    if command.is_open:
        # What was held against it is forgotten, too.
        return bool(table.losses_us[number] or state.avoiders.get(number))
    return bool(command.comment) and table.comments[number] != command.comment


def basis_of_config(state: ClusterState, command: ApplyConfig) -> str:
    """Return on what ground a configuration may be put in effect; empty: it may not."""
    actor = Actor(command.by, command.groups, command.is_admin)
    return state.rights.basis(actor, Permission.CONFIG_APPLY)


def refuse_config() -> Refusal:
    """Return the refusal of putting a configuration in effect."""
    permission = Permission.CONFIG_APPLY
    return Refusal(
        RefusalCode.DENIED,
        "the configuration is put in effect by administrators and by those who have the "
        f"permission {permission}",
        lsf="User permission denied",
        permission=permission,
    )


def decide_config(
    state: ClusterState, command: ApplyConfig
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the record that puts a configuration in effect; none when it is in effect already."""
    if not basis_of_config(state, command):
        return [], [refuse_config()]
    if state.config_version and command.config == state.config:
        return [], [Accepted(text="unchanged")]
    names = (
        *state.hosts.names,
        *(host.name for host in command.config.hosts if host.name not in state.hosts.number),
    )
    record = ConfigApplied(state.config_version + 1, command.config, names)
    return [record], [Accepted(text="applied")]


def decide_join(state: ClusterState, seen: HostJoined, now_us: Micros) -> list[Record] | Refusal:
    """Return what a worker's arrival means; a host that no configuration names is refused.

    One that has left the configuration may come until its last job has ended.
    """
    number = state.hosts.number.get(seen.host)
    if number is None or not (state.hosts.is_configured[number] or state.on_host.get(number)):
        return Refusal(
            RefusalCode.UNKNOWN_HOST,
            f"host {seen.host!r} is not in hosts.yaml; add it and apply the configuration",
        )
    if seen.isolation.startswith(HOLLOW) and state.config.mode == "production":
        return Refusal(
            RefusalCode.DENIED,
            f"host {seen.host!r} is hollow, and the cluster is in mode production",
        )
    # By attempt: of one element it may know an attempt that runs and the end of an earlier one.
    known = {(item.job, item.index, item.attempt) for item in seen.attempts}
    known.update(seen.unreported)
    strange = find_strangers(state, seen)
    restarted = state.hosts.boot_ids[number] not in {"", seen.boot_id}
    gone = [
        (job, position, attempt)
        for job, position, attempt in each_place(state, state.on_host.get(number, ()))
        if attempt.phase == Phase.RUNNING
        and (job.id, job.index(position), attempt.number) not in known
    ]
    records: list[Record] = [
        HostUp(
            number, seen.boot_id, seen.cpus, seen.mem_mib, seen.isolation, seen.version,
            seen.attributes, tuple(_stale(state, number, seen, strange)), seen.devices,
            seen.processors,
        ),
        *decide_strangers(state, number, strange),
    ]  # fmt: skip
    if restarted:
        detail = f"host {seen.host} was restarted"
        records.extend(end_or_requeue(state, gone, EndCause.HOST_RESTARTED, now_us, detail))
        records.extend(end_parts(state, [number], EndCause.HOST_RESTARTED, now_us))
    elif gone:
        records.extend(with_parts(state, [_status_lost(state, gone, now_us)]))
    records.extend(decide_unstarted(state, number, known, now_us))
    return records


def _status_lost(
    state: ClusterState, gone: list[tuple[Job, int, Attempt]], now_us: Micros
) -> Ended:
    """Return the end of attempts that the host no longer knows."""
    record = Ended([], [], [], [], [], [], [], [], [], [], [], [])
    for job, position, attempt in gone:
        if detail := detail_of(state, job, attempt):
            record.details.append((len(record.jobs), detail))
        add_end(record, job, position, attempt, EndCause.STATUS_LOST, now_us)
    return record


def _stale(
    state: ClusterState, number: HostNumber, seen: HostJoined, strange: Collection[Key]
) -> Iterator[Key]:
    """Yield the attempts on a host that are over for us, were placed anew, or go on without it."""
    for item in seen.attempts:
        live = state.attempt_of(item.job, item.index)
        if live is not None and live.number == item.attempt and number in live.hosts:
            continue
        key = (item.job, item.index, item.attempt)
        if key not in strange:
            yield key


def decide_disconnect(state: ClusterState, seen: HostDisconnected) -> list[Record]:
    """Return the record that takes a host out of new work while its worker is away."""
    number = state.hosts.number.get(seen.host)
    if number is None or not state.hosts.is_up[number]:
        return []
    return [HostDown(number, seen.silent)]


def decide_reign(state: ClusterState, seen: ReignBegan, now_us: Micros) -> list[Record]:
    """Return the record by which every host that may be away gets its whole grace."""
    table = state.hosts
    if seen.is_jump:
        return [ReignBegun(sorted(table.away))] if table.away else []
    records: list[Record] = decide_restored(state, now_us) if seen.is_restored else []
    hosts = [
        number
        for number in range(table.count)
        if table.boot_ids[number] and not table.is_lost[number]
    ]
    if hosts:
        records.append(ReignBegun(hosts))
    return records


def decide_lost(
    state: ClusterState, command: DeclareHostsLost, now_us: Micros
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the records that give up hosts on an administrator's word, and a result for each."""
    if not basis_of(state, command):
        return [], [refuse_hosts(permission_to(command)) for _ in command.hosts]
    table = state.hosts
    results: list[Accepted | Refusal] = []
    lost: list[HostNumber] = []
    for name in command.hosts:
        number = table.number.get(name)
        if number is None:
            results.append(_unknown(name))
        elif number in table.away:
            lost.append(number)
            results.append(Accepted(text="lost"))
        elif table.is_lost[number]:
            results.append(Accepted(text="lost"))
        else:
            what = "is connected" if table.is_up[number] else "has never come"
            text = f"host {name} {what}: only a host that is away can be lost"
            results.append(Refusal(RefusalCode.WRONG_STATE, text))
    records: list[Record] = []
    if lost:
        records = give_up(state, sorted(set(lost)), now_us, by=command.by)
    return records, results


def decide_strange(
    state: ClusterState, command: StrangersCommand
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the records that end what a restored journal does not know, or ask hosts what it is so
    that it is taken up again; and a result for each host.
    """
    if not basis_of(state, command):
        return [], [refuse_hosts(permission_to(command)) for _ in command.hosts]
    table = state.hosts
    is_end = isinstance(command, EndStrangers)
    results: list[Accepted | Refusal] = []
    found: dict[HostNumber, None] = {}
    for name in command.hosts:
        number = table.number.get(name)
        if number is None:
            results.append(_unknown(name))
        elif not table.is_up[number]:
            what = "ended" if is_end else "adopted"
            text = f"host {name} is away: what runs there can be {what} when it is back"
            results.append(Refusal(RefusalCode.WRONG_STATE, text))
        else:
            count = len(table.strange.get(number, ()))
            found[number] = None
            what = "ended" if is_end else "adopted"
            results.append(Accepted(text=f"{count} unknown attempts are being {what}"))
    if is_end:
        return end_strangers(state, found), results
    return [record for number in found for record in ask_strangers(state, number)], results
