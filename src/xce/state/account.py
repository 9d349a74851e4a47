"""Who used how much of a queue: what fairshare goes by.

An account is of a user in a queue: decayed use of the past, and what its live attempts hold. Use is
counted in slot-microseconds, as integers. The past halves in every half-life (decision X-27): by
whole half-lives it is shifted, for the rest there is a table of 256 steps.
"""

from math import isqrt
from typing import Final

import msgspec

from xce.model.ids import Micros

_STEPS: Final = 256
_BITS: Final = 30


class Account(msgspec.Struct, gc=False, array_like=True):
    """One user's use of one queue. Written by `xce.state.apply` only."""

    used: int = 0
    """Slot-microseconds of attempts that are over, decayed up to ``since_us``."""
    since_us: Micros = 0
    slots: int = 0
    """Slots that live attempts hold."""
    running: int = 0
    """Of these, slots of attempts that have started."""
    started: int = 0
    """Of those, the sum of slots times the instant of the start."""

    def past(self, now_us: Micros, half_life_us: Micros) -> int:
        """Return what is left of the use of attempts that are over."""
        return decay(self.used, max(now_us - self.since_us, 0), half_life_us)

    def present(self, now_us: Micros) -> int:
        """Return how much live attempts have used so far."""
        return max(self.running * now_us - self.started, 0)


def _table() -> tuple[int, ...]:
    """Return 2**(-n/256) for n in 0..255 as fixed-point numbers, by square roots of integers."""
    precise = 2 * _BITS
    root = 1 << (precise - 1)
    for _ in range(_STEPS.bit_length() - 1):
        root = isqrt(root << precise)
    values, value = [], 1 << precise
    for _ in range(_STEPS):
        values.append(value >> (precise - _BITS))
        value = (value * root) >> precise
    return tuple(values)


_POWERS: Final = _table()


def decay(used: int, span_us: Micros, half_life_us: Micros) -> int:
    """Return what is left of ``used`` after a span; it never grows with the span."""
    if half_life_us <= 0:
        return used
    halvings, rest = divmod(span_us, half_life_us)
    if halvings > used.bit_length():
        return 0
    return ((used >> halvings) * _POWERS[rest * _STEPS // half_life_us]) >> _BITS
