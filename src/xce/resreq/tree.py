"""A `Request` back to the tree of a requirement, to show it."""

from itertools import groupby

from xce.model.ids import MINUTE_US, SECOND_US
from xce.model.request import Amount, CuWish, Phase, Request
from xce.resreq import ast
from xce.resreq.affinity import parse_affinity
from xce.resreq.gpu import rusage_part
from xce.resreq.parser import parse_select
from xce.resreq.settle import number_of_milli


def tree_of(request: Request) -> ast.Requirement:
    """Return a tree that compiles to ``request`` again, but for ``-n``, ``-m`` and ``-x``."""
    if request.alternatives:
        before_min = 0
        choices = []
        for one in request.alternatives:
            inner = tree_of(one.request)
            assert not isinstance(inner, ast.Alternatives), "alternatives do not nest"
            delay_min = one.delay_us // MINUTE_US
            choices.append(ast.Choice(inner, delay_min if delay_min or before_min else -1))
            before_min = delay_min
        return ast.Alternatives(tuple(choices))
    if request.parts:
        return ast.Compound(
            tuple(
                ast.CompoundPart(
                    0 if part.is_ranged else part.tasks,
                    _simple(part.request),
                    "" if part.name == f"part{place}" else part.name,
                )
                for place, part in enumerate(request.parts)
            ),
            request.same,
        )
    return _simple(request)


def _simple(request: Request) -> ast.Simple:
    return ast.Simple(
        select=parse_select(request.select) if request.select else None,
        order=tuple(map(_order_key, request.order.split(":"))) if request.order else (),
        rusage=_rusage(request),
        span=_span(request),
        same=request.same,
        cu=None if request.cu is None else _compute_units(request.cu),
        affinity=parse_affinity(request.affinity) if request.affinity else None,
    )


def _order_key(text: str) -> ast.OrderKey:
    name = text.lstrip("-!")
    return ast.OrderKey(name, text.removesuffix(name))


def _rusage(request: Request) -> ast.Rusage | None:
    """Return the amounts, those together that share their settings."""
    thresholds = {one.resource: one.value_milli for one in request.thresholds}

    def settings(amount: Amount) -> tuple[tuple[Phase, ...], int]:
        first = Phase(amount.value, amount.duration_us, amount.decay)
        phases = tuple(_timing(phase) for phase in (first, *amount.phases))
        return phases, thresholds.get(amount.resource, -1)

    asked = list(request.amounts)
    named = {amount.resource for amount in asked}
    asked += [Amount(name, 0) for name in thresholds if name not in named]
    asked.sort(key=lambda amount: (settings(amount), amount))
    parts = []
    for (phases, milli), amounts in groupby(asked, settings):
        has_end = phases[0].duration_us > 0
        parts.append(
            ast.RusagePart(
                tuple(map(_item, amounts)),
                tuple(p.duration_us // SECOND_US for p in phases if p.duration_us),
                tuple(int(p.decay) for p in phases) if has_end else (),
                number_of_milli(milli) if milli >= 0 else None,
            )
        )
    if request.gpu is not None:
        parts.append(rusage_part(request.gpu))
    return ast.Rusage((tuple(parts),)) if parts else None


def _timing(phase: Phase) -> Phase:
    return Phase(0, phase.duration_us, phase.decay)


def _item(amount: Amount) -> ast.RusageItem:
    values = (amount.value, *(phase.value for phase in amount.phases))
    numbers = tuple(ast.Number(f"{value}.00") for value in values)
    return ast.RusageItem(amount.resource, numbers, "" if amount.per == "task" else amount.per)


def _span(request: Request) -> ast.Span | None:
    if request.one_host:
        return ast.Span("hosts", 1)
    if request.hosts_max:
        return ast.Span("hosts", request.hosts_max)
    for form, count in (
        ("ptile", request.ptile),
        ("block", request.block),
        ("stripe", request.stripe),
        ("gtile", request.gtile),
    ):
        if count:
            by_type = request.ptile_by_type if form == "ptile" else ()
            return ast.Span(form, max(count, 0), by_type)
    return None


def _compute_units(cu: CuWish) -> ast.ComputeUnits:
    return ast.ComputeUnits(
        type=cu.level,
        pref=cu.pref if cu.pref != CuWish().pref or cu == CuWish() else "",
        maxcus=cu.max_domains,
        usablecuslots=cu.min_slots,
        balance=cu.balance,
        excl=cu.exclusive,
        maxwait_s=cu.max_wait_us // SECOND_US,
    )
