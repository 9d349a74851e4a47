"""Several requirement texts to one settled tree: names checked, units written out, all in order.

What comes out needs neither schema nor unit any more: sizes are in MiB and counters in their own
unit, exactly as asked (rounding is the compiler's), aliases have become names.
"""

from collections.abc import Sequence
from itertools import product
from typing import Final

import msgspec

from xce.resreq import ast
from xce.resreq.affinity import check_affinity
from xce.resreq.errors import ResreqError
from xce.resreq.lexer import DIGITS_MAX, tokenize
from xce.resreq.parser import parse_requirement, parse_select
from xce.resreq.render import render_expression
from xce.resreq.schema import MEGABYTES, SIZES, Schema
from xce.resreq.settle import number_of_milli, scaled_milli, settle_select, unit_power

ALTERNATIVES_MAX: Final = 64
"""Most alternatives of a request, those of ``rusage[]`` multiplied out."""
UNIT_POWER: Final = {"KB": -1, "MB": 0, "GB": 1, "TB": 2, "classic": 0}
"""``LSF_UNIT_FOR_LIMITS`` -> the power of 1024 from MiB of a bare size in a requirement."""
_RUSAGE: Final = "Error in rusage section"


def merge_requirements(texts: Sequence[str], schema: Schema, unit: str) -> ast.Requirement:
    """Return the settled tree of one or more requirement texts.

    Several texts are merged as LSF merges them: select expressions must all hold; order keys,
    rusage amounts and ``same`` add up in the order given; any other section may be given once; a
    compound or alternative requirement stands alone.

    Args:
        texts: The requirement texts.
        schema: The resources there are.
        unit: The unit of a bare ``mem`` or ``swp``: ``LSF_UNIT_FOR_LIMITS`` or ``classic``.

    Raises:
        ResreqError: A text cannot be read, or names what does not exist.
    """
    if unit not in UNIT_POWER:
        raise ResreqError(f"{unit!r} is no unit: expected one of {', '.join(UNIT_POWER)}")
    merged = _Merge(schema, UNIT_POWER[unit])
    for text in texts:
        try:
            merged.add(parse_requirement(text))
        except ResreqError as error:
            error.text = text
            error.column = error.column or find_column(text, error.word)
            raise
    return merged.result()


def find_column(text: str, word: str) -> int:
    """Return where ``word`` stands first in ``text``, counted from 1; 0: nowhere."""
    for token in tokenize(text):
        if word and (token.text == word or text[token.start : token.end] == word):
            return token.start + 1
    return 0


