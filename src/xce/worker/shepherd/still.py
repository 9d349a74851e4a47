"""How long an attempt stands still, since somebody has stopped it or its lease is over.

Pure, and shared by the shepherd and by whoever counts with it. Instants are microseconds.
"""

from typing import Protocol


class Still(Protocol):
    """What is counted of an attempt."""

    suspended_us: int
    """Since when somebody wants it to stand still; 0: nobody does."""
    frozen_us: int
    """Since when its lease does; 0: it does not."""
    stopped_us: int
    """How long it stood still before that."""


def note_still(one: Still, now_us: int, *, still: bool, by_lease: bool) -> None:
    """Count the time that it stands still, once where both want it.

    Args:
        one: The attempt.
        now_us: The time.
        still: Whether it shall stand still from now on.
        by_lease: Whether it is its lease that wants it so.
    """
    since_us = min(filter(None, (one.suspended_us, one.frozen_us)), default=now_us)
    one.stopped_us += max(0, now_us - since_us)
    is_suspended, is_frozen = bool(one.suspended_us), bool(one.frozen_us)
    one.suspended_us = now_us if (is_suspended if by_lease else still) else 0
    one.frozen_us = now_us if (still if by_lease else is_frozen) else 0
