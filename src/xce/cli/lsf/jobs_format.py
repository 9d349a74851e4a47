"""The format text of ``bjobs -o``: parsed, then applied to rows as text or as JSON."""

from __future__ import annotations

from xce.cli.lsf.jobs_fields import ALIASES, FIELDS, SIZED, Field, View
from xce.cli.lsf.options import UsageError
from xce.cli.lsf.rows import expand
from xce.client.json_text import render_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Row = dict[str, Any]

WIDTH_MAX = 4096
_UNITS = frozenset(
    ["K", "KB", "M", "MB", "G", "GB", "T", "TB", "P", "PB", "E", "EB", "Z", "ZB", "S"]
)


class Column:
    """One field as it was asked for."""

    __slots__ = ("field", "head", "right", "unit", "width")

    def __init__(self, field: Field, head: str, width: int, unit: str, *, right: bool) -> None:
        """Args: the field; its heading; width (0: as wide as its text); unit of a size."""
        self.field = field
        self.head = head
        self.width = width
        self.unit = unit
        self.right = right

    def text(self, row: Row, view: View) -> str:
        """Return the value, empty where the job has none."""
        if self.field.render is None:
            return ""
        if not self.unit:
            return self.field.render(row, view)
        return self.field.render(row, View(view.now_s, hms=view.hms, unit=self.unit))


class Format:
    """A whole format."""

    __slots__ = ("columns", "delimiter")

    def __init__(self, columns: list[Column], delimiter: str) -> None:
        """Args: the columns; the character between them, empty for a blank with padding."""
        self.columns = columns
        self.delimiter = delimiter

    @property
    def members(self) -> str:
        """The members of a row that must be asked for."""
        names = {name for column in self.columns for name in column.field.members.split(",")}
        return ",".join(sorted(names - {""}))


def parse_format(text: str) -> Format:
    """Return the format of ``name[:[-][width][:unit]] ... [delimiter='c']``.

    Raises:
        UsageError: A name is unknown, or a width or unit is none.
    """
    text, delimiter = _split_delimiter(text)
    columns = []
    for item in text.split():
        if item.lower() == "all":
            columns += [Column(FIELDS[name], name.upper(), 0, "", right=False) for name in FIELDS]
        else:
            columns.append(_parse_column(item))
    if not columns:
        raise UsageError("-o: no field is named")
    return Format(columns, delimiter)


def _split_delimiter(text: str) -> tuple[str, str]:
    """Return the fields and the delimiter, which stands last."""
    head, found, tail = text.partition("delimiter=")
    if not found:
        return text, ""
    tail = tail.strip() or tail
    if len(tail) >= 2 and tail[0] in "'\"" and tail[-1] == tail[0]:
        tail = tail[1:-1]
    if len(tail) != 1:
        raise UsageError(f"-o: delimiter={tail!r} is not one character")
    return head, tail


def _parse_column(item: str) -> Column:
    name, colon, rest = item.partition(":")
    full = name.lower()
    full = ALIASES.get(full, full)
    field = FIELDS.get(full)
    if field is None:
        raise UsageError(f"-o: there is no field {name!r}")
    width_text, _, unit = rest.partition(":")
    right = width_text.startswith("-")
    width_text = width_text.removeprefix("-")
    width = field.width if colon else 0
    if width_text:
        if not width_text.isascii() or not width_text.isdigit():
            raise UsageError(f"-o {item}: {width_text!r} is no width")
        width = int(width_text)
        if not 1 <= width <= WIDTH_MAX:
            raise UsageError(f"-o {item}: a width is 1 to {WIDTH_MAX}")
    if unit and (unit.upper() not in _UNITS or full not in SIZED):
        raise UsageError(f"-o {item}: {unit!r} is no unit of {full}")
    return Column(field, name.upper(), width, unit.upper(), right=right)


def cut(text: str, column: Column) -> str:
    """Return a text cut to the column: names lose their head, all else its tail."""
    width = column.width
    if not width or len(text) <= width:
        return text
    if column.field.name == "job_name":
        return f"*{text[len(text) - width + 1 :]}" if width > 1 else "*"
    return text[:width]


def _join(texts: list[str], wanted: Format) -> str:
    """Return one line: padded to the widths, or with the delimiter between."""
    columns = wanted.columns
    if wanted.delimiter:
        return wanted.delimiter.join(
            [cut(text, column) for text, column in zip(texts, columns, strict=True)]
        )
    cells = []
    for text, column in zip(texts, columns, strict=True):
        cell = cut(text, column)
        if column.width:
            cell = cell.rjust(column.width) if column.right else cell.ljust(column.width)
        cells.append(cell)
    if columns[-1].width and not columns[-1].right:
        cells[-1] = cells[-1].rstrip(" ")
    return " ".join(cells)


def render_head(wanted: Format) -> str:
    """Return the header line."""
    return _join([column.head for column in wanted.columns], wanted) + "\n"


def render_lines(rows: Iterable[Row], wanted: Format, view: View) -> list[str]:
    """Return one line for each row; an empty value is ``-``."""
    columns = wanted.columns
    if not wanted.delimiter and not any(column.width for column in columns):
        return [
            " ".join([column.text(row, view) or "-" for column in columns]) + "\n"
            for row in expand(rows)
        ]
    return [
        _join([column.text(row, view) or "-" for column in columns], wanted) + "\n"
        for row in expand(rows)
    ]


def render_record(row: Row, wanted: Format, view: View) -> str:
    """Return a row as a JSON object: full names in upper case, every value a text."""
    items = {column.field.name.upper(): column.text(row, view) for column in wanted.columns}
    body = ",\n".join(
        [f"      {render_string(name)}:{render_string(text)}" for name, text in items.items()]
    )
    return f"    {{\n{body}\n    }}"


def render_records(rows: Iterable[Row], wanted: Format, view: View) -> list[str]:
    """Return the JSON objects of rows, one for each element."""
    return [render_record(row, wanted, view) for row in expand(rows)]


def render_missing(job: str) -> str:
    """Return the record of a job that is not known."""
    text = render_string(f"Job <{job}> is not found")
    return f'    {{\n      "JOBID":{render_string(job)},\n      "ERROR":{text}\n    }}'


def render_document(records: list[str]) -> str:
    """Return the whole JSON text."""
    body = ",\n".join(records)
    inside = f"[\n{body}\n  ]" if records else "[]"
    return f'{{\n  "COMMAND":"bjobs",\n  "JOBS":{len(records)},\n  "RECORDS":{inside}\n}}'
