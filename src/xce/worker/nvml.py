"""The GPUs of this machine, as NVIDIA's management library tells of them.

The library comes with the driver; the package ``nvidia-ml-py`` (the extra ``gpu``) speaks to it.
Where either is missing there are no GPUs but those that the configuration names.
"""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from xce.model.device import DEVICES_MAX, NO_LINK, Device

_LINKS_MAX: Final = 18
"""Most NVLinks of one GPU."""
_PROFILE: Final = re.compile(r"(?:\dc\.)?\dg\.\d+gb(?:\+[a-z.]+)?")
_PCI: Final = Path("/sys/bus/pci/devices")


def find_devices(library: Any = None, *, pci: Path = _PCI) -> tuple[Device, ...]:  # noqa: ANN401 - a module without types
    """Return the GPUs and their instances of MIG; none where the library cannot be used.

    Args:
        library: The module ``pynvml``; None: it is looked for.
        pci: Where the kernel tells of devices on the bus.
    """
    if library is None:
        try:
            library = importlib.import_module("pynvml")
        except ImportError:
            return ()
    try:
        library.nvmlInit()
    except library.NVMLError:
        return ()
    try:
        return tuple(_devices(library, pci))[:DEVICES_MAX]
    finally:
        library.nvmlShutdown()


def _devices(library: Any, pci: Path) -> list[Device]:  # noqa: ANN401 - as above
    handles = [
        library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())
    ]
    buses = [_text(library.nvmlDeviceGetPciInfo(handle).busId).lower() for handle in handles]
    links = _links(library, handles, buses)
    whole = [
        Device(
            index,
            _text(library.nvmlDeviceGetUUID(handle)),
            _text(library.nvmlDeviceGetName(handle)),
            library.nvmlDeviceGetMemoryInfo(handle).total >> 20,
            links[index],
            _numa(pci, buses[index]),
        )
        for index, handle in enumerate(handles)
    ]
    parts: list[Device] = []
    for parent, handle in zip(whole, handles, strict=True):
        for instance in _instances(library, handle):
            name = _text(library.nvmlDeviceGetName(instance))
            profile = _PROFILE.search(name.lower())
            parts.append(
                Device(
                    len(whole) + len(parts),
                    _text(library.nvmlDeviceGetUUID(instance)),
                    parent.model,
                    library.nvmlDeviceGetMemoryInfo(instance).total >> 20,
                    NO_LINK,
                    parent.numa,
                    parent.index,
                    profile[0] if profile else name,
                    is_enforced=True,
                )
            )
    return [*whole, *parts]


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _numa(pci: Path, bus: str) -> int:
    """Return the NUMA domain of a device on the bus; -1: the kernel does not know."""
    # The library writes the domain with eight digits, the kernel with four.
    domain, _, rest = bus.partition(":")
    try:
        text = (pci / f"{domain[-4:]}:{rest}" / "numa_node").read_text(encoding="ascii")
        return int(text)
    except (OSError, ValueError):
        return -1


def _links(library: Any, handles: list[Any], buses: list[str]) -> list[int]:  # noqa: ANN401 - as above
    """Return the NVLink domain of each GPU: those that are linked, directly or by a switch."""
    domain = list(range(len(handles)))
    switched: list[int] = []
    is_linked = [False] * len(handles)

    def join(one: int, other: int) -> None:
        old, new = domain[other], domain[one]
        for place, number in enumerate(domain):
            domain[place] = new if number == old else number

    for index, handle in enumerate(handles):
        for remote in _remotes(library, handle):
            is_linked[index] = True
            if remote in buses:
                join(index, buses.index(remote))
            else:
                switched.append(index)
    for index in switched:
        join(switched[0], index)
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(domain[index], len(numbers)) if is_linked[index] else NO_LINK
        for index in range(len(handles))
    ]


def _remotes(library: Any, handle: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    """Yield what is at the other end of each link that is up."""
    for link in range(_LINKS_MAX):
        try:
            if library.nvmlDeviceGetNvLinkState(handle, link):
                yield _text(library.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId).lower()
        except library.NVMLError:
            return


def _instances(library: Any, handle: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Yield the instances of MIG of a GPU."""
    try:
        mode, _ = library.nvmlDeviceGetMigMode(handle)
        if not mode:
            return
        for number in range(library.nvmlDeviceGetMaxMigDeviceCount(handle)):
            yield library.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
    except library.NVMLError:
        return
