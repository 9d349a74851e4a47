"""Texts of users as they stand in listings: nothing in them moves a cursor or begins a line.

A path may hold any character, and whoever lists jobs reads other people's paths: an escape
sequence would be obeyed by his terminal, and a newline would make a line of its own, which programs
take for a row.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_PLAIN = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029), "?")
_PLAIN[ord("\t")] = " "
_PLAIN[ord("\n")] = ";"


def plain(text: str) -> str:
    """Return a text with ``?`` for control characters, a blank for tabs, ``;`` between lines."""
    return text if text.isprintable() else text.rstrip("\n").translate(_PLAIN)


def make_plain(rows: Iterable[Any]) -> None:
    """Make the texts of rows plain, in what stands inside them too."""
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str):
                if not value.isprintable():
                    row[name] = plain(value)
            elif isinstance(value, dict):
                make_plain((value,))
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                make_plain(value)
