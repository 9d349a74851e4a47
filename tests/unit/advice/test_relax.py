"""Which constraints may be given up, and how that is said."""

import pytest

from xce.advice.relax import Relaxation, Wish, relaxations
from xce.model.constraint import Colocate, Exclusive, Near, Spread
from xce.model.ids import MINUTE_US
from xce.model.request import (
    Alternative,
    Amount,
    CuWish,
    HostChoice,
    Part,
    Request,
    Threshold,
)
from xce.resreq.compile import compile_request, render_request
from xce.testing.builders import cluster


def ways(request: Request, **options: object) -> list[Relaxation]:
    return relaxations(Wish(request, "normal"), (), (), is_timed=False, **options)


def told(request: Request) -> list[str]:
    return [way.tell(way.most).text for way in ways(request)]


def given_up(request: Request, kind: str, number: int = 0) -> Request:
    (way,) = [way for way in ways(request) if way.kind == kind]
    return way.apply(Wish(request, "normal"), number).request


def test_every_constraint_has_a_way_in_a_fixed_order() -> None:
    request = Request(
        tasks_min=4,
        tasks_max=4,
        select="mem > 2 && hname != 'h1'",
        ptile=2,
        same=("model",),
        cu=CuWish("rack"),
        amounts=(Amount("lic", 2, per="host"), Amount("mem", 100)),
        hosts=(HostChoice("h1"), HostChoice("h2")),
        exclusive=True,
        thresholds=(Threshold("lic", 1000),),
    )
    wish = Wish(request, "normal", 5 * MINUTE_US)
    found = relaxations(wish, ("night",), ("h9", "h8"), is_timed=True)
    assert [way.tell(way.most).text for way in found] == [
        "host h9 opened",
        "host h8 opened",
        "hosts h9 h8 opened",
        "a run limit of 4 minutes instead of 5 minutes",
        "in queue night",
        "use other hosts than h1 h2",
        "share hosts with other jobs",
        "also hosts that do not satisfy mem > 2",
        "also hosts that do not satisfy hname != 'h1'",
        "without the threshold of lic",
        "without span[ptile=2]",
        "without same[model]",
        "without cu[type=rack]",
        "1 of lic per host instead of 2",
        "99 MiB of mem instead of 100 MiB",
        "3 tasks instead of 4",
    ]
    for way in found:
        changed = way.apply(wish, way.least)
        assert changed != wish
        render_request(changed.request)


def test_what_wants_nothing_has_nothing_to_give_up() -> None:
    assert told(Request()) == []
    assert told(Request(hosts=(HostChoice("h1"),), other_hosts=True)) == []


def test_amounts_and_tasks_are_graded() -> None:
    request = Request(tasks_min=3, tasks_max=5, amounts=(Amount("mem", 9),))
    assert given_up(request, "amount", 4).amounts == (Amount("mem", 4),)
    assert given_up(request, "amount").amounts == ()
    fewer = given_up(request, "tasks", 2)
    assert (fewer.tasks_min, fewer.tasks_max) == (2, 2)


@pytest.mark.parametrize("unit", ["KB", "GB", "classic"])
@pytest.mark.parametrize("per", ["task", "host", "job"])
@pytest.mark.parametrize("name", ["mem", "swp", "lic", "seats"])
def test_the_option_of_an_amount_asks_for_what_was_tried(name: str, per: str, unit: str) -> None:
    config = cluster({"h1": 1}, counters=["lic", "swp"], pools={"seats": 9}).state.config
    request = Request(amounts=(Amount(name, 9, per),))
    (way,) = [way for way in ways(request) if way.kind == "amount"]
    tried = way.apply(Wish(request, "normal"), 4).request
    assert compile_request((way.tell(4).option,), config=config, unit=unit) == tried


def test_a_part_is_changed_where_it_stands() -> None:
    big = Request(tasks_min=4, tasks_max=4, one_host=True, select="fast")
    small = Request(tasks_min=1, tasks_max=1)
    request = Request(tasks_min=5, tasks_max=5, parts=(Part("a", 4, big), Part("b", 1, small)))
    assert told(request) == [
        "also hosts that do not satisfy fast in part a",
        "without span[hosts=1] in part a",
        "3 tasks instead of 4 in part a",
    ]
    fewer = given_up(request, "tasks", 2)
    assert [part.tasks for part in fewer.parts] == [2, 1]
    assert (fewer.tasks_min, fewer.tasks_max) == (3, 3)
    assert given_up(request, "select").parts[0].request.select == ""


def test_alternatives_share_their_number_of_tasks() -> None:
    one = Request(tasks_min=4, tasks_max=4, select="fast")
    two = Request(tasks_min=4, tasks_max=4, one_host=True)
    request = Request(
        tasks_min=4, tasks_max=4, alternatives=(Alternative(one), Alternative(two, MINUTE_US))
    )
    assert told(request) == [
        "also hosts that do not satisfy fast in alternative 1",
        "without span[hosts=1] in alternative 2",
        "3 tasks instead of 4",
    ]
    fewer = given_up(request, "tasks", 3)
    assert [item.request.tasks_min for item in fewer.alternatives] == [3, 3]
    assert fewer.alternatives[1].delay_us == MINUTE_US
    assert (fewer.tasks_min, fewer.tasks_max) == (3, 3)


def relation_changes(*constraints: object, tasks: int = 4) -> list[tuple[str, str]]:
    parts = (Part("a", tasks, Request(tasks_min=tasks, tasks_max=tasks)),)
    wanted = Request(tasks_min=tasks, tasks_max=tasks, parts=parts, constraints=constraints)
    ways = relaxations(
        Wish(wanted, "normal"), (), (), is_timed=False, levels=("host", "switch", "block")
    )
    found = [way.tell(way.most) for way in ways if way.kind == "relation"]
    return [(change.text, change.option) for change in found]


def test_relations_are_made_wider_or_preferred() -> None:
    assert relation_changes(Colocate(1, ("a",), ("host",))) == [
        ("a in one switch instead of one host", "relations[2]: scope: switch"),
        ("a in one block instead of one host", "relations[2]: scope: block"),
        ("a only preferably together", "relations[2]: strength: preferred"),
    ]
    assert relation_changes(Spread(0, ("a",), "switch", 1)) == [
        ("a up to 2 in one switch instead of 1", "relations[1]: max_per_domain: 2"),
        ("a only preferably spread", "relations[1]: strength: preferred"),
    ]
    assert relation_changes(Exclusive(0, ("a",), "block")) == [
        ("a with other jobs beside", "relations[1]"),
    ]
    assert relation_changes(Colocate(0, ("a",), ("host",), required=False)) == []


def test_both_sides_of_a_group_are_given_up_together() -> None:
    together = Colocate(0, ("a",), ("switch",))
    near = Near(0, ("a",), "group:u/g", ("switch",))
    part = Part("a", 1, Request())
    wanted = Wish(Request(parts=(part,), constraints=(together, near)), "normal")
    wider, preferred = (
        way for way in relaxations(wanted, (), (), is_timed=False, levels=("switch", "block"))
    )
    assert [item.levels for item in wider.apply(wanted, 0).request.constraints] == [("block",)] * 2
    assert not any(item.required for item in preferred.apply(wanted, 0).request.constraints)
