"""What relations ask of placement: pure data, all that the scheduler sees of them.

Roles are named by the parts of the request; in an alternative that lacks some of them the others
are meant. ``relation`` is the place of the relation among those of the job, from 0, to say which
one it is.
"""

from typing import TypeAlias

import msgspec

from xce.model.ids import Micros


class Colocate(msgspec.Struct, frozen=True, tag="colocate", array_like=True):
    """All tasks of ``roles`` in one domain of a level."""

    relation: int
    roles: tuple[str, ...]
    levels: tuple[str, ...]
    """The level that is wanted, then those that will do when it has to be given up, rising."""
    required: bool = True
    weight: int = 1
    """Of one that is preferred: heavier ones are met first."""
    relax_after_us: Micros = 0
    """After each such wait the next of ``levels`` will do, at last none; 0: never."""


class Spread(msgspec.Struct, frozen=True, tag="spread", array_like=True):
    """At most ``max_per_domain`` tasks of ``roles`` together in each domain of a level."""

    relation: int
    roles: tuple[str, ...]
    level: str
    max_per_domain: int = 1
    required: bool = True
    weight: int = 1
    relax_after_us: Micros = 0
    """After such a wait it is given up; 0: never."""


class Near(msgspec.Struct, frozen=True, tag="near", array_like=True):
    """All tasks of ``roles`` in domains in which a job or group outside has tasks, or in none."""

    relation: int
    roles: tuple[str, ...]
    subject: str
    """``job:ID``, or ``group:NAME`` of the same user."""
    levels: tuple[str, ...]
    """As those of `Colocate`."""
    is_apart: bool = False
    """In none of the domains in which the subject has tasks."""
    required: bool = True
    weight: int = 1
    relax_after_us: Micros = 0


class Exclusive(msgspec.Struct, frozen=True, tag="exclusive", array_like=True):
    """No other job in the domains of a level in which ``roles`` have tasks."""

    relation: int
    roles: tuple[str, ...]
    level: str


Constraint: TypeAlias = Colocate | Spread | Near | Exclusive


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """Of a placement: which constraint holds there, and by which values."""

    relation: int
    kind: str
    level: str
    domains: tuple[str, ...]
    """The domains that are used, in rank order; of a spread the fullest one first."""
    tasks: int = 0
    """Of a spread: tasks in the fullest domain."""
    is_met: bool = True
    """False: it is only preferred, and could not be met."""
