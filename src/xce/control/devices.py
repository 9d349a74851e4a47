"""GPUs: those of a plan where they still hold, and what administrators say about them."""

from collections.abc import Sequence

from xce.model.command import Accepted, SetDevicesOpen
from xce.model.host_record import DevicesOpened
from xce.model.ids import HostNumber
from xce.model.permission import Actor, Permission
from xce.model.record import Record
from xce.model.refusal import Refusal, RefusalCode
from xce.sched.certify_devices import find_device_faults
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Column


def fitting_devices(
    state: ClusterState,
    free: Column,
    found: RequestClass,
    host: HostNumber,
    each: Sequence[list[int]],
) -> list[list[int]]:
    """Return which of the GPUs that single-host attempts shall have on a host are free for them.

    Args:
        state: The state.
        free: What is free, along rows and hosts.
        found: Their class.
        host: The host.
        each: The GPUs of each attempt.
    """
    request = found.key.request
    wish, row = request.gpu, state.hosts.device_row
    if wish is None:
        return []
    left = free[row:, host].tolist()
    fitting: list[list[int]] = []
    for devices in each:
        columns = [host], [request.tasks_max], (), [devices]
        if find_device_faults((request,), *columns, state.hosts):
            continue
        if any(left[place] < wish.milli * devices.count(place) for place in devices):
            continue
        for place in devices:
            left[place] -= wish.milli
        fitting.append(devices)
    return fitting


def take_devices(
    state: ClusterState,
    free: Column,
    found: RequestClass,
    host: HostNumber,
    each: Sequence[list[int]],
) -> None:
    """Take the GPUs of attempts out of what is free."""
    wish, row = found.key.request.gpu, state.hosts.device_row
    for devices in each:
        for place in devices:
            free[row + place, host] -= wish.milli if wish is not None else 0


def permission_to(command: SetDevicesOpen) -> Permission:
    """Return what one needs to open or close GPUs: the same as for their host."""
    return Permission.HOST_OPEN if command.is_open else Permission.HOST_CLOSE


def basis_of(state: ClusterState, command: SetDevicesOpen) -> str:
    """Return on what ground GPUs may be opened or closed; empty: they may not."""
    actor = Actor(command.by, command.groups, command.is_admin)
    return state.rights.basis(actor, permission_to(command))


def refuse_devices(permission: Permission) -> Refusal:
    """Return the refusal of opening or closing GPUs."""
    done = "opened" if permission is Permission.HOST_OPEN else "closed"
    return Refusal(
        RefusalCode.DENIED,
        f"GPUs are {done} by administrators and by those who have the permission {permission}",
        lsf="User permission denied",
        permission=permission,
    )


def decide_devices(
    state: ClusterState, command: SetDevicesOpen
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the record that opens or closes GPUs of a host, and a result for each of them."""
    if not basis_of(state, command):
        return [], [refuse_devices(permission_to(command)) for _ in command.devices]
    number = state.hosts.number.get(command.host)
    if number is None:
        unknown = Refusal(RefusalCode.UNKNOWN_HOST, f"no host is called {command.host!r}")
        return [], [unknown for _ in command.devices]
    host = state.hosts.devices.hosts[number]
    results: list[Accepted | Refusal] = []
    changed: list[int] = []
    for name in command.devices:
        place = host.find(name)
        if place is None:
            text = f"host {command.host} has no GPU {name!r}"
            results.append(Refusal(RefusalCode.UNKNOWN_DEVICE, text))
            continue
        comment = host.closed.get(place)
        is_news = comment is not None if command.is_open else comment != command.comment
        if is_news and place not in changed:
            changed.append(place)
        results.append(Accepted(text="opened" if command.is_open else "closed"))
    records: list[Record] = []
    if changed:
        records.append(DevicesOpened(number, changed, command.is_open, command.comment))
    return records, results
