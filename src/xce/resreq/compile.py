"""Requirement texts to a `Request`: merged, checked against the resources there are, in base units.

What parses but is not honoured yet is refused by name; nothing is accepted and ignored.
"""

from collections.abc import Sequence
from typing import Final

from xce.model.config import ClusterConfig
from xce.model.request import TASKS_MAX, Amount, Request
from xce.resreq import ast
from xce.resreq.errors import NotBuiltError, ResreqError
from xce.resreq.hosts import parse_hosts
from xce.resreq.lexer import tokenize
from xce.resreq.parser import parse_requirement, parse_select
from xce.resreq.render import render_expression, render_order
from xce.resreq.schema import Schema
from xce.resreq.settle import scaled_milli, settle_select, unit_power

AMOUNT_MAX: Final = 1 << 50
"""Most that may be asked of one resource, in its base unit."""
_UNIT_POWER: Final = {"KB": -1, "MB": 0, "GB": 1, "TB": 2, "classic": 0}
_SIZE_LETTERS: Final = ("K", "M", "G", "T", "P", "E", "Z")
_DUPLICATE_SPAN: Final = 'Error near "span" : duplicate section'
_RUSAGE: Final = "Error in rusage section"


def compile_request(
    texts: Sequence[str],
    *,
    config: ClusterConfig,
    tasks: tuple[int, int],
    hosts: str = "",
    exclusive: bool = False,
    unit: str = "MB",
) -> Request:
    """Return the request that ``-R`` (perhaps several), ``-n``, ``-m`` and ``-x`` ask for.

    Several texts are merged as LSF merges them: select expressions must all hold, order keys and
    rusage amounts add up in the order given; any other section may be given once.

    Args:
        texts: The requirement texts.
        config: The resources there are.
        tasks: Fewest and most tasks.
        hosts: The text of ``-m``; empty: any host.
        exclusive: No other job beside it on its hosts.
        unit: The unit of a bare ``mem``: ``LSF_UNIT_FOR_LIMITS`` or ``classic`` (MB here).

    Raises:
        ResreqError: A text cannot be read, or names what does not exist.
        NotBuiltError: A text asks for what is not honoured yet.
        HostListError: ``hosts`` cannot be read.
    """
    tasks_min, tasks_max = tasks
    if not 1 <= tasks_min <= tasks_max <= TASKS_MAX:
        raise ResreqError(
            f"{tasks_min},{tasks_max} is no number of tasks: expected 1 to {TASKS_MAX}, "
            "the smaller first",
            lsf="Bad argument for number of tasks",
        )
    choices, other_hosts = parse_hosts(hosts) if hosts else ((), False)
    merged = _Merge(Schema(config) if texts else None, unit)
    for text in texts:
        merged.add(text)
    return Request(
        tasks_min=tasks_min,
        tasks_max=tasks_max,
        amounts=tuple(
            Amount(name, value, per) for (name, per), value in sorted(merged.amounts.items())
        ),
        select=merged.select,
        order=render_order(tuple(merged.order)),
        one_host=merged.span is not None and merged.span.form == "hosts" and merged.span.count > 0,
        ptile=merged.span.count if merged.span is not None and merged.span.form == "ptile" else 0,
        hosts=choices,
        other_hosts=other_hosts,
        exclusive=exclusive,
    )


def render_request(request: Request) -> str:
    """Return the whole requirement as LSF shows it, with two decimals in rusage."""
    sections = [f"select[{request.select or 'type == any'}]"]
    if request.order:
        sections.append(f"order[{request.order}]")
    if request.amounts:
        amounts = ":".join(
            f"{amount.resource}={amount.value}.00"
            + (f"/{amount.per}" if amount.per != "task" else "")
            for amount in request.amounts
        )
        sections.append(f"rusage[{amounts}]")
    if request.one_host:
        sections.append("span[hosts=1]")
    elif request.ptile:
        sections.append(f"span[ptile={request.ptile}]")
    return " ".join(sections)


