"""`SetHostsOpen`, `ApplyConfig` and what connections of workers mean, to records."""

from xce.model.command import Accepted, ApplyConfig, SetHostsOpen
from xce.model.effect import Effect, Terminate
from xce.model.ids import NO_HOST, HostNumber, JobId, Micros
from xce.model.job import EndCause, Outcome, Phase
from xce.model.observation import HostDisconnected, HostJoined
from xce.model.permission import Actor, Permission
from xce.model.record import ConfigApplied, Ended, HostDown, HostsOpened, HostUp, Record
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.job import Attempt


def permission_to(*, is_open: bool) -> Permission:
    """Return what one needs to open or close hosts."""
    return Permission.HOST_OPEN if is_open else Permission.HOST_CLOSE


def basis_of(state: ClusterState, command: SetHostsOpen) -> str:
    """Return on what ground hosts may be opened or closed; empty: they may not."""
    actor = Actor(command.by, command.groups, command.is_admin)
    return state.rights.basis(actor, permission_to(is_open=command.is_open))


def refuse_hosts(*, is_open: bool) -> Refusal:
    """Return the refusal of opening or closing hosts."""
    permission = permission_to(is_open=is_open)
    return Refusal(
        RefusalCode.DENIED,
        f"hosts are {'opened' if is_open else 'closed'} by administrators and by those who have "
        f"the permission {permission}",
        lsf="User permission denied",
        permission=permission,
    )


def decide_open(
    state: ClusterState, command: SetHostsOpen
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the record that opens or closes hosts, and a result for each name."""
    if not basis_of(state, command):
        return [], [refuse_hosts(is_open=command.is_open) for _ in command.hosts]
    results: list[Accepted | Refusal] = []
    changed: list[HostNumber] = []
    word = "opened" if command.is_open else "closed"
    for name in command.hosts:
        number = state.hosts.number.get(name)
        if number is None:
            results.append(
                Refusal(
                    RefusalCode.UNKNOWN_HOST,
                    f"no host is called {name!r}",
                    lsf=f"{name}: Bad host name, host group name or cluster name",
                )
            )
            continue
        # Opened again by hand, a host is tried again by the jobs that avoid it.
        is_news = bool(state.hosts.is_open[number]) != command.is_open or (
            command.is_open and bool(state.avoiders.get(number))
        )
        if is_news and number not in changed:
            changed.append(number)
        results.append(Accepted(text=word))
    records: list[Record] = []
    if changed:
        records.append(HostsOpened(changed, command.is_open, command.comment))
    return records, results


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
    known = {(item.job, item.index): item.attempt for item in seen.attempts}
    known |= {(job, index): attempt for job, index, attempt in seen.unreported}
    restarted = state.hosts.boot_ids[number] not in {"", seen.boot_id}
    lost = [
        (job_id, position, attempt)
        for job_id, position in state.on_host.get(number, ())
        if (attempt := state.attempt(job_id, position)) is not None
        and attempt.phase == Phase.RUNNING
        and known.get((job_id, state.jobs[job_id].index(position))) != attempt.number
    ]
    cause = EndCause.HOST_RESTARTED if restarted else EndCause.STATUS_LOST
    records: list[Record] = [
        HostUp(
            number, seen.boot_id, seen.cpus, seen.mem_mib, seen.isolation, seen.version,
            seen.attributes,
        )
    ]  # fmt: skip
    if lost:
        records.append(_lost(state, lost, cause, now_us))
    return records


def _lost(
    state: ClusterState, lost: list[tuple[JobId, int, Attempt]], cause: EndCause, now_us: Micros
) -> Ended:
    """Return the end of attempts that the host no longer knows."""
    count = len(lost)
    return Ended(
        jobs=[job_id for job_id, _, _ in lost],
        indices=[state.jobs[job_id].index(position) for job_id, position, _ in lost],
        attempts=[attempt.number for _, _, attempt in lost],
        outcomes=[int(Outcome.EXIT)] * count,
        exit_codes=[0] * count,
        signals=[0] * count,
        causes=[attempt.end_cause or int(cause) for _, _, attempt in lost],
        hosts=[attempt.hosts[0] if attempt.hosts else NO_HOST for _, _, attempt in lost],
        started_at_us=[attempt.started_at_us for _, _, attempt in lost],
        ended_at_us=[now_us] * count,
        cpu_us=[0] * count,
        max_mem_kib=[0] * count,
    )


def foreign_attempts(state: ClusterState, seen: HostJoined) -> list[Effect]:
    """Return the effects that end attempts of ours which are over or were placed anew since.

    An attempt of a job that the state has never known is left alone: it may belong to a newer
    state than a restored one (decision X-32).
    """
    effects: list[Effect] = []
    for item in seen.attempts:
        job = state.jobs.get(item.job)
        position = job.position(item.index) if job is not None else None
        live = state.attempt(item.job, position) if position is not None else None
        if live is not None and live.number == item.attempt:
            continue
        if item.job < state.next_job:
            effects.append(
                Terminate(
                    item.job, item.index, item.attempt, EndCause.NONE, force=True, forget=True
                )
            )
    return effects


def decide_disconnect(state: ClusterState, seen: HostDisconnected) -> list[Record]:
    """Return the record that takes a host out of new work while its worker is away."""
    number = state.hosts.number.get(seen.host)
    if number is None or not state.hosts.is_up[number]:
        return []
    return [HostDown(number)]
