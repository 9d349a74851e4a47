"""The rule by which a shell's clock runs (decision X-21), as a pure function."""

from typing import Final

from xce.model.ids import SECOND_US, Micros

JUMP_US: Final = 2 * SECOND_US
"""A clock that goes forward by more at once has jumped: spans that it shows are not true."""
STALL_US: Final = 5 * SECOND_US
"""A shell that did not look at its clock for longer was stopped, or starved."""


def next_now_us(last_us: Micros, *, elapsed_us: Micros, wall_us: Micros) -> Micros:
    """Return the instant that the core is told now; never before ``last_us``.

    The clock goes on by monotonic time and follows the wall clock: forward at once, backward by
    running at half speed until the wall clock has caught up.

    Args:
        last_us: What the function returned last, or the last entry's time at start.
        elapsed_us: Monotonic time since then; 0 or more.
        wall_us: What the wall clock says now.
    """
    if wall_us >= last_us + elapsed_us:
        return wall_us
    return max(wall_us, last_us + elapsed_us // 2)


def has_jumped(last_us: Micros, now_us: Micros, *, elapsed_us: Micros) -> bool:
    """Return whether nothing may be concluded from how much later it is now.

    The clock went forward by much more than the time that has passed, or nobody listened meanwhile:
    what others said is still unread.
    """
    return now_us - last_us - elapsed_us > JUMP_US or elapsed_us > STALL_US
