"""What came of a search is used again as long as all that it depends on is equal."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from xce.sched.columns import HostFacts
from xce.sched.gpu_score import NO_MIX, Mix
from xce.sched.ground import Ground
from xce.sched.place.spot import Spot
from xce.sched.recall import Recall
from xce.sched.shape import Shape
from xce.sched.timeline import View
from xce.state.hosts import Flags


@dataclass(eq=False)
class Form:
    """What the memory reads of a shape; each is another one."""

    looks_outside: bool
    reads_load: bool
    wants_gpus: bool


def a_shape(*, outside: bool = False, load: bool = False, gpus: bool = False) -> Shape:
    return cast("Shape", Form(outside, load, gpus))


def a_view(slots: int = 4, hosts: int = 3, pools: dict[str, int] | None = None) -> View:
    free = np.full((2, hosts), slots, np.int64)
    return View(Ground(free, np.ones(hosts, np.bool_)), pools or {})


def facts_with(load_change: int = 0, mix: Mix = NO_MIX) -> HostFacts:
    table = SimpleNamespace(load_change=load_change)
    return cast("HostFacts", SimpleNamespace(table=table, mix=mix))


class Searches:
    """Finds nothing, and counts how often it looks."""

    def __init__(self) -> None:
        self.count = 0
        self.recall = Recall()

    def look(self, shape: Shape, view: View, among: Flags | None) -> Spot | None:
        self.count += 1
        return None

    def find(
        self, shape: Shape, view: View, among: Flags | None = None, facts: HostFacts | None = None
    ) -> int:
        """Return how often was looked by now."""
        self.recall.find(shape, view, among, facts or facts_with(), self.look)
        return self.count


def test_equal_views_are_searched_once():
    searches, shape = Searches(), a_shape()
    assert searches.find(shape, a_view()) == 1
    assert searches.find(shape, a_view()) == 1


def test_each_shape_is_searched_for():
    searches = Searches()
    assert searches.find(a_shape(), a_view()) == 1
    assert searches.find(a_shape(), a_view()) == 2


def test_another_ground_is_searched():
    searches, shape, view = Searches(), a_shape(), a_view()
    assert searches.find(shape, view) == 1
    view.ground.free[1, 2] -= 1
    assert searches.find(shape, view) == 2
    view.ground.empty[0] = False
    assert searches.find(shape, view) == 3


def test_other_pools_are_searched():
    searches, shape = Searches(), a_shape()
    assert searches.find(shape, a_view(pools={"licence": 1})) == 1
    assert searches.find(shape, a_view(pools={"licence": 2})) == 2
    assert searches.find(shape, a_view(pools={"tokens": 2})) == 3


def test_a_search_among_some_hosts_is_another_one():
    searches, shape, mask = Searches(), a_shape(), np.asarray([True, False, False])
    assert searches.find(shape, a_view()) == 1
    assert searches.find(shape, a_view(), mask) == 2
    assert searches.find(shape, a_view(), ~mask) == 3
    assert searches.find(shape, a_view(), mask) == 3


@pytest.mark.parametrize(("reads", "expected"), [(True, 2), (False, 1)])
def test_a_new_load_matters_to_who_reads_it(reads: bool, expected: int):
    searches, shape = Searches(), a_shape(load=reads)
    searches.find(shape, a_view(), facts=facts_with(load_change=1))
    assert searches.find(shape, a_view(), facts=facts_with(load_change=2)) == expected


@pytest.mark.parametrize(("wants", "expected"), [(True, 2), (False, 1)])
def test_what_others_ask_of_gpus_matters_to_who_wants_some(wants: bool, expected: int):
    searches, shape = Searches(), a_shape(gpus=wants)
    searches.find(shape, a_view(), facts=facts_with(mix=Mix({}, 1)))
    assert searches.find(shape, a_view(), facts=facts_with(mix=Mix({}, 1))) == expected


def test_who_looks_for_other_jobs_is_always_searched_for():
    searches, shape = Searches(), a_shape(outside=True)
    assert searches.find(shape, a_view()) == 1
    assert searches.find(shape, a_view()) == 2


def test_what_very_many_hosts_have_is_not_remembered():
    searches, shape = Searches(), a_shape()
    assert searches.find(shape, a_view(hosts=10_000)) == 1
    assert searches.find(shape, a_view(hosts=10_000)) == 2


def test_nothing_is_known_after_it_was_cleared():
    searches, shape = Searches(), a_shape()
    searches.find(shape, a_view())
    searches.recall.clear()
    assert searches.find(shape, a_view()) == 2


@pytest.mark.parametrize("where", ["devices", "processors", "amounts", "slice"])
def test_what_is_remembered_has_a_bound_in_bytes(where: str):
    recall, looks = Recall(), []
    items = 1 << 16
    numbers = [list(range(items))]
    none, many = np.zeros(0, np.int64), np.zeros((1, 8 * items), np.int64)
    spot = Spot(
        none, none, many[0, :0] if where == "slice" else none, 0, none,
        many if where == "amounts" else many[:, :0].copy(), {},
        numbers if where == "devices" else [], (), numbers if where == "processors" else [],
    )  # fmt: skip

    def look(shape: Shape, view: View, among: Flags | None) -> Spot | None:
        looks.append(shape)
        return spot

    shapes = [a_shape() for _ in range(100)]
    for one in [shapes[0], *shapes[:10], *shapes]:
        recall.find(one, a_view(), None, facts_with(), look)
    # Each takes 4 MiB: ten are remembered, a hundred are not.
    assert len(looks) == 100
    recall.find(shapes[0], a_view(), None, facts_with(), look)
    assert len(looks) == 101
