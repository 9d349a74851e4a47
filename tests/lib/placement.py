"""Small random clusters and requests, and a brute force that tries every placement on them."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from msgspec.structs import replace

from xce.model.config import HostConfig, QueueConfig, ResourceConfig
from xce.model.reason import ReasonCode
from xce.model.request import (
    TASKS_MAX,
    Alternative,
    Amount,
    CuWish,
    HostChoice,
    Part,
    Request,
)
from xce.sched.certify import find_faults, find_shortages
from xce.sched.session import run_session
from xce.state.hosts import HostTable
from xce.state.needs import Form, Need, compile_forms
from xce.testing.builders import (
    RecordedController,
    bulk,
    cluster,
    kill,
    propose,
    request,
    submission,
    submit,
)
from xce.testing.recorded import accept_plan

QUEUE = QueueConfig(name="normal", priority=30, default=True, exclusive=True)
RESOURCES = (
    ResourceConfig(name="lic", kind="counter"),
    ResourceConfig(name="kind", kind="string"),
    ResourceConfig(name="speed", kind="number"),
)


class HostShape(NamedTuple):
    slots: int
    mem: int
    lic: int
    rack: str
    kind: str
    speed: int


def clusters(most: int = 4) -> st.SearchStrategy[list[HostShape]]:
    """Return clusters of 2 to ``most`` hosts."""
    host = st.builds(
        HostShape,
        st.integers(0, 4),
        st.integers(0, 9),
        st.integers(0, 4),
        st.sampled_from(["r1", "r1", "r2", "r3", ""]),
        st.sampled_from(["a", "a", "b", ""]),
        st.integers(0, 1),
    )
    return st.lists(host, min_size=2, max_size=most)


loads = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4)
amounts = st.lists(
    st.builds(
        Amount,
        st.sampled_from(["mem", "mem", "lic", "seats"]),
        st.integers(1, 3),
        st.sampled_from(["task", "task", "host", "job"]),
    ),
    max_size=3,
    unique_by=lambda amount: (amount.resource, amount.per),
).map(lambda found: tuple(sorted(found)))
spans = st.one_of(
    st.just({}),
    st.just({"one_host": True}),
    st.integers(1, 3).map(lambda n: {"ptile": n}),
    st.integers(2, 3).map(lambda n: {"block": n}),
    st.sampled_from([-1, 1, 2]).map(lambda n: {"stripe": n}),
    st.integers(1, 3).map(lambda n: {"hosts_max": n}),
    st.just({"ptile": -1}),
    st.integers(1, 3).map(lambda n: {"ptile": n, "ptile_by_type": (("a", 4 - n), ("b", 1))}),
    st.sampled_from([1, 2, 2, 3]).map(lambda n: {"ptile": -1, "whole_hosts": n}),
)
sames = st.sampled_from([(), (), (), ("kind",), ("kind", "speed"), ("hname",)])
wishes = st.builds(
    CuWish,
    st.sampled_from(["rack", "rack", "host", ""]),
    st.sampled_from(["config", "minavail", "maxavail", "bestfit"]),
    st.integers(0, 2),
    st.sampled_from([0, 0, 2, 3]),
    exclusive=st.sampled_from([False, False, False, True]),
)
asked_hosts = st.one_of(
    st.just({}),
    st.just({}),
    st.just({}),
    st.just({"hosts": (HostChoice("h2"), HostChoice("r2", 1))}),
    st.just({"hosts": (HostChoice("r1", 1),), "other_hosts": True, "others_preference": 2}),
    st.sampled_from(["h1", "r1", "r2"]).map(lambda name: {"hosts_excluded": (name,)}),
    st.sampled_from(
        [
            {"hosts": (HostChoice("h1"), HostChoice("h2", 1)), "hosts_first": ("h1",)},
            {"hosts": (HostChoice("r1"),), "hosts_first": ("r1",), "other_hosts": True},
            {"hosts": tuple(map(HostChoice, ("h1", "h2", "r1"))), "hosts_first": ("h1", "h2")},
            {"hosts": (HostChoice("h2"), HostChoice("h3")), "hosts_first": ("h2", "h3")},
        ]
    ),
)
"""What ``-m`` may say: names of hosts and of racks, all of which need not be there."""


@st.composite
def simple(draw: st.DrawFn, *, fixed: int = 0, can_balance: bool = True) -> Request:
    """Return a request without parts; ``fixed``: of so many tasks."""
    low = fixed or draw(st.integers(1, 7))
    high = low if fixed else draw(st.one_of(st.just(low), st.integers(low, 9)))
    span = draw(spans.filter(lambda found: not (fixed and "whole_hosts" in found)))
    wish = draw(st.one_of(st.none(), st.none(), wishes))
    asked = draw(asked_hosts)
    if wish is not None and "hosts_first" in asked:
        # Which hosts count as usable then is told by what is found.
        wish = replace(wish, min_slots=0)
    if wish is not None and can_balance and "one_host" not in span and draw(st.booleans()):
        wish = replace(wish, balance=True, min_slots=0)
    if wish is not None and fixed:
        wish = replace(wish, exclusive=False)
    if "whole_hosts" in span:
        wish = wish and replace(wish, balance=False)
        low, high = max(low, span["whole_hosts"]), TASKS_MAX
    return Request(
        tasks_min=low,
        tasks_max=high,
        amounts=draw(amounts),
        same=draw(sames),
        cu=wish,
        select=draw(st.sampled_from(["", "", "", "mem > 2", "hname != 'h1'", "seats > 4"])),
        order=draw(st.sampled_from(["", "slots", "-mem:slots", "!slots"])),
        **span,
        **asked,
    )


@st.composite
def compound(draw: st.DrawFn, *, most: int = 3) -> Request:
    """Return a request of two or three parts."""
    sizes = draw(st.lists(st.integers(1, most), min_size=2, max_size=3))
    parts = tuple(
        Part(f"part{place}", size, draw(simple(fixed=size, can_balance=False)))
        for place, size in enumerate(sizes)
    )
    more = draw(st.sampled_from([0, 0, 1, 4]))
    if more:
        last = parts[-1]
        request = replace(last.request, tasks_max=last.tasks + more)
        parts = (*parts[:-1], replace(last, request=request, tasks_max=last.tasks + more))
    return Request(
        tasks_min=sum(sizes),
        tasks_max=sum(sizes) + more,
        parts=parts,
        same=draw(st.sampled_from([(), (), (), ("kind",)])),
        hosts_max=draw(st.sampled_from([0, 0, 0, 1, 2])),
        exclusive=draw(st.sampled_from([False, False, True])),
        **draw(asked_hosts),
    )


def alternatives() -> st.SearchStrategy[Request]:
    """Return requests of two or three alternatives."""
    one = st.one_of(simple(), compound(most=2))
    return st.lists(one, min_size=2, max_size=3).map(
        lambda found: Request(
            tasks_min=min(item.tasks_min for item in found),
            tasks_max=max(item.tasks_max for item in found),
            alternatives=tuple(map(Alternative, found)),
        )
    )


def build(shape: Sequence[HostShape], load: Sequence[tuple[int, int]]) -> RecordedController:
    """Return a cluster with some work on it."""
    hosts = [
        HostConfig(
            name=f"h{place}",
            slots=host.slots,
            mem_mib=host.mem,
            counters={"lic": host.lic},
            labels={"rack": host.rack} if host.rack else {},
            attributes={"speed": host.speed}
            | ({"kind": host.kind, "model": host.kind} if host.kind else {}),
        )
        for place, host in enumerate(shape, 1)
    ]
    controller = cluster(
        hosts, resources=RESOURCES, pools={"seats": 6}, queues=[QUEUE], levels=("rack",)
    )
    for place, mem in load:
        seats = (Amount("seats", 1, "job"),) if mem == 3 else ()
        job = submit(controller, submission(asks=request(mem_mib=mem, amounts=seats)))
        propose(controller, bulk(controller, job, hosts={hosts[place % len(hosts)].name: 1}))
        if not controller.job(job).live:
            kill(controller, job)
    return controller


def names_that_are_there(wanted: Request, shape: Sequence[HostShape]) -> Request:
    """Return a request whose ``-m`` names no rack without hosts, which submission refuses."""
    there = {host.rack for host in shape} | {f"h{place}" for place in range(1, len(shape) + 1)}
    return replace(
        wanted,
        hosts=tuple(choice for choice in wanted.hosts if choice.host in there),
        hosts_excluded=tuple(name for name in wanted.hosts_excluded if name in there),
        hosts_first=tuple(name for name in wanted.hosts_first if name in there),
    )


def may_be_used(request: Request, name: str, rack: str) -> bool:
    """Return whether ``-m`` lets a host be used."""
    asked = [choice.host for choice in request.hosts]
    if name in request.hosts_excluded or rack in request.hosts_excluded:
        return False
    return not asked or request.other_hosts or name in asked or rack in asked


def forms(controller: RecordedController, wanted: Request) -> tuple[Form, ...]:
    return compile_forms(wanted, controller.state.hosts.row)


def start(controller: RecordedController, wanted: Request) -> int:
    """Submit and plan, have the placement certified, return its job."""
    free = free_now(controller)
    job = submit(controller, submission(asks=wanted))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    for attempt in (controller.job(job).live or {}).values():
        form = forms(controller, wanted)[attempt.alternative]
        state = controller.state
        placed = (attempt.hosts, attempt.tasks, attempt.parts)
        assert find_faults(form, *placed, state.hosts, state.config) == []
        assert find_shortages(form, *placed, free) == []
        assert not set(attempt.hosts) - set(usable_hosts(controller, form, free))
    return job


def free_now(controller: RecordedController) -> np.ndarray:
    table = controller.state.hosts
    free = table.total - table.used
    if controller.state.jobs:
        free[0][table.exclusive > 0] = 0
    return free


def usable_hosts(controller: RecordedController, form: Form, free: np.ndarray) -> list[int]:
    table, request = controller.state.hosts, form.request
    attempts = np.zeros(table.count, int)
    for job in list(controller.state.jobs.values())[:-1]:
        for attempt in (job.live or {}).values():
            attempts[attempt.hosts] += 1
    return [
        number
        for number in range(table.count)
        if (not request.exclusive or attempts[number] == 0)
        and _is_asked(controller, form, number)
        and _is_closable(form, table, number, attempts)
    ]


def _is_closable(form: Form, table: HostTable, number: int, attempts: np.ndarray) -> bool:
    """Return whether the domain of a host is idle, where ``cu[excl]`` wants it so."""
    wish = form.request.cu
    if wish is None or not wish.exclusive:
        return True
    if wish.level == "host":
        return bool(attempts[number] == 0)
    labels = [table.config[other].labels.get("rack") for other in range(table.count)]
    return all(
        attempts[other] == 0 for other in range(table.count) if labels[other] == labels[number]
    )


def _is_asked(controller: RecordedController, form: Form, number: int) -> bool:
    table = controller.state.hosts
    rack = table.config[number].labels.get("rack", "-")
    return may_be_used(form.request, table.names[number], rack)


def role_hosts(
    controller: RecordedController, role: Request, need: Need, free: np.ndarray, among: set[int]
) -> list[int]:
    """Return the hosts that a part may use, whatever else it takes."""
    table = controller.state.hosts
    found = []
    for number in sorted(among):
        if role.select == "mem > 2" and free[1, number] <= 2:
            continue
        if role.select == "seats > 4" and controller.state.pools.free("seats") <= 4:
            continue
        if role.select.startswith("hname") and table.names[number] == "h1":
            continue
        wanted = least_share(role, need)
        if not ((wanted > 0) & (free[:, number] < wanted)).any():
            found.append(number)
    if role.cu is None or not role.cu.min_slots:
        return found
    room: dict[object, int] = {}
    domain = {
        number: number if role.cu.level == "host" else table.config[number].labels.get("rack")
        for number in found
    }
    values = {
        number: tuple(table.attributes(number).get(n) for n in role.same if n != "hname")
        + ((number,) if "hname" in role.same else ())
        for number in found
    }
    for number in found:
        key = (domain[number], values[number])
        leads = may_lead(role, number, table)
        room[key] = room.get(key, 0) + alone(role, need, free, number, table, is_first=leads)
    return [n for n in found if room[domain[n], values[n]] >= role.cu.min_slots]


def least_share(role: Request, need: Need) -> np.ndarray:
    """Return what a part takes at least on each of its hosts; others are of no use to it."""
    low, high, tile = role.tasks_min, role.tasks_max, max(role.ptile, role.block)
    if role.one_host or role.hosts_max == 1 or high == 1:
        return need.on_host(low)
    if role.ptile_by_type:
        return need.on_host(1, is_first=False)
    if tile and high <= tile:
        return need.on_host(low)
    least = 1 if not tile or low < high else low % tile or tile
    return need.on_host(least, is_first=False)


def may_lead(role: Request, number: int, table: HostTable) -> bool:
    """Return whether ``-m`` wants a host to be the first, if it is used."""
    names = {table.names[number], table.config[number].labels.get("rack")}
    return not names.isdisjoint(role.hosts_first)


def alone(
    role: Request,
    need: Need,
    free: np.ndarray,
    number: int,
    table: HostTable,
    *,
    is_first: bool = False,
) -> int:
    """Return how many tasks a host could take."""
    ceiling = role.stripe if role.stripe > 0 else 9
    if role.ptile:
        ceiling = role.ptile if role.ptile > 0 else max(int(table.total[0, number]), 1)
        model = table.attributes(number).get("model")
        ceiling = dict(role.ptile_by_type).get(str(model), ceiling)
    most = 0
    for tasks in range(1, ceiling + 1):
        wanted = need.on_host(tasks, is_first=is_first)
        if ((wanted > 0) & (free[:, number] < wanted)).any():
            break
        most = tasks
    return most


Laid = tuple[list[int], list[int]]


def splits(
    controller: RecordedController, role: Request, need: Need, free: np.ndarray, among: set[int]
) -> Iterator[Laid]:
    """Yield ways to lay a part, each host set and count in the rank orders that differ."""
    table = controller.state.hosts
    low, high = role.tasks_min, role.tasks_max
    may = role_hosts(controller, role, need, free, among)
    most = [
        alone(role, need, free, number, table) if number in may else 0
        for number in range(table.count)
    ]
    for tasks in itertools.product(*(range(size + 1) for size in most)):
        if not low <= sum(tasks) <= high:
            continue
        used = [number for number, size in enumerate(tasks) if size]

        def rack(number: int) -> str:
            return table.config[number].labels.get("rack", "")

        for first, last in itertools.product(used, used):
            if (first == last) != (len(used) == 1):
                continue
            order = sorted(
                used,
                key=lambda n: (
                    (rack(n) != rack(first), rack(n) == rack(last), rack(n))
                    if role.cu is not None and role.cu.level != "host"
                    else (),
                    n != first,
                    n == last,
                ),
            )
            if order[0] == first:
                yield order, [tasks[number] for number in order]


def placements(
    controller: RecordedController, form: Form, pools: int
) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Yield every placement of a form that the certifier lets pass."""
    state = controller.state
    free = free_now(controller)
    hosts = {
        number
        for number in range(state.hosts.count)
        if not form.request.exclusive or state.hosts.attempts[number] == 0
        if _is_asked(controller, form, number)
        and _is_closable(form, state.hosts, number, state.hosts.attempts)
    }
    columns = []
    for role, need in zip(form.roles, form.needs, strict=True):
        # What all parts have in common bounds what is of use to each.
        role = replace(role, same=tuple(sorted({*role.same, *form.request.same})))
        columns.append(
            [
                laid
                for laid in splits(controller, role, need, free, hosts)
                if not find_faults(
                    Form(role, (role,), (), ((need,),)), *laid, [], state.hosts, state.config
                )
                and not find_shortages(Form(role, (role,), (), ((need,),)), *laid, [], free)
            ]
        )
    for choice in itertools.product(*columns):
        numbers = [number for laid in choice for number in laid[0]]
        sizes = [size for laid in choice for size in laid[1]]
        parts = [place for place, laid in enumerate(choice) for _ in laid[0]]
        if (
            seats(form, choice) <= pools
            and not find_shortages(form, numbers, sizes, parts, free)
            and not find_faults(form, numbers, sizes, parts, state.hosts, state.config)
        ):
            yield numbers, sizes, parts


