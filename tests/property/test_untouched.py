"""The short way to withdraw jobs that only ever pended leaves what the general way leaves."""

from collections import deque
from unittest.mock import patch

import msgspec
import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from xce.control import kill as kill_module
from xce.control.controller import Input
from xce.model.command import KillJobs, MoveJobs, Selection, Tick
from xce.model.ids import SECOND_US
from xce.model.job import EndCause
from xce.model.plan import Reservation
from xce.model.record import ReservationsChanged, RoomHeld, Withdrawn
from xce.state import apply as apply_module
from xce.state.check import check_state
from xce.state.index import each_run
from xce.testing.builders import (
    ALICE,
    BOB,
    chosen,
    cluster,
    place,
    report_ended,
    report_started,
    submission,
    submit,
    tick,
)

KINDS = (
    "plain", "plain", "wide", "dear", "array", "one", "held", "later", "after", "moved", "failed",
    "running", "reserved", "room",
)  # fmt: skip
FOUR = [("plain", ALICE)] * 4
jobs = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from((ALICE, ALICE, BOB))), min_size=1, max_size=9
)
rounds = st.lists(
    st.tuples(
        jobs,
        st.lists(st.integers(0, 8), min_size=1, max_size=9, unique=True),
        st.sampled_from(("record", "kill", "kill all")),
        st.sampled_from((-100, 0, 0)),
    ),
    min_size=1,
    max_size=3,
)


class Pair:
    """Two controllers that are told the same; the second never takes the short way."""

    def __init__(self):
        self.short, self.general = cluster({"h1": 60}), cluster({"h1": 60})

    def tell(self, act, *given, **more):
        """Do the same to both; whatever comes of it is the same."""
        told = act(self.short, *given, **more)
        with patch.object(apply_module, "end_untouched", all_touched):
            assert act(self.general, *given, **more) == told
        return told

    def write(self, record):
        """Have a record written that nobody asked for."""
        self.tell(write, record)

    def compare(self):
        assert self.short.entries == self.general.entries
        assert picture(self.short.state) == picture(self.general.state)
        check_state(self.short.state)


def all_touched(state, record, _):
    return each_run(state, record)


def write(controller, record):
    controller.now_us += 1
    controller._take(Input(Tick(0)), [record], controller.now_us)
    controller.step([], controller.now_us)


def picture(value, depth=0):
    """Return everything that a value holds as plain values that can be compared."""
    assert depth < 12, "it goes in a circle"
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return [(picture(k, depth + 1), picture(v, depth + 1)) for k, v in value.items()]
    if isinstance(value, list | tuple | deque):
        return [picture(item, depth + 1) for item in value]
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        return [type(value).__name__, *(picture(getattr(value, n), depth + 1) for n in names)]
    if type(value).__module__.startswith("xce.state"):
        names = getattr(value, "__slots__", None) or sorted(vars(value))
        return [type(value).__name__, *((n, picture(getattr(value, n), depth + 1)) for n in names)]
    return value if isinstance(value, int | str | bytes | float | None) else repr(value)


def add(pair, kind, owner, earlier):
    """Submit a job and do to it what its kind says; return its id."""
    controller = pair.short
    given = {
        "wide": submission(tasks=2),
        "dear": submission(mem_mib=100),
        "array": submission(elements="1-3"),
        "one": submission(elements="1-1"),
        "held": submission(hold=True),
        "later": submission(begin_at_us=controller.now_us + 500 * SECOND_US),
        "after": submission(after=f"done({earlier})" if earlier else ""),
    }.get(kind, submission())
    job = pair.tell(submit, given, owner=owner)
    match kind:
        case "moved":
            command = MoveJobs("root", True, chosen(job), to_top=True)
            pair.tell(lambda c: c.tell(command, by="root"))
        case "failed":
            pair.tell(place, job)
            pair.tell(report_ended, job, host_fault=True)
        case "running":
            pair.tell(place, job)
            pair.tell(report_started, job)
        case "reserved":
            cls = controller.job(job).cls
            kept = Reservation(cls, job, 0, controller.now_us, [0], [1])
            pair.write(ReservationsChanged([kept], [], []))
        case "room":
            cls = controller.job(job).cls
            pair.write(RoomHeld(cls, job, 0, [0], [1], [], 0, []))
    return job


def withdraw(pair, jobs, how, back_us):
    """End those of the jobs that may be withdrawn, in the order given, or all of everybody."""
    controller = pair.short
    if how == "kill all":
        jobs = None
        command = KillJobs("alice", True, Selection(all=True))
    else:
        command = KillJobs("alice", True, chosen(*jobs))
    if how != "record":
        pair.tell(lambda c: c.tell(command, by="alice"))
        return
    ends = [job for job in jobs if controller.job(job).pending or controller.job(job).held]
    runs = [
        (job, controller.job(job).index(first), controller.job(job).index(last))
        for job in ends
        for ranges in [(*controller.job(job).pending, *controller.job(job).held)]
        for first, last in sorted(ranges)
    ]
    if runs:
        columns = [list(column) for column in zip(*runs, strict=True)]
        at_us = controller.now_us + back_us * SECOND_US
        pair.write(Withdrawn(*columns, EndCause.OWNER, "alice", at_us))


@given(rounds)
@example([([*FOUR, ("array", ALICE), ("plain", BOB)], [3, 1, 4, 0, 5], "record", 0)])
@example([([*FOUR, ("reserved", ALICE), ("failed", ALICE)], [0, 4, 5], "record", -100)])
@example([([*FOUR, ("array", ALICE)], [2, 4, 0], "record", -100)])
@example([([*FOUR, ("room", BOB), ("after", ALICE)], [5, 4, 0], "record", 0)])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_short_way_leaves_the_state_as_the_general_way_does(story):
    pair = Pair()
    made = []
    with patch.object(kill_module, "SLICE", 3):
        for given_jobs, ends, how, back_us in story:
            for kind, owner in given_jobs:
                made.append(add(pair, kind, owner, made[-1] if made else 0))
            there = [job for job in made if job in pair.short.state.jobs]
            withdraw(pair, [there[n] for n in ends if n < len(there)] or there, how, back_us)
            pair.compare()
    pair.tell(tick, after_us=600 * SECOND_US)
    pair.compare()


def test_an_element_that_is_not_there_is_not_ended():
    pair = Pair()
    job = pair.tell(submit, submission(elements="1-1"))
    pair.write(Withdrawn([job], [7], [7], EndCause.OWNER, "alice", pair.short.now_us))
    pair.compare()
    assert not pair.short.job(job).is_finished
