"""Records about hosts. Used by `xce.state.apply` only."""

from collections.abc import Callable
from typing import Any, Final

from xce.model import host_record as h
from xce.model.ids import HostNumber
from xce.state.cluster import ClusterState
from xce.state.hosts import drop_key


def _host_up(state: ClusterState, record: h.HostUp) -> None:
    hosts, number = state.hosts, record.host
    hosts.boot_ids[number] = record.boot_id
    hosts.cpus[number] = record.cpus
    hosts.mem_mib[number] = record.mem_mib
    hosts.isolation[number] = record.isolation
    hosts.versions[number] = record.version
    hosts.reported[number] = dict(record.attributes)
    hosts.devices.reported[number] = record.devices
    hosts.processors.report(number, record.processors)
    hosts.come(number, record.stale)
    if hosts.join(number):
        for found in state.classes.values():
            found.compile(hosts)


def _host_down(state: ClusterState, record: h.HostDown) -> None:
    state.hosts.leave(record.host, state.now_us, silent=record.silent)


def _reign_begun(state: ClusterState, record: h.ReignBegun) -> None:
    for number in record.hosts:
        state.hosts.leave(number, state.now_us)


def _hosts_silent(state: ClusterState, record: h.HostsSilent) -> None:
    for number in record.hosts:
        state.hosts.is_silent[number] = True


def _hosts_lost(state: ClusterState, record: h.HostsLost) -> None:
    hosts = state.hosts
    horizon_us = state.now_us - state.config.losses_window_us
    for number, fence in zip(record.hosts, record.fences, strict=True):
        hosts.is_lost[number] = hosts.is_silent[number] = True
        hosts.fences[number] = fence
        if not record.by:
            lately = [at_us for at_us in hosts.losses_us[number] if at_us > horizon_us]
            hosts.losses_us[number] = [*lately, state.now_us]
        hosts.await_no_more(number)


def _stale_gone(state: ClusterState, record: h.StaleGone) -> None:
    gone = set(zip(record.jobs, record.indices, record.attempts, strict=True))
    left = [key for key in state.hosts.stale.get(record.host, ()) if key not in gone]
    state.hosts.set_stale(record.host, left)


def _parts_left(state: ClusterState, record: h.PartsLeft) -> None:
    hosts = state.hosts
    rows = zip(record.hosts, record.jobs, record.indices, record.attempts, strict=True)
    for number, *key in rows:
        job, index, attempt = key
        hosts.set_stale(number, [*hosts.stale.get(number, ()), (job, index, attempt)])


def _hosts_opened(state: ClusterState, record: h.HostsOpened) -> None:
    for number in record.hosts:
        state.hosts.is_open[number] = record.is_open
        state.hosts.comments[number] = record.comment
        state.hosts.failures[number] = 0
        if record.is_open:
            state.hosts.losses_us[number] = []
            _lift_avoidance(state, number)
    state.hosts.change += 1


def _devices_opened(state: ClusterState, record: h.DevicesOpened) -> None:
    state.hosts.devices.set_open(
        record.host, record.places, is_open=record.is_open, comment=record.comment
    )
    state.hosts.change += 1


def _avoidance_lifted(state: ClusterState, record: h.AvoidanceLifted) -> None:
    for number in record.hosts:
        _lift_avoidance(state, number)


def _lift_avoidance(state: ClusterState, number: HostNumber) -> None:
    """Let the jobs that failed on a host try it again."""
    state.hosts.fault_at_us[number] = 0
    for job_id in state.avoiders.pop(number, {}):
        job = state.jobs[job_id]
        job.avoid = tuple(host for host in job.avoid if host != number)
        job.revision += 1


def _load_changed(state: ClusterState, record: h.LoadChanged) -> None:
    state.hosts.set_load(record.hosts, record.indices)


def _journal_restored(state: ClusterState, record: h.JournalRestored) -> None:
    left_out = (state.next_job, record.next_job - 1)
    if record.attempts_above > state.attempts_above:
        state.lost_jobs.append(left_out)
        _forget_signals(state)
    else:
        # The last one stays that which lies between what was there and what came since.
        state.lost_jobs.insert(-1, left_out)
    state.next_job = record.next_job
    state.attempts_above = record.attempts_above
    for number in record.hosts:
        state.hosts.is_lost[number] = False
        state.hosts.leave(number, state.now_us)
        state.hosts.unasked[number] = None


def _forget_signals(state: ClusterState) -> None:
    """Let no attempt be sent a signal once more: a host counts them, and knows later ones."""
    for places in state.on_host.values():
        for place in places:
            attempt = state.attempt(*place)
            if attempt is not None:
                attempt.signals = []


def _strangers_seen(state: ClusterState, record: h.StrangersSeen) -> None:
    hosts, number = state.hosts, record.host
    seen = dict.fromkeys(zip(record.jobs, record.indices, record.attempts, strict=True))
    for key in hosts.strange.get(number, {}).keys() - seen.keys():
        hosts.drop_stranger(number, key)
    if seen:
        hosts.strange[number] = seen


def _strangers_gone(state: ClusterState, record: h.StrangersGone) -> None:
    rows = zip(record.hosts, record.jobs, record.indices, record.attempts, strict=True)
    for number, job, index, attempt in rows:
        state.hosts.drop_stranger(number, (job, index, attempt))


def _adoption_asked(state: ClusterState, record: h.AdoptionAsked) -> None:
    wanted = state.hosts.adopting.setdefault(record.host, {})
    refused = state.hosts.unadopted.pop(record.host, {})
    for key in zip(record.jobs, record.indices, record.attempts, strict=True):
        wanted[key] = None
        refused.pop(key, None)
    if refused:
        state.hosts.unadopted[record.host] = refused


def _adoption_refused(state: ClusterState, record: h.AdoptionRefused) -> None:
    hosts, key = state.hosts, (record.job, record.index, record.attempt)
    drop_key(hosts.adopting, record.host, key)
    hosts.unadopted.setdefault(record.host, {})[key] = record.reason


APPLY: Final[dict[type, Callable[[ClusterState, Any], None]]] = {
    h.HostUp: _host_up,
    h.HostDown: _host_down,
    h.ReignBegun: _reign_begun,
    h.HostsSilent: _hosts_silent,
    h.HostsLost: _hosts_lost,
    h.StaleGone: _stale_gone,
    h.PartsLeft: _parts_left,
    h.HostsOpened: _hosts_opened,
    h.DevicesOpened: _devices_opened,
    h.AvoidanceLifted: _avoidance_lifted,
    h.LoadChanged: _load_changed,
    h.JournalRestored: _journal_restored,
    h.StrangersSeen: _strangers_seen,
    h.StrangersGone: _strangers_gone,
    h.AdoptionAsked: _adoption_asked,
    h.AdoptionRefused: _adoption_refused,
}
