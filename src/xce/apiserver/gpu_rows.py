"""Rows about GPUs: of hosts, and of what runs on them."""

from collections.abc import Iterator

import msgspec

from xce.model.device import NO_LINK, WHOLE, Device
from xce.model.ids import HostNumber
from xce.state.cluster import ClusterState
from xce.state.job import Attempt


class GpuRow(msgspec.Struct, frozen=True):
    """A GPU of a host, or an instance of MIG."""

    index: int
    uuid: str
    model: str
    mem_mib: int
    nvlink: int | None
    """Its NVLink domain on its host; null: it is linked to none."""
    numa: int | None
    state: str
    """``ok``, ``closed``, ``gone`` (it is not there any more) or ``divided`` (into instances of
    MIG)."""
    used: float
    """How much of it is given out, 1 for all."""
    jobs: tuple[str, ...]
    """Who has (a share of) it: ``12``, ``13[2]``."""
    comment: str = ""
    """Why it was closed."""
    mig_parent: int | None = None
    """Of an instance: the index of its GPU."""
    profile: str = ""
    enforced: bool = False
    """Whether a share of it is more than advice."""


class JobGpuRow(msgspec.Struct, frozen=True):
    """A GPU, or a share of one, that a job has."""

    host: str
    task: int | None
    """Which task on this host has it, from 0; null: all tasks on the host together."""
    index: int
    uuid: str
    model: str
    mem_mib: int
    nvlink: int | None
    numa: int | None
    share: float
    kind: str
    """``whole``, or of a share: ``advisory`` or ``enforced``."""
    profile: str = ""


def gpu_rows(state: ClusterState, number: HostNumber, jobs: dict[int, list[str]]) -> list[GpuRow]:
    """Return the GPUs of a host; ``jobs``: who has which."""
    table = state.hosts
    host = table.devices.hosts[number]
    rows = []
    for place, device in enumerate(host.devices):
        used = int(table.used[table.device_row + place, number])
        if place in host.gone and not used:
            continue
        rows.append(
            GpuRow(
                device.index, device.uuid, device.model, device.mem_mib,
                None if device.link == NO_LINK else device.link,
                None if device.numa < 0 else device.numa,
                _state(place, host.gone, host.closed, is_split=host.is_split(place)),
                used / WHOLE,
                tuple(dict.fromkeys(jobs.get(place, ()))),
                host.closed.get(place, ""),
                None if device.parent < 0 else device.parent,
                device.profile,
                device.is_enforced,
            )
        )  # fmt: skip
    return rows


def _state(place: int, gone: list[int], closed: dict[int, str], *, is_split: bool) -> str:
    if place in gone:
        return "gone"
    if place in closed:
        return "closed"
    return "divided" if is_split else "ok"


def users_of_gpus(state: ClusterState) -> dict[HostNumber, dict[int, list[str]]]:
    """Return who has which GPU, by host and place."""
    found: dict[HostNumber, dict[int, list[str]]] = {}
    if not state.hosts.devices.width:
        return found
    for places in state.on_host.values():
        for job_id, position in places:
            attempt = state.attempt(job_id, position)
            if attempt is None or not attempt.devices:
                continue
            index = state.jobs[job_id].index(position)
            label = f"{job_id}[{index}]" if index else str(job_id)
            for host, devices in zip(attempt.hosts, attempt.devices, strict=True):
                for place in devices:
                    found.setdefault(host, {}).setdefault(place, []).append(label)
    return found


def job_gpu_rows(state: ClusterState, attempt: Attempt) -> tuple[JobGpuRow, ...]:
    """Return the GPUs of an attempt, in rank order."""
    return tuple(_each(state, attempt)) if attempt.devices else ()


def _each(state: ClusterState, attempt: Attempt) -> Iterator[JobGpuRow]:
    roles = state.classes[attempt.cls].forms[attempt.alternative].roles
    parts = attempt.parts or [0] * len(attempt.hosts)
    for host, part, places in zip(attempt.hosts, parts, attempt.devices, strict=True):
        wish = roles[part].gpu
        if wish is None:
            continue
        for nth, place in enumerate(places):
            device: Device = state.hosts.devices.hosts[host].devices[place]
            kind = "whole"
            if not wish.is_whole:
                kind = "enforced" if device.is_enforced else "advisory"
            yield JobGpuRow(
                state.hosts.names[host],
                nth // wish.count if wish.per == "task" else None,
                device.index, device.uuid, device.model, device.mem_mib,
                None if device.link == NO_LINK else device.link,
                None if device.numa < 0 else device.numa,
                wish.milli / WHOLE,
                kind,
                device.profile,
            )  # fmt: skip
