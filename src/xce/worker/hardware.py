"""What this host is made of, beside its CPUs and memory: read once, told when a worker joins."""

import os
import re
import shutil
from pathlib import Path
from typing import Final

from xce.model.device import MPS_CONTROL
from xce.worker.environ import DEFAULT_PATH
from xce.worker.load import Sources, parse_sizes

_NO_DISK: Final = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d*")
_MIB: Final = 1024 * 1024


def find_hardware(sources: Sources = Sources(), system: Path = Path("/sys")) -> dict[str, int]:  # noqa: B008 - neither can be changed
    """Return the numbers that can be found out, in thousandths.

    Args:
        sources: Where to look.
        system: The directory of what the kernel says of devices.
    """
    found: dict[str, int] = {}
    try:
        text = (sources.proc / "cpuinfo").read_text(encoding="utf-8", errors="replace")
        found.update(count_processors(text))
    except OSError:
        pass
    try:
        names = [path.name for path in (system / "block").iterdir()]
        found["ndisks"] = sum(not _NO_DISK.match(name) for name in names)
    except OSError:
        pass
    try:
        kib = parse_sizes((sources.proc / "meminfo").read_text(encoding="ascii", errors="replace"))
        found["maxswp"] = kib.get("SwapTotal", 0) // 1024
    except OSError:
        pass
    try:
        room = os.statvfs(sources.temporary)
        found["maxtmp"] = room.f_blocks * room.f_frsize // _MIB
    except OSError:
        pass
    return {name: number * 1000 for name, number in found.items()}


def find_programs(path: str = DEFAULT_PATH) -> dict[str, bool]:
    """Return which programs are here that jobs may want and that need not be on every host."""
    return {name: True for name in (MPS_CONTROL,) if shutil.which(name, path=path)}


def count_processors(text: str) -> dict[str, int]:
    """Return how many processors, cores and threads ``/proc/cpuinfo`` lists.

    Where it does not say which thread is of which core, each is one of its own.
    """
    processors: set[str] = set()
    cores: set[tuple[str, str]] = set()
    threads = 0
    for block in text.split("\n\n"):
        rows = (line.partition(":") for line in block.splitlines())
        values = {name.strip(): value.strip() for name, _, value in rows}
        if "processor" not in values:
            continue
        threads += 1
        socket = values.get("physical id", "0")
        processors.add(socket)
        cores.add((socket, values.get("core id", values["processor"])))
    if not threads:
        return {}
    return {"nprocs": len(processors), "ncores": len(cores), "nthreads": threads}
