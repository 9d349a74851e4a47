"""Readers of single values: flags, counts, sizes, spans, names. Each says what it expects."""

import re
from collections.abc import Callable, Iterable
from typing import Final

import yaml

from xce.config.document import Place, each_item, each_pair, scalar_text
from xce.config.names import QUEUE_NAME, USER_NAME, expand_names
from xce.config.report import render_allowed
from xce.model.address import parse_address
from xce.model.config import ExitValues, WindowConfig
from xce.model.errors import TextError
from xce.model.exit_values import parse_exit_values
from xce.model.ids import SECOND_US, Micros
from xce.model.load import INDICES, SIZES
from xce.model.units import parse_size_mib, parse_span_us, parse_supply_mib

SPAN_US_MAX: Final = 100 * 365 * 24 * 3600 * SECOND_US
AMOUNT_MAX: Final = 10**12
"""Largest amount of a counter or pool, and of memory in MiB."""
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
_DIRECTORY: Final = re.compile(r"/[^\x00-\x1f\x7f]{0,4000}")
_LOAD: Final = re.compile(r"\d{1,9}(?:\.\d{1,3})?")
_KIB: Final = re.compile(r"(\d{1,18})\s*([KMGTkmgt])(?:i?[Bb])?")
_FLAGS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def read_flag(place: Place) -> bool:
    """Read ``true`` or ``false``."""
    text = scalar_text(place)
    if text.lower() not in _FLAGS:
        raise TextError(f"{text!r} is no flag: expected true or false")
    return _FLAGS[text.lower()]


def read_count(least: int, most: int) -> Callable[[Place], int]:
    """Return the reader of a whole number from ``least`` to ``most``."""

    def read(place: Place) -> int:
        text = scalar_text(place)
        if not re.fullmatch(r"[+-]?\d{1,18}", text):
            raise TextError(f"{text[:60]!r} is no whole number: expected {least} to {most}")
        if not least <= int(text) <= most:
            raise TextError(f"{int(text)} is out of range: expected {least} to {most}")
        return int(text)

    return read


def read_supply_mib(place: Place) -> int:
    """Read an amount of memory that is there, rounded down to MiB; a bare number is MiB."""
    return _bounded_size(parse_supply_mib(_short(place)))


def read_load(place: Place) -> dict[str, int]:
    """Read load indices, in thousandths: numbers, or sizes; ``ut`` also in percent."""
    found: dict[str, int] = {}
    for key, value in each_pair(place, "load indices"):
        if key not in INDICES:
            raise TextError(f"{key!r} is no load index; allowed: {', '.join(INDICES)}")
        text = scalar_text(value).strip()
        if key in SIZES:
            found[key] = _bounded_size(parse_supply_mib(text)) * 1000
            continue
        number = text.removesuffix("%") if key == "ut" else text
        if not _LOAD.fullmatch(number):
            raise TextError(f"{key}: {text[:40]!r} is no number from 0 up")
        whole, _, part = number.partition(".")
        milli = int(whole) * 1000 + int(part.ljust(3, "0"))
        found[key] = milli if number == text else milli // 100
    return found


def read_limit_mib(place: Place) -> int:
    """Read a memory limit, rounded up to MiB; a unit is required."""
    text = _short(place)
    if text.strip()[-1:].isdigit():
        raise TextError(f"{text!r} has no unit: write e.g. {text.strip()}M or {text.strip()}G")
    return _bounded_size(parse_size_mib(text))


def read_limit_kib(place: Place) -> int:
    """Read a limit in KiB: a whole number with a unit (``512K``, ``8M``), or 0."""
    text = _short(place).strip()
    found = _KIB.fullmatch(text)
    if text != "0" and found is None:
        raise TextError(f"{text!r} is no size: write e.g. 512K, 8M or 2G")
    kib = int(found[1]) << 10 * "KMGT".index(found[2].upper()) if found is not None else 0
    if kib > AMOUNT_MAX:
        raise TextError(f"is more than {AMOUNT_MAX} KiB")
    return kib


