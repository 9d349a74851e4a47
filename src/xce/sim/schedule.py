"""What happens in a world and when, drawn from its seed before it begins.

Each item has dice of its own, so that a world from which some are left out is still the same world
in everything that these do not touch: so a failing schedule can be made smaller.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Final

import msgspec

from xce.model.ids import Micros
from xce.sim.faults import COUNTED, COUNTED_OF_RESTORE, COUNTED_OF_TRUST, Faults

WISH: Final = "wish"
"""The kind of an item in which a user wants something."""
PAPER: Final = "paper"
"""The kind of an item in which somebody wants something noted that no job feels."""
PAPERS_MAX: Final = 3


class Item(msgspec.Struct, frozen=True):
    """One thing that happens."""

    at_us: Micros
    kind: str
    """A count of `Faults`, `WISH` or `PAPER`."""
    dice: int
    """From which its details are drawn."""
    user: int = 0
    """Whose wish it is."""


def draw_schedule(
    rng: Random, trust_rng: Random, restore_rng: Random, faults: Faults, *, users: int
) -> list[Item]:
    """Return what happens in a world, in no order of time."""
    items = [
        *_draw_counted(rng, COUNTED, faults),
        *_draw_counted(trust_rng, COUNTED_OF_TRUST, faults),
    ]
    for user in range(users):
        for _ in range(rng.randint(4, 14)):
            at_us = rng.randrange(faults.until_us * 3 // 4)
            items.append(Item(at_us, WISH, rng.getrandbits(48), user))
    for _ in range(rng.randint(0, PAPERS_MAX)):
        at_us = rng.randrange(faults.until_us * 3 // 4)
        items.append(Item(at_us, PAPER, rng.getrandbits(48)))
    # Last, so that the others have the numbers that they have without.
    return [*items, *_draw_counted(restore_rng, COUNTED_OF_RESTORE, faults)]


def _draw_counted(dice: Random, kinds: Iterable[str], faults: Faults) -> Iterator[Item]:
    for kind in kinds:
        for _ in range(getattr(faults, kind)):
            at_us = dice.randrange(faults.until_us)
            yield Item(at_us, kind, dice.getrandbits(48))
