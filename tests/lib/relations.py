"""Small random clusters with levels, requests with relations, and a search that tries all."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from msgspec.structs import replace

from xce.model.config import HostConfig, QueueConfig
from xce.model.constraint import Colocate, Constraint, Exclusive, Near, Spread
from xce.model.request import Amount, Part, Request
from xce.sched.certify import find_faults, find_shortages
from xce.sched.certify_relations import Placed, find_relation_faults
from xce.sched.session import run_session
from xce.state.needs import Form, compile_forms
from xce.testing.builders import RecordedController, bulk, cluster, propose, submission, submit
from xce.testing.recorded import accept_plan

QUEUE = QueueConfig(name="normal", priority=30, default=True, exclusive=True)
LEVELS = ("switch", "block")
ALL_LEVELS = ("host", *LEVELS)
GROUP = "group:alice/g"


class HostShape(NamedTuple):
    slots: int
    mem: int
    switch: int
    """0: in none; switches 1 and 2 are in block 1, the others in block 2."""


hosts = st.lists(
    st.builds(HostShape, st.integers(0, 4), st.integers(0, 8), st.sampled_from([1, 1, 2, 3, 3, 0])),
    min_size=2,
    max_size=4,
)
loads = st.lists(st.integers(0, 3), max_size=2)
spans = st.sampled_from([{}, {}, {}, {"one_host": True}, {"ptile": 1}, {"ptile": 2}])
amounts = st.one_of(
    st.just(()),
    st.builds(Amount, st.just("mem"), st.integers(1, 4), st.sampled_from(["task", "host"])).map(
        lambda amount: (amount,)
    ),
)


@st.composite
def part(draw: st.DrawFn, name: str) -> Part:
    size = draw(st.integers(1, 3))
    request = Request(tasks_min=size, tasks_max=size, amounts=draw(amounts), **draw(spans))
    return Part(name, size, request)


@st.composite
def constraint(draw: st.DrawFn, number: int, names: Sequence[str]) -> Constraint:
    count = draw(st.integers(1, len(names)))
    roles = tuple(sorted(draw(st.permutations(list(names)))[:count]))
    level = draw(st.sampled_from(ALL_LEVELS))
    required = draw(st.sampled_from([True, True, False]))
    levels = ALL_LEVELS[ALL_LEVELS.index(level) :] if not required else (level,)
    weight = draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["colocate"] * 4 + ["spread"] * 3 + ["near", "apart", "alone"]))
    if kind == "colocate":
        return Colocate(number, roles, levels, required, weight)
    if kind == "spread":
        return Spread(number, roles, level, draw(st.integers(1, 2)), required, weight)
    if kind == "alone":
        return Exclusive(number, roles, level)
    subject = draw(st.sampled_from([GROUP, "job:1"]))
    levels = (level,) if kind == "apart" else levels
    return Near(number, roles, subject, levels, kind == "apart", required, weight)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Return requests of one to three parts with one to four constraints."""
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    parts = tuple(draw(part(name)) for name in names)
    size = draw(st.integers(1, 4))
    total = sum(item.tasks for item in parts)
    return Request(
        tasks_min=total,
        tasks_max=total,
        parts=parts,
        constraints=tuple(draw(constraint(number, names)) for number in range(size)),
    )


def build(shape: Sequence[HostShape], load: Sequence[int], member: int) -> RecordedController:
    """Return a cluster with some work on it; ``member``: on which host one of the group runs."""
    found = [
        HostConfig(
            name=f"h{place}",
            slots=host.slots,
            mem_mib=host.mem,
            labels={}
            if not host.switch
            else {"switch": f"s{host.switch}", "block": f"b{(host.switch + 1) // 2}"},
        )
        for place, host in enumerate(shape, 1)
    ]
    controller = cluster(found, queues=[QUEUE], levels=LEVELS)
    for place in (0, *load):
        job = submit(controller, submission())
        propose(controller, bulk(controller, job, hosts={found[place % len(found)].name: 1}))
    one = Request(tasks_min=1, tasks_max=1)
    near = Near(0, ("part0",), "group:g", ("block",), False, required=False)
    if member >= 0:
        asks = Request(parts=(Part("part0", 1, one),), constraints=(near,))
        submit(controller, submission(asks=asks))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    return controller


