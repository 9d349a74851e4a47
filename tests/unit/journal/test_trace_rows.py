"""Which steps an answer has, and what is in them."""

import pytest
from sessions import Scheduled

from xce.journal.trace_recorder import RuleCounter, WholeRecorder
from xce.journal.trace_rows import Wanted, find_traces, session_row
from xce.journal.trace_store import TraceWriter
from xce.model.config import QueueConfig
from xce.model.trace import TraceKind, TraceRule
from xce.sched.session import run_session
from xce.testing.builders import BOB, cluster, request, submission, submit


@pytest.fixture
def directory(tmp_path):
    """Two traced sessions: three jobs and a class of two, of which only one fits."""
    queues = [QueueConfig(name="normal", default=True), QueueConfig(name="other")]
    world, writer = Scheduled(cluster({"h1": 3}, queues=queues)), TraceWriter(tmp_path)
    submit(world.controller)
    submit(world.controller, owner=BOB)
    submit(world.controller, submission(queue="other"))
    for _ in range(2):
        submit(world.controller, submission(tasks=2, asks=request(2)))
    for _ in range(2):
        world.run()
        writer.write(world.trace.session)
    return tmp_path


def jobs(directory, limit=10, **wanted):
    found = find_traces(directory, Wanted(**wanted), limit)
    assert found.damaged == []
    return [(row.session, [step.job for step in row.steps]) for row in found.sessions]


def test_sessions_are_given_the_oldest_first_up_to_a_limit(directory):
    assert [number for number, _ in jobs(directory)] == [1, 2]
    assert jobs(directory, limit=1) == [jobs(directory)[1]]
    assert find_traces(directory, Wanted(), 1).is_cut
    assert not find_traces(directory, Wanted(), 2).is_cut


def test_filters_choose_steps_and_leave_out_sessions_without_one(directory):
    assert jobs(directory, user="bob") == [(1, [2])]
    assert jobs(directory, queue="other") == [(1, [3])]
    assert jobs(directory, job=1) == [(1, [1])]
    assert jobs(directory, job=5) == [(1, [4]), (2, [4])], "it stands behind one of its class"
    assert jobs(directory, job=99) == []
    assert jobs(directory, job=99, cls=2) == [(1, [2])]
    assert [number for number, _ in jobs(directory, session=2)] == [2]
    assert jobs(directory, session=9) == []


def test_a_viewer_sees_what_is_his(directory):
    assert jobs(directory, viewer="bob") == [(1, [2])]
    assert jobs(directory, viewer="bob", user="alice") == []


def test_tables_that_hold_something_else_are_named(directory):
    whole = find_traces(directory, Wanted(), 10).sessions
    world = Scheduled(cluster({"h1": 1}))
    submit(world.controller)
    world.run()
    session = world.trace.session
    session.steps[0] = ["not a number"]
    with pytest.raises(Exception, match="Expected"):
        session_row(session, Wanted())
    TraceWriter(directory).write(session)
    found = find_traces(directory, Wanted(), 10)
    assert found.sessions == whole
    assert found.damaged == [f"{directory}: session 3 cannot be read"]


def test_a_recorder_traces_every_session_or_one(tmp_path):
    world = Scheduled(cluster({"h1": 1}))
    for only, wanted in ((0, [1, 2, 3]), (2, [2])):
        recorder = WholeRecorder(TraceWriter(tmp_path / str(only), first=only or 1), only=only)
        for _ in range(3):
            trace = recorder.open()
            if trace is not None:
                run_session(world.controller.state, now_us=1, trace=trace)
                recorder.keep(trace)
        found = find_traces(tmp_path / str(only), Wanted(), 10)
        assert [row.session for row in found.sessions] == wanted


def test_rules_for_some_sessions_are_over_with_them():
    counter, rule = RuleCounter(), TraceRule(1, TraceKind.SESSION, 100, "root", sessions=2)
    job = TraceRule(2, TraceKind.JOB, 50, "root", job=1)
    assert counter.due([rule, job], 10) == [rule, job]
    assert counter.note([rule, job]) == ()
    assert counter.due([rule, job], 60) == [rule]
    assert counter.note([rule]) == (1,)
    assert counter.due([rule], 70) == []
