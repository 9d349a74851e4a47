"""The select expression: tokens to tree, by operator precedence."""

from typing import Final

from xce.resreq import ast
from xce.resreq.lexer import DEPTH_MAX, DIGITS_MAX, Cursor

_LEVEL: Final = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "+": 5, "-": 5, "*": 6, "/": 6,
}  # fmt: skip
_COMPARING: Final = (3, 4)
_UNIT_LETTERS: Final = "KMGTPEZ"


def parse_expression(cursor: Cursor) -> ast.Expression:
    """Read an expression; its tree is at most ``DEPTH_MAX`` deep, so all may walk it freely.

    Raises:
        ResreqError: What comes next is no expression.
    """
    expression = _parse_level(cursor, 1)
    rest = [(expression, 1)]
    while rest:
        node, depth = rest.pop()
        if depth > DEPTH_MAX:
            raise cursor.too_deep()
        rest += [(part, depth + 1) for part in parts_of(node)]
    return expression


def parts_of(expression: ast.Expression) -> tuple[ast.Expression, ...]:
    """Return the expressions that an expression is directly made of."""
    match expression:
        case ast.Not(part) | ast.Negative(part):
            return (part,)
        case ast.Compare(_, left, right):
            return (left, right)
        case ast.And(parts) | ast.Or(parts):
            return parts
        case ast.Chain(first, rest):
            return (first, *(part for _, part in rest))
        case _:
            return ()


def _parse_level(cursor: Cursor, lowest: int) -> ast.Expression:
    """Read an expression whose operators bind at least as tight as ``lowest``."""
    cursor.descend()
    left = _parse_unary(cursor)
    compared = 0
    while cursor.peek.kind == "mark" and (level := _LEVEL.get(cursor.peek.text, 0)) >= lowest:
        if level == compared:
            raise cursor.error("&& or ||", why="comparisons do not chain")
        op = cursor.next().text
        right = _parse_level(cursor, level + 1)
        left = _joined("==" if op == "=" else op, left, right)
        compared = level if level in _COMPARING else 0
    cursor.ascend()
    return left


def parse_number(cursor: Cursor) -> ast.Number:
    """Read a number that may have a size's unit.

    Raises:
        ResreqError: Something else comes next, or the unit does not exist.
    """
    token = cursor.peek
    if token.kind != "number":
        raise cursor.error("a number")
    whole, _, fraction = token.text.partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    if len(whole) + len(fraction) > DIGITS_MAX:
        raise cursor.error(f"a number of at most {DIGITS_MAX} digits")
    cursor.next()
    unit = ""
    if cursor.peek.kind == "word" and cursor.peek.start == token.end:
        letter = cursor.peek.text.upper().removesuffix("B").removesuffix("I")
        if len(letter) != 1 or letter not in _UNIT_LETTERS:
            raise cursor.error("a unit K, M, G, T, P, E or Z")
        cursor.next()
        unit = letter + "B"
    return ast.Number(f"{whole}.{fraction}" if fraction else whole, unit)


def _joined(op: str, left: ast.Expression, right: ast.Expression) -> ast.Expression:
    """Return ``left op right`` in normal form: chains of one operator are flat."""
    match op:
        case "&&":
            left_parts = left.parts if isinstance(left, ast.And) else (left,)
            right_parts = right.parts if isinstance(right, ast.And) else (right,)
            return ast.And(left_parts + right_parts)
        case "||":
            left_parts = left.parts if isinstance(left, ast.Or) else (left,)
            right_parts = right.parts if isinstance(right, ast.Or) else (right,)
            return ast.Or(left_parts + right_parts)
        case "+" | "-" | "*" | "/":
            if isinstance(left, ast.Chain) and _LEVEL[left.rest[0][0]] == _LEVEL[op]:
                return ast.Chain(left.first, (*left.rest, (op, right)))
            return ast.Chain(left, ((op, right),))
        case _:
            return ast.Compare(op, left, right)


def _parse_unary(cursor: Cursor) -> ast.Expression:
    marks = []
    while cursor.is_mark("!") or cursor.is_mark("-"):
        marks.append(cursor.next().text)
        cursor.descend()
    part = _parse_primary(cursor)
    for mark in reversed(marks):
        part = ast.Not(part) if mark == "!" else ast.Negative(part)
        cursor.ascend()
    return part


def _parse_primary(cursor: Cursor) -> ast.Expression:
    token = cursor.peek
    if token.kind == "number":
        return parse_number(cursor)
    if token.kind == "string":
        return ast.Text(cursor.next().text)
    if token.kind == "word":
        cursor.next()
        if token.text == "defined" and cursor.take_mark("("):
            name = cursor.expect_word("a resource name")
            cursor.expect_mark(")")
            return ast.Defined(name)
        return ast.Name(token.text)
    if cursor.take_mark("("):
        inner = _parse_level(cursor, 1)
        cursor.expect_mark(")", '")" or an operator')
        return inner
    expected = 'number, string, name, or "("'
    found = f'"{token.text}"' if token.kind == "mark" else "end of string"
    raise cursor.error(
        expected, lsf=f"Error in select section: Expected {expected} but found {found}"
    )
