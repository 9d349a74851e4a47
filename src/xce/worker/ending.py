"""How an attempt is ended: the steps, their signals, and when the next is due. Pure.

A limit of time begins with the warning: USR2, or XCPU for CPU time. A kill begins with INT; a
forced one with KILL. KILL is said again and again until nothing is left.
"""

from typing import Final

from xce.model.effect import Launch
from xce.model.ids import Micros
from xce.model.job import EndCause

STEP_NONE: Final = 0
STEP_WARN: Final = 1
STEP_INT: Final = 2
STEP_TERM: Final = 3
STEP_KILL: Final = 4

STEP_SIGNAL: Final = {STEP_WARN: 12, STEP_INT: 2, STEP_TERM: 15, STEP_KILL: 9}
"""USR2, INT, TERM, KILL, as Linux numbers them."""
XCPU: Final = 24
_WARNED: Final = frozenset((EndCause.RUNLIMIT, EndCause.DEADLINE, EndCause.CPULIMIT))
KILL_INTERVAL_MIN_US: Final = 100_000
"""A shorter interval would only make noise."""


def first_step(cause: EndCause) -> int:
    """Return how ending for a cause begins."""
    return STEP_WARN if cause in _WARNED else STEP_INT


def signal_of(step: int, cause: EndCause) -> int:
    """Return the signal of a step."""
    return XCPU if step == STEP_WARN and cause == EndCause.CPULIMIT else STEP_SIGNAL[step]


def next_step(step: int) -> int:
    """Return what follows a step."""
    return min(step + 1, STEP_KILL)


def step_due_us(
    step: int, cause: EndCause, at_us: Micros, launch: Launch, kill_interval_us: Micros
) -> Micros:
    """Return when the step after ``step``, which was done at ``at_us``, is due."""
    if step == STEP_WARN and cause != EndCause.CPULIMIT:
        return at_us + launch.term_grace_us
    return at_us + max(kill_interval_us, KILL_INTERVAL_MIN_US)
