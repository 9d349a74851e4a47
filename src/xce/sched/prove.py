"""The certificate of a placement: how each constraint holds, with the names of its domains."""

from collections import Counter
from typing import Final

import numpy as np

from xce.model.constraint import Colocate, Exclusive, Near, Proof, Spread
from xce.sched.columns import OWN_LEVEL, HostFacts
from xce.sched.ground import Ground
from xce.sched.place.spot import Spot
from xce.sched.shape import Shape
from xce.sched.ties import LINK_LEVEL, Tie, levels_of, wish_of

DOMAINS_MAX: Final = 64
"""Most domains that a certificate lists for a constraint."""


def prove(shape: Shape, spot: Spot, ground: Ground, facts: HostFacts) -> tuple[Proof, ...]:
    """Return how each constraint holds of a placement.

    Args:
        shape: What was placed.
        spot: Where.
        ground: What was free, and where other jobs are.
        facts: The hosts.
    """
    if shape.fabric is None:
        return ()
    return tuple(_prove(tie, spot, ground, facts) for tie in shape.fabric.ties)


def _prove(tie: Tie, spot: Spot, ground: Ground, facts: HostFacts) -> Proof:
    constraint = tie.constraint
    mine = np.isin(spot.parts, tie.parts)
    numbers, sizes = spot.hosts[mine], spot.sizes[mine]
    levels, place = levels_of(constraint), 0
    held = [_holds(tie, at, spot, ground, facts) for at in range(len(tie.codes))]
    if True in held:
        place = held.index(True)
    level = levels[place]
    counts: Counter[str] = Counter()
    if level == LINK_LEVEL:
        counts.update(links_of(tie, spot, facts))
    else:
        for number, size in zip(numbers.tolist(), sizes.tolist(), strict=True):
            counts[name_of(number, level, facts)] += size
    names = list(counts)
    tasks = 0
    if isinstance(constraint, Spread):
        names.sort(key=lambda name: -counts[name])
        tasks = counts[names[0]]
    return Proof(
        constraint.relation, str(constraint.__struct_config__.tag), level,
        tuple(names[:DOMAINS_MAX]), tasks, any(held),
    )  # fmt: skip


def _holds(tie: Tie, place: int, spot: Spot, ground: Ground, facts: HostFacts) -> bool:
    codes = tie.codes[place]
    mine = np.isin(spot.parts, tie.parts)
    numbers, sizes = spot.hosts[mine], spot.sizes[mine]
    used = codes[numbers]
    match tie.constraint:
        case Colocate(levels=levels):
            if levels[place] == LINK_LEVEL:
                links = links_of(tie, spot, facts)
                return len(set(links)) == 1 and bool((used == used[0]).all())
            return bool((used == used[0]).all() and used[0] >= 0)
        case Spread(max_per_domain=most):
            _, back = np.unique(used, return_inverse=True)
            return bool((used >= 0).all()) and int(np.bincount(back, sizes).max()) <= most
        case Near() | Exclusive():
            mask = wish_of(tie, place, ground).masks[0][1]
            return bool(mask[numbers].all())


def links_of(tie: Tie, spot: Spot, facts: HostFacts) -> list[str]:
    """Return the NVLink domain of each GPU of a tie; one in none has one of its own."""
    found: list[str] = []
    for place, part in enumerate(spot.parts.tolist()):
        if part not in tie.parts or place >= len(spot.devices):
            continue
        number = int(spot.hosts[place])
        column = facts.devices.link[:, number]
        for device in spot.devices[place]:
            link = int(column[device])
            name = f"{facts.table.names[number]}/{link}"
            found.append(name if link >= 0 else f"{name}/{device}")
    return found


def name_of(number: int, level: str, facts: HostFacts) -> str:
    """Return the domain of a host at a level."""
    if level == OWN_LEVEL:
        return facts.table.names[number]
    return facts.table.config[number].labels.get(level, "")