class _Merge:
    """Several requirement texts becoming one."""

    def __init__(self, schema: Schema | None, unit: str) -> None:
        if unit not in _UNIT_POWER:
            raise ResreqError(f"{unit!r} is no unit: expected one of {', '.join(_UNIT_POWER)}")
        self.schema = schema
        self.power = _UNIT_POWER[unit]
        self.conditions: list[ast.Expression] = []
        self.order: list[ast.OrderKey] = []
        self.amounts: dict[tuple[str, str], int] = {}
        self.asked: set[tuple[str, str]] = set()
        self.span: ast.Span | None = None

    @property
    def select(self) -> str:
        """The select expressions, all of which must hold.

        Raises:
            ResreqError: Together they are too long or too deep.
        """
        if not self.conditions:
            return ""
        parts: list[ast.Expression] = []
        for condition in self.conditions:
            parts += condition.parts if isinstance(condition, ast.And) else (condition,)
        text = render_expression(parts[0] if len(parts) == 1 else ast.And(tuple(parts)))
        # Whoever runs it reads this text, so it must stay within the bounds of the language.
        parse_select(text)
        return text

    def add(self, text: str) -> None:
        """Merge one more text.

        Raises:
            ResreqError: It cannot be read, or does not fit what exists or came before.
        """
        tree = parse_requirement(text)
        try:
            _refuse_unbuilt(tree)
            assert isinstance(tree, ast.Simple), "the others are refused"
            assert self.schema is not None, "a schema is there when a text is"
            self._add_simple(tree, self.schema)
        except ResreqError as error:
            error.text = text
            error.column = error.column or _column(text, error.word)
            raise

    def _add_simple(self, simple: ast.Simple, schema: Schema) -> None:
        if simple.select is not None:
            self.conditions.append(settle_select(simple.select, schema, self.power))
        for key in simple.order:
            if schema.kind(key.name, "order") != "number":
                raise ResreqError(f"{key.name} is no number, so it gives no order", word=key.name)
            self.order.append(key)
        if simple.rusage is not None:
            for part in simple.rusage.groups[0]:
                for item in part.items:
                    self._add_amount(item, schema)
        if simple.span is not None:
            if self.span is not None:
                raise ResreqError("span[] is given twice", word="span", lsf=_DUPLICATE_SPAN)
            self.span = simple.span

    def _add_amount(self, item: ast.RusageItem, schema: Schema) -> None:
        unit = schema.unit(item.name)
        value = _amount(item, unit, self.power)
        if value > AMOUNT_MAX:
            raise ResreqError(f"{item.name} is asked for beyond all measure", word=item.name)
        key = (item.name, item.per or "task")
        if key in self.asked:
            raise ResreqError(
                f"{item.name} per {key[1]} is asked for twice", word=item.name, lsf=_RUSAGE
            )
        self.asked.add(key)
        if value:
            self.amounts[key] = value


def _amount(item: ast.RusageItem, unit: str, power: int) -> int:
    """Return what is asked in the resource's base unit, rounded up."""
    (number,) = item.values
    own_power = 0 if item.name == "mem" else _size_power(unit)
    if own_power is None:
        if number.unit:
            raise ResreqError(
                f"{item.name} is counted, not measured: it takes no {number.unit}",
                word=item.name,
                lsf=_RUSAGE,
            )
        return -(-scaled_milli(number, 0) // 1000)
    bare_power = power if item.name == "mem" else own_power
    return -(-scaled_milli(number, unit_power(number.unit, bare_power) - own_power) // 1000)


def _size_power(unit: str) -> int | None:
    """Return the power of 1024 from MiB that a declared unit stands for; None: it is no size."""
    letter = unit.upper().removesuffix("B").removesuffix("I")
    return unit_power(letter + "B") if letter in _SIZE_LETTERS else None


def _refuse_unbuilt(tree: ast.Requirement) -> None:
    """Refuse what parses but is not honoured yet.

    Raises:
        NotBuiltError: Such a thing is there.
    """
    match tree:
        case ast.Compound():
            raise _not_built("the compound form n*{...}", "{")
        case ast.Alternatives():
            raise _not_built("the alternative form {...} || {...}", "||")
    for keyword, value in (("same", tree.same), ("cu", tree.cu), ("affinity", tree.affinity)):
        if value:
            raise _not_built(f"{keyword}[]", keyword)
    if tree.span is not None:
        if tree.span.form not in ("hosts", "ptile"):
            raise _not_built(f"span[{tree.span.form}]", tree.span.form)
        if tree.span.form == "ptile" and (tree.span.count == 0 or tree.span.by_type):
            raise _not_built("span[ptile='!'] and ptile by host type", "ptile")
    for key in tree.order:
        if key.mark == "!":
            raise _not_built(f"order[!{key.name}]", "!")
    if tree.rusage is not None:
        _refuse_unbuilt_rusage(tree.rusage)


def _refuse_unbuilt_rusage(rusage: ast.Rusage) -> None:
    if len(rusage.groups) > 1:
        raise _not_built('"||" in rusage[]', "||")
    for part in rusage.groups[0]:
        if part.durations_s:
            raise _not_built("duration in rusage[]", "duration")
        if part.decays:
            raise _not_built("decay in rusage[]", "decay")
        if part.threshold is not None:
            raise _not_built("threshold in rusage[]", "threshold")
        for item in part.items:
            if len(item.values) > 1:
                raise _not_built(f"{item.name}=(...) with phases in rusage[]", item.name)


def _not_built(what: str, word: str) -> NotBuiltError:
    return NotBuiltError(f"{what} is not built yet", word=word)


def _column(text: str, word: str) -> int:
    """Return where ``word`` stands first in ``text``, counted from 1; 0: nowhere."""
    for token in tokenize(text):
        if word and (token.text == word or text[token.start : token.end] == word):
            return token.start + 1
    return 0