def seats(form: Form, choice: Sequence[Laid]) -> int:
    return sum(
        amount.value * (sum(laid[1]) if amount.per == "task" else 1)
        for role, laid in zip(form.roles, choice, strict=True)
        for amount in role.amounts
        if amount.resource == "seats"
    )


def largest(controller: RecordedController, form: Form) -> int:
    """Return the most tasks with which a form fits now; 0: it does not."""
    pools = controller.state.pools.free("seats")
    if form.request.parts and form.request.tasks_min == form.request.tasks_max:
        found = next(placements(controller, form, pools), None)
        return sum(found[1]) if found else 0
    most = 0
    for _, sizes, _ in placements(controller, form, pools):
        most = max(most, sum(sizes))
        if most == form.request.tasks_max:
            break
    return most


def check_found(shape: list[HostShape], load: list[tuple[int, int]], wanted: Request) -> None:
    """A job starts if and only if brute force finds a place, by the first form and as large."""
    wanted = names_that_are_there(wanted, shape)
    controller = build(shape, load)
    sizes = []
    for form in forms(controller, wanted):
        sizes.append(largest(controller, form))
        if sizes[-1]:
            break

    job = start(controller, wanted)

    live = controller.job(job).live
    if live and forms(controller, wanted)[live[0].alternative].request.whole_hosts:
        # The best hosts, not the largest ones.
        assert sizes[-1]
    else:
        assert (sum(live[0].tasks) if live else 0) == sizes[-1]
    if live:
        assert live[0].alternative == len(sizes) - 1
        return
    reason = controller.state.classes[controller.job(job).cls].reason
    assert reason.code not in (ReasonCode.NEW, ReasonCode.SEARCH)
    idle = build(shape, [])
    assert reason.unsatisfiable != any(largest(idle, form) for form in forms(idle, wanted))
