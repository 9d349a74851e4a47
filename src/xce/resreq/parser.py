"""The whole resource requirement: text to tree.

The grammar is LSF's: a simple requirement of sections, a compound ``n*{...} + n*{...}``, or
alternatives ``{...} || {...}@delay``.
"""

import re
from functools import lru_cache
from typing import Final

import msgspec

from xce.model.request import TASKS_MAX
from xce.resreq import ast
from xce.resreq.expression import parse_expression
from xce.resreq.lexer import Cursor
from xce.resreq.sections import SECTIONS, parse_same, parse_section

_CACHED: Final = 512
_OPENING: Final = ("mark", "[")
_COLON: Final = ("mark", ":")
_IMPLICIT_NAME: Final = re.compile(r"part[0-9]+")
_SAME: Final = ("word", "same")
_IN_BRACES: Final = '"}" or a section'


@lru_cache(maxsize=_CACHED)
def parse_requirement(text: str) -> ast.Requirement:
    """Return the tree of a resource requirement.

    Raises:
        ResreqError: The text is none; the error tells the column and what was expected there.
    """
    cursor = Cursor(text)
    requirement: ast.Requirement = (
        _parse_braced(cursor) if cursor.is_mark("{") else _parse_plain(cursor)
    )
    if cursor.peek.kind != "end":
        raise cursor.error(_after(requirement))
    return requirement


@lru_cache(maxsize=_CACHED)
def parse_select(text: str) -> ast.Expression:
    """Return the tree of a select expression that stands alone.

    Raises:
        ResreqError: The text is none.
    """
    cursor = Cursor(text)
    cursor.lsf = "Error in select section"
    expression = parse_expression(cursor)
    if cursor.peek.kind != "end":
        raise cursor.error("an operator or the end")
    return expression


def _after(requirement: ast.Requirement) -> str:
    match requirement:
        case ast.Simple():
            return f"a section ({', '.join(SECTIONS)})"
        case ast.Compound():
            return '"+" or the end'
        case _:
            return '"||" or the end'


def _parse_plain(cursor: Cursor) -> ast.Simple | ast.Compound:
    marks = (cursor.peek_after(1)[:2], cursor.peek_after(2)[:2])
    if cursor.peek.kind == "number" and marks == (("mark", "*"), ("mark", "{")):
        return _parse_compound(cursor)
    return _parse_simple(cursor)


def _parse_simple(cursor: Cursor) -> ast.Simple:
    """Read sections up to the end or a closing brace."""
    found: dict[str, object] = {}
    if not _is_section(cursor) and not cursor.is_mark("}") and cursor.peek.kind != "end":
        if cursor.peek.kind == "word" and cursor.peek_after(1).text == "[":
            raise cursor.error(
                f"a section ({', '.join(SECTIONS)})",
                why=f'no section is called "{cursor.peek.text}"',
            )
        # Text without a keyword is the select expression.
        cursor.lsf, before = "Error in select section", cursor.lsf
        found["select"] = parse_expression(cursor)
        cursor.lsf = before
    while _is_section(cursor):
        keyword = cursor.peek.text
        if keyword in found:
            raise cursor.error(
                "another section",
                why=f"{keyword} is given twice",
                lsf=f'Error near "{keyword}" : duplicate section',
            )
        cursor.next()
        parse_section(cursor, keyword, found)
    return ast.Simple(**found)  # type: ignore[arg-type]  # each field by its own parser


def _is_section(cursor: Cursor) -> bool:
    token = cursor.peek
    return token.kind == "word" and token.text in SECTIONS and cursor.peek_after(1)[:2] == _OPENING


def _parse_compound(cursor: Cursor) -> ast.Compound:
    parts: list[ast.CompoundPart] = []
    while True:
        count = 0
        if not cursor.is_mark("{") or not parts:
            count = cursor.expect_count("a number of tasks", most=TASKS_MAX)
            cursor.expect_mark("*")
        cursor.expect_mark("{")
        name = _parse_part_name(cursor, [part.name for part in parts])
        parts.append(ast.CompoundPart(count, _parse_simple(cursor), name))
        cursor.expect_mark("}", _IN_BRACES)
        if not cursor.is_mark("+"):
            return ast.Compound(tuple(parts))
        if count == 0:
            raise cursor.error("the end", why="only the last part may go without a number")
        cursor.next()


def _parse_part_name(cursor: Cursor, taken: list[str]) -> str:
    """Read ``name:`` or ``name=name:`` if it comes next; else return an empty text.

    No select expression looks so: it cannot begin with a word and a colon.
    """
    is_long = cursor.peek[:2] == ("word", "name") and cursor.peek_after(1)[:2] == ("mark", "=")
    before = 2 if is_long else 0
    if cursor.peek_after(before).kind != "word" or cursor.peek_after(before + 1)[:2] != _COLON:
        return ""
    for _ in range(before):
        cursor.next()
    name = cursor.peek.text
    if "." in name:
        raise cursor.error("a part's name", why="it has letters, digits and underscores only")
    if _IMPLICIT_NAME.fullmatch(name):
        raise cursor.error("another name", why="part0, part1, ... are names of unnamed parts")
    if name in taken:
        raise cursor.error("another name", why=f"two parts are called {name}")
    cursor.next()
    cursor.next()
    return name


def _parse_braced(cursor: Cursor) -> ast.Compound | ast.Alternatives:
    """Read alternatives, or ``{compound} same[...]``."""
    cursor.expect_mark("{")
    content = _parse_content(cursor)
    if isinstance(content, ast.Compound) and not content.same and cursor.peek[:2] == _SAME:
        return _parse_global_same(cursor, content)
    choices = [ast.Choice(content, _parse_delay(cursor, -1))]
    if not cursor.is_mark("||"):
        raise cursor.error('"||"')
    while cursor.take_mark("||"):
        cursor.expect_mark("{")
        content = _parse_content(cursor)
        choices.append(ast.Choice(content, _parse_delay(cursor, choices[-1].delay_min)))
    return ast.Alternatives(tuple(choices))


def _parse_content(cursor: Cursor) -> ast.Simple | ast.Compound:
    """Read what stands in braces, and the closing brace."""
    content: ast.Simple | ast.Compound
    if cursor.take_mark("{"):
        compound = _parse_plain(cursor)
        if not isinstance(compound, ast.Compound):
            raise cursor.error("a compound requirement in the inner braces")
        cursor.expect_mark("}", '"}" or "+"')
        content = _parse_global_same(cursor, compound)
    else:
        content = _parse_plain(cursor)
    cursor.expect_mark("}", _IN_BRACES)
    return content


def _parse_global_same(cursor: Cursor, compound: ast.Compound) -> ast.Compound:
    if cursor.peek[:2] != _SAME:
        raise cursor.error("same[...]")
    cursor.next()
    cursor.expect_mark("[")
    same = parse_same(cursor)
    cursor.expect_mark("]")
    return msgspec.structs.replace(compound, same=same)


def _parse_delay(cursor: Cursor, before_min: int) -> int:
    if not cursor.take_mark("@"):
        return -1
    at = cursor.at
    delay_min = cursor.expect_count("minutes", least=0)
    if delay_min < before_min:
        cursor.at = at
        raise cursor.error(f"{before_min} or more", why="delays do not fall")
    return delay_min
