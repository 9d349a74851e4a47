"""What a traced session tells. All tests with `Scheduled` check that it decides the same."""

import msgspec
import pytest
from sessions import Scheduled

from xce.model.config import HostConfig, QueueConfig
from xce.model.ids import SECOND_US
from xce.model.observation import SuspensionSeen
from xce.model.reason import ReasonCode
from xce.model.request import Amount, HostChoice
from xce.model.trace import (
    EVERYTHING,
    Candidate,
    Outcome,
    Sifted,
    Source,
    Step,
    Table,
    TraceKind,
    TraceRule,
)
from xce.sched import traced
from xce.sched.counts import Counts
from xce.sched.session import Session, run_session
from xce.sched.traced import Trace
from xce.testing.builders import (
    BOB,
    cluster,
    leave_host,
    report,
    report_ended,
    report_started,
    request,
    submission,
    submit,
)

EASY = QueueConfig(name="normal", priority=30, default=True, backfill="easy")


class Told:
    """The tables of a traced session."""

    def __init__(self, session):
        self.session = session
        self.steps = list(Table(Step, session.steps).rows())
        self.sifted = list(Table(Sifted, session.sifted).rows())
        self.candidates = list(Table(Candidate, session.candidates).rows())

    def of(self, job, outcome=None):
        return [s for s in self.steps if s.job == job and outcome in (None, s.outcome)]

    def hosts(self, job):
        """Return which hosts were listed for the first step of a job, with what they get."""
        place = next(place for place, step in enumerate(self.steps) if step.job == job)
        return {c.host: c.gets for c in self.candidates if c.step == place}

    def filters(self, job):
        place = next(place for place, step in enumerate(self.steps) if step.job == job)
        return {s.code: s.hosts for s in self.sifted if s.step == place}


def told(world, *rules, memory=None):
    """Run a session with a trace and without having its plan taken."""
    trace = Trace(rules or [EVERYTHING])
    state = world.controller.state
    run_session(state, now_us=world.controller.now_us, memory=memory, trace=trace)
    return None if trace.session is None else Told(trace.session)


def rule(kind, **about):
    return TraceRule(1, kind, 1 << 60, "root", **about)


def test_a_start_is_told_with_hosts_in_order_their_scores_and_what_they_get():
    world = Scheduled(cluster({"h1": 2, "h2": 8, "h3": 1}))
    job = submit(world.controller, submission(tasks=9, asks=request(9)))
    found = told(world)
    (step,) = found.of(job)
    assert (step.order, step.outcome, step.elements, step.tasks) == (1, Outcome.STARTS, 1, 9)
    assert (step.user, step.queue, step.rule) == ("alice", "normal", "")
    rows = [(c.place, c.host, c.scores, c.fits, c.gets) for c in found.candidates]
    assert rows == [
        (1, "h2", (8000,), 8, 8), (2, "h1", (2000,), 2, 1), (3, "h3", (1000,), 1, 0),
    ]  # fmt: skip
    (left,) = found.sifted
    assert (left.code, left.hosts, left.keys) == ("left", 3, ("-slots",))


def test_filters_are_told_with_how_many_hosts_each_took_out():
    world = Scheduled(cluster({"h1": 2, "h2": 8, "h3": 1, "h4": 4}))
    leave_host(world.controller, "h4")
    job = submit(world.controller, submission(tasks=2, asks=request(2, one_host=True)))
    found = told(world)
    assert found.filters(job) == {"too-small": 1, "unreachable": 1, "left": 2}
    assert found.hosts(job) == {"h2": 2, "h1": 0}


def test_preferences_come_before_slots_in_the_scores():
    world = Scheduled(cluster({"h1": 2, "h2": 8}))
    asks = msgspec.structs.replace(
        request(1), hosts=(HostChoice("h1", 2), HostChoice("h2", 1)), other_hosts=False
    )
    submit(world.controller, submission(asks=asks))
    found = told(world)
    assert found.sifted[-1].keys == ("-preference", "-slots")
    assert [(c.host, c.scores) for c in found.candidates] == [
        ("h1", (2000, 2000)), ("h2", (1000, 8000)),
    ]  # fmt: skip


