"""The select expression and the order keys, run over columns of hosts.

Numbers are integers in thousandths; a host that lacks a compared resource fails the comparison,
and so passes its negation. No step goes host by host.
"""

from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from xce.model.load import RISING
from xce.resreq import ast
from xce.resreq.expression import parts_of
from xce.resreq.parser import parse_select
from xce.resreq.schema import STRINGS
from xce.resreq.settle import scaled_milli, unit_power

Bools: TypeAlias = npt.NDArray[np.bool_]
Milli: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]

_LIMIT: Final = 1 << 60
"""Sums and products stop here instead of running over."""
_ANY_TYPE: Final = ("any", "local")


class SelectColumns(Protocol):
    """What a select expression reads: one row for each host."""

    @property
    def count(self) -> int:
        """Number of hosts."""
        ...

    def number(self, name: str) -> tuple[Milli, Bools]:
        """Return a number's column in thousandths, and which hosts have it."""
        ...

    def text(self, name: str) -> tuple[Codes, dict[str, int]]:
        """Return a string's column as codes (-1: not there), and the code of each text."""
        ...

    def flag(self, name: str) -> Bools:
        """Return which hosts have a boolean resource."""
        ...

    def kind(self, name: str) -> str:
        """Return ``number``, ``string`` or ``boolean``; empty: no host has such a thing."""
        ...


