"""``affinity[]``: what each task wants of a host's processors, as a checked value."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from xce.model.processor import Layout
from xce.resreq import ast
from xce.resreq.errors import ResreqError
from xce.resreq.lexer import Cursor
from xce.resreq.sections import parse_affinity_wish

_RANK: Final = {"numa": 0, "socket": 1, "core": 2, "thread": 3}
"""How deep a level lies in a host."""


def check_affinity(affinity: ast.Affinity) -> None:
    """Check that the levels of an affinity wish fit its unit.

    Raises:
        ResreqError: A level that shall hold the unit is smaller than it.
    """
    for what, level in (
        ("same", affinity.same),
        ("exclusive", affinity.exclusive),
        ("distribute", affinity.distribute_level),
    ):
        if level and _RANK[level] > _RANK[affinity.unit]:
            raise ResreqError(
                f"affinity[]: {what}={level} is smaller than the {affinity.unit} asked for",
                word=what,
            )


class Gap(NamedTuple):
    """A form of the wish that is right and that no host is searched for yet."""

    what: str
    """Its name for people."""
    word: str
    """What stands in the text where it is asked for."""
    is_asked: Callable[[ast.Affinity], bool]
    instead: str
    """What to ask for in its place."""


def _is_exclusive(affinity: ast.Affinity) -> bool:
    return bool(affinity.exclusive) and _RANK[affinity.exclusive] < _RANK[affinity.unit]


def _repeats_inside(affinity: ast.Affinity) -> bool:
    if affinity.repeat == 1 or not affinity.same or not _is_exclusive(affinity):
        return False
    return affinity.scope == "intask" or _RANK[affinity.same] < _RANK[affinity.exclusive]


def binds_wider(affinity: ast.Affinity) -> bool:
    """Return whether tasks are bound to domains around their units."""
    return bool(affinity.cpubind) and _RANK[affinity.cpubind] < _RANK[affinity.unit]


def bound_to(affinity: ast.Affinity, layout: Layout | None, units: int) -> int:
    """Return what a task with these units is bound to: with a wider ``cpubind=`` all processors of
    the domains around them, which others may have as well.
    """
    is_wider = layout is not None and binds_wider(affinity)
    return layout.around(units, affinity.cpubind) if is_wider and layout else units


GAPS: Final = (
    Gap(
        "affinity[] that repeats units which are exclusive inside same=",
        "exclusive",
        _repeats_inside,
        "ask for one larger group, or leave same= out",
    ),
)


def find_gap(text: str) -> Gap | None:
    """Return what of ``Request.affinity`` is not built yet; None: all of it is."""
    if not text:
        return None
    affinity = parse_affinity(text)
    return next((gap for gap in GAPS if gap.is_asked(affinity)), None)


@lru_cache(maxsize=512)
def parse_affinity(text: str) -> ast.Affinity:
    """Return the value of ``Request.affinity``.

    Raises:
        ResreqError: The text is no affinity wish.
    """
    cursor = Cursor(text)
    found = parse_affinity_wish(cursor)
    if cursor.peek.kind != "end":
        raise cursor.error("the end")
    check_affinity(found)
    return found