def test_how_a_wait_is_known_is_told():
    world = Scheduled(cluster({"h1": 2}))
    running = submit(world.controller, submission(tasks=2, asks=request(2)))
    world.run()
    first = submit(world.controller, submission(tasks=2, asks=request(2), priority=2))
    second = submit(world.controller, submission(tasks=2, asks=request(2), priority=1))
    found = told(world)
    (one,), (two,) = found.of(first), found.of(second)
    assert (one.outcome, one.source, one.proved_by) == (Outcome.WAITS, Source.TRIED, 0)
    assert one.reason.code is ReasonCode.HOSTS
    assert (two.source, two.proved_by) == (Source.SAME_REQUEST, first)
    world.run()
    world.hear()
    asleep = told(world, memory=world.memory)
    assert asleep.of(first)[0].source is Source.ASLEEP
    assert found.filters(first) == asleep.filters(first) == {"slots-busy": 1, "left": 0}
    assert not found.of(running)


def test_what_fits_nowhere_and_what_lacks_a_pool_is_not_tried():
    world = Scheduled(cluster({"h1": 2}, pools={"lic": 3}))
    asks = [request(1, amounts=[Amount("lic", number, "job")]) for number in (2, 2, 3)]
    for number in (0, 1, 2):
        submit(world.controller, submission(asks=asks[number], priority=9 - number))
    big = submit(world.controller, submission(tasks=9, asks=request(9)))
    found = told(world)
    assert found.of(1)[0].outcome is Outcome.STARTS
    assert [found.of(job)[0].source for job in (2, 3)] == [Source.POOL] * 2
    assert found.of(big)[0].source is Source.STANDING
    assert found.of(big)[0].reason.unsatisfiable


def test_reservations_backfill_and_who_would_be_delayed_are_told():
    world = Scheduled(cluster({"h1": 4}, queues=[EASY]))
    submit(world.controller, submission(tasks=3, asks=request(3), run_limit_us=100 * SECOND_US))
    world.run()
    big = submit(world.controller, submission(tasks=4, asks=request(4), run_limit_us=SECOND_US))
    short = submit(world.controller, submission(run_limit_us=50 * SECOND_US))
    long = submit(world.controller, submission(run_limit_us=900 * SECOND_US))
    longer = submit(world.controller, submission(run_limit_us=901 * SECOND_US))
    found = told(world)
    (reserved,) = found.of(big, Outcome.RESERVES)
    assert reserved.tasks == 4
    assert reserved.at_us > world.controller.now_us + 90 * SECOND_US
    (filled,) = found.of(short)
    assert (filled.outcome, filled.rule) == (Outcome.STARTS, "backfill")
    assert found.of(long)[0].outcome is Outcome.WAITS
    assert found.of(longer)[0].source is Source.SAME_REQUEST


def test_who_gives_way_is_told():
    queues = [
        QueueConfig(name="low", priority=10, default=True),
        QueueConfig(name="high", priority=90, preempt=("low",)),
    ]
    world = Scheduled(cluster({"h1": 2}, queues=queues))
    victim = submit(world.controller, submission(tasks=2, asks=request(2)))
    world.run()
    report_started(world.controller, victim)
    job = submit(world.controller, submission(queue="high"))
    (step,) = told(world).of(job, Outcome.PREEMPTS)
    assert step.victims == ((victim, 0, "suspend"),)
    world.run()
    found = told(world)
    assert found.of(job)[0].source is Source.HELD


def test_a_named_job_is_told_though_nothing_of_it_may_start():
    world = Scheduled(cluster({"h1": 2}))
    held = submit(world.controller, submission(hold=True))
    found = told(world, rule(TraceKind.JOB, job=held))
    (step,) = found.steps
    assert (step.order, step.outcome) == (0, Outcome.LEFT_OUT)
    assert step.reason.code is ReasonCode.HELD
    assert step.traced == (held,)
    assert told(world, rule(TraceKind.USER, name="alice")) is None


def test_an_array_limit_is_told():
    world = Scheduled(cluster({"h1": 8}))
    job = submit(world.controller, submission(elements="1-9", limit=3))
    (step,) = told(world).of(job)
    assert (step.array_limit, step.may_start, step.elements, step.waiting) == (3, 3, 3, 9)
    assert step.starts == ((job, 1, 3),)
    world.run()
    (step,) = told(world, rule(TraceKind.JOB, job=job)).steps
    assert (step.outcome, step.reason.code) == (Outcome.LEFT_OUT, ReasonCode.ARRAY_LIMIT)


