"""Instants and spans as LSF's commands print them, in local time."""

from __future__ import annotations

import time

_MONTHS = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_minutes: dict[int, str] = {}
"""Texts of `render_minute` by whole minutes: neighbours in a list share them."""


def render_minute(at_s: float | None) -> str:
    """Return ``Jul  4 09:31``, or ``-`` for an unknown instant."""
    if at_s is None:
        return "-"
    minute = int(at_s // 60)
    text = _minutes.get(minute)
    if text is None:
        t = time.localtime(minute * 60)
        text = f"{_MONTHS[t[1]]} {t[2]:2d} {t[3]:02d}:{t[4]:02d}"
        _minutes[minute] = text
    return text


def render_wide(at_s: float | None) -> str:
    """Return ``07/24-10:03:15``, or ``-`` for an unknown instant."""
    if at_s is None:
        return "-"
    t = time.localtime(int(at_s // 1))
    return f"{t[1]:02d}/{t[2]:02d}-{t[3]:02d}:{t[4]:02d}:{t[5]:02d}"


def render_date(at_s: float | None, *, with_year: bool) -> str:
    """Return ``Tue Jul 24 10:03:15``, with `` 2014`` behind it where asked for."""
    t = time.localtime(int((at_s or 0) // 1))
    text = f"{_DAYS[t[6]]} {_MONTHS[t[1]]} {t[2]:2d} {t[3]:02d}:{t[4]:02d}:{t[5]:02d}"
    return f"{text} {t[0]}" if with_year else text


def render_hms(span_s: float) -> str:
    """Return ``hh:mm:ss``, rounded up to a second."""
    seconds = -int(-span_s // 1)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def render_cpu_wide(span_s: float | None) -> str:
    """Return ``000:00:02.10``: hours, minutes, seconds with hundredths."""
    hundredths = round((span_s or 0) * 100)
    seconds = hundredths // 100
    return (
        f"{seconds // 3600:03d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{hundredths % 100:02d}"
    )
