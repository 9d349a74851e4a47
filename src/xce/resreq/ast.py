"""The tree of a resource requirement: what the text says, before names mean anything.

Every tree is in one normal form: chains of one operator are flat, settings stand in a fixed
order, numbers have no idle zeros. So text -> tree -> text -> tree gives the same tree.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

# --- the select expression ---------------------------------------------------------------------


class Number(msgspec.Struct, frozen=True, tag="number"):
    """A number as written without idle zeros, with its unit in capitals (``KB`` ... ``ZB``)."""

    text: str
    unit: str = ""


class Name(msgspec.Struct, frozen=True, tag="name"):
    """A bare word: a resource, or beside a string resource a literal."""

    name: str


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A quoted string."""

    value: str


class Defined(msgspec.Struct, frozen=True, tag="defined"):
    """``defined(name)``: the host has the resource at all."""

    name: str


class Not(msgspec.Struct, frozen=True, tag="not"):
    """``!part``."""

    part: "Expression"


class Negative(msgspec.Struct, frozen=True, tag="negative"):
    """``-part``."""

    part: "Expression"


class Chain(msgspec.Struct, frozen=True, tag="chain"):
    """``first op part op part ...`` of ``+ -`` or of ``* /``, read from the left."""

    first: "Expression"
    rest: tuple[tuple[str, "Expression"], ...]


class Compare(msgspec.Struct, frozen=True, tag="compare"):
    """``left op right`` with ``< <= > >= == !=``."""

    op: str
    left: "Expression"
    right: "Expression"


class And(msgspec.Struct, frozen=True, tag="and"):
    """``part && part ...``."""

    parts: tuple["Expression", ...]


class Or(msgspec.Struct, frozen=True, tag="or"):
    """``part || part ...``."""

    parts: tuple["Expression", ...]


Expression: TypeAlias = Number | Name | Text | Defined | Not | Negative | Chain | Compare | And | Or

# --- the other sections ------------------------------------------------------------------------


class OrderKey(msgspec.Struct, frozen=True):
    """One key of ``order[]``; the ``mark`` is empty or ``-`` (reversed); first a ``!``, if any."""

    name: str
    mark: str = ""


def with_leading_mark(keys: Sequence[OrderKey]) -> tuple[OrderKey, ...]:
    """Return keys with the ``!`` of any of them at the first: it is one of the whole section."""
    if not any("!" in key.mark for key in keys):
        return tuple(keys)
    plain = [OrderKey(key.name, key.mark.lstrip("!")) for key in keys]
    return (OrderKey(plain[0].name, "!" + plain[0].mark), *plain[1:])


class RusageItem(msgspec.Struct, frozen=True):
    """``name=value`` or ``name=(v1 v2 ...)``, with ``per`` empty, ``task``, ``host`` or ``job``."""

    name: str
    values: tuple[Number, ...]
    per: str = ""


class RusagePart(msgspec.Struct, frozen=True):
    """Items that share a duration, a decay and a threshold; empty or None: not given."""

    items: tuple[RusageItem, ...]
    durations_s: tuple[int, ...] = ()
    decays: tuple[int, ...] = ()
    threshold: Number | None = None
    gpu: tuple[tuple[str, str], ...] = ()
    """Settings of GPUs whose values are words, e.g. ``gmodel=A100``; in the order given."""


class Rusage(msgspec.Struct, frozen=True):
    """Alternatives (``||``) of parts (``,``)."""

    groups: tuple[tuple[RusagePart, ...], ...]


class Span(msgspec.Struct, frozen=True):
    """``form`` is ``hosts``, ``ptile``, ``block``, ``stripe`` or ``gtile``.

    ``count`` is its number; 0 stands for ``'!'`` (ptile, gtile) or for no number (stripe).
    """

    form: str
    count: int
    by_type: tuple[tuple[str, int], ...] = ()
    """``ptile=n,TYPE:n,...``."""


class ComputeUnits(msgspec.Struct, frozen=True):
    """``cu[]``; empty and 0: not given."""

    type: str = ""
    pref: str = ""
    maxcus: int = 0
    usablecuslots: int = 0
    balance: bool = False
    excl: bool = False
    maxwait_s: int = 0


class Affinity(msgspec.Struct, frozen=True):
    """``affinity[unit(count,same=,exclusive=(level,scope))*repeat:cpubind=:membind=:distribute=]``."""

    unit: str
    count: int = 1
    same: str = ""
    exclusive: str = ""
    scope: str = ""
    repeat: int = 1
    cpubind: str = ""
    membind: str = ""
    distribute: str = ""
    distribute_level: str = ""
    distribute_count: int = 0


# --- the whole ---------------------------------------------------------------------------------


class Simple(msgspec.Struct, frozen=True, tag="simple"):
    """A requirement of plain sections; None and empty: the section was not given."""

    select: Expression | None = None
    order: tuple[OrderKey, ...] = ()
    rusage: Rusage | None = None
    span: Span | None = None
    same: tuple[str, ...] = ()
    cu: ComputeUnits | None = None
    affinity: Affinity | None = None


class CompoundPart(msgspec.Struct, frozen=True):
    """``count*{name: simple}``; a count of 0 and an empty name were left out."""

    count: int
    simple: Simple
    name: str = ""


class Compound(msgspec.Struct, frozen=True, tag="compound"):
    """``n*{simple} + n*{simple} ...``; only the last count may be left out."""

    parts: tuple[CompoundPart, ...]
    same: tuple[str, ...] = ()
    """``{compound} same[...]``: over all parts."""


class Choice(msgspec.Struct, frozen=True):
    """One alternative; ``delay_min`` is the number after ``@``, -1 when there is none."""

    requirement: Simple | Compound
    delay_min: int = -1


class Alternatives(msgspec.Struct, frozen=True, tag="alternatives"):
    """``{...} || {...}@delay ...``."""

    choices: tuple[Choice, ...]


Requirement: TypeAlias = Simple | Compound | Alternatives
