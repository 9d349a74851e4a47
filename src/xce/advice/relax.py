"""Which constraints a job could do without, one by one, in a fixed order.

Each is a function from what is wanted to what would be wanted instead. A *graded* one has a number
that may be smaller: it is given up wholly first, and if that helps, the largest number that does is
looked for.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from xce.model.constraint import Colocate, Constraint, Exclusive, Near, Spread
from xce.model.ids import MINUTE_US, Micros
from xce.model.request import Alternative, Amount, Part, Request
from xce.resreq import ast
from xce.resreq.parser import parse_select
from xce.resreq.render import render_expression, render_requirement
from xce.resreq.tree import tree_of

replace = msgspec.structs.replace
RUN_LIMIT_MIN_MAX: Final = 5 * 366 * 24 * 60
"""The longest run limit that is looked for where there was none, in minutes."""


class Wish(msgspec.Struct, frozen=True):
    """What is wanted of the scheduler, as far as it can be changed."""

    request: Request
    queue: str
    run_limit_us: Micros = 0
    opened: tuple[str, ...] = ()
    """Closed hosts that would be open."""


class Change(msgspec.Struct, frozen=True):
    """One thing that would be otherwise."""

    kind: str
    """A stable word: ``tasks``, ``amount``, ``run-limit``, ``queue``, ``select``, ..."""
    text: str
    """In words."""
    option: str = ""
    """The option to give, or to leave out."""


class Relaxation(NamedTuple):
    """A way to want less.

    Attributes:
        kind: A stable word.
        apply: Makes what would be wanted: of what is wanted and of a number.
        tell: The change in words, of the number.
        most: The largest number that is less than what is wanted; 0: it is all or nothing.
        least: The smallest number.
        spread: Makes what would be wanted if any number up to the largest will do: how many tasks
            it then starts with is the largest number that fits.
    """

    kind: str
    apply: Callable[[Wish, int], Wish]
    tell: Callable[[int], Change]
    most: int = 0
    least: int = 0
    spread: Callable[[Wish], Wish] | None = None

    @property
    def is_graded(self) -> bool:
        """Whether there is anything between all and nothing."""
        return self.most > self.least


Path = tuple[tuple[str, int], ...]


def relaxations(
    wish: Wish,
    queues: tuple[str, ...],
    closed: tuple[str, ...],
    *,
    is_timed: bool,
    levels: tuple[str, ...] = (),
) -> list[Relaxation]:
    """Return all ways to want less, those that change least of a job's meaning first.

    Args:
        wish: What is wanted.
        queues: Other queues that may take it.
        closed: Hosts that are closed.
        is_timed: Whether how long it runs may be what stands in its way.
        levels: The levels of domains, the narrowest first, from hosts on.
    """
    found = [_open((name,)) for name in closed]
    if len(closed) > 1:
        found.append(_open(closed))
    if is_timed:
        found.append(_run_limit(wish))
    found += [_queue(name) for name in queues]
    request = wish.request
    found += _asked_hosts(request)
    if request.exclusive:
        found.append(
            _dropped(
                "exclusive",
                lambda wanted: _everywhere(wanted, exclusive=False),
                Change("exclusive", "share hosts with other jobs", "without -x"),
            )
        )
    found += _relations(request, levels)
    for path, words, node in _nodes(request):
        at = f" in {' of '.join(words)}" if words else ""
        found += _of_node(path, at, node)
    if request.alternatives:
        found += _tasks_of_all(request)
    return found


def _asked_hosts(request: Request) -> list[Relaxation]:
    """Return what ``-m`` says left out, word by word."""
    found: list[Relaxation] = []
    if request.hosts and not request.other_hosts:
        names = " ".join(choice.host for choice in request.hosts)
        found.append(
            _dropped(
                "hosts",
                lambda wanted: _everywhere(wanted, hosts=(), other_hosts=False, hosts_first=()),
                Change("hosts", f"use other hosts than {names}", f'without -m "{names}"'),
            )
        )
    if request.hosts_first:
        names = " ".join(request.hosts_first)
        found.append(
            _dropped(
                "hosts-first",
                lambda wanted: _everywhere(wanted, hosts_first=()),
                Change("hosts", f"begin on others than {names}", "without ! in -m"),
            )
        )
    if request.hosts_excluded:
        names = " ".join(request.hosts_excluded)
        found.append(
            _dropped(
                "hosts-excluded",
                lambda wanted: _everywhere(wanted, hosts_excluded=()),
                Change("hosts", f"use {names} too", "without ~ in -m"),
            )
        )
    return found


def _relations(request: Request, levels: tuple[str, ...]) -> list[Relaxation]:
    """Return wider scopes and more room of required relations, then each only preferred."""
    found: list[Relaxation] = []
    required = [
        item for item in request.constraints if not isinstance(item, Exclusive) and item.required
    ]
    for number in dict.fromkeys(item.relation for item in required):
        mine = [item for item in required if item.relation == number]
        for item in mine[:1]:
            if isinstance(item, Spread):
                found += _more_in_domains(item, request)
            elif item.levels[0] in levels:
                wider = levels[levels.index(item.levels[0]) + 1 :]
                found += [_wider(item, level) for level in wider]
        found.append(_preferred(mine[0]))
    found += [
        _otherwise(item.relation, (), Change("relation", *_words(item, "with other jobs beside")))
        for item in request.constraints
        if isinstance(item, Exclusive)
    ]
    return found


def _words(item: Constraint, what: str) -> tuple[str, str]:
    """Return a change of a relation in words, and which relation of the jobspec it is."""
    return f"{', '.join(item.roles)} {what}", f"relations[{item.relation + 1}]"


def _otherwise(number: int, fields: tuple[tuple[str, object], ...], change: Change) -> Relaxation:
    """Return the relaxation that changes the constraints of a relation, or drops them."""

    def apply(request: Request) -> Request:
        found: list[Constraint] = []
        for item in request.constraints:
            if item.relation != number:
                found.append(item)
            elif fields:
                found.append(replace(item, **dict(fields)))
        return replace(request, constraints=tuple(found))

    return _dropped("relation", apply, change)


def _wider(item: Colocate | Near, level: str) -> Relaxation:
    words, where = _words(item, f"in one {level} instead of one {item.levels[0]}")
    change = Change("relation", words, f"{where}: scope: {level}")
    return _otherwise(item.relation, (("levels", (level,)),), change)


def _preferred(item: Colocate | Spread | Near) -> Relaxation:
    kind = "spread" if isinstance(item, Spread) else "together"
    if isinstance(item, Near):
        kind = "apart" if item.is_apart else "near it"
    words, where = _words(item, f"only preferably {kind}")
    change = Change("relation", words, f"{where}: strength: preferred")
    return _otherwise(item.relation, (("required", False),), change)


def _more_in_domains(item: Spread, request: Request) -> list[Relaxation]:
    """Return more tasks in each domain: as few more as will do."""
    forms = [one.request for one in request.alternatives] or [request]
    total = max(sum(part.tasks for part in form.parts if part.name in item.roles) for form in forms)

    def apply(wish: Wish, number: int) -> Wish:
        wanted = tuple(
            replace(one, max_per_domain=total - number)
            if isinstance(one, Spread) and one.relation == item.relation
            else one
            for one in wish.request.constraints
        )
        return replace(wish, request=replace(wish.request, constraints=wanted))

    def tell(number: int) -> Change:
        what = f"up to {total - number} in one {item.level} instead of {item.max_per_domain}"
        words, where = _words(item, what)
        return Change("relation", words, f"{where}: max_per_domain: {total - number}")

    most = total - item.max_per_domain - 1
    return [Relaxation("relation", apply, tell, most, 0)] if most >= 0 else []


def _run_limit(wish: Wish) -> Relaxation:
    before_min = -(-wish.run_limit_us // MINUTE_US)
    was = f" instead of {_minutes(before_min)}" if before_min else ""

    def apply(wish: Wish, minutes: int) -> Wish:
        return replace(wish, run_limit_us=max(minutes, 1) * MINUTE_US)

    def tell(minutes: int) -> Change:
        text = f"a run limit of {_minutes(max(minutes, 1))}{was}"
        return Change("run-limit", text, f"-W {max(minutes, 1)}")

    most = before_min - 1 if before_min else RUN_LIMIT_MIN_MAX
    return Relaxation("run-limit", apply, tell, max(most, 1), 1)


def _minutes(count: int) -> str:
    return "1 minute" if count == 1 else f"{count} minutes"


def _open(names: tuple[str, ...]) -> Relaxation:
    kind, hosts = ("open", "host") if len(names) == 1 else ("open-all", "hosts")
    listed = " ".join(names)
    change = Change(kind, f"{hosts} {listed} opened", f"xceadmin hosts open {listed}")
    return Relaxation(kind, lambda wish, _: replace(wish, opened=names), lambda _: change)


def _queue(name: str) -> Relaxation:
    return Relaxation(
        "queue",
        lambda wish, _: replace(wish, queue=name),
        lambda _: Change("queue", f"in queue {name}", f"-q {name}"),
    )


def _dropped(kind: str, apply: Callable[[Request], Request], change: Change) -> Relaxation:
    return Relaxation(
        kind, lambda wish, _: replace(wish, request=apply(wish.request)), lambda _: change
    )


def _everywhere(request: Request, **fields: object) -> Request:
    """Return a request that is otherwise in all that it is made of."""
    return replace(
        request,
        parts=tuple(
            replace(part, request=_everywhere(part.request, **fields)) for part in request.parts
        ),
        alternatives=tuple(
            replace(one, request=_everywhere(one.request, **fields)) for one in request.alternatives
        ),
        **fields,
    )


def _nodes(
    request: Request, path: Path = (), words: tuple[str, ...] = ()
) -> Iterator[tuple[Path, tuple[str, ...], Request]]:
    """Yield a request and all that it is made of, with words for where each is, innermost first."""
    yield path, words, request
    for place, one in enumerate(request.alternatives):
        inner = (*path, ("alternative", place))
        yield from _nodes(one.request, inner, (f"alternative {place + 1}", *words))
    for place, part in enumerate(request.parts):
        yield from _nodes(part.request, (*path, ("part", place)), (f"part {part.name}", *words))


def _put(request: Request, path: Path, change: Callable[[Request], Request]) -> Request:
    """Return a request in which one of those that it is made of is otherwise."""
    if not path:
        return change(request)
    (kind, place), rest = path[0], path[1:]
    if kind == "alternative":
        choices = list(request.alternatives)
        inner = _put(choices[place].request, rest, change)
        choices[place] = Alternative(inner, choices[place].delay_us)
        return replace(
            request,
            alternatives=tuple(choices),
            tasks_min=min(one.request.tasks_min for one in choices),
            tasks_max=max(one.request.tasks_max for one in choices),
        )
    parts = list(request.parts)
    inner = _put(parts[place].request, rest, change)
    least, most = inner.tasks_min, inner.tasks_max
    parts[place] = Part(parts[place].name, least, inner, most if most > least else 0)
    return replace(
        request,
        parts=tuple(parts),
        tasks_min=sum(part.tasks for part in parts),
        tasks_max=sum(max(part.tasks, part.tasks_max) for part in parts),
    )


def _of_node(path: Path, at: str, node: Request) -> list[Relaxation]:
    """Return what a request could do without, apart from what it is made of."""
    found: list[Relaxation] = []

    def drop(kind: str, text: str, option: str, **fields: object) -> None:
        found.append(
            _dropped(
                kind,
                lambda wanted: _put(wanted, path, lambda inner: replace(inner, **fields)),
                Change(kind, text + at, option),
            )
        )

    for text, left in _select_clauses(node.select):
        drop(
            "select",
            f"also hosts that do not satisfy {text}",
            f"without select[{text}]",
            select=left,
        )
    for threshold in node.thresholds:
        others = tuple(one for one in node.thresholds if one is not threshold)
        name = threshold.resource
        drop(
            "threshold",
            f"without the threshold of {name}",
            "without threshold=",
            thresholds=others,
        )
    span = _span_text(node)
    if span:
        drop(
            "span",
            f"without {span}",
            f"without {span}",
            one_host=False,
            ptile=0,
            block=0,
            stripe=0,
            hosts_max=0,
            ptile_by_type=(),
        )
    if node.same:
        text = f"same[{':'.join(node.same)}]"
        drop("same", f"without {text}", f"without {text}", same=())
    if node.cu is not None:
        text = _section(node, "cu")
        drop("cu", f"without {text}", f"without {text}", cu=None)
    for amount in node.amounts:
        found.append(_amount(path, at, amount))
    is_simple = not node.parts and not node.alternatives
    is_alternative = bool(path) and path[-1][0] == "alternative"
    if is_simple and not is_alternative and node.tasks_min > 1:
        found.append(_tasks(path, at, node))
    return found


def _tasks(path: Path, at: str, node: Request) -> Relaxation:
    before = node.tasks_min
    is_part = bool(path) and path[-1][0] == "part"

    def apply(wish: Wish, tasks: int) -> Wish:
        def fewer(inner: Request) -> Request:
            return replace(inner, tasks_min=max(tasks, 1), tasks_max=max(tasks, 1))

        return replace(wish, request=_put(wish.request, path, fewer))

    def tell(tasks: int) -> Change:
        count = max(tasks, 1)
        unit = "task" if count == 1 else "tasks"
        option = f"-n {count}" if not is_part else f"{count}*{{...}}"
        return Change("tasks", f"{count} {unit} instead of {before}{at}", option)

    def spread(wish: Wish) -> Wish:
        return replace(
            wish, request=replace(wish.request, tasks_min=1, tasks_max=max(before - 1, 1))
        )

    return Relaxation("tasks", apply, tell, before - 1, 1, None if path else spread)


def _tasks_of_all(request: Request) -> list[Relaxation]:
    """Return fewer tasks for all simple alternatives: ``-n`` is of all of them."""
    counts = [one.request.tasks_min for one in request.alternatives if not one.request.parts]
    before = max(counts, default=1)
    if before == 1:
        return []

    def apply(wish: Wish, tasks: int) -> Wish:
        wanted = wish.request
        for place, one in enumerate(wanted.alternatives):
            least = min(one.request.tasks_min, max(tasks, 1))
            if not one.request.parts and one.request.tasks_min > least:
                fewer = replace(one.request, tasks_min=least, tasks_max=least)
                wanted = _put(wanted, (("alternative", place),), _always(fewer))
        return replace(wish, request=wanted)

    def tell(tasks: int) -> Change:
        unit = "task" if tasks <= 1 else "tasks"
        return Change("tasks", f"{max(tasks, 1)} {unit} instead of {before}", f"-n {max(tasks, 1)}")

    return [Relaxation("tasks", apply, tell, before - 1, 1)]


def _always(request: Request) -> Callable[[Request], Request]:
    return lambda _: request


def _amount(path: Path, at: str, amount: Amount) -> Relaxation:
    name, key = amount.resource, (amount.resource, amount.per)
    unit = " MiB" if name == "mem" else ""
    # What a bare number of these means hangs on the reader's settings.
    written = "MB" if name in ("mem", "swp") else ""
    per, scope = ("", "") if amount.per == "task" else (f" per {amount.per}", f"/{amount.per}")

    def apply(wish: Wish, value: int) -> Wish:
        def less(inner: Request) -> Request:
            amounts = [
                replace(one, value=value) if (one.resource, one.per) == key else one
                for one in inner.amounts
            ]
            return replace(inner, amounts=tuple(one for one in amounts if one.value))

        return replace(wish, request=_put(wish.request, path, less))

    def tell(value: int) -> Change:
        if value == 0:
            text = f"without {name}{per} ({amount.value}{unit} asked for){at}"
            return Change("amount", text, f"without rusage[{name}]")
        text = f"{value}{unit} of {name}{per} instead of {amount.value}{unit}{at}"
        return Change("amount", text, f"rusage[{name}={value}{written}{scope}]")

    return Relaxation("amount", apply, tell, amount.value - 1, 0)


def _select_clauses(select: str) -> list[tuple[str, str]]:
    """Return each condition of a select expression, and the expression without it."""
    if not select:
        return []
    tree = parse_select(select)
    parts = tree.parts if isinstance(tree, ast.And) else (tree,)
    found = []
    for place, part in enumerate(parts):
        others = (*parts[:place], *parts[place + 1 :])
        left: ast.Expression = ast.And(others) if len(others) > 1 else (others or (part,))[0]
        found.append((render_expression(part), render_expression(left) if others else ""))
    return found


def _span_text(node: Request) -> str:
    is_spanned = node.one_host or node.ptile or node.block or node.stripe or node.hosts_max
    return _section(node, "span") if is_spanned else ""


def _section(node: Request, name: str) -> str:
    """Return one section of a simple request as it is written."""
    tree = tree_of(node)
    if not isinstance(tree, ast.Simple):
        return f"{name}[]"
    empty = ast.Simple()
    text = render_requirement(replace(empty, **{name: getattr(tree, name)}))
    return text or f"{name}[]"
