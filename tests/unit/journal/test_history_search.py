"""Courses, usage and sums of the history store; a store of an earlier release."""

import sqlite3

import pytest
from history_places import only_files, read_rows
from msgspec.structs import replace

from xce.control.controller import Input
from xce.journal.course import tell_courses
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.history_schema import Happening
from xce.journal.history_search import FOREVER, START, Search
from xce.model.checkpoint import Checkpoints, request_number
from xce.model.command import RequeueJobs, ResumeJobs, Selection, SignalJobs, StopJobs, Tick
from xce.model.host_record import CheckpointsSeen
from xce.model.job import EndCause, Outcome
from xce.model.observation import AttemptSeen, HostDisconnected, Reported
from xce.model.record import LaunchFailed, Requeued, SuspensionDone
from xce.state.snapshot import dump, load
from xce.testing.builders import (
    chosen,
    cluster,
    gang,
    join_host,
    kill,
    leave_host,
    place,
    propose,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
    tick,
)

EVERYTHING = ((0, 1 << 62),)


def keep(store, entries):
    writer = HistoryWriter(store)
    fresh = [entry for entry in entries if entry.seq > writer.seq]
    writer.take(fresh, crc=7, epoch=3)
    writer.commit()
    writer.close()


@pytest.fixture
def read(store):
    reader = HistoryReader(store)
    yield reader
    reader.close()


def write(controller, record):
    controller._take(Input(Tick()), [record], controller.now_us + 1_000)
    controller.step([], controller.now_us + 1_000)


def courses(read, job, now_us, runs=EVERYTHING):
    return list(tell_courses(read.course(job, runs), runs, now_us))


def test_an_attempt_that_lasts_is_known_to_a_writer_that_begins_later(store, read):
    controller = cluster({"h1": 2})
    job = submit(controller, submission())
    place(controller, job)
    keep(store, controller.entries)
    placed_at_us = controller.state.attempt(job, 0).placed_at_us
    report_started(controller, job)
    keep(store, controller.entries)
    (course,) = courses(read, job, controller.now_us)
    assert course.stat == "RUN"
    assert course.last.is_live
    assert course.last.hosts == (("h1", 1),)
    report_ended(controller, job)
    keep(store, controller.entries)
    (course,) = courses(read, job, controller.now_us)
    assert (course.stat, course.last.placed_at_us) == ("DONE", placed_at_us)
    assert read_rows(store, "SELECT count(*) FROM live") == [(0,)]


def test_each_attempt_has_one_row_also_of_a_job_that_was_requeued(store, read):
    controller = cluster({"h1": 2})
    job = submit(controller, submission())
    for _ in range(2):
        place(controller, job)
        report_started(controller, job)
        write(controller, Requeued([job], [0]))
    place(controller, job)
    write(controller, LaunchFailed([job], [0], [0], "no space"))
    place(controller, job)
    report_started(controller, job)
    report_ended(controller, job, exit_code=4)
    half = len(controller.entries) // 2
    keep(store, controller.entries[:half])
    keep(store, controller.entries)
    past = read.course(job)
    assert [(a.ended.attempt, a.ended.outcome) for a in past.attempts] == [
        (1, Outcome.NONE),
        (2, Outcome.NONE),
        (3, Outcome.NONE),
        (4, Outcome.EXIT),
    ]
    assert [attempt.is_measured for attempt in past.attempts] == [False] * 3 + [True]
    kinds = [Happening.REQUEUED, Happening.REQUEUED, Happening.START_FAILED]
    assert [event.kind for event in past.events] == kinds
    (course,) = courses(read, job, controller.now_us)
    assert [step.what for step in course.steps].count("requeued") == 2
    assert course.stat == "EXIT"
    sums = read.search().sums(Search())
    assert (sums.done, sums.exited) == (0, 3)
    rows = read.search().usage(Search(), START, 9)
    assert [row.attempt for row in rows] == [1, 2, 4]
    rows = read.search().usage(Search(never_ran=True), START, 9)
    assert [row.attempt for row in rows] == [1, 2, 3, 4]


