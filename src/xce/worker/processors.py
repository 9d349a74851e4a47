"""The processors of this machine, as the kernel tells of them in ``/sys``."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from xce.model.errors import TextError
from xce.model.processor import PROCESSORS_MAX, Processor, parse_list

_SYSTEM: Final = Path("/sys/devices/system")


def find_processors(
    allowed: Iterable[int] | None = None, *, system: Path = _SYSTEM
) -> tuple[Processor, ...]:
    """Return the processors that we may use; none where the kernel does not tell how they lie.

    Args:
        allowed: Their numbers; None: those of this process.
        system: Where the kernel tells.
    """
    numbers = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    if not numbers or numbers[-1] >= PROCESSORS_MAX:
        return ()
    try:
        nodes = _nodes(system)
        found = [_place(system, number, nodes) for number in numbers]
    except (OSError, ValueError, TextError):
        return ()
    # Cores count from 0 over the whole host; the kernel counts them anew in each socket.
    cores = {key: core for core, key in enumerate(sorted({(n, s, c) for _, n, s, c in found}))}
    return tuple(
        Processor(number, cores[numa, socket, core], socket, numa)
        for number, numa, socket, core in found
    )


def _nodes(system: Path) -> dict[int, int]:
    """Return the NUMA domain of each processor; empty: the kernel knows of none."""
    found: dict[int, int] = {}
    for path in (system / "node").glob("node[0-9]*"):
        for number in parse_list((path / "cpulist").read_text()):
            found[number] = int(path.name.removeprefix("node"))
    return found


def _place(system: Path, number: int, nodes: dict[int, int]) -> tuple[int, int, int, int]:
    """Return a processor with its NUMA domain, its socket and the first thread of its core."""
    path = system / f"cpu/cpu{number}/topology"
    socket = int((path / "physical_package_id").read_text())
    siblings = parse_list((path / "thread_siblings_list").read_text())
    return number, nodes.get(number, 0), max(socket, 0), min(siblings, default=number)
