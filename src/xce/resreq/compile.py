"""Requirement texts to a `Request`: merged, checked against the resources there are, in base units.

The whole language compiles. What placement cannot do yet is told by `xce.resreq.built`.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from xce.model.config import ClusterConfig
from xce.model.device import GpuWish
from xce.model.ids import MINUTE_US, SECOND_US
from xce.model.request import (
    TASKS_MAX,
    Alternative,
    Amount,
    CuWish,
    Part,
    Phase,
    Request,
    Threshold,
)
from xce.resreq import ast
from xce.resreq.base import with_base
from xce.resreq.errors import ResreqError
from xce.resreq.gpu import compile_parts, without_gpus
from xce.resreq.hosts import AskedHosts, parse_hosts
from xce.resreq.merge import ALTERNATIVES_MAX, find_word, merge_requirements
from xce.resreq.render import render_affinity, render_expression, render_order, render_requirement
from xce.resreq.schema import Schema
from xce.resreq.settle import scaled_milli
from xce.resreq.tree import tree_of

AMOUNT_MAX: Final = 1 << 50
"""Most that may be asked of one resource, in its base unit."""
PARTS_MAX: Final = 256
"""Most parts of a compound request."""
_RUSAGE: Final = "Error in rusage section"
_TASKS: Final = "Bad argument for number of tasks"

Tasks = tuple[int, int]
"""Fewest and most."""


def compile_request(  # noqa: PLR0913 - each is another option of a submission
    texts: Sequence[str],
    *,
    config: ClusterConfig,
    tasks: Tasks | None = None,
    hosts: str = "",
    exclusive: bool = False,
    unit: str = "MB",
    gpu: GpuWish | None = None,
    whole_hosts: int = 0,
    base: str = "",
) -> Request:
    """Return the request that ``-R`` (perhaps several), ``-n``, ``-m`` and ``-x`` ask for.

    Args:
        texts: The requirement texts, merged by `merge_requirements`.
        config: The resources there are.
        tasks: Fewest and most tasks; None: not said, so one, or what a compound request adds up to.
        hosts: The text of ``-m``; empty: any host.
        exclusive: No other job beside it on its hosts.
        unit: The unit of a bare ``mem``: ``LSF_UNIT_FOR_LIMITS`` or ``classic`` (MB here).
        gpu: What ``-gpu`` asks for; what ``rusage[]`` says of GPUs counts instead.
        whole_hosts: ``-nnodes``: so many hosts with all their slots; 0: not said.
        base: The requirement of an application profile, in the units of the cluster.

    Raises:
        ResreqError: A text cannot be read, or names what does not exist.
        NotBuiltError: A text asks for what no `Request` can say yet.
        HostListError: ``hosts`` cannot be read.
    """
    asked = parse_hosts(hosts) if hosts else AskedHosts()
    tree: ast.Requirement = ast.Simple()
    if texts:
        tree = merge_requirements(texts, Schema(config), unit)
    if base:
        under = merge_requirements((base,), Schema(config), config.lsf_unit_for_limits)
        tree = with_base(tree, under)
    with told_in(texts):
        request = compile_tree(tree, tasks)
        if gpu is not None:
            request = _with_gpu(request, gpu)
        request = _with_tiles(request)
        if whole_hosts:
            request = on_whole_hosts(request, whole_hosts)
    if asked != AskedHosts() or exclusive:
        request = with_hosts(request, asked, exclusive=exclusive)
    return request


@contextmanager
def told_in(texts: Sequence[str]) -> Iterator[None]:
    """Tell of errors from within in which of the texts and at which column they are, if in any."""
    try:
        yield
    except ResreqError as error:
        if not error.column:
            section = "rusage" if error.lsf == _RUSAGE else ""
            error.text, error.column = find_word(texts, error.word, section)
        raise


def compile_tree(tree: ast.Requirement, tasks: Tasks | None) -> Request:
    """Return the request that a settled tree (of `merge_requirements`) asks for.

    Raises:
        ResreqError: It does not fit together, or not to the number of tasks.
        NotBuiltError: It asks for what no `Request` can say yet.
    """
    if tasks is not None and not 1 <= tasks[0] <= tasks[1] <= TASKS_MAX:
        raise ResreqError(
            f"{tasks[0]},{tasks[1]} is no number of tasks: expected 1 to {TASKS_MAX}, "
            "the smaller first",
            lsf=_TASKS,
        )
    match tree:
        case ast.Simple():
            found = _simple(tree, tasks or (1, 1))
            return found[0] if len(found) == 1 else _alternatives([(one, 0) for one in found])
        case ast.Compound():
            return _compound(tree, tasks)
        case ast.Alternatives(choices):
            requests: list[tuple[Request, int]] = []
            for choice in choices:
                delay_us = max(0, choice.delay_min) * MINUTE_US
                if isinstance(choice.requirement, ast.Simple):
                    found = _simple(choice.requirement, tasks or (1, 1))
                else:
                    found = [_compound(choice.requirement, tasks)]
                requests += [(one, delay_us) for one in found]
            return _alternatives(requests)


def render_request(request: Request) -> str:
    """Return the whole requirement as LSF shows it, with two decimals in rusage."""
    tree = tree_of(request)
    if isinstance(tree, ast.Simple) and tree.select is None:
        any_type = ast.Compare("==", ast.Name("type"), ast.Name("any"))
        tree = msgspec.structs.replace(tree, select=any_type)
    return render_requirement(tree)


_WITHOUT_GPU: Final = re.compile(r"!\s*\(?\s*gpu\b")


def _with_gpu(request: Request, gpu: GpuWish) -> Request:
    """Return a request with the GPUs of ``-gpu``, where it asks for none itself.

    Of a compound request each part gets them, but for those that want hosts without GPUs.
    """
    replace = msgspec.structs.replace
    if request.parts:
        if any(part.request.gpu for part in request.parts):
            return request
        parts = tuple(
            part
            if _WITHOUT_GPU.search(part.request.select)
            else replace(part, request=replace(part.request, gpu=gpu))
            for part in request.parts
        )
        if parts == request.parts:
            raise ResreqError("-gpu: all parts want hosts without GPUs", word="gpu")
        return replace(request, parts=parts)
    if request.alternatives:
        return replace(
            request,
            alternatives=tuple(
                replace(one, request=_with_gpu(one.request, gpu)) for one in request.alternatives
            ),
        )
    return request if request.gpu is not None else replace(request, gpu=gpu)


def _with_tiles(request: Request) -> Request:
    """Return a request whose ``span[gtile=n]`` is said in tasks, where its GPUs are the tasks'."""
    replace = msgspec.structs.replace
    if request.parts:
        parts = (replace(part, request=_with_tiles(part.request)) for part in request.parts)
        return replace(request, parts=tuple(parts))
    if request.alternatives:
        some = (replace(one, request=_with_tiles(one.request)) for one in request.alternatives)
        return replace(request, alternatives=tuple(some))
    gpu = request.gpu
    if not request.gtile:
        return request
    if gpu is None:
        raise ResreqError(
            "span[gtile] is about GPUs, and none are asked for: say how many, as in rusage[gpu=1]",
            word="gtile",
        )
    if not gpu.is_whole:
        raise ResreqError(
            "span[gtile] counts whole GPUs, and parts of them are asked for: say how many tasks a"
            " host has by ptile",
            word="gtile",
        )
    if gpu.per == "host" and request.gtile == gpu.count:
        return replace(request, gtile=0)
    if gpu.per != "task":
        raise ResreqError(
            f"span[gtile] and {gpu.count} GPUs for each {gpu.per} both say how many a host has: ask"
            " for GPUs of each task, as in rusage[gpu=1] or -gpu num=1/task",
            word="gtile",
        )
    if request.gtile < 0:
        return request
    if request.gtile % gpu.count:
        raise ResreqError(
            f"span[gtile={request.gtile}] is no whole number of tasks with {gpu.count} GPUs each",
            word="gtile",
        )
    return replace(request, gtile=0, ptile=request.gtile // gpu.count)


def on_whole_hosts(request: Request, count: int) -> Request:
    """Return a simple request on so many whole hosts, which have at least the tasks asked for.

    Raises:
        ResreqError: It says otherwise how its tasks lie on hosts.
    """
    is_laid = request.one_host or request.hosts_max or request.ptile or request.ptile_by_type
    if is_laid or request.block or request.stripe or request.gtile:
        raise ResreqError("-nnodes and span[] both say how tasks lie on hosts", word="span")
    if request.parts or request.alternatives:
        raise ResreqError("-nnodes is of a request without parts or alternatives", word="{")
    if request.cu is not None and request.cu.balance:
        raise ResreqError(
            "cu[balance] is about tasks, and -nnodes takes hosts whole: use cu[maxcus=n] or"
            " cu[pref=...], or span[ptile=n] in place of -nnodes",
            word="balance",
        )
    if not 1 <= count <= TASKS_MAX:
        raise ResreqError(f"-nnodes {count}: expected 1 to {TASKS_MAX}", lsf=_TASKS)
    return msgspec.structs.replace(
        request,
        tasks_min=max(count, request.tasks_min),
        tasks_max=TASKS_MAX,
        ptile=-1,
        whole_hosts=count,
    )


def with_hosts(request: Request, asked: AskedHosts, *, exclusive: bool) -> Request:
    """Return a request, with all that it is made of, on certain hosts only."""
    said = Request(
        hosts=asked.choices,
        other_hosts=asked.others,
        exclusive=exclusive,
        others_preference=asked.others_preference,
        hosts_excluded=asked.excluded,
        hosts_first=asked.first,
    )

    def inner(one: Request) -> Request:
        replace = msgspec.structs.replace
        return replace(
            one.on_hosts_of(said),
            parts=tuple(replace(part, request=inner(part.request)) for part in one.parts),
            alternatives=tuple(
                replace(other, request=inner(other.request)) for other in one.alternatives
            ),
        )

    return inner(request)


def _alternatives(requests: Sequence[tuple[Request, int]]) -> Request:
    if len(requests) > ALTERNATIVES_MAX:
        raise ResreqError(
            f"the requirement comes down to more than {ALTERNATIVES_MAX} alternatives", word="||"
        )
    return Request(
        tasks_min=min(request.tasks_min for request, _ in requests),
        tasks_max=max(request.tasks_max for request, _ in requests),
        alternatives=tuple(Alternative(request, delay_us) for request, delay_us in requests),
    )


def _compound(compound: ast.Compound, tasks: Tasks | None) -> Request:
    if len(compound.parts) > PARTS_MAX:
        raise ResreqError(f"a compound request may have {PARTS_MAX} parts", word="+")
    counts = [(part.count, part.count) for part in compound.parts]
    if counts[-1][0] == 0:
        counts[-1] = _remainder(sum(count for count, _ in counts), tasks)
    total, most = sum(low for low, _ in counts), sum(high for _, high in counts)
    if most > TASKS_MAX:
        raise ResreqError(f"the parts have {most} tasks; {TASKS_MAX} are allowed", lsf=_TASKS)
    if tasks is not None and not (tasks[0] <= most and total <= tasks[1]):
        asked = str(tasks[0]) if tasks[0] == tasks[1] else f"{tasks[0]} to {tasks[1]}"
        raise ResreqError(f"the parts have {total} tasks, but -n says {asked}", lsf=_TASKS)
    parts = []
    for place, (part, (low, high)) in enumerate(zip(compound.parts, counts, strict=True)):
        (request,) = _simple(part.simple, (low, high))
        name = part.name or f"part{place}"
        parts.append(Part(name, low, request, high if high > low else 0))
    return Request(
        tasks_min=total,
        tasks_max=most,
        same=tuple(sorted(compound.same)),
        parts=tuple(parts),
    )


def _remainder(others: int, tasks: Tasks | None) -> Tasks:
    """Return the fewest and most tasks of a last part that does not say it."""
    if tasks is None:
        raise ResreqError(
            "the last part needs a number of tasks, unless -n says how many there are in all",
            lsf=_TASKS,
        )
    if tasks[1] <= others:
        raise ResreqError(
            f"the other parts have {others} tasks, so -n {tasks[1]} leaves none to the last",
            lsf=_TASKS,
        )
    return max(1, tasks[0] - others), tasks[1] - others


def _simple(simple: ast.Simple, tasks: Tasks) -> list[Request]:
    """Return the request of plain sections, or one for each alternative in ``rusage[]``."""
    request = Request(
        tasks_min=tasks[0],
        tasks_max=tasks[1],
        select="" if simple.select is None else render_expression(simple.select),
        order=render_order(simple.order),
        same=tuple(sorted(simple.same)),
        cu=None if simple.cu is None else _compute_units(simple.cu),
        affinity="" if simple.affinity is None else render_affinity(simple.affinity),
    )
    if simple.span is not None:
        request = _with_span(request, simple.span)
    if simple.rusage is None:
        return [request]
    return [
        msgspec.structs.replace(
            request,
            amounts=tuple(sorted(amount for part in group for amount in _amounts(part))),
            thresholds=_thresholds(group),
            gpu=compile_parts(group),
        )
        for group in simple.rusage.groups
    ]


def _with_span(request: Request, span: ast.Span) -> Request:
    """Return the request with what ``span[]`` sets; ``hosts=-1`` sets nothing."""
    replace = msgspec.structs.replace
    match span.form:
        case "hosts":
            if span.count == 1:
                return replace(request, one_host=True)
            return replace(request, hosts_max=max(span.count, 0))
        case "ptile":
            by_type = tuple(sorted(span.by_type))
            if len(dict(by_type)) < len(by_type):
                raise ResreqError("span[ptile] names a host type twice", word="ptile")
            return replace(request, ptile=span.count or -1, ptile_by_type=by_type)
        case "block":
            return replace(request, block=span.count)
        case "stripe":
            return replace(request, stripe=span.count or -1)
        case _:
            return replace(request, gtile=span.count or -1)


def _thresholds(group: tuple[ast.RusagePart, ...]) -> tuple[Threshold, ...]:
    found: dict[str, int] = {}
    for part in group:
        for item in without_gpus(part) if part.threshold is not None else ():
            milli = scaled_milli(part.threshold or ast.Number("0"), 0)
            if found.setdefault(item.name, milli) != milli:
                raise ResreqError(f"{item.name} has two thresholds", word="threshold", lsf=_RUSAGE)
    return tuple(Threshold(*one) for one in sorted(found.items()))


def _compute_units(cu: ast.ComputeUnits) -> CuWish:
    return CuWish(
        level=cu.type,
        pref=cu.pref or "config",
        max_domains=cu.maxcus,
        min_slots=cu.usablecuslots,
        balance=cu.balance,
        exclusive=cu.excl,
        max_wait_us=cu.maxwait_s * SECOND_US,
    )


def _amounts(part: ast.RusagePart) -> list[Amount]:
    """Return the amounts of items that share their settings; none for those of 0, nor of GPUs."""
    found = []
    for item in without_gpus(part):
        values = [_whole(number, item.name) for number in item.values]
        if len(values) > 1:
            amount = _phased(item, values, part)
        else:
            if max(len(part.durations_s), len(part.decays)) > 1:
                raise ResreqError(
                    f"{item.name} has one value, but several durations or decays: give as many "
                    "values as phases",
                    word=item.name,
                    lsf=_RUSAGE,
                )
            duration_us = sum(part.durations_s) * SECOND_US
            amount = Amount(item.name, values[0], item.per or "task", duration_us, _decays(part)[0])
        if any(values):
            found.append(amount)
    return found


def _decays(part: ast.RusagePart) -> list[bool]:
    if any(part.decays) and not part.durations_s:
        raise ResreqError("decay=1 needs a duration", word="decay", lsf=_RUSAGE)
    return [bool(decay) for decay in part.decays] or [False]


def _phased(item: ast.RusageItem, values: list[int], part: ast.RusagePart) -> Amount:
    """Return an amount with phases; the last one may go without duration, and none may decay."""
    count = len(values)
    durations_us = [duration_s * SECOND_US for duration_s in part.durations_s]
    decays = _decays(part)
    if len(durations_us) == count - 1:
        durations_us.append(0)
    if len(decays) <= 1:
        decays = [any(decays) and durations_us[-1] > 0] * count
    elif len(decays) == count - 1:
        decays.append(False)
    if len(durations_us) != count or len(decays) != count:
        raise ResreqError(
            f"{item.name} has {count} phases, so it needs {count} durations (the last may be left "
            f"out) and one decay or {count}",
            word=item.name,
            lsf=_RUSAGE,
        )
    return Amount(
        item.name, values[0], item.per or "task", durations_us[0], decays[0],
        tuple(map(Phase, values[1:], durations_us[1:], decays[1:])),
    )  # fmt: skip


def _whole(number: ast.Number, name: str) -> int:
    """Return a number of base units, rounded up."""
    value = -(-scaled_milli(number, 0) // 1000)
    if value > AMOUNT_MAX:
        raise ResreqError(f"{name} is asked for beyond all measure", word=name)
    return value
