"""What the scheduler traces: by the rules of the state, while they last, and never in its way."""

import logging

import pytest

from xce.daemon.tracing import Tracing
from xce.journal.trace_store import read_traces
from xce.model.command import StartTrace
from xce.model.ids import MINUTE_US
from xce.model.trace import TraceKind
from xce.sched.session import run_session
from xce.testing.builders import cluster, submit

LOG = logging.getLogger("test-tracing")


@pytest.fixture
def controller():
    return cluster({"h1": 1})


def start(controller, kind, **about):
    controller.tell(StartTrace("root", True, kind, MINUTE_US, **about), by="root")


def session(controller, tracing, *, later_us=0):
    """Run a session; return the rules that are over with it, or None: it was not traced."""
    now_us = controller.now_us + later_us
    trace = tracing.open(controller.state, now_us)
    run_session(controller.state, now_us=now_us, trace=trace)
    return None if trace is None else tracing.keep(trace)


def kept(directory):
    return [item.number for item in read_traces(directory, [])]


def test_without_a_rule_nothing_is_traced_and_no_directory_made(controller, tmp_path):
    submit(controller)
    assert session(controller, Tracing(tmp_path / "t", LOG)) is None
    assert not (tmp_path / "t").exists()


def test_a_rule_is_followed_until_it_runs_out(controller, tmp_path):
    start(controller, TraceKind.JOB, job=submit(controller))
    tracing = Tracing(tmp_path, LOG)
    assert session(controller, tracing) == ()
    assert session(controller, tracing, later_us=MINUTE_US) is None
    assert kept(tmp_path) == [1]


def test_a_rule_for_some_sessions_is_over_with_them(controller, tmp_path):
    start(controller, TraceKind.SESSION, sessions=2)
    tracing = Tracing(tmp_path, LOG)
    assert [session(controller, tracing) for _ in range(3)] == [(), (1,), None]
    assert kept(tmp_path) == [2, 1]


def test_a_session_of_which_nothing_was_asked_leaves_nothing(controller, tmp_path):
    submit(controller)
    start(controller, TraceKind.USER, name="nobody-here")
    assert session(controller, Tracing(tmp_path, LOG)) == ()
    assert kept(tmp_path) == []


def test_what_cannot_be_written_is_told_once_and_stops_no_session(controller, tmp_path, caplog):
    submit(controller)
    start(controller, TraceKind.QUEUE, name="normal")
    (tmp_path / "file").touch()
    tracing = Tracing(tmp_path / "file", LOG)
    for _ in range(3):
        assert session(controller, tracing) == ()
    assert [record.message for record in caplog.records] == ["trace-not-written"]
