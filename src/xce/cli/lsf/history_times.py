"""Instants and spans of time as ``bhist`` and ``bacct`` take them: ``yyyy/mm/dd/HH:MM``, ``t0,t1``.

Parts may be left out from the left: ``dd``, ``mm/dd``, ``HH:MM``; a slash behind a month means the
whole month (``2/``, ``2026/2/``). ``.`` is now; ``.-2`` two days ago, ``.-2/`` two months, ``.-2:``
two hours. A span ``t0,t1`` may lack either end; a single day or month means all of it.
"""

from __future__ import annotations

import time

from xce.cli.lsf.options import UsageError

FORM = "[yyyy/[mm/]][dd/][HH:MM], . or .-N, or two of them with a comma between"


def parse_span(text: str, now_s: float, *, option: str) -> str:
    """Return ``from,to`` in seconds since the epoch, as REST takes it; an end may be empty.

    Raises:
        UsageError: It is no span.
    """
    first, comma, last = text.strip().partition(",")
    if not first.strip() and not last.strip():
        raise UsageError(f"{option} {text}: expected {FORM}")
    low = _parse(first, now_s, f"{option} {text}") if first.strip() else None
    if not comma:
        assert low is not None
        return f"{low[0]},{low[1]}"
    high = _parse(last, now_s, f"{option} {text}") if last.strip() else None
    if low is not None and high is not None and high[1] < low[0]:
        raise UsageError(f"{option} {text}: the end is before the beginning")
    return f"{'' if low is None else low[0]},{'' if high is None else high[1]}"


def _parse(text: str, now_s: float, shown: str) -> tuple[int, int]:
    """Return the first and the last second that an instant, a day or a month means."""
    word = text.strip()
    wrong = UsageError(f"{shown}: {word!r} is no time: expected {FORM}")
    if not word.isascii():
        raise wrong
    if word.startswith("."):
        return _relative(word[1:], now_s, wrong)
    today = time.localtime(now_s)
    head, slash, tail = word.rpartition("/")
    if ":" in tail or (":" in word and not slash):
        clock = tail if slash else word
        year, month, day = _date(head, today, wrong) if slash else (today[0], today[1], today[2])
        hour_text, _, minute_text = clock.partition(":")
        if not hour_text.isdecimal() or (minute_text and not minute_text.isdecimal()):
            raise wrong
        hour, minute = int(hour_text), int(minute_text or 0)
        if hour > 23 or minute > 59:
            raise wrong
        at = _instant(year, month, day, hour, minute, wrong)
        return at, at + (59 if minute_text else 3599)
    if slash and not tail:
        numbers = head.split("/")
        if not 1 <= len(numbers) <= 2 or not all(one.isdecimal() for one in numbers):
            raise wrong
        year = int(numbers[0]) if len(numbers) == 2 else today[0]
        month = int(numbers[-1])
        first = _instant(year, month, 1, 0, 0, wrong)
        following = (year + month // 12, month % 12 + 1)
        return first, _instant(*following, 1, 0, 0, wrong) - 1
    year, month, day = _date(word, today, wrong)
    first = _instant(year, month, day, 0, 0, wrong)
    return first, int(time.mktime((year, month, day + 1, 0, 0, 0, 0, 0, -1))) - 1


def _date(text: str, today: time.struct_time, wrong: UsageError) -> tuple[int, int, int]:
    numbers = text.split("/")
    if not 1 <= len(numbers) <= 3 or not all(one.isdecimal() for one in numbers):
        raise wrong
    values = [int(one) for one in numbers]
    day = values[-1]
    month = values[-2] if len(values) > 1 else today[1]
    return (values[0] if len(values) > 2 else today[0]), month, day


def _relative(text: str, now_s: float, wrong: UsageError) -> tuple[int, int]:
    if not text:
        return int(now_s), int(now_s)
    number = text.removeprefix("-").rstrip("/:")
    if not text.startswith("-") or not number.isdecimal() or len(number) > 6:
        raise wrong
    if text.endswith("/"):
        t = time.localtime(now_s)
        at = int(time.mktime((t[0], t[1] - int(number), *t[2:6], 0, 0, -1)))
    else:
        at = int(now_s) - int(number) * (3600 if text.endswith(":") else 86_400)
    return at, at


def _instant(year: int, month: int, day: int, hour: int, minute: int, wrong: UsageError) -> int:
    if not (1970 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= 31):
        raise wrong
    at = int(time.mktime((year, month, day, hour, minute, 0, 0, 0, -1)))
    if time.localtime(at)[1:3] != (month, day):
        raise wrong
    return at
