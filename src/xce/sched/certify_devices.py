"""Are these the GPUs that the request asks for? Checked one by one with plain integers.

Like `xce.sched.certify` it shares no code with the allocator. Whether they are free is told by the
amounts that they come to.
"""

from collections.abc import Sequence

from xce.model.device import NO_LINK, WHOLE, Device, GpuWish, is_model, is_profile, vendor_of
from xce.model.ids import HostNumber
from xce.model.request import Request
from xce.state.host_devices import HostDevices
from xce.state.hosts import HostTable


def find_device_faults(
    roles: Sequence[Request],
    numbers: Sequence[HostNumber],
    sizes: Sequence[int],
    parts: Sequence[int],
    devices: Sequence[Sequence[int]],
    table: HostTable,
) -> list[str]:
    """Return what is wrong with the GPUs of a placement; nothing: they are as asked.

    Args:
        roles: The simple request of each role.
        numbers: Hosts in rank order.
        sizes: Tasks of each entry.
        parts: The role of each entry; empty: there is one.
        devices: The GPUs of each entry.
        table: The hosts.
    """
    owners = list(parts) or [0] * len(numbers)
    wishes = [role.gpu for role in roles]
    if not any(wishes):
        return ["GPUs that nobody asked for"] if any(devices) else []
    if len(devices) != len(numbers):
        return ["GPUs are not said for each entry"]
    faults: list[str] = []
    taken: dict[tuple[HostNumber, int], int] = {}
    begun: set[int] = set()
    for number, size, owner, places in zip(numbers, sizes, owners, devices, strict=True):
        wish = wishes[owner]
        is_first = owner not in begun
        begun.add(owner)
        if wish is None:
            faults += ["GPUs for a part that asks for none"] if places else []
            continue
        for place in places:
            taken[number, place] = taken.get((number, place), 0) + wish.milli
        faults += _faults_of_entry(wish, number, size, list(places), table, is_first=is_first)
    faults += [
        f"device {place} of host {table.names[number]} is given out twice"
        for (number, place), milli in taken.items()
        if milli > WHOLE
    ]
    return faults


def count_wanted(wish: GpuWish, host: HostDevices) -> int:
    """Return how many GPUs of a host are what is wanted, whoever has them."""
    places = range(len(host.devices))
    return sum(host.is_usable(one) and _is_wanted(wish, host.devices[one]) for one in places)


def _faults_of_entry(
    wish: GpuWish,
    number: HostNumber,
    tasks: int,
    places: list[int],
    table: HostTable,
    *,
    is_first: bool,
) -> list[str]:
    host = table.devices.hosts[number]
    name = table.names[number]
    expected = wish.count * tasks if wish.per == "task" else wish.count
    if wish.per == "job" and not is_first:
        expected = 0
    if len(places) != expected:
        return [f"{len(places)} GPUs on host {name}, not {expected}"]
    for place in places:
        if not 0 <= place < len(host.devices) or not host.is_usable(place):
            return [f"device {place} of host {name} is not there, closed or divided"]
        if not _is_wanted(wish, host.devices[place]):
            return [f"device {place} of host {name} is of another kind"]
    if wish.is_linked and wish.count > 1:
        for at in range(0, len(places), wish.count):
            links = {host.devices[place].link for place in places[at : at + wish.count]}
            if len(links) > 1 or NO_LINK in links:
                return [f"GPUs of host {name} that are not linked"]
    if wish.tile and places:
        return _faults_of_sockets(wish, number, places, table)
    return []


def _faults_of_sockets(
    wish: GpuWish, number: HostNumber, places: list[int], table: HostTable
) -> list[str]:
    """Return whether GPUs lie otherwise in the sockets of a host than ``gtile`` says."""
    devices, name = table.devices.hosts[number].devices, table.names[number]
    sockets = {item.numa: item.socket for item in table.processors.by_number(number).values()}
    where = [sockets.get(device.numa, device.numa) for device in devices]
    if any(where[place] < 0 for place in places):
        return [f"GPUs of host {name} of which nobody said at which socket they are"]
    used = [where[place] for place in places]
    counts = {one: used.count(one) for one in used}
    if wish.tile > 0:
        odd = [size for size in counts.values() if size != wish.tile]
        is_wrong = len(odd) > 1 or any(size > wish.tile for size in odd)
    else:
        every = {
            where[place]
            for place, device in enumerate(devices)
            if where[place] >= 0 and _is_wanted(wish, device)
        }
        sizes = [counts.get(one, 0) for one in every]
        is_wrong = max(sizes) - min(sizes) > 1
    return [f"GPUs of host {name} lie otherwise in its sockets than gtile says"] if is_wrong else []


def _is_wanted(wish: GpuWish, device: Device) -> bool:
    is_instance = device.parent >= 0
    if is_instance != bool(wish.mig) or (wish.mig and not is_profile(wish.mig, device.profile)):
        return False
    if (wish.vendor or not wish.model) and vendor_of(device.model) != (wish.vendor or "nvidia"):
        return False
    return is_model(wish.model, device.model) and (
        not wish.mem_mib or device.mem_mib * 8 >= wish.mem_mib * 7
    )
