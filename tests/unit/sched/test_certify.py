"""The certifier objects to every placement that is not what was asked for."""

import pytest

from xce.model.config import HostConfig, ResourceConfig
from xce.model.request import Amount, CuWish, HostChoice, Part, Request
from xce.sched.certify import find_faults, find_shortages
from xce.state.needs import compile_forms
from xce.testing.builders import cluster

HOSTS = [
    HostConfig(
        name=f"h{place}",
        slots=8,
        mem_mib=100,
        labels={"rack": "r1" if place < 3 else "r2"} if place < 5 else {},
        attributes={"kind": "a" if place < 4 else "b", "type": "X" if place == 1 else "Y"},
    )
    for place in range(1, 7)
]
CONTROLLER = cluster(
    HOSTS, resources=[ResourceConfig(name="kind", kind="string")], levels=("rack",)
)


def faults(asks: Request, *entries: tuple[int, int], parts: tuple[int, ...] = ()) -> str:
    """Return what is wrong; ``entries``: number of the host from 1 on, and its tasks."""
    state = CONTROLLER.state
    (form,) = compile_forms(asks, state.hosts.row)
    numbers, sizes = [host - 1 for host, _ in entries], [size for _, size in entries]
    return "; ".join(find_faults(form, numbers, sizes, parts, state.hosts, state.config))


def asks(tasks: int, **more: object) -> Request:
    return Request(tasks_min=tasks, tasks_max=tasks, **more)


WHOLE = Request(tasks_min=2, tasks_max=99, ptile=-1, whole_hosts=2)
FIRST = {"hosts": (HostChoice("r1"), HostChoice("h4")), "hosts_first": ("r1",)}
PAIR = asks(5, parts=(Part("a", 3, asks(3)), Part("b", 2, asks(2, one_host=True))))


@pytest.mark.parametrize(
    ("wanted", "entries", "parts"),
    [
        (asks(3), [(1, 2), (2, 1)], ()),
        (asks(5, ptile=2), [(1, 2), (2, 2), (3, 1)], ()),
        (asks(11, block=3), [(1, 3), (2, 6), (3, 2)], ()),
        (asks(4, block=3), [(1, 4)], ()),
        (asks(4, stripe=2), [(1, 2), (2, 2)], ()),
        (asks(9, ptile=-1), [(1, 8), (2, 1)], ()),
        (asks(5, ptile=2, ptile_by_type=(("X", 3),)), [(1, 3), (2, 2)], ()),
        (asks(3, same=("kind",)), [(1, 2), (2, 1)], ()),
        (asks(4, cu=CuWish("rack", max_domains=2)), [(1, 2), (2, 1), (3, 1)], ()),
        (asks(5, cu=CuWish("rack", balance=True)), [(1, 1), (2, 1), (3, 3)], ()),
        (asks(2, cu=CuWish("host", max_domains=2)), [(5, 1), (6, 1)], ()),
        (PAIR, [(1, 3), (1, 2)], (0, 1)),
        (WHOLE, [(1, 8), (2, 8)], ()),
        (asks(3, **FIRST), [(2, 2), (4, 1)], ()),
        (asks(5, parts=PAIR.parts, **FIRST), [(1, 2), (4, 1), (1, 2)], (0, 0, 1)),
    ],
)
def test_what_was_asked_for_passes(wanted, entries, parts):
    assert faults(wanted, *entries, parts=parts) == ""


@pytest.mark.parametrize(
    ("wanted", "entries", "parts", "complaint"),
    [
        (asks(3), [(1, 2)], (), "2 tasks"),
        (asks(3), [(1, 2), (9, 1)], (), "no such host"),
        (asks(3), [(1, 3), (2, 0)], (), "no task on one"),
        (asks(3), [], (), "do not fit together"),
        (asks(3), [(1, 2), (1, 1)], (), "a host twice"),
        (asks(3), [(1, 2), (2, 1)], (0, 1), "the parts"),
        (asks(3, one_host=True), [(1, 2), (2, 1)], (), "more hosts"),
        (asks(3, hosts_max=2), [(1, 1), (2, 1), (3, 1)], (), "more hosts"),
        (asks(5, ptile=2), [(1, 2), (2, 1), (3, 2)], (), "filled"),
        (asks(4, ptile=2), [(1, 3), (2, 1)], (), "ptile="),
        (asks(9, ptile=-1), [(1, 1), (2, 8)], (), "filled"),
        (asks(5, ptile_by_type=(("X", 3),)), [(1, 4), (2, 1)], (), "ptile="),
        (asks(8, block=3), [(1, 4), (2, 4)], (), "filled"),
        (asks(4, stripe=2), [(1, 3), (2, 1)], (), "stripe="),
        (asks(3, same=("kind",)), [(3, 2), (4, 1)], (), "differ in kind"),
        (asks(2, same=("hname",)), [(1, 1), (2, 1)], (), "differ in hname"),
        (asks(2, hosts=(HostChoice("h2"),)), [(1, 1), (2, 1)], (), "-m"),
        (asks(2, cu=CuWish("rack", max_domains=1)), [(1, 1), (3, 1)], (), "more than 1 of rack"),
        (asks(3, cu=CuWish("rack")), [(1, 1), (3, 1), (2, 1)], (), "stand together"),
        (asks(2, cu=CuWish()), [(1, 1), (5, 1)], (), "in no rack"),
        (asks(4, cu=CuWish("rack", balance=True)), [(1, 1), (3, 3)], (), "uneven"),
        (WHOLE, [(1, 8)], (), "whole hosts"),
        (WHOLE, [(1, 8), (2, 7)], (), "whole hosts"),
        (WHOLE, [(1, 8), (2, 8), (3, 8)], (), "whole hosts"),
        (PAIR, [(1, 2), (1, 3)], (1, 0), "the parts"),
        (PAIR, [(1, 4), (1, 1)], (0, 1), "part 0: 4 tasks"),
        (PAIR, [(1, 3), (1, 1), (2, 1)], (0, 1, 1), "part 1: more hosts"),
        (asks(3, **FIRST), [(4, 2), (2, 1)], (), "another first host"),
        (asks(3, **FIRST), [(1, 2), (2, 1)], (), "is not the first"),
        (
            asks(5, parts=PAIR.parts, **FIRST),
            [(1, 2), (4, 1), (2, 2)],
            (0, 0, 1),
            "is not the first",
        ),
    ],
)
def test_anything_else_does_not(wanted, entries, parts, complaint):
    assert complaint in faults(wanted, *entries, parts=parts)


def test_what_a_host_lacks_is_seen_over_all_parts():
    state = CONTROLLER.state
    part = asks(2, amounts=(Amount("mem", 20), Amount("mem", 15, "job")))
    (form,) = compile_forms(
        asks(4, parts=(Part("a", 2, part), Part("b", 2, part))), state.hosts.row
    )
    free = state.hosts.total.copy()
    free[1] = 75
    assert find_shortages(form, [0, 1], [2, 2], [0, 1], free) == []
    assert find_shortages(form, [0, 0], [2, 2], [0, 1], free) != []
    free[1] = 150
    assert find_shortages(form, [0, 0], [2, 2], [0, 1], free) == []
    free[0] = 3
    assert find_shortages(form, [0, 0], [2, 2], [0, 1], free) != []
