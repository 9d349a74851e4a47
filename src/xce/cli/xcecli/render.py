"""Results as text: tables for people, JSON and YAML for programs."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from xce.client.plain_text import plain

FORMATS: Final = ("json", "yaml", "wide", "name")
_COLOURS: Final[Mapping[str, str]] = {
    "RUN": "32", "DONE": "36", "EXIT": "31", "PEND": "33", "PSUSP": "35", "USUSP": "35",
    "SSUSP": "35", "ok": "32", "unavail": "31", "unreach": "31", "closed_Adm": "35",
    "closed_Full": "33", "closed_Excl": "33", "open": "32", "closed": "31",
}  # fmt: skip
_YAML_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Words that mean a boolean or nothing to some readers of YAML."""
_ESCAPES: Final = {
    code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
}
"""Characters that YAML takes for the end of a line, or does not take at all."""
_CUT: Final = 32
"""Widest cell of a table that is not wide."""


class Column(NamedTuple):
    """A column of a table."""

    title: str
    text: Callable[[Any], str]
    right: bool = False
    wide: bool = False
    """Only in wide tables."""


def render_table(
    columns: Sequence[Column], rows: Sequence[Any], *, wide: bool, colour: bool
) -> list[str]:
    """Return the lines of a table, its head first; no trailing blanks."""
    shown = [column for column in columns if wide or not column.wide]
    cells = [[column.title for column in shown]]
    for row in rows:
        line = [_cut(column.text(row), wide=wide) for column in shown[:-1]]
        # Nothing stands behind the last column, so nothing in it need be cut.
        cells.append([*line, _cut(shown[-1].text(row), wide=True)])
    widths = [max(len(line[place]) for line in cells) for place in range(len(shown))]
    return [
        _line(shown, widths, line, colour=colour and number > 0)
        for number, line in enumerate(cells)
    ]


def _cut(text: str, *, wide: bool) -> str:
    text = plain(" ".join(text.split("\n")))
    return text if wide or len(text) <= _CUT else text[: _CUT - 1] + "…"


def _line(
    columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str], *, colour: bool
) -> str:
    parts = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        padded = cell.rjust(width) if column.right else cell.ljust(width)
        parts.append(paint(padded, cell) if colour else padded)
    return "  ".join(parts).rstrip()


def paint(text: str, word: str) -> str:
    """Return ``text`` in the colour that ``word`` has, if it has one."""
    code = _COLOURS.get(word)
    return f"\033[{code}m{text}\033[0m" if code else text


def render_json(value: object) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def render_yaml(value: object) -> str:
    """Return a JSON value as YAML: blocks for lists and objects, JSON's form for the rest."""
    return "\n".join(_yaml(value, 0))


def _yaml(value: object, depth: int) -> list[str]:
    pad = "  " * depth
    if isinstance(value, dict) and value:
        lines = []
        for name, item in value.items():
            lines += _member(f"{pad}{_key(name)}:", item, depth)
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            block = _yaml(item, depth + 1)
            lines.append(f"{pad}- {block[0].lstrip()}")
            lines += block[1:]
        return lines
    return [pad + _scalar(value)]


def _member(head: str, item: object, depth: int) -> list[str]:
    if isinstance(item, dict | list) and item:
        return [head, *_yaml(item, depth + 1)]
    return [f"{head} {_scalar(item)}"]


def _key(name: str) -> str:
    is_plain = name.isascii() and name.isidentifier() and name.lower() not in _YAML_WORDS
    return name if is_plain else _scalar(name)


def _scalar(value: object) -> str:
    """Return a scalar, or an empty list or object, in the form that JSON and YAML share."""
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPES)
