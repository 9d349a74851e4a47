"""The devices of all hosts."""

from collections.abc import Iterable

from xce.model.device import Device
from xce.model.ids import HostNumber
from xce.state.device_columns import DeviceColumns
from xce.state.host_devices import HostDevices, merge_devices


class DeviceTable:
    """The devices of all hosts, by host number."""

    def __init__(self) -> None:
        self.hosts: list[HostDevices] = []
        self.reported: list[tuple[Device, ...]] = []
        """What workers found."""
        self.width = 0
        """Most devices of one host."""
        self._columns: DeviceColumns | None = None

    @property
    def columns(self) -> DeviceColumns:
        """The devices as columns, as they are now."""
        if self._columns is None:
            self._columns = DeviceColumns(self.hosts, self.width)
        return self._columns

    def content(self) -> list[tuple[object, ...]]:
        """Return what the columns are made of."""
        return [(tuple(one.devices), tuple(one.gone), tuple(one.closed)) for one in self.hosts]

    def add(self) -> None:
        """Make room for one more host."""
        self.hosts.append(HostDevices())
        self.reported.append(())
        self._columns = None

    def settle(
        self, number: HostNumber, configured: tuple[Device, ...] | None, *, is_idle: bool
    ) -> None:
        """Bring the devices of a host to what configuration and worker say."""
        now = merge_devices(configured, self.reported[number])
        host = self.hosts[number]
        if not now and not host.devices:
            return
        before = host.devices, host.gone, host.closed
        host.take(now, is_idle=is_idle)
        if (host.devices, host.gone, host.closed) != before:
            self._columns = None
        self.width = max(self.width, len(host.devices))

    def load(self, number: HostNumber, devices: HostDevices) -> None:
        """Take the devices of a host as a snapshot has them."""
        self.hosts[number] = devices
        self._columns = None
        self.width = max(self.width, len(devices.devices))

    def set_open(
        self, number: HostNumber, places: Iterable[int], *, is_open: bool, comment: str
    ) -> None:
        """Open or close devices."""
        closed = self.hosts[number].closed
        self._columns = None
        for place in places:
            if is_open:
                closed.pop(place, None)
            else:
                closed[place] = comment
