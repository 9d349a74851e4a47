"""Base units and their text: sizes in MiB, spans in microseconds, LSF's durations.

Requests and limits are rounded up to a base unit, supplies down (decision X-26).
"""

import re
from typing import Final

from xce.model.errors import TextError
from xce.model.ids import HOUR_US, MINUTE_US, SECOND_US, Micros

_SIZE: Final = re.compile(r"(?P<number>\d{1,99}(?:\.\d{0,99})?|\.\d{1,99})\s*(?P<unit>[A-Za-z]*)")
_POWER: Final = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6, "Z": 7}
_SPAN: Final = re.compile(r"(?P<number>\d{1,99}(?:\.\d{1,99})?)\s*(?P<unit>us|ms|s|m|h|d)")
_SPAN_US: Final = {
    "us": 1, "ms": 1_000, "s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": 24 * HOUR_US,
}  # fmt: skip


def parse_size_kib(text: str, *, default_unit: str = "M") -> int:
    """Return the KiB that a size text means, rounded up.

    Args:
        text: A number, with or without a unit K, M, G, T, P, E or Z; a trailing B or iB is allowed.
        default_unit: The unit of a bare number.

    Raises:
        TextError: The text is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = (match["unit"] or default_unit).upper() if match else ""
    letter = unit.removesuffix("B").removesuffix("I")
    if match is None or letter not in _POWER:
        raise TextError(
            f"{text!r} is no size: expected a number with one of K, M, G, T, P, E", text=text
        )
    whole, _, fraction = match["number"].partition(".")
    numerator: int = int((whole or "0") + fraction)
    numerator *= 1024 ** (_POWER[letter] - 1)
    divisor: int = 10 ** len(fraction)
    return -(-numerator // divisor)


def parse_size_mib(text: str, *, default_unit: str = "M") -> int:
    """Return the MiB that a size text means, rounded up; as `parse_size_kib`."""
    return -(-parse_size_kib(text, default_unit=default_unit) // 1024)


def parse_supply_mib(text: str) -> int:
    """Return the MiB that a size text offers, rounded down; a bare number is MiB.

    Raises:
        TextError: The text is no size.
    """
    parse_size_kib(text)  # says what is wrong, if anything is
    match = _SIZE.fullmatch(text.strip())
    assert match is not None
    letter = (match["unit"] or "M").upper().removesuffix("B").removesuffix("I")
    whole, _, fraction = match["number"].partition(".")
    kib: int = int((whole or "0") + fraction) * 1024 ** (_POWER[letter] - 1)
    divisor: int = 1024 * 10 ** len(fraction)
    return kib // divisor


def parse_lsf_minutes(text: str) -> Micros:
    """Return the span that an LSF duration ``[hours:]minutes`` means, in microseconds.

    ``0.5`` (half a minute) is taken too, since real clients send it. Rounded up to a second.

    Raises:
        TextError: The text is no LSF duration; there is no seconds field.
    """
    match = re.fullmatch(r"(?:(\d{1,99}):)?(\d{1,99})(?:\.(\d{1,99}))?", text.strip())
    if match is None:
        raise TextError(f"{text!r} is no duration: expected [hours:]minutes", text=text)
    hours, minutes, fraction = int(match[1] or 0), int(match[2]), match[3] or ""
    seconds = (hours * 60 + minutes) * 60
    if fraction:
        seconds += -(-int(fraction) * 60 // 10 ** len(fraction))
    return seconds * SECOND_US


def parse_span_us(text: str) -> Micros:
    """Return the span that a text like ``90s``, ``10m``, ``1.5h`` means, in microseconds.

    Raises:
        TextError: The text is no span.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise TextError(f"{text!r} is no span: expected a number with s, m, h or d", text=text)
    whole, _, fraction = match["number"].partition(".")
    divisor: int = 10 ** len(fraction)
    return int(whole + fraction) * _SPAN_US[match["unit"]] // divisor


def render_span(span_us: Micros) -> str:
    """Return a span for people, in its two largest units: ``1h 5m``, ``42s``, ``0s``."""
    seconds = max(0, span_us) // SECOND_US
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        if seconds >= size:
            parts.append(f"{seconds // size}{name}")
            seconds %= size
    return " ".join(parts[:2]) or "0s"


def render_milli(milli: int) -> str:
    """Return thousandths for people: ``0.25``, ``2``."""
    whole, rest = divmod(milli, 1000)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
