"""Hosts and tasks of a GPU cluster in the form of Alibaba's ``openb`` files."""

import csv
import gzip
import io
from pathlib import Path
from typing import Final, NamedTuple

from xce.model.device import DEVICES_MAX, WHOLE
from xce.model.errors import XceError

_BYTES_MAX: Final = 256 * 1024 * 1024


class GpuLogError(XceError):
    """A file is not of that form; the text names file, line and column."""


class Node(NamedTuple):
    """A host."""

    name: str
    cpu_milli: int
    mem_mib: int
    gpus: int
    model: str


class Task(NamedTuple):
    """What a task asks for; tasks that ask for the same are equal."""

    cpu_milli: int
    mem_mib: int
    gpus: int
    milli: int
    """Of each GPU; 0 without any."""
    models: tuple[str, ...]
    """Models that will do; empty: any."""


def load_nodes(path: Path) -> list[Node]:
    """Return the hosts with GPUs.

    Raises:
        GpuLogError: The file is no list of nodes, or none has a GPU.
    """
    rows = _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    nodes = [
        Node(
            row["sn"], _number(path, line, row, "cpu_milli"),
            _number(path, line, row, "memory_mib"), _number(path, line, row, "gpu"), row["model"],
        )
        for line, row in rows
    ]  # fmt: skip
    found = [node for node in nodes if node.gpus]
    if not found or max(node.gpus for node in found) > DEVICES_MAX:
        raise GpuLogError(f"{path}: no node has GPUs, or one has more than {DEVICES_MAX}")
    return found


def load_tasks(path: Path) -> list[Task]:
    """Return the tasks in the order of the file.

    Raises:
        GpuLogError: The file is no list of pods.
    """
    found = []
    for line, row in _rows(path, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        gpus = _number(path, line, row, "num_gpu")
        milli = _number(path, line, row, "gpu_milli") if gpus else 0
        if gpus > 1 or milli > WHOLE:
            milli = WHOLE
        if gpus and not milli:
            raise GpuLogError(f"{path}:{line}: gpu_milli is 0 for a task with a GPU")
        spec = (row.get("gpu_spec") or "").strip()
        models = tuple(sorted(filter(None, spec.split("|")))) if gpus else ()
        found.append(
            Task(
                _number(path, line, row, "cpu_milli"), _number(path, line, row, "memory_mib"),
                gpus, milli, models,
            )
        )  # fmt: skip
    if not any(task.gpus for task in found):
        raise GpuLogError(f"{path}: no task asks for a GPU")
    return found


def _rows(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError) as error:
        raise GpuLogError(f"{path}: cannot be read: {error}") from error
    if len(content) > _BYTES_MAX:
        raise GpuLogError(f"{path}: more than {_BYTES_MAX >> 20} MiB")
    reader = csv.DictReader(io.StringIO(content.decode("utf-8", "replace")))
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise GpuLogError(f"{path}:1: no column {missing[0]!r}: expected {', '.join(columns)}")
    return [(reader.line_num, row) for row in reader]


def _number(path: Path, line: int, row: dict[str, str], name: str) -> int:
    text = (row.get(name) or "").strip()
    if not text.isdecimal() or len(text) > 15:
        raise GpuLogError(f"{path}:{line}: {name} is {text[:40]!r}, no whole number")
    return int(text)