def test_what_a_requeued_attempt_used_is_kept_and_counted(store, read):
    controller = cluster({"h1": 2})
    given = submission()
    job = submit(controller, replace(given, spec=replace(given.spec, requeue_codes=(7,))))
    run_job(controller, job, exit_code=7)
    ended_at_us = controller.now_us - 5
    run_job(controller, job)
    keep(store, controller.entries)
    first, last = (attempt.ended for attempt in read.course(job).attempts)
    assert (first.outcome, first.exit_code, first.cause) == (
        Outcome.NONE, 7, EndCause.REQUEUE_EXIT,
    )  # fmt: skip
    assert (first.cpu_us, first.max_mem_kib) == (last.cpu_us, last.max_mem_kib) == (3_000, 1_024)
    assert (first.ended_at_us, first.attempt) == (ended_at_us, 1)
    (course,) = courses(read, job, controller.now_us)
    words = [step.what for step in course.steps]
    assert words[2:5] == ["started", "over", "requeued"]
    assert course.steps[3].ended == first
    search = read.search()
    for outcomes, done, exited in (
        (tuple(Outcome), 1, 1),
        ((Outcome.EXIT, Outcome.NONE), 0, 1),
        ((Outcome.DONE,), 1, 0),
    ):
        sums = search.sums(Search(outcomes=outcomes))
        assert (sums.done, sums.exited, sums.ran) == (done, exited, done + exited)
        assert round(sums.cpu_s * 1_000) == 3 * (done + exited)


def test_a_suspension_is_counted_as_whose_it_is(store, read):
    controller = cluster({"h1": 2})
    job = submit(controller, submission())
    place(controller, job)
    report_started(controller, job)
    whole = Selection(jobs=((job, ()),))
    controller.tell(StopJobs("alice", False, whole), by="alice")
    write(controller, SuspensionDone([job], [0], True))
    controller.now_us += 7_000_000
    controller.tell(ResumeJobs("alice", False, whole), by="alice")
    write(controller, SuspensionDone([job], [0], False))
    keep(store, controller.entries)
    (course,) = courses(read, job, controller.now_us)
    assert course.stat == "RUN"
    assert course.spans_us["ususp"] >= 7_000_000
    assert course.spans_us["ssusp"] == 0
    words = [step.what for step in course.steps]
    assert words[-4:] == ["stop-asked", "suspended", "resume-asked", "resumed"]


def test_checkpoints_are_told_with_who_asked_and_what_became_of_them(store, read):
    controller = cluster({"h1": 2})
    given = submission()
    spec = replace(given.spec, checkpoints=Checkpoints("/ck"))
    job = submit(controller, replace(given, spec=spec))
    place(controller, job)
    report_started(controller, job)
    ask = request_number(ends=False, forced=False)
    controller.tell(SignalJobs("alice", False, Selection(jobs=((job, ()),)), ask), by="alice")
    write(controller, CheckpointsSeen([job, job], [0, 0], [1, 2], ["", "no room"]))
    keep(store, controller.entries)
    (course,) = courses(read, job, controller.now_us)
    told = [(step.what, step.by, step.text) for step in course.steps[-3:]]
    assert told == [
        ("checkpoint-asked", "alice", ""), ("checkpointed", "", ""),
        ("checkpoint-failed", "", "no room"),
    ]  # fmt: skip


@pytest.mark.parametrize("hold", [False, True])
def test_an_end_that_was_opened_again_counts_and_the_job_goes_on(store, read, hold):
    controller = cluster({"h1": 2})
    job = submit(controller, submission())
    run_job(controller, job, exit_code=3)
    again = RequeueJobs("alice", False, chosen(job), ("EXIT",), hold)
    controller.tell(again, by="alice")
    keep(store, controller.entries)
    (course,) = courses(read, job, controller.now_us)
    assert course.stat == ("PSUSP" if hold else "PEND")
    (step,) = [step for step in course.steps if step.what == "reopened"]
    assert (step.amount, step.by) == (EndCause.REQUEUE_OWNER, "alice")
    if hold:
        controller.tell(ResumeJobs("alice", False, chosen(job)), by="alice")
    run_job(controller, job)
    keep(store, controller.entries)
    (course,) = courses(read, job, controller.now_us)
    assert (course.stat, course.last.ended.attempt) == ("DONE", 2)
    assert read.outcomes([job]) == [(job, Outcome.DONE, 0)]
    # What it used before it was opened again was used.
    sums = read.search().sums(Search())
    assert (sums.done, sums.exited) == (1, 1)


def test_a_job_that_is_held_when_it_was_requeued_is_told_so(store, read):
    controller = cluster({"h1": 2})
    job = submit(controller, submission())
    place(controller, job)
    report_started(controller, job)
    controller.tell(RequeueJobs("alice", False, chosen(job), hold=True), by="alice")
    report_ended(controller, job, signal=2)
    keep(store, controller.entries)
    (course,) = courses(read, job, controller.now_us)
    assert course.stat == "PSUSP"
    (step,) = [step for step in course.steps if step.what == "requeued"]
    assert step.amount == EndCause.REQUEUE_OWNER


