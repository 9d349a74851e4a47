"""Bounds on what a worker reports: whatever one sends, the controller's columns can hold it.

A host that was taken over may lie, but it must not be able to bring the controller down or to fill
its memory. A value outside these bounds is no report of a worker of ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from xce.model.device import DEVICES_MAX, Device
from xce.model.ids import HOUR_US
from xce.model.observation import (
    TOLD_MAX,
    AttemptEnded,
    AttemptStarted,
    AttemptTold,
    CheckpointSeen,
    HostJoined,
    Observation,
    Reported,
)
from xce.model.processor import PROCESSORS_MAX, Processor
from xce.model.usage import AttemptUse
from xce.net.bounds_launch import is_launch

ITEMS_MAX: Final = 1_000_000
"""Attempts of one host, and items of one report."""
TEXT_MAX: Final = 512
DETAIL_MAX: Final = 64 * 1024
ATTRIBUTES_MAX: Final = 1_000
CPUS_MAX: Final = 1_000_000
MEM_MIB_MAX: Final = 10**12
SPAN_US_MAX: Final = 100 * 366 * 24 * HOUR_US
COUNT_MAX: Final = 2**40
ID_MAX: Final = 2**62
INDEX_MAX: Final = 2**40
NUMBER_MAX: Final = 2**31
PLACES_MAX: Final = 1024
"""Numbers of cores, sockets and NUMA domains are below it."""


def refuse_observation(seen: Observation) -> str:
    """Return what is out of bounds in an observation; empty: nothing is."""
    match seen:
        case HostJoined():
            return _refuse_joined(seen)
        case Reported():
            return _refuse_reported(seen)
        case _:
            return ""


def _refuse_joined(seen: HostJoined) -> str:
    if not (0 <= seen.cpus <= CPUS_MAX and 0 <= seen.mem_mib <= MEM_MIB_MAX):
        return f"{seen.cpus} CPUs and {seen.mem_mib} MiB are no host"
    texts = (seen.boot_id, seen.isolation, seen.version)
    if any(len(text) > TEXT_MAX for text in texts):
        return "a text is too long"
    if len(seen.devices) > DEVICES_MAX or not all(map(_is_device, seen.devices)):
        return "a GPU cannot be one, or there are too many"
    if not _are_processors(seen.processors):
        return "processors cannot be ones, or there are too many"
    if len(seen.attempts) + len(seen.unreported) > ITEMS_MAX:
        return "there are too many attempts"
    places = ((item.job, item.index, item.attempt) for item in seen.attempts)
    if not (_are_places(places) and _are_places(seen.unreported)):
        return "an attempt has no number that can be one"
    return _refuse_attributes(seen.attributes)


def _are_processors(processors: Sequence[Processor]) -> bool:
    numbers = {item.number for item in processors}
    places = chain.from_iterable((item.core, item.socket, item.numa) for item in processors)
    return (
        len(numbers) == len(processors)
        and all(0 <= number < PROCESSORS_MAX for number in numbers)
        and all(0 <= place < PLACES_MAX for place in places)
    )


def _is_device(device: Device) -> bool:
    texts = (device.uuid, device.model, device.profile)
    numbers = (device.index, device.link, device.numa, device.parent)
    return (
        all(len(text) <= TEXT_MAX for text in texts)
        and all(-1 <= number <= NUMBER_MAX for number in numbers)
        and 0 <= device.mem_mib <= MEM_MIB_MAX
    )


def _refuse_attributes(attributes: Mapping[str, int | str | bool]) -> str:
    if len(attributes) > ATTRIBUTES_MAX:
        return "there are too many attributes"
    for name, value in attributes.items():
        size = len(value) if isinstance(value, str) else 0
        number = value if isinstance(value, int) else 0
        if max(len(name), size) > TEXT_MAX or not -ID_MAX <= number <= ID_MAX:
            return f"the attribute {name[:40]!r} is too long or too large"
    return ""


def _refuse_reported(seen: Reported) -> str:
    items = (seen.started, seen.ended, seen.suspended, seen.gone, seen.checkpoints, seen.told)
    if sum(map(len, items)) > ITEMS_MAX:
        return "there are too many items"
    places = chain(
        ((item.job, item.index, item.attempt) for item in seen.started),
        ((item.job, item.index, item.attempt) for item in seen.ended),
        ((item.job, item.index, item.attempt) for item in seen.suspended),
        seen.gone,
        ((item.job, item.index, item.attempt) for item in seen.checkpoints),
    )
    if not _are_places(places):
        return "an attempt has no number that can be one"
    if not all(_is_start(item) for item in seen.started):
        return "a start is out of bounds"
    if not all(_is_end(item) for item in seen.ended):
        return "an end is out of bounds"
    if not all(map(_is_checkpoint, seen.checkpoints)):
        return "a checkpoint is out of bounds"
    if len(seen.told) > TOLD_MAX or not all(map(_is_told, seen.told)):
        return "what is told of an attempt is out of bounds"
    return ""


def refuse_usage(rows: Sequence[AttemptUse]) -> str:
    """Return what is out of bounds in what attempts use; empty: nothing is."""
    if len(rows) + sum(len(row.pids) for row in rows) > ITEMS_MAX:
        return "there are too many attempts or processes"
    if not _are_places((row.job, row.index, row.attempt) for row in rows):
        return "an attempt has no number that can be one"
    for row in rows:
        counts = (
            row.mem_kib, row.max_mem_kib, row.avg_mem_kib, row.swap_kib, row.threads, row.pid,
            *row.pids,
        )  # fmt: skip
        is_count = min(counts) >= 0 and max(counts) <= COUNT_MAX
        if not (is_count and 0 <= row.cpu_us <= ID_MAX):
            return "what an attempt uses is out of bounds"
    return ""


def _are_places(places: Iterable[tuple[int, int, int]]) -> bool:
    return all(
        0 <= job <= ID_MAX and 0 <= index <= INDEX_MAX and 0 <= attempt <= NUMBER_MAX
        for job, index, attempt in places
    )


def _is_start(item: AttemptStarted) -> bool:
    return 0 <= item.pid <= NUMBER_MAX and 0 <= item.age_us <= SPAN_US_MAX


def _is_checkpoint(item: CheckpointSeen) -> bool:
    return 0 < item.number <= NUMBER_MAX and len(item.detail) <= DETAIL_MAX


def _is_told(item: AttemptTold) -> bool:
    return (
        _are_places(((item.launch.job, item.index, item.attempt),))
        and 0 <= item.pid <= NUMBER_MAX
        and 0 <= item.age_us <= SPAN_US_MAX
        and 0 <= item.signals <= NUMBER_MAX
        and is_launch(item.launch)
    )


def _is_end(item: AttemptEnded) -> bool:
    spans = (item.started_age_us, item.ended_age_us)
    used = (item.user_us, item.system_us, item.max_mem_kib)
    return (
        0 <= item.exit_code <= 255
        and 0 <= item.signal <= 127
        and all(0 <= span <= SPAN_US_MAX for span in spans)
        and all(0 <= amount <= COUNT_MAX * 1024 for amount in used)
        and 0 <= item.max_processes <= COUNT_MAX
        and 0 <= item.max_threads <= COUNT_MAX
        and len(item.detail) <= DETAIL_MAX
    )
