"""GPUs: those of a plan where they still hold, and what administrators say about them."""

from collections.abc import Sequence

from xce.control.hosts import basis_of, permission_to, refuse_hosts
from xce.model.command import Accepted, SetDevicesOpen
from xce.model.host_record import DevicesOpened
from xce.model.ids import HostNumber
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


def decide_devices(
    state: ClusterState, command: SetDevicesOpen
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the record that opens or closes GPUs of a host, and a result for each of them."""
    if not basis_of(state, command):
        refusal = refuse_hosts(permission_to(command), "GPUs")
        return [], [refusal for _ in command.devices]
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
