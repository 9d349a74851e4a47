"""Rules of what is traced: who may make and end them, and when they end by themselves."""

import pytest

from xce.control.trace import OWN_RULES_MAX
from xce.model.command import Accepted, KillJobs, StartTrace, StopTrace
from xce.model.ids import MINUTE_US, SECOND_US
from xce.model.reason import Wake
from xce.model.refusal import RefusalCode
from xce.model.trace import RULES_MAX, SPAN_US_MAX, TraceKind
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import BOB, chosen, cluster, submit, tick

JOB, USER, QUEUE, SESSION = TraceKind.JOB, TraceKind.USER, TraceKind.QUEUE, TraceKind.SESSION


@pytest.fixture
def controller():
    return cluster({"h1": 1})


def tell(controller, command):
    results = controller.tell(command, by=command.by)
    check_state(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)
    return results


def start(controller, kind=JOB, *, by="alice", is_admin=False, for_us=MINUTE_US, **wanted):
    (result,) = tell(controller, StartTrace(by, is_admin, kind, for_us, **wanted))
    return result


def test_an_owner_traces_his_job_and_ends_it(controller):
    job = submit(controller)
    result = start(controller, job=job)
    assert (result.text, result.number, result.job) == ("traced", 1, job)
    assert result.at_us == controller.state.traces[1].until_us == controller.now_us + MINUTE_US
    (result,) = tell(controller, StopTrace("alice", False, (1,)))
    assert result == Accepted(job, text="not-traced", number=1)
    assert controller.state.traces == {}
    assert start(controller, job=job).number == 2, "a number is never used again"


def test_a_new_rule_has_a_session_run(controller):
    start(controller, job=submit(controller))
    (record,) = controller.entries[-1].records
    assert Wake.PENDING in record.wakes


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"job": 9}, RefusalCode.UNKNOWN_JOB),
        ({"job": 1, "by": "bob"}, RefusalCode.NOT_YOURS),
        ({"job": 2, "by": "bob"}, RefusalCode.ALREADY_FINISHED),
        ({"job": 1, "for_us": 0}, RefusalCode.BAD_REQUEST),
        ({"job": 1, "for_us": SPAN_US_MAX + 1}, RefusalCode.BAD_REQUEST),
        ({"kind": USER, "name": "alice"}, RefusalCode.DENIED),
        ({"kind": QUEUE, "name": "normal"}, RefusalCode.DENIED),
        ({"kind": SESSION, "sessions": 1}, RefusalCode.DENIED),
        ({"kind": USER, "is_admin": True}, RefusalCode.BAD_REQUEST),
        ({"kind": QUEUE, "name": "no", "is_admin": True}, RefusalCode.UNKNOWN_QUEUE),
        ({"kind": SESSION, "is_admin": True}, RefusalCode.BAD_REQUEST),
        ({"kind": SESSION, "sessions": 10_001, "is_admin": True}, RefusalCode.BAD_REQUEST),
    ],
)
def test_what_cannot_be_traced_is_refused(controller, wanted, code):
    submit(controller)
    submit(controller, owner=BOB)
    controller.tell(KillJobs("bob", False, chosen(2)), by="bob")
    assert start(controller, **wanted).code is code
    assert controller.state.traces == {}


def test_an_administrator_traces_anything(controller):
    submit(controller)
    wanted = ({"job": 1}, {"kind": USER, "name": "zoe"}, {"kind": QUEUE, "name": "normal"},
              {"kind": SESSION, "sessions": 3})  # fmt: skip
    for number, each in enumerate(wanted, 1):
        assert start(controller, by="root", is_admin=True, **each).number == number


def test_the_same_again_is_one_rule(controller):
    job = submit(controller)
    start(controller, job=job)
    start(controller, job=job, for_us=2 * MINUTE_US)
    start(controller, job=job, by="root", is_admin=True)
    assert list(controller.state.traces) == [2, 3]


def test_rules_are_bounded_for_a_user_and_for_all(controller):
    ids = [submit(controller) for _ in range(RULES_MAX + 1)]
    for job in ids[:OWN_RULES_MAX]:
        assert isinstance(start(controller, job=job), Accepted)
    assert start(controller, job=ids[OWN_RULES_MAX]).code is RefusalCode.WRONG_STATE
    assert isinstance(start(controller, job=ids[0]), Accepted), "the same again is no more"
    for job in ids[OWN_RULES_MAX:RULES_MAX]:
        start(controller, job=job, by="root", is_admin=True)
    full = start(controller, job=ids[RULES_MAX], by="root", is_admin=True)
    assert full.code is RefusalCode.WRONG_STATE


def test_a_user_ends_only_his_own_rules(controller):
    mine = submit(controller)
    start(controller, job=mine)
    start(controller, kind=QUEUE, name="normal", by="root", is_admin=True)
    (result,) = tell(controller, StopTrace("alice", False, (2,)))
    assert result.code is RefusalCode.DENIED
    (result,) = tell(controller, StopTrace("alice", False, (7,)))
    assert result.code is RefusalCode.UNKNOWN_RULE
    (result,) = tell(controller, StopTrace("alice", False))
    assert result.number == 1
    assert tell(controller, StopTrace("alice", False)) == ()
    (result,) = tell(controller, StopTrace("root", True))
    assert result.number == 2


def test_a_rule_runs_out(controller):
    start(controller, job=submit(controller), for_us=10 * SECOND_US)
    tick(controller, after_us=9 * SECOND_US)
    assert controller.state.traces
    tick(controller, after_us=2 * SECOND_US)
    assert controller.state.traces == {}
