"""The value of ``-gpu``."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from xce.cli.lsf.values import BadValueError, parse_size_kib

GpuWish: TypeAlias = dict[str, int | float | str | bool | list[str]]

_DEFAULT: Final[GpuWish] = {"num": 1, "mode": "shared", "mps": False, "j_exclusive": False}
_NUMBER: Final = re.compile(r"([1-9][0-9]{0,5})(?:/(task|host))?")
_MIG: Final = re.compile(r"([12347])(?:/([12347]))?")
_NO_MIG: Final = ("4/3", "7/5", "7/6")
_MODES: Final = ("shared", "exclusive_process")
_VENDORS: Final = ("nvidia", "amd")
_SWITCHES: Final = ("j_exclusive", "aff", "block", "gpack", "glink", "nvlink")
_MPS_WORDS: Final = ("shared", "nocvd", "per_socket", "per_gpu")


def parse_gpu(text: str, bare_unit: str) -> GpuWish:
    """Return what a ``-gpu`` text asks for; what it does not say has its default.

    Args:
        text: ``-`` or ``item:item...``.
        bare_unit: The letter of the unit of a bare ``gmem``.

    Raises:
        BadValueError: It cannot be read.
    """
    found: GpuWish = dict(_DEFAULT)
    if text.strip() == "-":
        return found
    seen: set[str] = set()
    for item in text.split(":"):
        name, equals, value = (part.strip() for part in item.partition("="))
        reader = _READERS.get(name)
        if not equals or not value or reader is None:
            raise _bad(text, f"{item.strip()!r} is none of {', '.join(_READERS)} with =value")
        if name in seen:
            raise _bad(text, f"{name} is given twice")
        seen.add(name)
        part = reader(name, value, bare_unit)
        if part is None:
            raise _bad(text, f"{name}={value} is not allowed")
        found.update(part)
    if {"glink", "nvlink"} <= seen:
        raise BadValueError(
            "Cannot specify glink and nvlink together in the GPU requirement string"
        )
    if found["mode"] == "exclusive_process":
        found["j_exclusive"] = True
    return found


def _bad(text: str, why: str) -> BadValueError:
    return BadValueError(f"Bad GPU requirement: -gpu {text}: {why}")


def _number(name: str, value: str, unit: str) -> GpuWish | None:
    match = _NUMBER.fullmatch(value)
    if match is None:
        return None
    return {"num": int(match[1]), **({"num_per": match[2]} if match[2] else {})}


def _mode(name: str, value: str, unit: str) -> GpuWish | None:
    return {name: value} if value in _MODES else None


def _vendor(name: str, value: str, unit: str) -> GpuWish | None:
    return {name: value} if value in _VENDORS else None


def _mps(name: str, value: str, unit: str) -> GpuWish | None:
    first, *words = (word.strip() for word in value.split(","))
    if first not in ("yes", "no", *_MPS_WORDS) or not set(words) <= set(_MPS_WORDS):
        return None
    words = words if first in ("yes", "no") else [first, *words]
    if first == "no" and words:
        return None
    return {"mps": first != "no", **({"mps_options": words} if words else {})}


def _switch(name: str, value: str, unit: str) -> GpuWish | None:
    return {name: value == "yes"} if value in ("yes", "no") else None


def _model(name: str, value: str, unit: str) -> GpuWish | None:
    """Return a model as LSF names it: no blanks, and ``_`` for ``/``."""
    return {name: "".join(value.split()).replace("/", "_")}


def _tile(name: str, value: str, unit: str) -> GpuWish | None:
    if value.strip("'") == "!":
        return {name: "!"}
    return {name: int(value)} if re.fullmatch("[1-9][0-9]{0,3}", value) else None


def _memory(name: str, value: str, unit: str) -> GpuWish | None:
    kib = parse_size_kib(value, option="-gpu gmem") or parse_size_kib(
        value, option="-gpu gmem", bare_unit=unit
    )
    return {name: mib(kib or 0)}


def _mig(name: str, value: str, unit: str) -> GpuWish | None:
    match = _MIG.fullmatch(value)
    if match is None or value in _NO_MIG or (match[2] and int(match[2]) > int(match[1])):
        raise BadValueError(f"Invalid mig in gpu requirement: {value}")
    return {name: value}


def mib(kib: int) -> int | float:
    """Return KiB in MiB; a whole number where it is one."""
    return kib / 1024 if kib % 1024 else kib // 1024


_READERS: Final[dict[str, Callable[[str, str, str], GpuWish | None]]] = {
    "num": _number,
    "mode": _mode,
    "mps": _mps,
    **dict.fromkeys(_SWITCHES, _switch),
    "gvendor": _vendor,
    "gmodel": _model,
    "gtile": _tile,
    "gmem": _memory,
    "mig": _mig,
}