class SelectProgram:
    """A compiled select expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.expression = parse_select(text) if text else None
        self.names: tuple[str, ...] = tuple(sorted(_names(self.expression)))
        """The words in it that may be resources: which columns can change its answer."""

    def mask(self, columns: SelectColumns, unsettled: frozenset[str] = frozenset()) -> Bools:
        """Return which hosts satisfy the expression, or may, where some names may be anything."""
        if self.expression is None:
            return np.ones(columns.count, dtype=np.bool_)
        return _Run(columns, unsettled).condition(self.expression)


@lru_cache(maxsize=4096)
def compile_select(text: str) -> SelectProgram:
    """Return the program of a select text in canonical form, as `Request.select` holds it.

    Raises:
        ResreqError: The text is no select expression.
    """
    return SelectProgram(text)


def compile_order(text: str) -> tuple[tuple[str, bool], ...]:
    """Return the order keys of ``Request.order``, the dominant one first: (name, descending).

    ``slots`` puts the host with most free slots first, ``-slots`` the one with fewest; of a load
    index that rises with the load, less is better: ``r1m`` puts the idlest host first.
    """
    keys = text.lstrip("!").split(":") if text else ()
    named = [(key.lstrip("-"), key.startswith("-")) for key in keys]
    return tuple((name, (name in RISING) == is_reversed) for name, is_reversed in named)


def _names(expression: ast.Expression | None) -> set[str]:
    """Return the words in an expression that may be resources."""
    found: set[str] = set()
    rest = [] if expression is None else [expression]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Name | ast.Defined):
            found.add(node.name)
        rest.extend(parts_of(node))
    return found


class _Numbers(NamedTuple):
    """A column in thousandths and where it is defined."""

    milli: Milli
    defined: Bools


class _Run:
    """One run of a program over columns."""

    def __init__(self, columns: SelectColumns, unsettled: frozenset[str] = frozenset()) -> None:
        self.columns = columns
        self.unsettled = unsettled
        self.count = columns.count

    def condition(self, expression: ast.Expression) -> Bools:
        """Return where ``expression`` is true."""
        match expression:
            case ast.And(parts):
                result = self.condition(parts[0])
                for part in parts[1:]:
                    result = result & self.condition(part)
                return result
            case ast.Or(parts):
                result = self.condition(parts[0])
                for part in parts[1:]:
                    result = result | self.condition(part)
                return result
            case _ if self.unsettled and not self.unsettled.isdisjoint(_names(expression)):
                return self.everywhere(value=True)
            case ast.Not(part):
                return ~self.condition(part)
            case ast.Compare():
                return self.comparison(expression)
            case ast.Defined(name):
                return self.defined(name)
            case ast.Name(name) if self.kind(name) == "boolean":
                return self.columns.flag(name)
            case _:
                milli, defined = self.number(expression)
                return np.not_equal(milli, 0) & defined

    def kind(self, name: str) -> str:
        """Return the kind of a resource; empty for a word that is none."""
        return "string" if name in STRINGS else self.columns.kind(name)

    def everywhere(self, *, value: bool) -> Bools:
        """Return ``value`` for every host."""
        return np.full(self.count, value, dtype=np.bool_)

    def defined(self, name: str) -> Bools:
        """Return which hosts have the resource at all."""
        match self.kind(name):
            case "number":
                return self.columns.number(name)[1]
            case "string":
                return np.greater_equal(self.columns.text(name)[0], 0)
            case "boolean":
                return self.columns.flag(name)
            case _:
                return self.everywhere(value=False)

    def comparison(self, compare: ast.Compare) -> Bools:
        """Return where a comparison is true; a string resource stands on its left."""
        if isinstance(compare.left, ast.Name) and self.kind(compare.left.name) == "string":
            return self.string_comparison(compare.left.name, compare.op, compare.right)
        left, right = self.number(compare.left), self.number(compare.right)
        holds: Bools = _COMPARE[compare.op](left.milli, right.milli)
        return holds & left.defined & right.defined

    def string_comparison(self, name: str, op: str, literal: ast.Expression) -> Bools:
        """Return where a string resource is or is not the literal."""
        match literal:
            case ast.Name(word) | ast.Text(word):
                wanted = word
            case _:
                return self.everywhere(value=False)
        if name == "type" and wanted in _ANY_TYPE:
            return self.everywhere(value=op == "==")
        codes, code_of = self.columns.text(name)
        code = code_of.get(wanted, -2)
        if op == "==":
            return np.equal(codes, code)
        return np.not_equal(codes, code) & np.greater_equal(codes, 0)

    def number(self, expression: ast.Expression) -> _Numbers:
        """Return what ``expression`` counts; a condition counts 1 where it is true, else 0."""
        match expression:
            case ast.Number(_, unit):
                wanted = min(scaled_milli(expression, unit_power(unit)), _LIMIT)
                return self.constant(wanted, is_defined=True)
            case ast.Name(name):
                if self.kind(name) == "number":
                    column, defined = self.columns.number(name)
                    return _Numbers(np.clip(column, -_LIMIT, _LIMIT), defined)
                if self.kind(name) == "boolean":
                    return self.truth(self.columns.flag(name))
                return self.constant(0, is_defined=False)
            case ast.Negative(part):
                milli, defined = self.number(part)
                return _Numbers(-milli, defined)
            case ast.Chain(first, rest):
                result = self.number(first)
                for op, part in rest:
                    result = _computed(op, result, self.number(part))
                return result
            case ast.Text():
                return self.constant(0, is_defined=False)
            case ast.Not() | ast.Compare() | ast.And() | ast.Or() | ast.Defined():
                return self.truth(self.condition(expression))
            case _:
                assert_never(expression)

    def constant(self, milli: int, *, is_defined: bool) -> _Numbers:
        """Return the same number for every host."""
        column = np.full(self.count, milli, dtype=np.int64)
        return _Numbers(column, self.everywhere(value=is_defined))

    def truth(self, mask: Bools) -> _Numbers:
        """Return 1 where the mask is true, else 0."""
        return _Numbers(mask.astype(np.int64) * 1000, self.everywhere(value=True))


_COMPARE: Final = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def _computed(op: str, left: _Numbers, right: _Numbers) -> _Numbers:
    defined = left.defined & right.defined
    match op:
        case "+":
            return _Numbers(np.clip(left.milli + right.milli, -_LIMIT, _LIMIT), defined)
        case "-":
            return _Numbers(np.clip(left.milli - right.milli, -_LIMIT, _LIMIT), defined)
        case "*":
            return _Numbers(_product(left.milli, right.milli), defined)
        case _:
            return _Numbers(_quotient(left.milli, right.milli), defined & (right.milli != 0))


def _product(a: Milli, b: Milli) -> Milli:
    """Return ``a * b / 1000`` cut toward zero, held within the limit without running over."""
    sign = np.sign(a) * np.sign(b)
    a, b = np.abs(a), np.abs(b)
    whole, part = np.divmod(b, 1000)
    # a * whole + a * part / 1000; where that would run over, the limit stands for it.
    is_over = (whole > 0) & (a > _LIMIT // np.maximum(whole, 1))
    high = np.where(is_over, 0, a) * whole
    a_whole, a_part = np.divmod(a, 1000)
    low = a_whole * part + a_part * part // 1000
    return sign * np.where(is_over, _LIMIT, np.minimum(high + low, _LIMIT))


def _quotient(a: Milli, b: Milli) -> Milli:
    """Return ``a * 1000 / b`` cut toward zero, held within the limit; anything where b is 0."""
    sign = np.sign(a) * np.sign(b)
    a, b = np.abs(a), np.maximum(np.abs(b), 1)
    whole, rest = np.divmod(a, b)
    is_over = whole > _LIMIT // 1000
    # rest < b; a large rest is divided by b / 1000 instead of being multiplied.
    is_large = rest > _LIMIT // 1000
    low = np.where(
        is_large,
        np.minimum(rest // np.maximum(b // 1000, 1), 999),
        np.where(is_large, 0, rest) * 1000 // b,
    )
    high = np.where(is_over, 0, whole) * 1000
    return sign * np.where(is_over, _LIMIT, np.minimum(high + low, _LIMIT))