def read_span(place: Place) -> Micros:
    """Read a span with a unit: ``90s``, ``10m``, ``1.5h``, ``2d``."""
    text = _short(place)
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", text):
        raise TextError(f"{text!r} has no unit: write e.g. {text.strip()}m for minutes")
    return _bounded_span(parse_span_us(text))


def read_seconds(place: Place) -> Micros:
    """Read a span of a key that ends in ``_s``: a number is seconds, a unit may be written."""
    text = _short(place)
    return _bounded_span(parse_span_us(f"{text}s" if text.strip()[-1:].isdigit() else text))


def read_beat(place: Place) -> Micros:
    """Read how often something is said: 0.1 s to an hour."""
    span_us = read_seconds(place)
    if not SECOND_US // 10 <= span_us <= 3600 * SECOND_US:
        raise TextError("expected 0.1 to 3600 seconds")
    return span_us


def read_seconds_or_forever(place: Place) -> Micros:
    """As `read_seconds`; ``forever`` is -1."""
    return -1 if _short(place).strip() == "forever" else read_seconds(place)


def read_address(place: Place) -> str:
    """Read ``host:port``."""
    return str(parse_address(_short(place)))


def read_milliseconds(place: Place) -> Micros:
    """Read a span of a key that ends in ``_ms``: a number of milliseconds, at most a minute."""
    return read_count(0, 60_000)(place) * 1_000


def read_exit_values(place: Place) -> ExitValues:
    """Read a list of exit statuses, as ``all ~1 EXCLUDE(9)``."""
    return ExitValues(*parse_exit_values(scalar_text(place)))


def read_success_values(place: Place) -> ExitValues:
    """Read a list of exit statuses that stand for success: nothing else comes of them."""
    found = read_exit_values(place)
    if found.elsewhere:
        raise TextError("EXCLUDE() is for jobs that are started anew: leave it out")
    return found


def read_thousandths(place: Place) -> int:
    """Read a decimal number with at most three places, in thousandths."""
    text = scalar_text(place)
    match = re.fullmatch(r"([+-]?)(\d{1,15})(?:\.(\d{1,3}))?", text)
    if match is None:
        raise TextError(f"{text[:60]!r} is no number: expected one with at most 3 decimals")
    size = int(match[2]) * 1000 + int((match[3] or "0").ljust(3, "0"))
    return -size if match[1] == "-" else size


def read_share(place: Place) -> int:
    """Read a part of a whole, above 0 and at most 1, in thousandths."""
    found = read_thousandths(place)
    if not 0 < found <= 1000:
        raise TextError(f"{found / 1000:g} is no share: expected 0.001 to 1")
    return found


def read_line(most: int) -> Callable[[Place], str]:
    """Return the reader of one line of text of at most ``most`` characters."""

    def read(place: Place) -> str:
        text = scalar_text(place)
        if len(text) > most:
            raise TextError(f"has {len(text)} characters: at most {most} are allowed")
        if not text.isprintable():
            raise TextError("holds a control character: expected one line of text")
        return text

    return read


_MOMENT: Final = re.compile(r"(?:([0-6]):)?(\d{1,2}):(\d{2})|(\d{1,2})")


def parse_windows(text: str) -> tuple[WindowConfig, ...]:
    """Read windows as LSF writes them: ``[day:]hour[:minute]-[day:]hour[:minute] ...``.

    Two numbers are hour and minute; day 0 is Sunday; 24 is the end of the day.

    Raises:
        TextError: It is none.
    """
    return tuple(_window(word) for word in text.replace(",", " ").split())


def _window(word: str) -> WindowConfig:
    opens, dash, closes = word.partition("-")
    starts, ends = _MOMENT.fullmatch(opens), _MOMENT.fullmatch(closes)
    if not dash or starts is None or ends is None:
        raise TextError(
            f"{word[:40]!r} is no window: expected [day:]hour[:minute]-[day:]hour[:minute], "
            "e.g. 20:00-8:30 or 5:19:00-1:8:30"
        )
    if (starts[1] is None) != (ends[1] is None):
        raise TextError(f"{word[:40]!r}: give a day at both ends or at none")
    minutes = [_minute(word, found) for found in (starts, ends)]
    if minutes[0] == minutes[1]:
        raise TextError(f"{word[:40]!r} opens and closes at the same time")
    return WindowConfig(start_min=minutes[0], end_min=minutes[1], weekly=starts[1] is not None)