def form_of(controller: RecordedController, wanted: Request) -> Form:
    table = controller.state.hosts
    return compile_forms(wanted, table.row, table.width)[0]


class Around(NamedTuple):
    """What was there before a job came."""

    free: np.ndarray
    where: dict[str, list[int]]
    busy: list[int]


def look_around(controller: RecordedController) -> Around:
    table, state = controller.state.hosts, controller.state
    free = table.total - table.used
    free[0][table.exclusive > 0] = 0
    where: dict[str, list[int]] = {}
    for job_id, job in state.jobs.items():
        if not job.is_finished:
            live = [host for attempt in (job.live or {}).values() for host in attempt.hosts]
            where[f"job:{job_id}"] = live
            for constraint in state.key(job).request.constraints:
                if isinstance(constraint, Near) and live:
                    where.setdefault(constraint.subject, []).extend(live)
    return Around(free, where, np.flatnonzero(table.attempts).tolist())


def ways(asked: Part, count: int) -> Iterator[tuple[int, ...]]:
    """Yield each way to give the tasks of a part to hosts."""
    for tasks in itertools.product(range(asked.tasks + 1), repeat=count):
        if sum(tasks) == asked.tasks:
            yield tasks


def placements(controller: RecordedController, wanted: Request, around: Around) -> Iterator[Placed]:
    """Yield every placement for which what is required holds, without a certificate."""
    state, form = controller.state, form_of(controller, wanted)
    columns = []
    for place, asked in enumerate(wanted.parts):
        alone = Form(form.roles[place], (form.roles[place],), (), ((form.needs[place],),))
        fitting = []
        for tasks in ways(asked, state.hosts.count):
            numbers = [number for number, size in enumerate(tasks) if size]
            sizes = [size for size in tasks if size]
            for order in rank_orders(numbers, sizes):
                laid = [numbers[at] for at in order], [sizes[at] for at in order]
                if not find_faults(alone, *laid, [], state.hosts, state.config) and not (
                    find_shortages(alone, *laid, [], around.free)
                ):
                    fitting.append(laid)
                    break
        columns.append(fitting)
    for choice in itertools.product(*columns):
        placed = Placed(
            form,
            [number for laid in choice for number in laid[0]],
            [size for laid in choice for size in laid[1]],
            [place for place, laid in enumerate(choice) for _ in laid[0]],
            [],
            [],
            state.hosts,
            state.config,
            around.where,
            around.busy,
        )
        if not find_shortages(form, *placed[1:4], around.free) and not broken(placed):
            yield placed


def rank_orders(numbers: list[int], sizes: list[int]) -> Iterator[list[int]]:
    """Yield the orders that matter: which host is the last, since it has the remainder."""
    for last in range(len(numbers)):
        yield [*(at for at in range(len(numbers)) if at != last), last]


def broken(placed: Placed, only: Sequence[Constraint] | None = None) -> list[str]:
    """Return which constraints do not hold; ``only``: of these, as if they were required."""
    if only is not None:
        request = replace(
            placed.form.request, constraints=tuple(replace(item, required=True) for item in only)
        )
        placed = placed._replace(form=placed.form._replace(request=request))
    return [text for text in find_relation_faults(placed) if text.startswith("relation ")]


def best(found: list[Placed], wanted: Request) -> list[Placed]:
    """Return the placements that do best by what is preferred, the heaviest first."""
    preferred = [
        item for item in wanted.constraints if not isinstance(item, Exclusive) and not item.required
    ]
    for item in sorted(preferred, key=lambda item: -item.weight):
        levels = item.levels if isinstance(item, Colocate | Near) else (item.level,)
        for level in levels:
            at_level = (
                replace(item, levels=(level,))
                if isinstance(item, Colocate | Near)
                else replace(item, level=level)
            )
            kept = [placed for placed in found if not broken(placed, [at_level])]
            if kept:
                found = kept
                break
    return found


def shares(hosts: Sequence[int], tasks: Sequence[int], parts: Sequence[int]) -> dict:
    """Return how many tasks of each part each host has."""
    found: dict[tuple[int, int], int] = {}
    for host, size, place in zip(hosts, tasks, parts, strict=True):
        found[host, place] = found.get((host, place), 0) + size
    return found
