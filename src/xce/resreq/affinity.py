"""``affinity[]``: what each task wants of a host's processors, as a checked value."""

from functools import lru_cache
from typing import Final

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
