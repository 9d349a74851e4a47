"""LSF's configuration files: sections with one record or with a table, and ``KEY=value`` lines."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

_CONDITION: Final = re.compile(r"#\s*(if|elif|else|endif)\b", re.IGNORECASE)
_INCLUDE: Final = re.compile(r'#\s*INCLUDE\s+"?([^"]+)"?', re.IGNORECASE)


class Cell(msgspec.Struct, frozen=True):
    """A value and where it stands."""

    text: str
    line: int

    @property
    def is_default(self) -> bool:
        """Whether it stands for LSF's default."""
        return self.text in ("", "()", "-")


class Section(msgspec.Struct, frozen=True):
    """One ``Begin NAME ... End NAME``; of a table, one row of it."""

    file: str
    name: str
    line: int
    cells: dict[str, Cell]

    def text(self, key: str) -> str:
        """Return a value; empty where it is missing or LSF's default."""
        cell = self.cells.get(key)
        return "" if cell is None or cell.is_default else cell.text


class Oddity(msgspec.Struct, frozen=True):
    """Something in a file that is no parameter."""

    file: str
    line: int
    text: str


class _Lines:
    """The lines of a file that count: joined, without comments, of one branch of each ``#if``."""

    def __init__(self, file: str, include: Callable[[str], str | None]) -> None:
        self.file = file
        self.odd: list[Oddity] = []
        self._include = include
        self._depth = 0
        self._taken: list[bool] = []

    def read(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield number and text of each line."""
        waiting, first = "", 0
        for number, raw in enumerate(text.splitlines(), start=1):
            if not waiting and (condition := _CONDITION.match(raw.strip())):
                self._branch(condition[1].lower(), raw.strip(), number)
                continue
            if not waiting and (found := _INCLUDE.match(raw.strip())):
                yield from self._included(found[1].strip(), number)
                continue
            line = strip_comment(raw)
            first = first or number
            if line.endswith("\\"):
                waiting += line[:-1] + " "
                continue
            whole, waiting, at = (waiting + line).strip(), "", first
            first = 0
            if whole and all(self._taken):
                yield at, whole

    def _branch(self, word: str, text: str, number: int) -> None:
        match word:
            case "if":
                self._taken.append(False)
                self.odd.append(
                    Oddity(self.file, number, f"{text}: by the clock; what #else says is taken")
                )
            case "elif" if self._taken:
                self._taken[-1] = False
            case "else" if self._taken:
                self._taken[-1] = True
            case "endif" if self._taken:
                self._taken.pop()

    def _included(self, name: str, number: int) -> Iterator[tuple[int, str]]:
        text = self._include(name) if self._depth < 8 else None
        if text is None:
            self.odd.append(Oddity(self.file, number, f"#INCLUDE {name}: there is no such file"))
            return
        self._depth += 1
        yield from self.read(text)
        self._depth -= 1


def strip_comment(line: str) -> str:
    """Return a line without its comment: from a ``#`` at its start, or behind a blank, on."""
    quote = ""
    for place, mark in enumerate(line):
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "\"'":
            quote = mark if mark in line[place + 1 :] else ""
        elif mark == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place].rstrip()
    return line.rstrip()


def parse_settings(file: str, text: str) -> Section:
    """Return the ``KEY=value`` lines of ``lsf.conf``."""
    lines = _Lines(file, lambda _: None)
    cells: dict[str, Cell] = {}
    for number, line in lines.read(text):
        key, equals, value = line.partition("=")
        if equals:
            cells[key.strip()] = Cell(_unquoted(value.strip()), number)
    return Section(file, "", 1, cells)


def parse_sections(
    file: str, text: str, include: Callable[[str], str | None] = lambda _: None
) -> tuple[list[Section], list[Oddity]]:
    """Return the sections of a file, a table's rows each on its own, and what else was found.

    Args:
        file: Its name.
        text: Its content.
        include: Gives the text of an included file; None: there is none.
    """
    lines = _Lines(file, include)
    found: list[Section] = []
    name, begun = "", 0
    body: list[tuple[int, str]] = []
    for number, line in lines.read(text):
        words = line.split()
        if words[0].lower() == "begin" and len(words) > 1:
            name, begun, body = words[1], number, []
        elif words[0].lower() == "end" and len(words) > 1 and name:
            found += _section(file, name, begun, body)
            name = ""
        elif name:
            body.append((number, line))
        else:
            lines.odd.append(Oddity(file, number, f"{line[:40]!r} stands outside of a section"))
    if name:
        lines.odd.append(Oddity(file, begun, f"Begin {name} has no End"))
    return found, lines.odd


def _section(file: str, name: str, begun: int, body: list[tuple[int, str]]) -> list[Section]:
    if not body:
        return [Section(file, name, begun, {})]
    if re.match(r"[\w/@-]+\s*=", body[0][1]):
        cells = {}
        for number, line in body:
            key, equals, value = line.partition("=")
            if equals:
                cells[key.strip()] = Cell(_unquoted(value.strip()), number)
        return [Section(file, name, begun, cells)]
    heads = body[0][1].split()
    rows = []
    for number, line in body[1:]:
        values = split_cells(line)
        cells = {head: Cell(value, number) for head, value in zip(heads, values, strict=False)}
        rows.append(Section(file, name, number, cells))
    return rows


def split_cells(line: str) -> list[str]:
    """Return the cells of a table's row: words, or what is in parentheses, brackets or quotes."""
    cells: list[str] = []
    cell, depth, quote = "", 0, ""
    for mark in f"{line} ":
        if quote:
            quote = "" if mark == quote else quote
            cell += mark
        elif mark in "\"'":
            quote = mark
            cell += mark
        elif mark.isspace() and depth == 0:
            if cell:
                cells.append(_unquoted(cell))
            cell = ""
        else:
            depth += (mark in "([") - (mark in ")]")
            cell += mark
    return cells


def list_words(text: str) -> list[str]:
    """Return the words of a list, with or without parentheses around it."""
    inside = text.strip()
    if inside.startswith("(") and inside.endswith(")"):
        inside = inside[1:-1]
    return inside.split()


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