def _minute(word: str, found: re.Match[str]) -> int:
    day, hour, minute = int(found[1] or 0), int(found[2] or found[4]), int(found[3] or 0)
    if hour > 24 or minute > 59 or (hour == 24 and minute):
        raise TextError(f"{word[:40]!r} holds no time of day: expected 0:00 to 24:00")
    return (day * 24 + hour) * 60 + minute


def read_directory(place: Place) -> str:
    """Read the path of a directory, from the root."""
    text = scalar_text(place)
    if _DIRECTORY.fullmatch(text) is None:
        raise TextError(f"{text[:60]!r} is no absolute path of a directory")
    return text


def read_command_name(place: Place) -> str:
    """Read the path of a program, from the root, or its name."""
    text = scalar_text(place)
    if _DIRECTORY.fullmatch(text) is None and _PROGRAM.fullmatch(text) is None:
        raise TextError(f"{text[:60]!r} is neither an absolute path nor the name of a program")
    return text


def read_windows(place: Place) -> tuple[WindowConfig, ...]:
    """Read windows: a list, or one text with blanks between them."""
    windows = parse_windows(read_words(place))
    if not windows:
        raise TextError("names no window: give one or remove the key")
    return windows


def read_zone(place: Place) -> str:
    """Read the name of a time zone; whether there is one is found out where it is used."""
    text = scalar_text(place)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*", text):
        raise TextError(f"{text[:60]!r} is no time zone: expected a name like Europe/Berlin")
    return text


def read_name(form: re.Pattern[str], what: str, reserved: Iterable[str]) -> Callable[[Place], str]:
    """Return the reader of a name of the given form that is none of the ``reserved``."""

    def read(place: Place) -> str:
        text = scalar_text(place)
        if not form.fullmatch(text):
            raise TextError(f"{text[:80]!r} is no name of {what}: expected {form.pattern}")
        if text.lower() in reserved:
            raise TextError(f"{text!r} cannot be the name of {what}: it has a built-in meaning")
        return text

    return read


def read_choice(*allowed: str) -> Callable[[Place], str]:
    """Return the reader of one of some words."""

    def read(place: Place) -> str:
        text = scalar_text(place)
        if text not in allowed:
            raise TextError(f"{text[:60]!r} is not known; {render_allowed(text, allowed)}")
        return text

    return read


def read_users(place: Place) -> tuple[str, ...]:
    """Read user names: a list, or one text with blanks or commas between them."""
    names = re.split(r"[\s,]+", read_words(place))
    for name in filter(None, names):
        if not USER_NAME.fullmatch(name):
            raise TextError(f"{name[:80]!r} is no user name")
    return tuple(dict.fromkeys(filter(None, names)))


def read_queue_names(place: Place) -> tuple[str, ...]:
    """Read names of queues: a list, or one text with blanks or commas between them."""
    names = re.split(r"[\s,]+", read_words(place))
    for name in filter(None, names):
        if not QUEUE_NAME.fullmatch(name):
            raise TextError(f"{name[:80]!r} is no name of a queue")
    return tuple(dict.fromkeys(filter(None, names)))


def read_host_pattern(place: Place) -> tuple[str, ...]:
    """Read host names: a list, or one text; brackets allowed."""
    return expand_names(read_words(place))


def read_words(place: Place) -> str:
    """Read a list of texts, or one text, as one text with commas."""
    if not isinstance(place.node, yaml.SequenceNode):
        return scalar_text(place)
    return ",".join(scalar_text(item) for item in each_item(place, "names"))


def _short(place: Place) -> str:
    text = scalar_text(place)
    if len(text) > 40:
        raise TextError("is too long for a number with a unit")
    return text


def _bounded_span(span_us: int) -> Micros:
    if span_us > SPAN_US_MAX:
        raise TextError("is more than 100 years")
    return span_us


def _bounded_size(mib: int) -> int:
    if mib > AMOUNT_MAX:
        raise TextError(f"is more than {AMOUNT_MAX} MiB")
    return mib