@pytest.mark.parametrize("at_once", [True, False])
def test_while_nothing_is_heard_of_a_host_its_jobs_are_unknown(store, read, at_once):
    controller = cluster(["h1", "h2"])
    job, other = submit(controller), submit(controller)
    place(controller, job)
    report_started(controller, job)
    place(controller, other, host="h2")
    report_started(controller, other)
    began_us = controller.now_us
    controller.tell(HostDisconnected("h1", silent=True), by="host h1")
    steps = [len(controller.entries)]
    controller.now_us += 9_000_000
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, True)])
    steps.append(len(controller.entries))
    for count in steps[-1:] if at_once else steps:
        keep(store, controller.entries[:count])
        (course,) = courses(read, job, controller.now_us)
        assert course.stat == ("UNKWN" if count == steps[0] else "RUN")
    assert course.spans_us["unkwn"] >= 9_000_000
    assert [step.what for step in course.steps][-2:] == ["unknown", "known"]
    assert course.steps[-2].at_us >= began_us
    (course,) = courses(read, other, controller.now_us)
    assert course.spans_us["unkwn"] == 0


def test_a_history_that_begins_late_knows_which_hosts_are_away(store, read):
    controller = cluster(["h1"])
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    controller.tell(HostDisconnected("h1", silent=True), by="host h1")
    writer = HistoryWriter(store)
    writer.begin(load(dump(controller.state)), epoch=2)
    writer.commit()
    writer.close()
    (course,) = courses(read, job, controller.now_us)
    assert course.stat == "UNKWN"


@pytest.mark.parametrize(
    ("search", "index"),
    [
        (Search(), "attempts_by_end"),
        (Search(ended=(5, 9)), "attempts_by_end (ended_at_us>? AND ended_at_us<?)"),
        (Search(user="u"), "attempts_by_user (user=? AND ended_at_us>?"),
        (Search(user="u", queue="q", project="p"), "attempts_by_user (user=?"),
        (Search(queue="q"), "attempts_by_queue (queue=?"),
        (Search(name="n"), "jobs_by_name (name=?"),
        (Search(jobs=(1, 2)), "PRIMARY KEY (job=?"),
        (Search(user="u", host="h", outcomes=(Outcome.DONE,)), "attempts_by_user (user=?"),
    ],
)
@only_files
def test_every_question_runs_along_an_index(store, read, search, index):
    keep(store, cluster().entries)
    plan = read.search().explain(search)
    assert index in plan
    assert not [line for line in plan.splitlines() if line.startswith(("SCAN t", "SCAN j USING"))]


@only_files
def test_the_sums_of_a_user_are_read_from_the_index_alone(store, read):
    keep(store, cluster().entries)
    plan = read.search().explain(Search(user="u"))
    assert "USING COVERING INDEX attempts_by_user (user=?" in plan
    assert "USING COVERING INDEX attempts_by_end" in read.search().explain(Search())


@pytest.mark.parametrize(
    ("search", "index"),
    [
        (Search(user="u", name="a*"), "jobs_by_user (user=?"),
        (Search(queue="q"), "jobs_by_queue (queue=?"),
        (Search(name="n"), "jobs_by_name (name=?"),
        (Search(jobs=(3,)), "PRIMARY KEY (rowid=?)"),
        (Search(submitted=(5, 9)), "PRIMARY KEY (rowid>? AND rowid<?)"),
    ],
)
@only_files
def test_jobs_are_found_along_an_index(store, read, search, index):
    keep(store, cluster().entries)
    assert index in read.search().explain(search, jobs=True)


def test_jobs_submitted_in_a_time_are_found_by_their_ids(store, read):
    controller = cluster()
    times = []
    for _ in range(9):
        controller.now_us += 1_000_000
        times.append(controller.state.jobs[submit(controller)].submit_at_us)
    keep(store, controller.entries)
    search = read.search()
    assert search.find_jobs(Search(submitted=(times[2], times[5])), 0, 99) == [3, 4, 5, 6]
    assert search.find_jobs(Search(submitted=(times[2] + 1, times[5] - 1)), 0, 99) == [4, 5]
    assert search.find_jobs(Search(submitted=(0, times[0])), 0, 99) == [1]
    assert search.find_jobs(Search(submitted=(times[8] + 1, FOREVER[1])), 0, 99) == []
    assert search.find_jobs(Search(), 7, 1) == [8]


@only_files
def test_a_store_of_the_first_release_is_brought_up_to_date(store, read):
    controller = cluster(["h1"])
    array = submit(controller, submission(elements="1-9"))
    place(controller, array, 1)
    report_started(controller, array, 1)
    kill(controller, (array, 1, 3))
    report_ended(controller, array, 1, signal=9)
    keep(store, controller.entries)
    before = read.job(array)
    read.close()
    make_first_release(store)
    writer = HistoryWriter(store)
    assert writer.seq == controller.state.seq
    writer.close()
    after = read.job(array)
    assert after == before
    assert after.elements[0].by == "alice"
    assert after.elements[0].ended.cause == EndCause.OWNER
    job = submit(controller, submission())
    run_job(controller, job)
    keep(store, controller.entries)
    rows = read.search().usage(Search(user="alice"), START, 9)
    assert sorted((row.job, row.index, row.last) for row in rows) == [
        (array, 1, 1),
        (array, 2, 3),
        (job, 0, 0),
    ]


