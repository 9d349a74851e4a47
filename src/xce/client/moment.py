"""Instants as people type them, in local time where no zone is said."""

import re
from datetime import datetime, timedelta
from typing import Final

FORMS: Final = "2026-11-29T18:05, 18:05, 10m (ago), or seconds since the epoch as @1790000000"
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])(?: ago)?")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_moment(text: str, *, now_s: float) -> float | None:
    """Return the seconds since the epoch that a text names; None: it names no instant.

    Args:
        text: A date and time, a time of today, a span before now, or ``@`` and seconds.
        now_s: What time it is.
    """
    text = text.strip()
    if re.fullmatch(r"@\d{1,12}(\.\d{1,6})?", text):
        return float(text[1:])
    span = _SPAN.fullmatch(text)
    if span is not None and len(span[1]) < 16:
        return now_s - float(span[1]) * _SECONDS[span[2]]
    local = datetime.fromtimestamp(now_s).astimezone()
    if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
        parts = [int(part) for part in text.split(":")]
        if parts[0] > 23 or any(part > 59 for part in parts[1:]):
            return None
        found = local.replace(hour=parts[0], minute=parts[1], second=[*parts, 0][2], microsecond=0)
        # "23:50" just after midnight means last night.
        return (found if found.timestamp() <= now_s else found - timedelta(days=1)).timestamp()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.astimezone()).timestamp()
