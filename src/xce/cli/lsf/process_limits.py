"""``-c -v -p -T -S -D -F -C -ul``: what they say, and how limits are shown."""

from __future__ import annotations

from xce.cli.lsf.values import UNITS, parse_count, parse_duration_s, parse_size_kib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from xce.cli.lsf.options import Parsed

SIZES = {
    "-v": ("swap_limit_kib", "SWAPLIMIT"),
    "-S": ("stack_limit_kib", "STACKLIMIT"),
    "-D": ("data_limit_kib", "DATALIMIT"),
    "-F": ("file_limit_kib", "FILELIMIT"),
    "-C": ("core_limit_kib", "CORELIMIT"),
}
COUNTS = {"-p": ("process_limit", "PROCESSLIMIT"), "-T": ("thread_limit", "THREADLIMIT")}
CPU = {"-c": ("cpu_limit_s", "CPULIMIT")}
MEMBERS = {option: member for option, (member, _) in {**CPU, **SIZES, **COUNTS}.items()}
"""Option -> member of ``limits``."""
OPTIONS = tuple(MEMBERS)
_ULIMITS = (
    ("cpu_limit_s", "RLIMIT_CPU", 1),
    ("stack_limit_kib", "RLIMIT_STACK", 1024),
    ("data_limit_kib", "RLIMIT_DATA", 1024),
    ("file_limit_kib", "RLIMIT_FSIZE", 1024),
    ("core_limit_kib", "RLIMIT_CORE", 1024),
)
"""Member, the limit of this process that it is taken from by ``-ul``, and what counts as one."""
_PREFIXES = "KMGTPEZ"


def parse_limits(
    options: Parsed, unit_of: Callable[[], str], ulimits: Callable[[], dict[str, int]] | None = None
) -> dict[str, Any]:
    """Return the limits that options say.

    Args:
        options: The options.
        unit_of: Gives the letter of the unit of bare sizes.
        ulimits: Gives the limits of this process, for ``-ul``.

    Raises:
        BadValueError: One is none.
    """
    found: dict[str, Any] = {}
    if ulimits is not None and options.has("-ul"):
        found.update(ulimits())
    if options.has("-c"):
        found["cpu_limit_s"] = parse_duration_s(options.value("-c"), option="-c", what="CPULIMIT")
    for option, (member, what) in SIZES.items():
        if options.has(option):
            found[member] = _size_kib(options.value(option), option, what, unit_of)
    for option, (member, _) in COUNTS.items():
        if options.has(option):
            found[member] = parse_count(options.value(option), option=option)
    return found


def own_limits() -> dict[str, int]:
    """Return the soft limits of this process, of those that a job can have."""
    import resource  # noqa: PLC0415 - of this option only

    found = {}
    for member, name, unit in _ULIMITS:
        soft, _ = resource.getrlimit(getattr(resource, name))
        if soft != resource.RLIM_INFINITY and (soft >= unit or member == "core_limit_kib"):
            found[member] = soft // unit
    return found


def _size_kib(text: str, option: str, what: str, unit_of: Callable[[], str]) -> int:
    if option == "-C" and text.strip().rstrip("KMGTPEZBkmgtpezb") == "0":
        return 0
    kib = parse_size_kib(text, option=option, what=what)
    if kib is None:
        kib = parse_size_kib(text, option=option, bare_unit=unit_of(), what=what)
    return kib or 0


def limit_blocks(limits: Mapping[str, float]) -> list[str]:
    """Return limits of a job, queue or profile, each as a heading with its value below."""
    lines: list[str] = []
    for member, what in (*CPU.values(), *SIZES.values(), *COUNTS.values()):
        value = limits.get(member)
        if value is None:
            continue
        if member == "cpu_limit_s":
            lines += [f" {what:<24}", f" {value / 60:.1f} min"]
        elif member.endswith("_kib"):
            lines += [f" {what}", f"{size_text(int(value)):>9} "]
        else:
            lines += [f" {what}", f"{int(value):>9} "]
    return lines


def size_text(kib: int) -> str:
    """Return a size as LSF shows limits: ``4 G``, ``500 M``, ``0 K``."""
    value, power = float(kib), 0
    while value >= 1024 and power < len(UNITS) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.1f}".removesuffix(".0") + f" {_PREFIXES[power]}"


def shown_size(limits: Mapping[str, float] | None, member: str) -> str:
    """Return a limit of a size, or nothing."""
    value = (limits or {}).get(member)
    return "" if value is None else size_text(int(value))


def shown_count(limits: Mapping[str, float] | None, member: str) -> str:
    """Return a limit of a number, or nothing."""
    value = (limits or {}).get(member)
    return "" if value is None else str(int(value))
