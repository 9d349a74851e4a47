"""Limits of ``lsb.queues`` and ``lsb.applications``: their values, and limits of processes."""

import re
from typing import Any, Final

from xce.cli.xceadmin.lsf.report import Verdict

_SIZES: Final = {
    "SWAPLIMIT": "swap_limit",
    "STACKLIMIT": "stack_limit",
    "DATALIMIT": "data_limit",
    "FILELIMIT": "file_limit",
    "CORELIMIT": "core_limit",
}
_COUNTS: Final = {"PROCESSLIMIT": "process_limit", "THREADLIMIT": "thread_limit"}
PROCESS_LIMITS: Final = frozenset(("CPULIMIT", *_SIZES, *_COUNTS))
"""Parameters that `take_process_limit` takes."""


def take_process_limit(
    entry: dict[str, Any], key: str, text: str, unit: str, *, has_default: bool
) -> tuple[Verdict, str]:
    """Take ``[default] maximum`` of a limit of processes into a queue or a profile.

    Args:
        entry: The queue or profile.
        key: The parameter.
        text: Its value.
        unit: The unit of sizes without one.
        has_default: Whether it can have a CPU limit of jobs that say none.
    """
    words = text.split()
    if key == "CPULIMIT":
        return _take_cpu(entry, words, has_default=has_default)
    if key in _COUNTS:
        name, what = _COUNTS[key], "number"
        values = [word if word.isdecimal() and int(word) else None for word in words]
    else:
        name, what = _SIZES[key], "size"
        is_core = key == "CORELIMIT"
        values = ["0" if word == "0" and is_core else size_of(word, unit) for word in words]
    if not values or None in values or len(values) > 2:
        return Verdict.NONE, f"it is no [default] maximum of a {what}"
    last = values[-1] or ""
    entry[name] = int(last) if last.isdecimal() else last
    said = f"{name}: {last}"
    if len(values) == 2:
        return Verdict.PARTLY, f"{said}; jobs that say none have the maximum"
    return Verdict.TAKEN, said


def _take_cpu(entry: dict[str, Any], words: list[str], *, has_default: bool) -> tuple[Verdict, str]:
    spans = [minutes_of(word.partition("/")[0]) for word in words]
    if not spans or None in spans or len(spans) > 2:
        return Verdict.NONE, "it is no [default] maximum of [hours:]minutes"
    entry["cpu_limit"] = f"{spans[-1]}m"
    said, missing = f"cpu_limit: {spans[-1]}m", []
    if len(spans) == 2 and has_default:
        entry["default_cpu_limit"] = f"{spans[0]}m"
        said += f", default_cpu_limit: {spans[0]}m"
    elif len(spans) == 2:
        missing.append("jobs that say none have the maximum")
    if any("/" in word for word in words):
        missing.append("CPU time is not scaled by a host's speed")
    if missing:
        return Verdict.PARTLY, "; ".join([said, *missing])
    return Verdict.TAKEN, said


def minutes_of(word: str) -> int | None:
    """Return the minutes of ``[hours:]minutes``; None: it is no such time."""
    hours, _, minutes = word.rpartition(":")
    if not minutes.replace(".", "", 1).isdecimal() or (hours and not hours.isdecimal()):
        return None
    total = int(hours or 0) * 60 + -(-float(minutes) // 1)
    return int(total) or None


def size_of(word: str, unit: str) -> str | None:
    """Return an amount of memory with its unit; None: it is none."""
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)B?", word.strip(), re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        return None
    return f"{found[1]}{(found[2] or unit).upper()}"
