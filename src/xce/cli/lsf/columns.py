"""Columns of one's choice (``-o``, ``-json``, ``-noheader``) for hosts, queues and users.

``bjobs`` has a file of its own, `xce.cli.lsf.jobs_format`: its rows stand for many elements.
"""

from __future__ import annotations

from xce.cli.lsf.options import FLAG, VALUE, UsageError
from xce.client.json_text import render_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from xce.cli.lsf.options import Parsed

    Row = dict[str, Any]
    Field = tuple[str, int, str, Callable[[Row], str]]
    """Name, recommended width, aliases between blanks, its text."""

WIDTH_MAX = 4096
OPTIONS = {"-o": VALUE, "-json": FLAG, "-noheader": FLAG}
USAGE = """\
  -o "field[:[-]width] ... [delimiter='c']"    columns of your choice
  -json           the same as JSON              -noheader     without column headings
"""


def counted(member: str) -> Callable[[Row], str]:
    """Return the text of a number; ``-`` for none."""
    return lambda row: "-" if row.get(member) is None else str(row[member])


def limited(member: str) -> Callable[[Row], str]:
    """Return the text of a limit; ``-`` for none, also for 0."""
    return lambda row: str(row[member]) if row.get(member) else "-"


def fixed(text: str) -> Callable[[Row], str]:
    """Return a text that is the same for every row."""
    return lambda _: text


def nothing(row: Row) -> str:
    """Return what LSF shows for what is not limited, or not known."""
    return "-"


def is_custom(parsed: Parsed) -> bool:
    """Return whether the columns are of the user's choice.

    Raises:
        UsageError: Options that exclude each other were given.
    """
    others = [option for option in ("-l", "-w", "-s", "-r") if parsed.has(option)]
    for option in ("-o", "-json"):
        if parsed.has(option) and others:
            raise UsageError(f"{option} and {others[0]} cannot be used together")
    if parsed.has("-json") and parsed.has("-noheader"):
        raise UsageError("-json and -noheader cannot be used together")
    return parsed.has("-o") or parsed.has("-json")


class Column:
    """One field as it was asked for."""

    __slots__ = ("head", "name", "right", "text", "width")

    def __init__(self, field: Field, head: str, width: int, *, right: bool) -> None:
        """Args: the field; its heading; width, 0: as wide as its text."""
        self.name, _, _, self.text = field
        self.head = head
        self.width = width
        self.right = right


def parse_columns(text: str, fields: Sequence[Field]) -> tuple[list[Column], str]:
    """Return the columns and the delimiter of ``name[:[-]width] ... [delimiter='c']``.

    Raises:
        UsageError: A name is unknown, or a width is none.
    """
    head, found, tail = text.partition("delimiter=")
    delimiter = tail.strip() or tail
    if len(delimiter) >= 2 and delimiter[0] in "'\"" and delimiter[-1] == delimiter[0]:
        delimiter = delimiter[1:-1]
    if found and len(delimiter) != 1:
        raise UsageError(f"-o: delimiter={delimiter!r} is not one character")
    known = {name: field for field in fields for name in (field[0], *field[2].split())}
    columns = []
    for item in head.split():
        name, colon, width_text = item.partition(":")
        if name.lower() == "all" and not colon:
            columns += [Column(field, field[0].upper(), 0, right=False) for field in fields]
            continue
        field = known.get(name.lower())
        if field is None:
            raise UsageError(f"-o: there is no field {name!r}")
        right = width_text.startswith("-")
        digits = width_text.removeprefix("-")
        width = field[1] if colon else 0
        if digits:
            if not (digits.isascii() and digits.isdigit() and 1 <= int(digits) <= WIDTH_MAX):
                raise UsageError(f"-o {item}: a width is 1 to {WIDTH_MAX}")
            width = int(digits)
        columns.append(Column(field, name.upper(), width, right=right))
    if not columns:
        raise UsageError("-o: no field is named")
    return columns, delimiter


def _join(texts: list[str], columns: list[Column], delimiter: str) -> str:
    cells = []
    for text, column in zip(texts, columns, strict=True):
        cell = text[: column.width] if column.width else text
        if column.width and not delimiter:
            cell = cell.rjust(column.width) if column.right else cell.ljust(column.width)
        cells.append(cell)
    return (delimiter or " ").join(cells).rstrip(" " if not delimiter else "") + "\n"


def render_custom(
    parsed: Parsed,
    fields: Sequence[Field],
    default: str,
    rows: Sequence[Row],
    *,
    command: str,
    noun: str,
) -> list[str]:
    """Return the lines of ``-o``, or the JSON text.

    Args:
        parsed: The command line.
        fields: What there is.
        default: The format of ``-json`` without ``-o``.
        rows: What is listed.
        command: Its name, for JSON.
        noun: What is counted in JSON, e.g. ``HOSTS``.
    """
    columns, delimiter = parse_columns(parsed.value("-o") or default, fields)
    if not parsed.has("-json"):
        lines = [_join([c.text(row) or "-" for c in columns], columns, delimiter) for row in rows]
        if parsed.has("-noheader") or not rows:
            return lines
        return [_join([column.head for column in columns], columns, delimiter), *lines]
    records = []
    for row in rows:
        items = {column.name.upper(): column.text(row) for column in columns}
        body = ",\n".join(
            [
                f"      {render_string(name)}:{render_string('' if text == '-' else text)}"
                for name, text in items.items()
            ]
        )
        records.append(f"    {{\n{body}\n    }}")
    inside = "[\n" + ",\n".join(records) + "\n  ]" if records else "[]"
    return [
        (
            f'{{\n  "COMMAND":{render_string(command)},\n  "{noun}":{len(records)},\n'
            f'  "RECORDS":{inside}\n}}\n'
        )
    ]
