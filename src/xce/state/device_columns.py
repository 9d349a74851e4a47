"""The devices of all hosts side by side: columns along places and hosts."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from xce.model.device import GpuWish, is_model, is_profile, link_places, vendor_of
from xce.state.host_devices import HostDevices

Grid = npt.NDArray[np.int64]
FlagGrid = npt.NDArray[np.bool_]
_SIZE_PARTS: Final = 8
"""A device has a little less memory than its name says: one part of so many may be missing."""


class DeviceColumns:
    """What is known of devices; valid for one ``change`` of the device table."""

    def __init__(self, hosts: Sequence[HostDevices], width: int) -> None:
        shape = (width, len(hosts))
        self.width = width
        self.usable: FlagGrid = np.zeros(shape, np.bool_)
        """New work may get them."""
        self.is_there: FlagGrid = np.zeros(shape, np.bool_)
        """They are no instances of MIG and not divided into such."""
        self.link: Grid = np.full(shape, -1, np.int64)
        """The number of its NVLink domain on its host; -1: there is no such device."""
        self.numa: Grid = np.full(shape, -1, np.int64)
        self.mem_mib: Grid = np.zeros(shape, np.int64)
        self._models: dict[str, int] = {"": 0}
        self._profiles: dict[str, int] = {"": 0}
        self._model: Grid = np.zeros(shape, np.int64)
        self._profile: Grid = np.zeros(shape, np.int64)
        known: dict[tuple[object, ...], tuple[list[int], ...]] = {}
        for number, host in enumerate(hosts):
            if host.devices:
                self._lay_out(number, host, known)
        models = list(map(tuple, self._model.T.tolist()))
        kinds = {kind: number for number, kind in enumerate(sorted({*models}))}
        self.host_kinds: Grid = np.asarray([kinds[kind] for kind in models], np.int64)
        """A number for the models of each host, the same for hosts with the same ones."""
        self._kinds: dict[GpuWish, frozenset[int]] = {}
        self.kind_count = int(self.host_kinds.max(initial=0)) + 1
        sizes = np.bincount(self.host_kinds, self.usable.sum(axis=0), minlength=self.kind_count)
        self.capacity: tuple[int, ...] = tuple(sizes.astype(np.int64).tolist())
        """How many devices that take new work the hosts of each kind have."""
        self.domains = int(self.link.max(initial=-1)) + 1
        """Most NVLink domains of one host."""

    def _lay_out(
        self, number: int, host: HostDevices, known: dict[tuple[object, ...], tuple[list[int], ...]]
    ) -> None:
        kinds = tuple(
            (d.model, d.mem_mib, d.link, d.numa, d.parent, d.profile, d.index) for d in host.devices
        )
        columns = known.get(kinds)
        if columns is None:
            devices = host.devices
            columns = known[kinds] = (
                link_places(devices),
                [device.numa for device in devices],
                [device.mem_mib for device in devices],
                [self._models.setdefault(device.model, len(self._models)) for device in devices],
                [
                    self._profiles.setdefault(device.profile, len(self._profiles))
                    for device in devices
                ],
            )
        size = len(host.devices)
        for grid, column in zip(
            (self.link, self.numa, self.mem_mib, self._model, self._profile), columns, strict=True
        ):
            grid[:size, number] = column
        split = {d.parent for place, d in enumerate(host.devices) if place not in host.gone}
        self.is_there[:size, number] = [
            device.parent >= 0 or device.index not in split for device in host.devices
        ]
        self.usable[:size, number] = self.is_there[:size, number]
        self.usable[[*host.gone, *host.closed], number] = False

    def kinds(self, wish: GpuWish) -> frozenset[int]:
        """Return the kinds of the hosts that have a device with which a wish may be met."""
        found = self._kinds.get(wish)
        if found is None:
            there = self.host_kinds[self.match(wish).any(axis=0)]
            found = self._kinds[wish] = frozenset(np.unique(there).tolist())
        return found

    def match(self, wish: GpuWish) -> FlagGrid:
        """Return which devices a wish may be met with, those that are closed too."""
        mask = self.is_there & (self.link >= 0)
        mask &= _chosen(self._profile, self._profiles, wish.mig, is_profile)
        if not wish.mig:
            mask &= self._profile == 0
        vendor = wish.vendor or ("" if wish.model else "nvidia")
        if vendor:
            mask &= _among(self._model, [vendor_of(text) == vendor for text in self._models])
        if wish.model:
            mask &= _chosen(self._model, self._models, wish.model, is_model)
        if wish.mem_mib:
            mask &= self.mem_mib * _SIZE_PARTS >= wish.mem_mib * (_SIZE_PARTS - 1)
        return mask


def _chosen(
    codes: Grid, table: dict[str, int], asked: str, test: Callable[[str, str], bool]
) -> FlagGrid:
    if not asked:
        return np.ones(codes.shape, np.bool_)
    return _among(codes, [bool(text) and test(asked, text) for text in table])


def _among(codes: Grid, is_good: list[bool]) -> FlagGrid:
    """Return where a code is a good one; codes count up in the order of their table."""
    found: FlagGrid = np.asarray(is_good, np.bool_)[codes]
    return found
