"""The devices of one host: which there are, which of them take new work.

A device keeps its place on its host as long as anything runs there. One that is not there any more
is *gone*: its place stays, and nothing new gets it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from xce.model.device import NO_LINK, Device


def merge_devices(
    configured: tuple[Device, ...] | None, reported: Sequence[Device]
) -> tuple[Device, ...]:
    """Return the devices of a host: those of its configuration, else those that were reported.

    What the configuration does not say of one is taken from what was reported of the same index.
    """
    if configured is None:
        return tuple(reported)
    by_index = {device.index: device for device in reported if device.parent < 0}
    found = []
    for device in configured:
        seen = by_index.get(device.index) if device.parent < 0 else None
        if seen is not None:
            device = msgspec.structs.replace(
                device,
                uuid=device.uuid or seen.uuid,
                model=device.model or seen.model,
                mem_mib=device.mem_mib or seen.mem_mib,
                link=seen.link if device.link == NO_LINK else device.link,
                numa=seen.numa if device.numa < 0 else device.numa,
            )
        found.append(device)
    return tuple(found)


class HostDevices(msgspec.Struct, array_like=True):
    """The devices of one host, by place."""

    devices: list[Device] = []
    gone: list[int] = []
    """Places of devices that are not there any more; rising."""
    closed: dict[int, str] = {}
    """Places of devices that an administrator closed, each with his comment."""

    def is_usable(self, place: int) -> bool:
        """Return whether new work may get a device: it is there, whole and open."""
        return place not in self.gone and place not in self.closed and not self.is_split(place)

    def is_split(self, place: int) -> bool:
        """Return whether a device is given out as instances of MIG only."""
        device = self.devices[place]
        return device.parent < 0 and any(
            other.parent == device.index and number not in self.gone
            for number, other in enumerate(self.devices)
        )

    def find(self, name: str) -> int | None:
        """Return the place of a device by its index or UUID; None: there is none."""
        for place, device in enumerate(self.devices):
            if place not in self.gone and name in (str(device.index), device.uuid):
                return place
        return None

    def take(self, now: Iterable[Device], *, is_idle: bool) -> None:
        """Take what there is now.

        Args:
            now: The devices.
            is_idle: Nothing runs on the host, so that places may be given anew.
        """
        before, closed = self.devices, self.closed
        self.devices, self.gone, self.closed = ([] if is_idle else list(before)), [], {}
        found: set[int] = set()
        for device in now:
            place = _same(self.devices, device, found)
            if place is None:
                place = len(self.devices)
                self.devices.append(device)
            self.devices[place] = device
            found.add(place)
        self.gone = [place for place in range(len(self.devices)) if place not in found]
        for old, comment in sorted(closed.items()):
            place = _same(self.devices, before[old], set())
            if place is not None:
                self.closed[place] = comment


def _same(devices: Sequence[Device], device: Device, taken: set[int]) -> int | None:
    """Return the place of a device among others; by its UUID where both have one."""
    for place, other in enumerate(devices):
        if place in taken:
            continue
        if other.uuid and device.uuid:
            if other.uuid == device.uuid:
                return place
        elif (other.index, other.parent, other.profile) == (
            device.index, device.parent, device.profile,
        ):  # fmt: skip
            return place
    return None
