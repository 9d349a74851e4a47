"""Every seeded fault is caught: a checker that has never failed is not yet a checker."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from msgspec.structs import replace
from relations import LEVELS, QUEUE, look_around

from xce.model.config import HostConfig
from xce.model.constraint import Colocate, Exclusive, Near, Proof, Spread
from xce.model.plan import GangStart, Plan
from xce.model.request import Part, Request
from xce.sched.certify_relations import Placed, find_relation_faults
from xce.sched.session import run_session
from xce.state.needs import compile_forms
from xce.testing.builders import RecordedController, cluster, propose, submission, submit
from xce.testing.recorded import accept_plan

GROUP = Near(0, ("part0",), "group:g", ("switch",), required=False)
CONSTRAINTS = (
    Colocate(0, ("a", "b"), ("switch",)),
    Spread(1, ("a",), "host", 1),
    Near(2, ("c",), "group:g", ("switch",), is_apart=True),
    Exclusive(3, ("d",), "switch"),
    Colocate(4, ("b", "c"), ("host", "switch", "block"), required=False),
    Near(5, ("b",), "group:g", ("block",)),
    Spread(6, ("c", "d"), "block", 2),
)


class Case(NamedTuple):
    controller: RecordedController
    start: GangStart
    placed: Placed


def one(tasks: int) -> Request:
    return Request(tasks_min=tasks, tasks_max=tasks)


def hosts() -> list[HostConfig]:
    """Return switches s1 to s4 of two hosts each, s1 and s2 in b1; and one host in none."""
    found = [
        HostConfig(
            name=f"h{number}",
            slots=3,
            labels={"switch": f"s{(number + 1) // 2}", "block": f"b{(number + 3) // 4}"},
        )
        for number in range(1, 9)
    ]
    return [*found, HostConfig(name="h9", slots=2)]


def make() -> Case:
    """Return a placement that keeps relations of all kinds, beside a member of a group in s1."""
    controller = cluster(hosts(), queues=[QUEUE], levels=LEVELS)
    member = Request(parts=(Part("part0", 1, one(1)),), constraints=(GROUP,))
    submit(controller, submission(asks=member))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    parts = (Part("a", 2, one(2)), Part("b", 2, one(2)), Part("c", 1, one(1)), Part("d", 1, one(1)))
    asks = Request(tasks_min=6, tasks_max=6, parts=parts, constraints=CONSTRAINTS)
    job = submit(controller, submission(asks=asks))
    around = look_around(controller)
    plan = run_session(controller.state, now_us=controller.now_us)
    (start,) = plan.gangs
    state = controller.state
    form = compile_forms(state.key(controller.job(job)).request, state.hosts.row, state.hosts.width)
    placed = Placed(
        form[0], start.hosts, start.tasks, start.parts, start.alone, start.proofs, state.hosts,
        state.config, around.where, around.busy,
    )  # fmt: skip
    return Case(controller, start, placed)


@pytest.fixture(scope="module")
def case() -> Case:
    return make()


def test_what_the_search_finds_is_in_order(case: Case):
    assert find_relation_faults(case.placed) == []


Seed = Callable[[GangStart], GangStart]


def moved(part: int, to: int) -> Seed:
    """Return the fault that the tasks of a part are on another host."""

    def seed(start: GangStart) -> GangStart:
        rows = zip(start.hosts, start.parts, strict=True)
        return replace(start, hosts=[to if mine == part else host for host, mine in rows])

    return seed


def proof(place: int, **fields: object) -> Seed:
    """Return the fault that the certificate says something else."""

    def seed(start: GangStart) -> GangStart:
        found = list(start.proofs)
        found[place] = replace(found[place], **fields)
        return replace(start, proofs=tuple(found))

    return seed


def swapped(start: GangStart) -> GangStart:
    """Let ranks of one domain stand apart."""
    order = [len(start.hosts) - 1, *range(1, len(start.hosts) - 1), 0]
    columns = {name: getattr(start, name) for name in ("hosts", "tasks", "parts")}
    return replace(
        start, **{name: [values[place] for place in order] for name, values in columns.items()}
    )


SEEDS: dict[str, Seed] = {
    "a leaves the switch of b": moved(0, 6),
    "b leaves the switch of a": moved(1, 7),
    "c goes where the group is": moved(2, 0),
    "d goes beside others": moved(3, 1),
    "c lies in no switch": moved(2, 8),
    "d lies in no switch": moved(3, 8),
    "a is all on one host": lambda start: replace(
        start,
        hosts=[start.hosts[start.parts.index(0)] if part == 0 else host
               for host, part in zip(start.hosts, start.parts, strict=True)],
    ),
    "nothing is kept for d": lambda start: replace(start, alone=[]),
    "too little is kept for d": lambda start: replace(start, alone=start.alone[:1]),
    "too much is kept": lambda start: replace(start, alone=[*start.alone, 8]),
    "no certificate": lambda start: replace(start, proofs=()),
    "half a certificate": lambda start: replace(start, proofs=start.proofs[1:]),
    "one proof too many": lambda start: replace(
        start, proofs=(*start.proofs, Proof(7, "colocate", "host", ("h1",)))
    ),
    "another relation": proof(0, relation=1),
    "another kind": proof(0, kind="near"),
    "another level": proof(0, level="block"),
    "another domain": proof(0, domains=("s9",)),
    "no domain": proof(3, domains=()),
    "other tasks": proof(1, tasks=2),
    "what is preferred is said to be met": lambda start: proof(
        4, is_met=not start.proofs[4].is_met
    )(start),
    "ranks that do not stand together": swapped,
}  # fmt: skip


@pytest.mark.parametrize("name", SEEDS)
def test_a_seeded_fault_is_caught(case: Case, name: str):
    start = SEEDS[name](case.start)
    placed = case.placed._replace(
        numbers=start.hosts, tasks=start.tasks, parts=start.parts, alone=start.alone,
        proofs=start.proofs,
    )  # fmt: skip
    assert find_relation_faults(placed)


def test_other_surroundings_are_seen(case: Case):
    alone = case.start.alone[0]
    there = case.start.hosts[case.start.parts.index(2)]
    for surroundings in (
        {"busy": [*case.placed.busy, alone]},
        {"where": {"group:alice/g": [there]}},
        {"where": {"group:alice/g": [7]}},
        {"where": {"group:alice/g": []}},
    ):
        assert find_relation_faults(case.placed._replace(**surroundings))


@pytest.mark.parametrize("name", SEEDS)
def test_the_controller_takes_no_such_start(name: str):
    """The plan of a scheduler with that fault leaves the job pending."""
    fresh = make()
    controller = fresh.controller
    state = controller.state
    wrong = SEEDS[name](fresh.start)
    plan = Plan(state.seq, state.config_version, controller.now_us, gangs=(wrong,))
    propose(controller, wrong)
    assert plan.gangs
    assert not controller.job(wrong.job).live
    propose(controller, replace(fresh.start, topology=state.config_version + 1))
    assert not controller.job(wrong.job).live
    propose(controller, fresh.start)
    assert controller.job(wrong.job).live
