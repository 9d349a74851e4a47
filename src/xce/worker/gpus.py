"""What a job's environment says of its GPUs. Pure."""

from collections.abc import Sequence

from xce.model.device import WHOLE, DeviceGrant, GpuWish, vendor_of
from xce.model.effect import Launch
from xce.model.ids import Index
from xce.model.units import render_milli


def grants_at(launch: Launch, index: Index, entry: int = 0) -> tuple[DeviceGrant, ...]:
    """Return the GPUs of one element on one of the launch's hosts."""
    if not launch.devices:
        return ()
    place = launch.indices.index(index)
    return launch.devices[place][entry]


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
    found = visible_environment(grants, wish)
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
        found[f"{name}{task}"] = ",".join(dict.fromkeys(grant.name for grant in mine))
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


def visible_environment(grants: Sequence[DeviceGrant], wish: GpuWish | None) -> dict[str, str]:
    """Return the variables by which programs see these GPUs and no others."""
    names = list(dict.fromkeys(grant.name for grant in grants))
    visible = ",".join(names)
    name = visible_name(grants)
    found = {name: visible}
    if name == "CUDA_VISIBLE_DEVICES":
        found["NVIDIA_VISIBLE_DEVICES"] = visible or "void"
    found |= {
        "XCE_GPUS": visible,
        "XCE_GPU_COUNT": str(len(names)),
        "LSB_GPU_NUM": str(len(names)),
    }
    if wish is not None and wish.milli < WHOLE:
        found |= _share(wish, grants)
    return found


def _of(launch: Launch, index: Index) -> Sequence[tuple[DeviceGrant, ...]]:
    return (
        launch.devices[launch.indices.index(index)] if launch.devices else [()] * len(launch.hosts)
    )


def _share(wish: GpuWish, grants: Sequence[DeviceGrant]) -> dict[str, str]:
    """Return what is said of a share: how much it is, and whether it is more than advice."""
    is_enforced = bool(grants) and all(grant.is_enforced for grant in grants)
    found = {
        "XCE_GPU_SHARE": render_milli(wish.milli),
        "XCE_GPU_SHARE_KIND": "enforced" if is_enforced else "advisory",
    }
    if is_enforced:
        found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(1, wish.milli * 100 // WHOLE))
    return found


def tasks_of(grants: Sequence[DeviceGrant], wish: GpuWish) -> list[tuple[DeviceGrant, ...]]:
    """Return the GPUs of each task on a host, where they are asked for by task."""
    return [
        tuple(grants[first : first + wish.count]) for first in range(0, len(grants), wish.count)
    ]