@pytest.mark.parametrize(
    ("kind", "about", "wanted"),
    [
        (TraceKind.JOB, {"job": 1}, {1}),
        (TraceKind.JOB, {"job": 99}, None),
        (TraceKind.USER, {"name": "bob"}, {2}),
        (TraceKind.QUEUE, {"name": "other"}, {3}),
        (TraceKind.QUEUE, {"name": "nothing-here"}, None),
        (TraceKind.SESSION, {"sessions": 1}, {1, 2, 3}),
    ],
)
def test_only_what_rules_ask_for_is_told(kind, about, wanted):
    queues = [QueueConfig(name="normal", default=True), QueueConfig(name="other")]
    world = Scheduled(cluster({"h1": 8}, queues=queues))
    submit(world.controller)
    submit(world.controller, owner=BOB)
    submit(world.controller, submission(queue="other"))
    found = told(world, rule(kind, **about))
    assert (None if found is None else {step.job for step in found.steps}) == wanted


def test_a_job_behind_others_of_its_class_is_in_what_the_class_tells():
    world = Scheduled(cluster({"h1": 1}))
    ids = [submit(world.controller) for _ in range(5)]
    found = told(world, rule(TraceKind.JOB, job=ids[3]))
    assert [step.outcome for step in found.steps] == [Outcome.STARTS, Outcome.WAITS]
    assert found.steps[0].jobs == ((ids[0], ids[-1]),)


def test_without_a_trace_a_session_does_no_more_work_and_is_no_other():
    world = Scheduled(cluster({"h1": 1, "h2": 1}))
    for number in range(1, 4):
        submit(world.controller, submission(tasks=number, asks=request(number)))
    state, now_us = world.controller.state, world.controller.now_us
    plain, off, on = Counts(), Counts(), Counts()
    run_session(state, now_us=now_us, counts=plain)
    run_session(state, now_us=now_us, counts=off, trace=Trace([rule(TraceKind.JOB, job=99)]))
    run_session(state, now_us=now_us, counts=on, trace=Trace([EVERYTHING]))
    assert plain == off == on, "the work of deciding is the same"
    assert Session.__subclasses__() == [traced._TracedSession]


def test_what_one_session_tells_is_bounded(monkeypatch):
    monkeypatch.setattr(traced, "STEPS_MAX", 5)
    world = Scheduled(cluster([HostConfig(name=f"h{n}", slots=4, mem_mib=10) for n in range(100)]))
    for number in range(1, 8):
        submit(world.controller, submission(elements="1-10", mem_mib=number))
    wide = submit(world.controller, submission(tasks=100, asks=request(100, ptile=1), priority=9))
    found = told(world)
    assert len(found.steps) == 5
    assert found.session.left_out == 3
    assert found.steps[0].job == wide
    assert len(found.hosts(wide)) == 64
    assert len(found.hosts(2)) <= 26


def test_a_class_of_many_jobs_is_told_in_runs():
    world = Scheduled(cluster({"h1": 1}))
    gaps = []
    for number in range(300):
        owner = BOB if number % 3 else None
        gaps.append(submit(world.controller, **({"owner": owner} if owner else {})))
    step = next(step for step in told(world).steps if step.user == "alice")
    assert len(step.jobs) == 64
    assert step.jobs[:2] == ((1, 1), (4, 4))


def test_one_that_is_back_tells_the_attempt_that_goes_on():
    queues = [
        QueueConfig(name="low", priority=10, default=True),
        QueueConfig(name="high", priority=90, preempt=("low",)),
    ]
    world = Scheduled(cluster({"h1": 1}, queues=queues))
    victim = submit(world.controller)
    world.run()
    report_started(world.controller, victim)
    job = submit(world.controller, submission(queue="high"))
    world.run()
    report(world.controller, "h1", SuspensionSeen(victim, 0, 1, suspended=True))
    world.run()
    report_started(world.controller, job)
    report_ended(world.controller, job)
    (step,) = told(world).steps
    assert (step.outcome, step.job) == (Outcome.RESUMES, victim)