def make_first_release(store):
    """Turn a store into one as the first release wrote it."""
    database = sqlite3.connect(store, isolation_level=None)
    for statement in (
        """CREATE TABLE elements AS SELECT job, idx, outcome, exit_code, signal, cause, attempt,
        host, started_at_us, ended_at_us, cpu_us, max_mem_kib FROM attempts""",
        """CREATE TABLE decisions AS SELECT number, job, first, last, amount AS cause, by
        FROM events WHERE kind = 4""",
        "CREATE TABLE w AS SELECT job, first, last, cause, by, at_us FROM withdrawn",
        "DROP TABLE attempts",
        "DROP TABLE withdrawn",
        "DROP TABLE live",
        "DROP TABLE events",
        "ALTER TABLE w RENAME TO withdrawn",
        "DROP INDEX jobs_by_queue",
        "ALTER TABLE jobs DROP COLUMN project",
        "ALTER TABLE jobs DROP COLUMN hold",
        *_FEWER_PLACEMENTS,
        "UPDATE schema SET version = 1",
    ):
        database.execute(statement)
    database.close()


_FEWER_PLACEMENTS = (
    """CREATE TABLE p AS SELECT job, idx, hosts, tasks FROM placements q WHERE attempt =
    (SELECT max(attempt) FROM placements r WHERE r.job = q.job AND r.idx = q.idx)""",
    "DROP TABLE placements",
    "ALTER TABLE p RENAME TO placements",
)


def make_second_release(store):
    """Turn a store into one as it was when it kept hosts of the last attempt only."""
    database = sqlite3.connect(store, isolation_level=None)
    for statement in (*_FEWER_PLACEMENTS, "UPDATE schema SET version = 2"):
        database.execute(statement)
    database.close()


def test_each_attempt_is_told_with_the_hosts_that_it_had(store, read):
    controller = cluster({"h1": 4, "h2": 4, "h3": 4})
    job = submit(controller, submission(tasks=6, rerunnable=True))
    places = ({"h1": 3, "h2": 3}, {"h3": 4, "h2": 2})
    propose(controller, gang(controller, job, hosts=places[0]))
    report_started(controller, job)
    leave_host(controller, "h1")
    tick(controller, after_us=120_000_000)
    controller.tell(Reported("h2", 1, gone=((job, 0, 1),)), by="host h2")
    propose(controller, gang(controller, job, hosts=places[1]))
    keep(store, controller.entries)
    report_started(controller, job)
    told = [(attempt.ended.attempt, dict(attempt.hosts)) for attempt in read.course(job).attempts]
    assert told == [(1, places[0]), (2, places[1])]
    report_ended(controller, job)
    keep(store, controller.entries)
    (element,) = read.job(job).elements
    assert dict(element.hosts) == places[1]
    search = read.search()
    for host, attempts in {"h1": [1], "h2": [1, 2], "h3": [2]}.items():
        rows = search.usage(Search(host=host), START, 9)
        assert sorted(row.attempt for row in rows) == attempts, host


@only_files
def test_a_store_that_kept_hosts_of_last_attempts_is_brought_up_to_date(store, read):
    controller = cluster({"h1": 4, "h2": 4})
    job, live = (submit(controller, submission(tasks=n, rerunnable=True)) for n in (6, 2))
    propose(controller, gang(controller, job, hosts={"h1": 3, "h2": 3}))
    report_started(controller, job)
    report_ended(controller, job)
    propose(controller, gang(controller, live, hosts={"h2": 2}))
    keep(store, controller.entries)
    before = read.course(job), read.course(live)
    read.close()
    make_second_release(store)
    HistoryWriter(store).close()
    assert (read.course(job), read.course(live)) == before
    assert dict(before[0].attempts[0].hosts) == {"h1": 3, "h2": 3}


def test_jobs_of_a_group_are_found_and_not_those_below_it(store, read):
    controller = cluster({"h1": 2})
    wanted = replace(submission(), group="/a")
    jobs = [submit(controller, replace(wanted, group=name)) for name in ("/a", "/a/b", "/a")]
    for job in jobs:
        run_job(controller, job)
    keep(store, controller.entries)
    with_group = Search(group="/a")
    found = read.search()
    assert found.find_jobs(with_group, 0, 10) == [jobs[0], jobs[2]]
    assert [row.job for row in found.usage(with_group, START, 10)] == [jobs[0], jobs[2]]
    assert found.sums(with_group).done == 2
    assert found.find_jobs(Search(group="/none"), 0, 10) == []
