"""NVLink domains against brute force: relations to them, beside others on the same hosts."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from relations import QUEUE, Around, form_of, look_around, ways

from xce.model.config import HostConfig
from xce.model.constraint import Colocate, Constraint, Spread
from xce.model.device import Device, GpuWish
from xce.model.reason import ReasonCode
from xce.model.request import Part, Request
from xce.sched.certify_devices import find_device_faults
from xce.sched.certify_relations import Placed, find_relation_faults
from xce.sched.session import run_session
from xce.testing.builders import RecordedController, cluster, submission, submit
from xce.testing.recorded import accept_plan

FEW = settings(max_examples=150, derandomize=True, deadline=None)
MANY = settings(max_examples=5_000, derandomize=True, deadline=None)
LEVELS = ("switch",)

hosts = st.lists(
    st.tuples(st.integers(1, 6), st.lists(st.integers(1, 3), min_size=0, max_size=2)),
    min_size=1,
    max_size=3,
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    parts = []
    for name in names:
        size = draw(st.integers(1, 3))
        gpu = draw(st.sampled_from([GpuWish(), GpuWish(), GpuWish(2), None]))
        parts.append(Part(name, size, Request(tasks_min=size, tasks_max=size, gpu=gpu)))
    total = sum(part.tasks for part in parts)
    with_gpus = [part.name for part in parts if part.request.gpu is not None]
    found: list[Constraint] = []
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["nvlink", "nvlink", "host", "switch", "spread"]))
        among = with_gpus if kind == "nvlink" else names
        if not among:
            continue
        size = draw(st.integers(1, len(among)))
        roles = tuple(sorted(draw(st.permutations(among))[:size]))
        if kind == "spread":
            found.append(Spread(number, roles, "host", 2))
        else:
            found.append(Colocate(number, roles, (kind,)))
    return Request(tasks_min=total, tasks_max=total, parts=tuple(parts), constraints=tuple(found))


def build(shape: Sequence[tuple[int, list[int]]]) -> RecordedController:
    found = []
    for number, (slots, domains) in enumerate(shape, 1):
        links = [link for link, size in enumerate(domains) for _ in range(size)]
        gpus = tuple(Device(index, link=link) for index, link in enumerate(links))
        label = {"switch": f"s{number % 2}"}
        found.append(HostConfig(name=f"h{number}", slots=slots, gpus=gpus, labels=label))
    return cluster(found, queues=[QUEUE], levels=LEVELS)


def exists(
    controller: RecordedController,
    shape: Sequence[tuple[int, list[int]]],
    wanted: Request,
    around: Around,
) -> bool:
    """Return whether any way to lie on hosts and in domains will do."""
    state, form = controller.state, form_of(controller, wanted)
    others = tuple(
        item
        for item in wanted.constraints
        if not isinstance(item, Colocate) or item.levels != ("nvlink",)
    )
    plain = form._replace(
        request=Request(parts=wanted.parts, constraints=others),
        roles=tuple(Request() for _ in form.roles),
    )
    for choice in itertools.product(*(list(ways(part, len(shape))) for part in wanted.parts)):
        sums = [sum(tasks[at] for tasks in choice) for at in range(len(shape))]
        if any(total > host[0] for total, host in zip(sums, shape, strict=True)):
            continue
        entries = [
            (at, size, part)
            for part, tasks in enumerate(choice)
            for at, size in enumerate(tasks)
            if size
        ]
        columns = [list(column) for column in zip(*entries, strict=True)]
        placed = Placed(
            plain, *columns, [], [], state.hosts, state.config, around.where, around.busy
        )
        if any(text.startswith("relation ") for text in find_relation_faults(placed)):
            continue
        if domains_hold(shape, wanted, choice):
            return True
    return False


def domains_hold(
    shape: Sequence[tuple[int, list[int]]], wanted: Request, choice: Sequence[Sequence[int]]
) -> bool:
    """Return whether the GPUs of these shares can be given out."""
    place = {part.name: at for at, part in enumerate(wanted.parts)}
    bonds = [
        [place[name] for name in item.roles]
        for item in wanted.constraints
        if isinstance(item, Colocate) and item.levels == ("nvlink",)
    ]
    for bond in bonds:
        if len({at for part in bond for at, size in enumerate(choice[part]) if size}) != 1:
            return False
    for links in itertools.product(range(2), repeat=len(bonds)):
        keeps: dict[int, set[int]] = {}
        for bond, link in zip(bonds, links, strict=True):
            for part in bond:
                keeps.setdefault(part, set()).add(link)
        if any(len(found) > 1 for found in keeps.values()):
            continue
        if all(host_holds(at, shape[at][1], wanted, choice, keeps) for at in range(len(shape))):
            return True
    return False


def host_holds(
    at: int,
    domains: list[int],
    wanted: Request,
    choice: Sequence[Sequence[int]],
    keeps: dict[int, set[int]],
) -> bool:
    used, rest = [0, 0], 0
    for part, tasks in enumerate(choice):
        gpu = wanted.parts[part].request.gpu
        count = tasks[at] * gpu.count if gpu is not None else 0
        if part in keeps:
            used[min(keeps[part])] += count
        else:
            rest += count
    room = [*domains, 0, 0][:2]
    return all(u <= r for u, r in zip(used, room, strict=True)) and sum(used) + rest <= sum(room)


def compare(shape, wanted):
    assume(wanted.constraints)
    controller = build(shape)
    around = look_around(controller)
    job = submit(controller, submission(asks=wanted))
    found = exists(controller, shape, wanted, around)
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    live = controller.job(job).live
    if not live:
        reason = controller.state.classes[controller.job(job).cls].reason
        assert reason.code is not ReasonCode.SEARCH
        assert not found, reason
        return
    (attempt,) = live.values()
    state, form = controller.state, form_of(controller, wanted)
    columns = attempt.hosts, attempt.tasks, attempt.parts
    assert find_device_faults(form.roles, *columns, attempt.devices, state.hosts) == []
    placed = Placed(
        form, *columns, attempt.alone, attempt.proofs, state.hosts, state.config,
        around.where, around.busy, attempt.devices,
    )  # fmt: skip
    assert find_relation_faults(placed) == []
    assert found


@FEW
@given(shape=hosts, wanted=requests())
def test_roles_find_their_domain_whenever_there_is_one(shape, wanted):
    compare(shape, wanted)


@pytest.mark.long
@pytest.mark.timeout(7_200)
@MANY
@given(shape=hosts, wanted=requests())
def test_roles_find_their_domain_in_five_thousand_cases(shape, wanted):
    compare(shape, wanted)
