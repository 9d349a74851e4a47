"""Values of options: durations, sizes, task counts, begin times, job names and job ids.

Each error begins with LSF's own words, so that who knows them finds them.
"""

from __future__ import annotations

import time

UNITS = {"K": 0, "M": 1, "G": 2, "T": 3, "P": 4, "E": 5, "Z": 6}
"""Letter of a size's unit -> its power of 1024 above the KiB."""
NAME_MAX = 4094
SPAN_S_MAX = 10 * 366 * 86_400
SIZE_KIB_MAX = 1 << 50
_DIGITS_MAX = 1000


class BadValueError(Exception):
    """A value cannot be taken; the text says which and what is expected."""


def _is_number(text: str) -> bool:
    """Return whether ``text`` is made of ASCII digits only, and of fewer than Python refuses."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def parse_duration_s(text: str, *, option: str, what: str = "RUNLIMIT") -> int:
    """Return the seconds that ``[hours:]minutes`` means, rounded up; half minutes are taken too."""
    bad = f"Bad {what} specification: {option} {text}"
    wrong = BadValueError(f"{bad} is not [hours:]minutes above 0")
    value = text.strip()
    if "/" in value:
        kind = "run limits are real time" if what == "RUNLIMIT" else "CPU time is as measured"
        raise BadValueError(
            f"{bad}: {kind} in XCE and not scaled by a host's or model's speed; leave out the / "
            "and what follows"
        )
    hours, colon, minutes = value.rpartition(":")
    whole, dot, fraction = minutes.partition(".")
    if (colon and not _is_number(hours)) or not _is_number(whole + fraction):
        raise wrong
    if (not whole and not fraction) or (dot and not fraction):
        raise wrong
    seconds = (int(hours or 0) * 60 + int(whole or 0)) * 60
    if fraction:
        seconds += -(-int(fraction) * 60 // 10 ** len(fraction))
    if seconds <= 0:
        raise wrong
    if seconds > SPAN_S_MAX:
        raise BadValueError(f"{bad} is over ten years")
    return seconds


def parse_size_kib(
    text: str, *, option: str, bare_unit: str = "", what: str = "MEMLIMIT"
) -> int | None:
    """Return the KiB of a size, rounded up.

    A bare number has the unit of the letter ``bare_unit``; without that, the result is ``None``.
    """
    bad = f"Bad {what} specification: {option} {text}"
    value = text.strip().upper()
    if value.endswith("!"):
        raise BadValueError(f"{bad}: XCE has one kind of limit only; leave out the !")
    digits = value.rstrip("KMGTPEZBI")
    unit = value[len(digits) :].removesuffix("B").removesuffix("I") or bare_unit
    number = digits.strip()
    whole, _, fraction = number.partition(".")
    if not _is_number(whole + fraction) or (unit and unit not in UNITS):
        raise BadValueError(
            f"{bad} is no size; expected a whole number with "
            "or without KB, MB, GB, TB, PB, EB or ZB"
        )
    if not unit:
        return None
    kib: int = -(-int(whole + fraction) * 1024 ** UNITS[unit] // 10 ** len(fraction))
    if kib <= 0:
        raise BadValueError(f"{bad}: more than 0 is needed")
    if kib > SIZE_KIB_MAX:
        raise BadValueError(f"{bad} is over an exbibyte")
    return kib


def parse_tasks(text: str) -> list[int]:
    """Return the least and the greatest number of tasks of ``min[,max]``."""
    first, comma, last = text.partition(",")
    first, last = first.strip(), last.strip()
    if not _is_number(first) or (comma and not _is_number(last)):
        raise BadValueError(f"Bad number of tasks: -n {text} is not min[,max]")
    least = int(first)
    most = int(last) if comma else least
    if least < 1:
        raise BadValueError(f"Bad number of tasks: -n {text}: at least 1 is needed")
    if most < least:
        raise BadValueError(f"Bad number of tasks: -n {text}: the maximum is below the minimum")
    return [least, most]


def parse_requeue(text: str) -> dict[str, list[int]]:
    """Return the members that ``-Q`` stands for: ``1 5``, ``all ~3``, ``9 EXCLUDE(7)``."""
    from xce.model.errors import TextError  # noqa: PLC0415 - of this option only
    from xce.model.exit_values import parse_exit_values  # noqa: PLC0415 - of this option only

    try:
        codes, elsewhere = parse_exit_values(text)
    except TextError as error:
        raise BadValueError(f"Bad requeue exit value: -Q {error.message}") from None
    return {"requeue_codes": list(codes), "requeue_elsewhere": list(elsewhere)}


def parse_begin(text: str, now_s: float) -> int:
    """Return the instant that ``[[[year:]month:]day:]hour:minute`` means in local time.

    Where no year is given, the next such instant is meant, or the present minute; one in the past
    is satisfied at once.
    """
    return _parse_instant(text, now_s, now_s - 60, "-b")


def parse_deadline(text: str, now_s: float) -> int:
    """Return the instant that ``-t`` means, likewise; the next one, or the year's, which must come.

    Raises:
        BadValueError: It is no instant, or is in the past.
    """
    at = _parse_instant(text, now_s, now_s, "-t")
    if at <= now_s:
        raise BadValueError(f"Job termination time cannot be in the past: -t {text}")
    return at


def _parse_instant(text: str, now_s: float, after_s: float, option: str) -> int:
    """Return an instant; where no year is given, the first one after ``after_s``."""
    fields = text.strip().split(":")
    if not 2 <= len(fields) <= 5 or not all(_is_number(field) for field in fields):
        raise _bad_time(text, option)
    numbers = [int(field) for field in fields]
    minute, hour = numbers[-1], numbers[-2]
    if hour > 23 or minute > 59:
        raise _bad_time(text, option)
    day = numbers[-3] if len(numbers) >= 3 else 0
    month = numbers[-4] if len(numbers) >= 4 else 0
    if len(numbers) == 5:
        at = _instant(numbers[0], month, day, hour, minute)
        if at is None or numbers[0] <= 1970:
            raise _bad_time(text, option)
        return at
    today = time.localtime(now_s)
    for shift in range(4 * 366 + 2 if len(numbers) == 4 else 62):
        date = time.localtime(time.mktime((*today[:2], today[2] + shift, 12, 0, 0, 0, 0, -1)))
        if (day and date[2] != day) or (month and date[1] != month):
            continue
        at = _instant(date[0], date[1], date[2], hour, minute)
        if at is not None and at > after_s:
            return at
    raise _bad_time(text, option)


def _instant(year: int, month: int, day: int, hour: int, minute: int) -> int | None:
    """Return the epoch second of a local date, or ``None`` when the calendar has no such day."""
    if not 1 <= month <= 12 or not 1 <= day <= 31 or year > 9999:
        return None
    at = int(time.mktime((year, month, day, hour, minute, 0, 0, 0, -1)))
    found = time.localtime(at)
    return at if (found[1], found[2]) == (month, day) else None


def _bad_time(text: str, option: str) -> BadValueError:
    return BadValueError(
        f"Bad time specification: {option} {text} is not [[[year:]month:]day:]hour:minute"
    )


def parse_count(text: str, *, option: str) -> int:
    """Return a whole number from 1.

    Raises:
        BadValueError: It is none.
    """
    if not _is_number(text) or len(text) > 9 or int(text) < 1:
        raise BadValueError(f"{option} {text}: expected a whole number from 1")
    return int(text)


_SHELLS = frozenset(("sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh"))


def parse_login_shell(text: str) -> str:
    """Return the path of ``-L``.

    Raises:
        BadValueError: It is no path, or of a shell whose login files cannot be read this way.
    """
    name = text.rpartition("/")[2]
    if not text.startswith("/") or not all(part.isalnum() or part in "/._+-" for part in text):
        raise BadValueError(f"Bad login shell: -L {text}: expected an absolute path")
    if name not in _SHELLS:
        known = ", ".join(sorted(_SHELLS))
        raise BadValueError(f"Bad login shell: -L {text}: login files are read by {known} only")
    return text


def split_job_name(text: str) -> tuple[str, str]:
    """Return the name and the index list of ``name[1-10:2]%5``; the list keeps its ``%5``."""
    if not text:
        raise BadValueError("Bad job name: -J is empty")
    base, percent, limit = text.rpartition("%")
    head = base if percent and _is_number(limit) and base.endswith("]") else text
    if not head.endswith("]"):
        if "[" in head and "]" in head.partition("[")[2]:
            raise BadValueError(f"Bad job name: -J {text}: something follows the index list")
        name, array = text, ""
    else:
        name, bracket, indices = head[:-1].rpartition("[")
        if not bracket or not indices.strip():
            raise BadValueError(f"Bad job name: -J {text}: the index list is empty or not begun")
        array = "".join(indices.split()) + (f"%{limit}" if head is base else "")
    if len(name) > NAME_MAX:
        raise BadValueError(f"Bad job name: it has {len(name)} characters; {NAME_MAX} are allowed")
    return name, array


def parse_job_id(text: str) -> str:
    """Return a job id in its one form: ``12`` or ``12[1-3,7]``.

    Raises:
        BadValueError: It is no job id.
    """
    word = "".join(text.split())
    number, bracket, tail = word.partition("[")
    wrong = BadValueError(f"{text}: Illegal job ID")
    if not _is_number(number) or len(number) > 19:
        raise wrong
    number = str(int(number))
    if not bracket:
        return number
    if not tail.endswith("]") or not tail[:-1] or number == "0":
        raise wrong
    runs = []
    for run in tail[:-1].split(","):
        span, _, step = run.partition(":")
        first, dash, last = span.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise wrong
        if ":" in run and not _is_number(step):
            raise wrong
        runs.append(run)
    return f"{number}[{','.join(runs)}]"
