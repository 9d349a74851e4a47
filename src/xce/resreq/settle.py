"""Names, kinds and units of a select expression, settled once at submission.

What comes out needs no schema any more: every size is in MiB, a string resource stands on the
left of its comparison, and each name exists.
"""

from typing import Final, assert_never

from xce.resreq import ast
from xce.resreq.errors import ResreqError
from xce.resreq.expression import parts_of
from xce.resreq.schema import MEGABYTES, SIZES, Schema

_POWER: Final = {"KB": -1, "MB": 0, "GB": 1, "TB": 2, "PB": 3, "EB": 4, "ZB": 5}
"""Powers of 1024 from MiB."""
MILLI_MAX: Final = 1 << 60
"""Largest literal, in thousandths."""
_LSF: Final = "Error in select section"


def settle_select(expression: ast.Expression, schema: Schema, power: int) -> ast.Expression:
    """Return ``expression`` with its names checked and its sizes in MiB.

    Args:
        expression: A condition on a host.
        schema: The resources there are.
        power: The unit of a bare number beside a size, as a power of 1024 from MiB.

    Raises:
        ResreqError: A name does not exist, or kinds do not fit. It has no column.
    """
    return _Settler(schema, power).condition(expression)


def scaled_milli(number: ast.Number, power: int) -> int:
    """Return a number in thousandths times ``1024 ** power``, rounded up."""
    whole, _, fraction = number.text.partition(".")
    numerator = int(whole + fraction) * 1000
    denominator: int = 10 ** len(fraction)
    if power >= 0:
        numerator <<= 10 * power
    else:
        denominator <<= -10 * power
    return -(-numerator // denominator)


def unit_power(unit: str, default: int = 0) -> int:
    """Return the power of 1024 from MiB that a unit stands for; ``default`` for none."""
    return _POWER.get(unit, default)


def number_of_milli(milli: int) -> ast.Number:
    """Return the literal that means ``milli`` thousandths."""
    text = f"{milli // 1000}.{milli % 1000:03}"
    return ast.Number(text.rstrip("0").rstrip("."))


class _Settler:
    def __init__(self, schema: Schema, power: int) -> None:
        self.schema = schema
        self.power = power

    def condition(self, expression: ast.Expression) -> ast.Expression:
        """Settle what must be true of a host."""
        match expression:
            case ast.And(parts):
                return ast.And(tuple(map(self.condition, parts)))
            case ast.Or(parts):
                return ast.Or(tuple(map(self.condition, parts)))
            case ast.Not(part):
                return ast.Not(self.condition(part))
            case ast.Compare():
                return self.comparison(expression)
            case ast.Name(name) if self.schema.is_string(self.schema.name(name)):
                raise ResreqError(
                    f"{name} is a string: compare it, as in {name} == word", word=name, lsf=_LSF
                )
            case ast.Text(value):
                raise ResreqError(f"{value!r} is no condition", word=value, lsf=_LSF)
            case _:
                return self.number(expression, is_size=self.size_power(expression) > 0)

    def comparison(self, compare: ast.Compare) -> ast.Expression:
        """Settle a comparison: of a string with a word, or of two numbers."""
        for resource, other in ((compare.left, compare.right), (compare.right, compare.left)):
            if isinstance(resource, ast.Name) and self.is_string(compare.op, resource.name, other):
                name = self.schema.name(resource.name)
                op = self.equality(compare.op, name)
                return ast.Compare(op, ast.Name(name), _word(other, name))
        if self.power and _has_name(compare, MEGABYTES):
            return _Settler(self.schema, 0).comparison(compare)
        powers = self.size_power(compare.left), self.size_power(compare.right)
        if max(powers) > 1 or min(powers) < 0:
            raise ResreqError(
                "a size may not be multiplied by a size or divide a number where the unit of "
                "memory is not MB",
                lsf=_LSF,
            )
        is_size = max(powers) == 1
        return ast.Compare(
            compare.op,
            self.number(compare.left, is_size=is_size),
            self.number(compare.right, is_size=is_size),
        )

    def is_string(self, op: str, name: str, other: ast.Expression) -> bool:
        """Whether ``name`` is a string resource beside ``other``.

        Where names need not exist, one that is compared with a word is taken for one.
        """
        name = self.schema.name(name)
        if self.schema.is_string(name):
            return True
        if not self.schema.is_open or self.schema.known_kind(name) or op not in ("==", "!="):
            return False
        if isinstance(other, ast.Name) and self.schema.known_kind(self.schema.name(other.name)):
            return False
        if isinstance(other, ast.Name | ast.Text):
            self.schema.note_unknown(name, "select", {})
            return True
        return False

    def equality(self, op: str, name: str) -> str:
        """Return ``op`` if a string may be compared so."""
        if op not in ("==", "!="):
            raise ResreqError(f"{name} is a string: only == and != compare it", word=name, lsf=_LSF)
        return op

    def size_power(self, expression: ast.Expression) -> int:
        """Return 1 for what is a size (memory), 2 for its square, 0 for a plain number.

        Where bare numbers are in MiB no size needs converting, so all count as plain.
        """
        if self.power == 0:
            return 0
        match expression:
            case ast.Number(_, unit):
                return 1 if unit else 0
            case ast.Name(name):
                return 1 if self.schema.name(name) in SIZES else 0
            case ast.Negative(part):
                return self.size_power(part)
            case ast.Chain(first, rest) if rest[0][0] in "+-":
                return max(map(self.size_power, parts_of(expression)))
            case ast.Chain(first, rest):
                signs = (1 if op == "*" else -1 for op, _ in rest)
                inner = (self.size_power(part) for _, part in rest)
                return self.size_power(first) + sum(
                    s * p for s, p in zip(signs, inner, strict=True)
                )
            case _:
                return 0

    def number(self, expression: ast.Expression, *, is_size: bool) -> ast.Expression:
        """Settle what is counted with; ``is_size``: it stands where a size is meant."""
        match expression:
            case ast.Number(_, unit):
                power = unit_power(unit, self.power if is_size else 0)
                milli = scaled_milli(expression, power)
                if milli > MILLI_MAX:
                    raise ResreqError(
                        f"{expression.text}{unit} is too large", word=expression.text, lsf=_LSF
                    )
                return number_of_milli(milli)
            case ast.Name(word):
                name = self.schema.name(word)
                if self.schema.kind(name, "select") == "string":
                    raise ResreqError(f"{word} is a string, not a number", word=word, lsf=_LSF)
                column = ast.Name(name)
                return column if name in SIZES or not is_size else self.as_size(column)
            case ast.Negative(part):
                return ast.Negative(self.number(part, is_size=is_size))
            case ast.Chain(first, rest):
                return self.chain(first, rest, is_size=is_size)
            case ast.Text(value):
                raise ResreqError(f"{value!r} is no number", word=value, lsf=_LSF)
            case ast.Defined(word):
                name = self.schema.name(word)
                self.schema.kind(name, "select")
                return ast.Defined(name)
            case ast.Not() | ast.Compare() | ast.And() | ast.Or():
                return self.condition(expression)
            case _:
                assert_never(expression)

    def chain(
        self,
        first: ast.Expression,
        rest: tuple[tuple[str, ast.Expression], ...],
        *,
        is_size: bool,
    ) -> ast.Expression:
        """Settle a sum, each part like the whole, or a product, one factor of which is a size."""
        if rest[0][0] in "+-":
            is_size = is_size or any(
                self.size_power(part) for part in (first, *(p for _, p in rest))
            )
            settled = tuple((op, self.number(part, is_size=is_size)) for op, part in rest)
            return ast.Chain(self.number(first, is_size=is_size), settled)
        has_size = any(self.size_power(part) for part in (first, *(p for _, p in rest)))
        settled = tuple(
            (op, self.number(part, is_size=self.size_power(part) > 0)) for op, part in rest
        )
        product = ast.Chain(self.number(first, is_size=self.size_power(first) > 0), settled)
        # 2 * ncpus beside a size is a size in the unit of bare numbers.
        return self.as_size(product) if is_size and not has_size else product

    def as_size(self, expression: ast.Expression) -> ast.Expression:
        """Return a plain number or product as a size in the unit of bare numbers."""
        if self.power == 0:
            return expression
        factor = number_of_milli(1000 * 1024 ** abs(self.power))
        scaling = ("*" if self.power > 0 else "/", factor)
        match expression:
            case ast.Chain(first, rest) if rest[0][0] in "*/":
                # Last, so that nothing is cut off before the other factors came.
                return ast.Chain(first, (*rest, scaling))
            case _:
                return ast.Chain(expression, (scaling,))


def _has_name(expression: ast.Expression, names: tuple[str, ...]) -> bool:
    """Whether one of ``names`` stands anywhere in ``expression``."""
    if isinstance(expression, ast.Name):
        return expression.name in names
    return any(_has_name(part, names) for part in parts_of(expression))


def _word(other: ast.Expression, name: str) -> ast.Expression:
    """Return the literal that the string resource ``name`` is compared with."""
    match other:
        case ast.Name() | ast.Text():
            return other
        case ast.Number(text, ""):
            return ast.Text(text)
        case _:
            raise ResreqError(
                f"{name} is compared with one word: put quotes around it, as in {name} == 'a-1'",
                word=name,
                lsf=_LSF,
            )
