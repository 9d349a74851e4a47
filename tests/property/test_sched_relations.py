"""Relations against brute force: whenever a placement exists it is found, and it is the best one.

Small clusters with levels and work on them; one request with relations of all kinds. The oracle
tries every split of all parts over hosts, and what is preferred is met in the order of weights.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relations import (
    best,
    broken,
    build,
    form_of,
    hosts,
    loads,
    look_around,
    placements,
    requests,
    shares,
)

from xce.model.reason import ReasonCode
from xce.sched.certify import find_faults, find_shortages
from xce.sched.certify_relations import Placed, find_relation_faults
from xce.sched.outside import waited_for
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.testing.builders import report_ended, report_started, submission, submit
from xce.testing.recorded import accept_plan

FEW = settings(max_examples=250, derandomize=True, deadline=None)
MANY = settings(max_examples=10_000, derandomize=True, deadline=None)


def compare(shape, load, member, wanted):
    controller = build(shape, load, member)
    around = look_around(controller)
    job = submit(controller, submission(asks=wanted))
    wanted = controller.state.key(controller.job(job)).request
    found = list(placements(controller, wanted, around))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    live = controller.job(job).live
    if not live:
        reason = controller.state.classes[controller.job(job).cls].reason
        assert reason.code is not ReasonCode.SEARCH
        assert not found or waited_for(wanted, {}), (reason, found[0][1:4])
        return
    (attempt,) = live.values()
    state, form = controller.state, form_of(controller, wanted)
    columns = attempt.hosts, attempt.tasks, attempt.parts
    assert find_faults(form, *columns, state.hosts, state.config) == []
    assert find_shortages(form, *columns, around.free) == []
    placed = Placed(
        form, *columns, attempt.alone, attempt.proofs, state.hosts, state.config,
        around.where, around.busy,
    )  # fmt: skip
    assert find_relation_faults(placed) == [], placed[1:6]
    assert broken(placed) == []
    assert shares(*columns) in [shares(*one[1:4]) for one in best(found, wanted)]


CASES = given(shape=hosts, load=loads, member=st.integers(-1, 0), wanted=requests())


@FEW
@CASES
def test_a_placement_is_found_whenever_there_is_one(shape, load, member, wanted):
    compare(shape, load, member, wanted)


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    shape=hosts,
    load=loads,
    member=st.integers(-1, 0),
    wanted=st.lists(st.one_of(requests(), requests()), min_size=2, max_size=4),
    ended=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_what_a_session_remembers_changes_no_plan(shape, load, member, wanted, ended):
    controller, memory = build(shape, load, member), Memory()
    state = controller.state
    for item, has_end in zip(wanted, ended, strict=False):
        submit(controller, submission(asks=item))
        for _ in range(2):
            plan = run_session(state, now_us=controller.now_us, memory=memory)
            assert plan == run_session(state, now_us=controller.now_us)
            before = len(controller.entries)
            accept_plan(controller, plan)
            for entry in controller.entries[before:]:
                memory.note(entry)
        live = [job.id for job in state.jobs.values() if job.live]
        if has_end and live:
            before = len(controller.entries)
            report_started(controller, live[0])
            report_ended(controller, live[0])
            for entry in controller.entries[before:]:
                memory.note(entry)


@pytest.mark.long
@pytest.mark.timeout(7_200)
@MANY
@CASES
def test_a_placement_is_found_whenever_there_is_one_in_ten_thousand_cases(
    shape, load, member, wanted
):
    compare(shape, load, member, wanted)
