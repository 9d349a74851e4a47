"""What ``lshosts`` and ``lsload`` share: which hosts are meant, and sizes as LSF writes them."""

from __future__ import annotations

from xce.cli.lsf.front import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Host = dict[str, Any]


STATIC = ("ndisks", "nprocs", "ncores", "nthreads", "maxswp", "maxtmp")
_THRESHOLDS = "           r15s   r1m  r15m   ut      pg    io   ls    it    tmp    swp    mem"
_LOAD_ROW = "             -     -     -     -       -     -    -     -     -      -      -  "


def size_mib(mib: float | None) -> str:
    """Return a size as LSF writes it: ``7978M``, ``15.5G``, ``1.2T``; ``-`` where unknown."""
    if not mib:
        return "-"
    if mib < 10 * 1024:
        return f"{int(mib)}M"
    return f"{mib / 1024:.1f}G" if mib < 10 * 1024 * 1024 else f"{mib / 1024 / 1024:.1f}T"


def load_word(host: Host, index: str, *, per_cpu: bool = False) -> str:
    """Return what a host measures of an index as LSF writes it; ``-`` where it is not known."""
    value = (host.get("load") or {}).get(index)
    if value is None:
        return "-"
    match index:
        case "r15s" | "r1m" | "r15m":
            return f"{value / (host['cpus'] or 1) if per_cpu else value:.1f}"
        case "ut":
            return f"{value * 100:.0f}%"
        case "pg":
            return f"{value:.1f}"
        case "io" | "ls" | "it":
            return str(int(value))
        case _:
            return size_mib(value) if value else "0M"


def static_word(host: Host, name: str) -> str:
    """Return a number of what a host is made of; ``-`` where it is not known."""
    value = host["attributes"].get(name)
    if name.removeprefix("max") in host["counters"]:
        value = host["counters"][name.removeprefix("max")][0] * 1000
    if value is None:
        return "-"
    return (size_mib(value / 1000) if value else "0M") if name[:3] == "max" else f"{value // 1000}"


def threshold_rows(scheduled: dict[str, float], stopped: dict[str, float]) -> list[str]:
    """Return the table of load thresholds: those under which jobs start, and go on running."""
    return [
        f"{_THRESHOLDS}\n",
        f" loadSched{_threshold_row(scheduled)[10:]}\n",
        f" loadStop {_threshold_row(stopped)[10:]}\n",
    ]


def _threshold_row(limits: dict[str, float]) -> str:
    host = {"load": limits, "cpus": 1}
    words = [load_word(host, index) for index in _THRESHOLDS.split()]
    row = _LOAD_ROW
    for place, word in zip(_dashes(row), words, strict=True):
        first = max(place + 2 - len(word), 10)
        row = row[:first] + word + row[first + len(word) :] if word != "-" else row
    return row


def _dashes(row: str) -> list[int]:
    return [place for place, mark in enumerate(row) if mark == "-"]


def named_hosts(context: Context) -> tuple[list[Host], list[str]]:
    """Return the hosts that the command line means, and the names that are none."""
    parsed = context.parsed
    query = [("select", parsed.value("-R"))] if parsed.has("-R") else []
    known: list[Host] = context.api.call("GET", "/hosts", query)["hosts"]
    if not parsed.rest:
        return known, []
    by_name = {host["name"]: host for host in known}
    missing = [name for name in parsed.rest if name not in by_name]
    return [by_name[name] for name in dict.fromkeys(parsed.rest) if name in by_name], missing


def resource_words(host: Host) -> str:
    """Return the boolean resources that a host has, and its other attributes as ``name=value``."""
    words = []
    for name, value in sorted(host["attributes"].items()):
        if name in {"type", "model", *STATIC} or value is False:
            continue
        if value is True:
            words.append(name)
        elif isinstance(value, int):
            words.append(f"{name}={f'{value / 1000:.3f}'.rstrip('0').rstrip('.')}")
        else:
            words.append(f"{name}={value}")
    return f"({' '.join(words)})"
