"""Names of time zones."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def is_zone(name: str) -> bool:
    """Return whether there is a time zone of this name."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
