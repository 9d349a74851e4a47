"""Names of hosts, queues and resources, and patterns that mean many hosts: ``g[01-08],b[1-3]``."""

import re
from collections.abc import Iterable
from typing import Final

from xce.model.errors import TextError
from xce.model.ranges import from_sorted

HOSTS_MAX: Final = 20_000
"""Most hosts that one configuration may name."""
HOST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,58}")
RESOURCE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,38}")
USER_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}\$?")

RESERVED_HOSTS: Final = frozenset({"all", "others", "none", "default", "allremote"})
"""What LSF options mean by these words would hide a host of that name."""
RESERVED_QUEUES: Final = frozenset({"all", "default", "none", "others"})
BUILT_IN_ATTRIBUTES: Final = frozenset({"model", "type"})
"""Text attributes that every host may have without a declaration."""
SIZE_COUNTERS: Final = ("swp", "tmp")
"""Sizes that hosts may offer beside their memory; a host that names one declares it."""
_WORDS: Final = """
    slots maxslots mem swp tmp maxmem maxswp maxtmp ut ls it io pg r15s r1m r15m cpu cpuf ncpus
    nprocs ncores nthreads ndisks type model status hname server rexpri gpu gpus ngpus
    ngpus_physical ngpus_shared ngpus_excl_t ngpus_excl_p names name labels attributes state
    local any host task job hosts ptile block
"""
RESERVED_RESOURCES: Final = frozenset(_WORDS.split())
"""Built-in names of LSF's and ours, keys of a host entry, and words of the request language."""

_RANGE: Final = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")


def expand_names(text: str, *, names_max: int = HOSTS_MAX) -> tuple[str, ...]:
    """Return the host names that a pattern means, in its order: ``g[01-03]`` is g01, g02, g03.

    Commas and blanks separate patterns; a bracket holds numbers and ranges, as wide as its first
    number is written; a pattern may have several brackets.

    Raises:
        TextError: The text is no pattern, means no name, too many, or one name twice.
    """
    names: list[str] = []
    for part in _split(text):
        names.extend(_expand_one(part, text, room=names_max - len(names)))
    if not names:
        raise TextError("names no host: expected names such as 'g[01-08],b[1-3]'", text=text)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TextError(f"means {twice!r} twice", text=text)
    return tuple(names)


def check_host_name(name: str) -> str:
    """Return ``name`` if a host may have it.

    Raises:
        TextError: It may not.
    """
    if not HOST_NAME.fullmatch(name):
        raise TextError(
            f"{name!r} is no host name: expected at most 63 letters, digits, '.', '_' and '-', "
            "the first a letter or digit",
            text=name,
        )
    if name.lower() in RESERVED_HOSTS:
        raise TextError(f"{name!r} cannot be a host's name: commands give it a meaning", text=name)
    return name


def _split(text: str) -> list[str]:
    """Return the parts between commas and blanks that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if depth not in (0, 1):
            raise TextError(f"brackets of {text!r} do not match", text=text, column=place + 1)
        if depth == 0 and (sign == "," or sign.isspace()):
            parts.append(text[start:place])
            start = place + 1
    if depth:
        raise TextError(f"brackets of {text!r} do not match", text=text, column=len(text))
    parts.append(text[start:])
    return [part for part in parts if part]


def _expand_one(part: str, text: str, *, room: int) -> list[str]:
    """Return the names of one pattern, at most ``room`` of them."""
    names = [""]
    pieces = re.split(r"\[([^\[\]]*)\]", part)
    for number, piece in enumerate(pieces):
        endings = _numbers(piece, text, room=room) if number % 2 else [piece]
        if len(names) * len(endings) > room:
            raise TextError(f"means more than {HOSTS_MAX} hosts in all", text=text)
        names = [name + ending for name in names for ending in endings]
    return [check_host_name(name) for name in names]


def _numbers(bracket: str, text: str, *, room: int) -> list[str]:
    """Return the numbers of one bracket as text, zero-padded as written."""
    found: list[str] = []
    for item in bracket.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise TextError(f"[{bracket}] is no range: expected e.g. [1-8] or [01-03,7]", text=text)
        first, last = match["first"], match["last"] or match["first"]
        if int(last) < int(first):
            raise TextError(f"[{bracket}] runs backwards: {first} is above {last}", text=text)
        if int(last) - int(first) + 1 > room - len(found):
            raise TextError(f"means more than {HOSTS_MAX} hosts in all", text=text)
        found.extend(str(n).zfill(len(first)) for n in range(int(first), int(last) + 1))
    return found


def fold_names(names: Iterable[str]) -> str:
    """Return a short pattern for host names, in their natural order; `expand_names` undoes it."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    plain: list[str] = []
    for name in names:
        match = re.fullmatch(r"(.*?)(\d{1,9})(\D*)", name)
        if match is None:
            plain.append(name)
            continue
        # Numbers of different width are written in brackets of their own.
        width = len(match[2]) if match[2][0] == "0" or len(match[2]) > 1 else 0
        groups.setdefault((match[1], width, match[3]), []).append(int(match[2]))
    found = sorted(plain)
    for (before, width, behind), numbers in sorted(groups.items()):
        runs = from_sorted(sorted(numbers))
        texts = [
            str(low).zfill(width) + (f"-{str(high).zfill(width)}" if high > low else "")
            for low, high in runs
        ]
        inside = ",".join(texts)
        is_one = len(runs) == 1 and runs[0][0] == runs[0][1]
        found.append(f"{before}{inside}{behind}" if is_one else f"{before}[{inside}]{behind}")
    return ",".join(found)
