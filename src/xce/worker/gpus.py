"""What a job's environment says of its GPUs. Pure."""

from collections.abc import Mapping, Sequence

from xce.model import device
from xce.model.device import WHOLE, DeviceGrant, GpuWish, vendor_of
from xce.model.effect import Launch
from xce.model.ids import Index
from xce.model.units import render_milli
from xce.resreq.gpu import HIDDEN, SHARED


def grants_at(launch: Launch, index: Index, entry: int = 0) -> tuple[DeviceGrant, ...]:
    """Return the GPUs of one element on one of the launch's hosts."""
    if not launch.devices:
        return ()
    place = launch.indices.index(index)
    return launch.devices[place][entry]


def host_grants(launch: Launch, index: Index, host: str) -> list[DeviceGrant]:
    """Return all GPUs of one element on a host, which may stand in the launch several times."""
    return [
        grant
        for entry, (name, _) in enumerate(launch.hosts)
        if name == host
        for grant in grants_at(launch, index, entry)
    ]


def mps_of(launch: Launch) -> str:
    """Return what a job wants of MPS, as `GpuWish.mps` says it; empty: nothing."""
    return device.mps_of((launch.gpu, *launch.row_gpus))


def is_hidden(launch: Launch) -> bool:
    """Whether a job is not told its GPUs in the variable that CUDA reads."""
    return HIDDEN in mps_of(launch).split(",")


def shares_daemon(launch: Launch, index: Index, host: str) -> bool:
    """Whether an element shares its daemon of MPS on a host: it has parts of GPUs there.

    Whole ones are its alone, and so is a daemon that serves them.
    """
    grants = host_grants(launch, index, host)
    return SHARED in mps_of(launch).split(",") and any(grant.milli < WHOLE for grant in grants)


def daemon_names(launch: Launch, index: Index, host: str) -> list[str]:
    """Return the GPUs of the daemon of MPS that is started for an element on a host; none: none is.

    Who shares one must find them in the same order. Where the site runs MPS that one is shared.
    """
    grants = host_grants(launch, index, host) if mps_of(launch) else []
    names = list(dict.fromkeys(grant.name for grant in grants))
    if not shares_daemon(launch, index, host):
        return names
    return [] if all(grant.is_enforced for grant in grants) else sorted(names)


def shown_names(launch: Launch, index: Index, host: str) -> dict[str, str] | None:
    """Return by which names programs of an element see its GPUs on a host.

    A daemon of MPS counts the GPUs that it serves from 0; their UUIDs stay. None: as on the host.
    """
    names = daemon_names(launch, index, host)
    if not names:
        return None
    return {name: str(place) for place, name in enumerate(names) if name.isdecimal()}


def gpu_environment(launch: Launch, index: Index, entry: int = 0) -> dict[str, str]:
    """Return the variables about GPUs of one element on a host; a job without any sees none.

    Args:
        launch: What is started.
        index: Which element.
        entry: The host, as it stands in the launch.
    """
    wish = launch.gpu
    if wish is None:
        return {}
    grants = grants_at(launch, index, entry)
    shown = shown_names(launch, index, launch.hosts[entry][0])
    mps = mps_of(launch)
    found = visible_environment(grants, wish, shown)
    if mps:
        found["XCE_GPU_MPS"] = mps
    if is_hidden(launch):
        found.pop("CUDA_VISIBLE_DEVICES", None)
    found |= {
        "LSB_GPU_MODE": "exclusive_process" if wish.is_exclusive else "shared",
        "LSB_GPU_ALLOC": " ".join(
            f"{host} {len(devices)}"
            for (host, _), devices in zip(launch.hosts, _of(launch, index), strict=True)
            if devices
        ),
    }
    name = visible_name(grants)
    for task, mine in enumerate(own_grants(grants, wish, launch.hosts[entry][1])):
        found[f"{name}{task}"] = _listed(mine, shown)
    return found


def visible_name(grants: Sequence[DeviceGrant]) -> str:
    """Return the variable by which drivers are told which GPUs a program sees."""
    is_amd = bool(grants) and all(vendor_of(grant.model) == "amd" for grant in grants)
    return "ROCR_VISIBLE_DEVICES" if is_amd else "CUDA_VISIBLE_DEVICES"


def own_grants(
    grants: Sequence[DeviceGrant], wish: GpuWish, tasks: int
) -> list[tuple[DeviceGrant, ...]]:
    """Return the GPUs of each task on a host; nothing where all tasks have all of them."""
    if not grants:
        return []
    if wish.per == "task":
        return tasks_of(grants, wish)
    if wish.is_blocked and tasks > len(grants):
        return [(grants[task * len(grants) // tasks],) for task in range(tasks)]
    return []


def _listed(grants: Sequence[DeviceGrant], shown: Mapping[str, str] | None) -> str:
    names = dict.fromkeys(grant.name for grant in grants)
    return ",".join((shown or {}).get(name, name) for name in names)


def visible_environment(
    grants: Sequence[DeviceGrant], wish: GpuWish | None, shown: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the variables by which programs see these GPUs and no others.

    ``shown`` is what `shown_names` says.
    """
    names = list(dict.fromkeys(grant.name for grant in grants))
    visible = ",".join(names)
    name = visible_name(grants)
    found = {name: _listed(grants, shown)}
    if name == "CUDA_VISIBLE_DEVICES":
        found["NVIDIA_VISIBLE_DEVICES"] = visible or "void"
    found |= {
        "XCE_GPUS": visible,
        "XCE_GPU_COUNT": str(len(names)),
        "LSB_GPU_NUM": str(len(names)),
    }
    if wish is not None and wish.milli < WHOLE:
        found |= _share(wish, grants, has_daemon=shown is not None)
    return found


def _of(launch: Launch, index: Index) -> Sequence[tuple[DeviceGrant, ...]]:
    return (
        launch.devices[launch.indices.index(index)] if launch.devices else [()] * len(launch.hosts)
    )


def _share(wish: GpuWish, grants: Sequence[DeviceGrant], *, has_daemon: bool) -> dict[str, str]:
    """Return what is said of a share: how much it is, and whether it is more than advice.

    A daemon of its user's holds a job to it among those that share the daemon only.
    """
    is_enforced = bool(grants) and all(grant.is_enforced for grant in grants)
    found = {
        "XCE_GPU_SHARE": render_milli(wish.milli),
        "XCE_GPU_SHARE_KIND": "enforced" if is_enforced else "advisory",
    }
    if is_enforced or has_daemon:
        found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(1, wish.milli * 100 // WHOLE))
    return found


def tasks_of(grants: Sequence[DeviceGrant], wish: GpuWish) -> list[tuple[DeviceGrant, ...]]:
    """Return the GPUs of each task on a host, where they are asked for by task."""
    return [
        tuple(grants[first : first + wish.count]) for first in range(0, len(grants), wish.count)
    ]
