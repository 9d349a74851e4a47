"""What relations ask of the parts of a request, laid out along hosts.

A *tie* is a constraint between the parts of one request. A *wish* is a way to meet one: the same
with a level chosen, and with what stands outside the request (other jobs, idle domains) as masks.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from xce.model.constraint import Colocate, Constraint, Exclusive, Near, Spread
from xce.sched.columns import OWN_LEVEL, HostFacts
from xce.sched.ground import Ground
from xce.state.hosts import Column, Flags

LINK_LEVEL: Final = "nvlink"
"""The level below hosts: NVLink domains."""


class Bond(NamedTuple):
    """All tasks of some parts lie in one domain."""

    parts: tuple[int, ...]
    codes: Column
    """By host: its domain; -1: in none."""
    width: int
    """The number of domains: the fewer, the wider they are."""
    is_linked: bool = False
    """All GPUs of the parts are in one NVLink domain of the host, which is the domain then."""


class Quota(NamedTuple):
    """Some parts together have at most so many tasks in each domain."""

    parts: tuple[int, ...]
    codes: Column
    """By host: its domain; hosts in none may not be used."""
    most: int


class Wish(NamedTuple):
    """What is wanted in one go."""

    bonds: tuple[Bond, ...] = ()
    quotas: tuple[Quota, ...] = ()
    masks: tuple[tuple[int, Flags], ...] = ()
    """Parts, and the hosts that they may use."""

    def joined(self, other: "Wish") -> "Wish":
        """Return what both want."""
        return Wish(self.bonds + other.bonds, self.quotas + other.quotas, self.masks + other.masks)


class Tie(NamedTuple):
    """A constraint with the places of its parts and the codes of its levels."""

    constraint: Constraint
    parts: tuple[int, ...]
    codes: tuple[Column, ...]
    """By level of the constraint, the wanted one first."""


class Fabric(NamedTuple):
    """All that relations ask of a request; valid for one ``change`` of the host table."""

    ties: tuple[Tie, ...]
    levels: tuple[Column, ...]
    """Codes of the domains of every level, the widest first: for the order of ranks."""
    closed: Flags
    """By host: nobody can say what it has: no tie is of use for it."""

    @property
    def looks_outside(self) -> bool:
        """Whether it depends on where other jobs are."""
        return any(isinstance(tie.constraint, Near | Exclusive) for tie in self.ties)


def levels_of(constraint: Constraint) -> tuple[str, ...]:
    """Return the levels of a constraint, the wanted one first."""
    if isinstance(constraint, Colocate | Near):
        return constraint.levels
    return (constraint.level,)


def codes_at(level: str, facts: HostFacts) -> Column:
    """Return the domain of each host at a level; -1: in none."""
    if level in (OWN_LEVEL, LINK_LEVEL):
        return np.arange(facts.table.count, dtype=np.int64)
    return facts.labels(level).astype(np.int64)


def lay_out_ties(
    constraints: Sequence[Constraint], names: Sequence[str], facts: HostFacts
) -> Fabric:
    """Return what constraints mean on these hosts.

    Args:
        constraints: Of the request.
        names: Of its parts.
        facts: The hosts.
    """
    place = {name: number for number, name in enumerate(names)}
    ties = []
    for constraint in constraints:
        parts = tuple(sorted(place[name] for name in constraint.roles if name in place))
        if parts:
            codes = tuple(codes_at(level, facts) for level in levels_of(constraint))
            ties.append(Tie(constraint, parts, codes))
    levels = tuple(codes_at(level, facts) for level in reversed(facts.levels))
    return Fabric(tuple(ties), levels, np.zeros(facts.table.count, np.bool_))


def required_wish(fabric: Fabric, ground: Ground) -> Wish:
    """Return what must be met on a ground."""
    found = Wish()
    for tie in fabric.ties:
        if isinstance(tie.constraint, Exclusive) or tie.constraint.required:
            found = found.joined(wish_of(tie, 0, ground))
    return found


def preferred_wishes(fabric: Fabric, ground: Ground) -> list[list[Wish]]:
    """Return what is preferred, the heaviest first: each with its ways, the best one first."""
    wanted = [
        tie
        for tie in fabric.ties
        if not isinstance(tie.constraint, Exclusive) and not tie.constraint.required
    ]
    wanted.sort(key=lambda tie: -_weight(tie.constraint))
    return [[wish_of(tie, place, ground) for place in range(len(tie.codes))] for tie in wanted]


def _weight(constraint: Constraint) -> int:
    return 0 if isinstance(constraint, Exclusive) else constraint.weight


def wish_of(tie: Tie, place: int, ground: Ground) -> Wish:
    """Return what a tie wants at one of its levels."""
    codes = tie.codes[place]
    match tie.constraint:
        case Colocate():
            width = int(codes.max(initial=-1)) + 1
            is_linked = levels_of(tie.constraint)[place] == LINK_LEVEL
            return Wish(bonds=(Bond(tie.parts, codes, width, is_linked),))
        case Spread(max_per_domain=most):
            return Wish(quotas=(Quota(tie.parts, codes, most),))
        case Near(subject=subject, is_apart=is_apart):
            mask = near_mask(ground.where.get(subject), codes, is_apart=is_apart)
            return Wish(masks=tuple((part, mask) for part in tie.parts))
        case _:
            mask = idle_mask(ground, codes)
            return Wish(masks=tuple((part, mask) for part in tie.parts))


def near_mask(numbers: Column | None, codes: Column, *, is_apart: bool) -> Flags:
    """Return the hosts that lie in the domains of certain hosts, or in none of them.

    Args:
        numbers: The hosts; None: nothing is asked.
        codes: The domain of each host.
        is_apart: In none of their domains.
    """
    if numbers is None or (is_apart and not len(numbers)):
        return np.ones(len(codes), np.bool_)
    used = codes[numbers]
    inside = np.isin(codes, used[used >= 0])
    return ~inside & (codes >= 0) if is_apart else inside


def idle_mask(ground: Ground, codes: Column) -> Flags:
    """Return the hosts in whose domain nothing runs on any host."""
    busy = codes[~ground.empty]
    mask: Flags = ~np.isin(codes, busy[busy >= 0]) & (codes >= 0)
    return mask


def closed_hosts(fabric: Fabric, numbers: Column, parts: Column) -> Column:
    """Return the hosts that an attempt has for itself by its relations, rising.

    Args:
        fabric: What relations ask.
        numbers: The hosts of each entry.
        parts: The part of each entry.
    """
    found: list[Column] = []
    for tie in fabric.ties:
        if isinstance(tie.constraint, Exclusive):
            used = tie.codes[0][numbers[np.isin(parts, tie.parts)]]
            found.append(np.flatnonzero(np.isin(tie.codes[0], used[used >= 0])))
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
