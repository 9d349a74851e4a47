"""``-env``: which variables a job gets.

``all`` is the default. Several ``-env`` add up: real clients write ``-env all`` and then one
``-env NAME=value`` for each variable.
"""

from __future__ import annotations

from xce.cli.lsf.values import BadValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def choose_environment(environ: Mapping[str, str], given: Sequence[str]) -> dict[str, str]:
    """Return the variables of a job.

    Args:
        environ: The submitter's.
        given: The values of all ``-env`` options, in order.

    Raises:
        BadValueError: An item is neither ``all``, ``none``, ``~NAME``, ``NAME`` nor ``NAME=value``.
    """
    items = [item for text in given for item in split_items(text)]
    chosen = dict(environ) if not items or "all" in items else {}
    for item in items:
        if item in {"all", "none"}:
            continue
        if item.startswith("~"):
            chosen.pop(item[1:], None)
            continue
        name, equals, value = item.partition("=")
        if not name or any(mark.isspace() for mark in name):
            raise BadValueError(f"Bad environment specification: -env: {item!r} names no variable")
        if equals:
            chosen[name] = value
        elif name in environ:
            chosen[name] = environ[name]
    return chosen


def split_items(text: str) -> list[str]:
    """Return the items between commas; quotes hold an item, or a value, together.

    Raises:
        BadValueError: A quote is not closed.
    """
    items: list[str] = []
    item = ""
    quote = ""
    for place, mark in enumerate(text):
        if quote:
            if mark == quote:
                quote = ""
            else:
                item += mark
        elif mark in "'\"" and (not item.strip() or item.endswith("=")):
            if mark not in text[place + 1 :]:
                raise BadValueError(f"Bad environment specification: the quote {mark} is open")
            quote = mark
        elif mark == ",":
            items.append(item)
            item = ""
        else:
            item += mark
    items.append(item)
    stripped = [one.lstrip() if "=" in one else one.strip() for one in items]
    return [one for one in stripped if one]
