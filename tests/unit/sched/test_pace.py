"""Plans that are refused again and again are made ever more seldom."""

from types import SimpleNamespace

from xce.model.command import ProposePlan
from xce.model.reason import Reason, ReasonCode
from xce.model.record import BulkPlaced, ReasonsChanged, SessionRan
from xce.sched.pace import AT_ONCE, LONGEST_US, Pace
from xce.sched.session import run_session
from xce.testing.builders import cluster, submit
from xce.testing.recorded import accept_plan

REASONS = ReasonsChanged([1], [Reason(ReasonCode.NEW)])
PLACED = BulkPlaced(1, [1], [0], [0], [0], [1], 5)


def hear(pace, stale, *more):
    pace.note(SimpleNamespace(records=(*more, SessionRan(1, 2, "d", stale))))


def test_a_few_are_chance_and_the_next_plan_is_made_at_once():
    pace = Pace()
    for _ in range(AT_ONCE - 1):
        hear(pace, 3, REASONS)
        assert pace.wait_us == 0


def test_many_in_a_row_wait_ever_longer_up_to_a_bound():
    pace = Pace()
    waits = []
    for _ in range(40):
        hear(pace, 1)
        waits.append(pace.wait_us)
    rising = waits[AT_ONCE - 1 :]
    assert rising[0] > 0
    assert rising == sorted(rising)
    assert rising[-1] == LONGEST_US


def test_a_plan_of_which_something_holds_begins_anew():
    for stale, more in ((1, (PLACED,)), (0, ())):
        pace = Pace()
        for _ in range(AT_ONCE):
            hear(pace, 1)
        assert pace.wait_us > 0
        hear(pace, stale, *more)
        assert (pace.refused, pace.wait_us) == (0, 0)


def test_entries_of_others_change_nothing():
    pace = Pace()
    for _ in range(AT_ONCE):
        hear(pace, 1)
        pace.note(SimpleNamespace(records=(PLACED,)))
    assert pace.refused == AT_ONCE


def test_a_plan_made_on_an_old_state_counts_as_refused():
    controller = cluster({"h1": 4})
    submit(controller)
    plan = run_session(controller.state, now_us=controller.now_us)
    accept_plan(controller, plan)
    pace = Pace()
    before = len(controller.entries)
    controller.tell(ProposePlan(plan), by="scheduler")
    for entry in controller.entries[before:]:
        pace.note(entry)
    assert pace.refused == 1