def settle_same(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return the attributes of ``same[]``, each once and by its own name.

    Args:
        names: As they were written.
        schema: The resources there are.

    Raises:
        ResreqError: One does not exist, or is consumed. It has no column.
    """
    for name in names:
        if name in schema.units:
            raise ResreqError(
                f"{name} is consumed, so no hosts have it in common: same[] takes attributes",
                word=name,
            )
        schema.kind(schema.name(name), "same")
    return tuple(dict.fromkeys(map(schema.name, names)))


class _Merge:
    """Requirement trees becoming one."""

    def __init__(self, schema: Schema, power: int) -> None:
        self.schema = schema
        self.power = power
        self.simples: list[ast.Simple] = []
        self.whole: ast.Compound | ast.Alternatives | None = None

    def add(self, tree: ast.Requirement) -> None:
        """Merge one more tree.

        Raises:
            ResreqError: It does not fit what exists or came before.
        """
        if tree == ast.Simple():
            return
        if self.whole is not None or (self.simples and not isinstance(tree, ast.Simple)):
            raise ResreqError(
                "a compound or alternative requirement stands alone: put all of it into one text",
                column=1,
            )
        match tree:
            case ast.Simple():
                self._add_simple(self._settled(tree))
            case ast.Compound():
                self.whole = self._settled_compound(tree)
            case ast.Alternatives(choices):
                self.whole = ast.Alternatives(
                    tuple(
                        ast.Choice(
                            self._settled(choice.requirement)
                            if isinstance(choice.requirement, ast.Simple)
                            else self._settled_compound(choice.requirement),
                            choice.delay_min,
                        )
                        for choice in choices
                    )
                )

    def result(self) -> ast.Requirement:
        """Return everything as one tree.

        Raises:
            ResreqError: Together it is too long or too deep.
        """
        if self.whole is not None:
            return self.whole
        if len(self.simples) == 1:
            return self.simples[0]
        same = [name for simple in self.simples for name in simple.same]
        return ast.Simple(
            select=self._select(),
            order=ast.with_leading_mark([key for one in self.simples for key in one.order]),
            rusage=_joined_rusage([s.rusage for s in self.simples if s.rusage is not None]),
            span=next((s.span for s in self.simples if s.span is not None), None),
            same=tuple(dict.fromkeys(same)),
            cu=next((s.cu for s in self.simples if s.cu is not None), None),
            affinity=next((s.affinity for s in self.simples if s.affinity is not None), None),
        )

    def _select(self) -> ast.Expression | None:
        parts: list[ast.Expression] = []
        for simple in self.simples:
            select = simple.select
            if select is not None:
                parts += select.parts if isinstance(select, ast.And) else (select,)
        if not parts:
            return None
        joined = parts[0] if len(parts) == 1 else ast.And(tuple(parts))
        parse_select(render_expression(joined))  # within the bounds of the language?
        return joined

    def _add_simple(self, simple: ast.Simple) -> None:
        for before in self.simples:
            for section in ("span", "cu", "affinity"):
                if getattr(before, section) is not None and getattr(simple, section) is not None:
                    raise ResreqError(
                        f"{section}[] is given twice",
                        word=section,
                        lsf=f'Error near "{section}" : duplicate section',
                    )
        self.simples.append(simple)
        # Each text must fit those before it, so that the error is told of the right one.
        _joined_rusage([s.rusage for s in self.simples if s.rusage is not None])
        self._select()

    def _settled_compound(self, compound: ast.Compound) -> ast.Compound:
        parts = []
        for part in compound.parts:
            simple = self._settled(part.simple)
            if simple.rusage is not None and len(simple.rusage.groups) > 1:
                raise ResreqError(
                    '"||" has no place in the parts of a compound requirement', word="||"
                )
            if simple.cu is not None and (simple.cu.balance or simple.cu.excl):
                word = "balance" if simple.cu.balance else "excl"
                raise ResreqError(
                    f"cu[{word}] has no place in the parts of a compound requirement", word=word
                )
            parts.append(msgspec.structs.replace(part, simple=simple))
        return ast.Compound(tuple(parts), settle_same(compound.same, self.schema))

    def _settled(self, simple: ast.Simple) -> ast.Simple:
        """Return a requirement with its names checked and its units written out."""
        schema = self.schema
        select = simple.select
        if select is not None:
            select = settle_select(select, schema, self.power)
            parse_select(render_expression(select))  # conversions make it longer
        order = []
        for key in simple.order:
            name = schema.name(key.name)
            if schema.kind(name, "order") == "string":
                raise ResreqError(f"{key.name} is no number, so it gives no order", word=key.name)
            order.append(ast.OrderKey(name, key.mark))
        rusage = simple.rusage
        if rusage is not None:
            rusage = ast.Rusage(tuple(map(self._settled_group, rusage.groups)))
            _joined_rusage([rusage])
        if simple.cu is not None:
            _check_compute_units(simple.cu, schema)
        if simple.affinity is not None:
            check_affinity(simple.affinity)
        return ast.Simple(
            select=select,
            order=tuple(order),
            rusage=rusage,
            span=simple.span,
            same=settle_same(simple.same, schema),
            cu=simple.cu,
            affinity=simple.affinity,
        )

    def _settled_group(self, group: tuple[ast.RusagePart, ...]) -> tuple[ast.RusagePart, ...]:
        return tuple(map(self._settled_part, group))

    def _settled_part(self, part: ast.RusagePart) -> ast.RusagePart:
        items = []
        for item in part.items:
            name = self.schema.name(item.name)
            unit = self.schema.unit(name)
            values = tuple(self._settled_number(number, name, unit) for number in item.values)
            items.append(ast.RusageItem(name, values, item.per))
        threshold = part.threshold
        if threshold is not None:
            names = {(item.name, self.schema.unit(item.name)) for item in items}
            if len({unit for _, unit in names}) > 1:
                raise ResreqError(
                    "a threshold beside resources of several units has no meaning: divide them "
                    'by ","',
                    word="threshold",
                    lsf=_RUSAGE,
                )
            threshold = self._settled_number(threshold, *min(names))
        return msgspec.structs.replace(part, items=tuple(items), threshold=threshold)

    def _settled_number(self, number: ast.Number, name: str, unit: str) -> ast.Number:
        """Return a number in the resource's base unit, exactly where its digits allow it."""
        own_power = 0 if name in SIZES or name in MEGABYTES else _size_power(unit)
        if own_power is None:
            if number.unit and not (self.schema.is_open and name in self.schema.unknown):
                raise ResreqError(
                    f"{name} is counted, not measured: it takes no {number.unit}",
                    word=name,
                    lsf=_RUSAGE,
                )
            own_power = 0
        bare_power = self.power if name in SIZES else own_power
        return _scaled(number, unit_power(number.unit, bare_power) - own_power)


def _check_compute_units(cu: ast.ComputeUnits, schema: Schema) -> None:
    if cu.type:
        schema.check_level(cu.type)
    if cu.balance and cu.pref == "bestfit":
        raise ResreqError("cu[balance] does not go with pref=bestfit", word="balance")
    if cu.balance and cu.usablecuslots:
        raise ResreqError("cu[balance] does not go with usablecuslots", word="balance")


def _joined_rusage(each: Sequence[ast.Rusage]) -> ast.Rusage | None:
    """Return amounts that are all asked for; of alternatives, every combination.

    Raises:
        ResreqError: One resource is asked for twice, or there are too many combinations.
    """
    if not each:
        return None
    count = 1
    for rusage in each:
        count *= len(rusage.groups)
        if count > ALTERNATIVES_MAX:
            raise ResreqError(
                f"rusage[] comes down to more than {ALTERNATIVES_MAX} alternatives",
                word="||",
                lsf=_RUSAGE,
            )
    groups = []
    for chosen in product(*(rusage.groups for rusage in each)):
        parts = tuple(part for group in chosen for part in group)
        _check_unique(parts)
        groups.append(parts)
    return ast.Rusage(tuple(groups))


def _check_unique(parts: tuple[ast.RusagePart, ...]) -> None:
    asked: set[tuple[str, str]] = set()
    for part in parts:
        for item in part.items:
            key = (item.name, item.per or "task")
            if key in asked:
                raise ResreqError(
                    f"{item.name} per {key[1]} is asked for twice", word=item.name, lsf=_RUSAGE
                )
            asked.add(key)


def _size_power(unit: str) -> int | None:
    """Return the power of 1024 from MiB that a declared unit stands for; None: it is no size."""
    letter = unit.upper().removesuffix("B").removesuffix("I")
    return unit_power(letter + "B") if letter and letter in "KMGTPEZ" else None


def _scaled(number: ast.Number, power: int) -> ast.Number:
    """Return a number times ``1024 ** power``; in thousandths, rounded up, if it gets too long."""
    whole, _, fraction = number.text.partition(".")
    digits = int(whole + fraction)
    places = len(fraction)
    if power >= 0:
        digits <<= 10 * power
    else:  # one 1024th has ten decimal places
        digits *= 5 ** (10 * -power)
        places += 10 * -power
    text = str(digits).rjust(places + 1, "0")
    whole, fraction = text[: len(text) - places], text[len(text) - places :].rstrip("0")
    if len(whole) + len(fraction) <= DIGITS_MAX:
        return ast.Number(f"{whole}.{fraction}" if fraction else whole)
    return number_of_milli(scaled_milli(number, power))
