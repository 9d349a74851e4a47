"""How an attempt is ended: the steps, their signals, and when the next is due. Pure.

A run limit begins with the warning; a kill begins with INT; a forced one with KILL. KILL is said
again and again until nothing is left.
"""

from typing import Final

from xce.model.effect import Launch
from xce.model.ids import Micros

STEP_NONE: Final = 0
STEP_WARN: Final = 1
STEP_INT: Final = 2
STEP_TERM: Final = 3
STEP_KILL: Final = 4

STEP_SIGNAL: Final = {STEP_WARN: 12, STEP_INT: 2, STEP_TERM: 15, STEP_KILL: 9}
"""USR2, INT, TERM, KILL, as Linux numbers them."""
KILL_INTERVAL_MIN_US: Final = 100_000
"""A shorter interval would only make noise."""


def next_step(step: int) -> int:
    """Return what follows a step."""
    return min(step + 1, STEP_KILL)


def step_due_us(step: int, at_us: Micros, launch: Launch, kill_interval_us: Micros) -> Micros:
    """Return when the step after ``step``, which was done at ``at_us``, is due."""
    if step == STEP_WARN:
        return at_us + launch.term_grace_us
    return at_us + max(kill_interval_us, KILL_INTERVAL_MIN_US)
