import sqlite3

import msgspec
import pytest
from counted import count_calls
from history_places import only_files, read_rows, run_sql

from xce.apiserver.past_rows import past_elements
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.history_schema import Happening
from xce.journal.history_store import HistoryError
from xce.model.command import RequeueJobs
from xce.model.config import QueueConfig
from xce.model.entry import Cause, Entry
from xce.model.ids import SECOND_US
from xce.model.job import EndCause, Outcome
from xce.model.record import Ended, JobsForgotten
from xce.state.snapshot import dump, load
from xce.testing.builders import (
    chosen,
    cluster,
    gang,
    kill,
    leave_host,
    modify,
    place,
    propose,
    replayed,
    report_ended,
    report_started,
    resume,
    run_job,
    stop,
    submission,
    submit,
    switch,
    tick,
)


def keep(store, entries):
    """Store ``entries`` that are not stored yet; return the cursor."""
    writer = HistoryWriter(store)
    fresh = [entry for entry in entries if entry.seq > writer.seq]
    if fresh:
        writer.take(fresh, crc=7, epoch=3)
        writer.commit()
    seq = writer.seq
    assert not writer.has_news
    writer.close()
    return seq


@pytest.fixture
def read(store):
    reader = HistoryReader(store)
    yield reader
    reader.close()


def test_a_job_is_told_with_all_that_was_known_of_it(store, read):
    controller = cluster(["h1"])
    job = submit(controller, submission("sleep 1", name="n", tasks=1, project="p"))
    place(controller, job)
    report_started(controller, job)
    report_ended(controller, job, exit_code=3)
    assert keep(store, controller.entries) == controller.state.seq
    past = read.job(job)
    assert past.spec == submission("sleep 1", name="n").spec
    assert (past.owner.user, past.key.queue, past.key.project) == ("alice", "normal", "p")
    assert past.resreq == controller.state.classes[1].resreq
    (element,) = past.elements
    assert element.ended == controller.state.jobs[job].ended
    assert element.hosts == (("h1", 1),)
    assert (past.is_finished, past.outcome) == (True, Outcome.EXIT)
    assert read.outcomes([job, 99]) == [(job, Outcome.EXIT, 3)]


def test_a_job_that_never_was_is_none_also_before_there_is_a_file(store, read):
    assert read.job(1) is None
    keep(store, cluster().entries)
    assert read.job(1) is None
    assert read.outcomes([1]) == []


def test_elements_ended_and_withdrawn_are_told_by_index(store, read):
    controller = cluster(["h1"])
    job = submit(controller, submission(elements="1-9:2,20", name="a"))
    place(controller, job, 3, 5)
    for index in (3, 5):
        report_started(controller, job, index)
    report_ended(controller, job, 3)
    kill(controller, (job, 7, 20))
    keep(store, controller.entries)
    past = read.job(job)
    assert [element.index for element in past.elements] == [3]
    assert [(gone.first, gone.last) for gone in past.withdrawn] == [(7, 20)]
    assert (past.done, past.exited, past.size, past.is_finished) == (1, 3, 6, False)
    assert read.outcomes([job]) == []
    assert read.element_outcomes([(job, 3), (job, 7), (job, 5), (job, 4), (99, 1)]) == [
        (job, 3, Outcome.DONE, 0),
        (job, 7, Outcome.EXIT, 0),
    ]
    part = read.job(job, ((8, 9),))
    assert part.elements == ()
    assert [(gone.first, gone.last) for gone in part.withdrawn] == [(8, 9)]


def test_hosts_of_a_parallel_job_and_who_ended_it_are_told(store, read):
    controller = cluster({"h1": 4, "h2": 4})
    job = submit(controller, submission(tasks=6))
    propose(controller, gang(controller, job, hosts={"h2": 4, "h1": 2}))
    report_started(controller, job)
    kill(controller, job)
    report_ended(controller, job, signal=15, exit_code=143)
    keep(store, controller.entries)
    (element,) = read.job(job).elements
    assert element.hosts == (("h2", 4), ("h1", 2))
    assert element.by == "alice"
    assert element.ended.cause == EndCause.OWNER


def test_a_writer_that_died_goes_on_behind_its_cursor(store, read):
    controller = cluster()
    job = submit(controller)
    place(controller, job)
    half = len(controller.entries)
    report_started(controller, job)
    report_ended(controller, job)
    writer = HistoryWriter(store)
    writer.take(controller.entries[:half], crc=1, epoch=1)
    writer.commit()
    writer.take(controller.entries[half:], crc=1, epoch=1)
    writer.close()  # what was not committed is lost
    writer = HistoryWriter(store)
    assert (writer.seq, writer.crc, writer.epoch) == (controller.entries[half - 1].seq, 1, 1)
    writer.close()
    keep(store, controller.entries)
    assert len(read.job(job).elements) == 1


def test_the_name_and_queue_of_a_job_are_found_also_by_a_writer_that_began_later(store, read):
    controller = cluster()
    submit(controller, submission(name="one"))
    keep(store, controller.entries)
    second = submit(controller, submission(name="one"))
    keep(store, controller.entries)
    found = read_rows(store, "SELECT name, queue FROM jobs WHERE job = ?", second)
    assert found == [("one", "normal")]


def test_a_job_is_told_as_what_it_was_changed_to(store, read):
    queues = (QueueConfig(name="normal", default=True), QueueConfig(name="night"))
    controller = cluster(queues=queues)
    job = submit(controller, submission(name="one", elements="1-3"))
    keep(store, controller.entries)
    modify(controller, job, name="two", run_limit_us=60_000_000)
    switch(controller, "night", job)
    place(controller, job, 1)
    report_started(controller, job, 1)
    report_ended(controller, job, 1)
    keep(store, controller.entries)
    past = read.job(job)
    assert (past.spec.name, past.key.queue, past.key.run_limit_us) == ("two", "night", 60_000_000)
    events = read_rows(store, "SELECT kind, text FROM events ORDER BY number")
    ((queue,),) = read_rows(store, "SELECT queue FROM attempts")
    assert events == [
        (Happening.MODIFIED, "name, run_limit_s"),
        (Happening.SWITCHED, "night"),
    ]
    assert queue == "night"


def test_a_history_that_begins_late_takes_the_state_as_it_is(store, read, tmp_path):
    controller = cluster({"h1": 4, "h2": 4})
    serial = submit(controller, submission(name="s"))
    run_job(controller, serial)
    array = submit(controller, submission(elements="1-10", name="a"))
    place(controller, array, 2, 3)
    report_started(controller, array, 2)
    report_ended(controller, array, 2, exit_code=9)
    kill(controller, (array, 5, 6))
    wide = submit(controller, submission(tasks=6))
    propose(controller, gang(controller, wide, hosts={"h1": 3, "h2": 3}))
    report_started(controller, wide)
    kill(controller, wide)
    state = load(dump(replayed(controller.entries)))
    writer = HistoryWriter(store)
    writer.begin(state, epoch=2)
    writer.commit()
    assert writer.seq == state.seq
    writer.close()
    report_ended(controller, wide, signal=9)
    report_started(controller, array, 3)
    report_ended(controller, array, 3)
    keep(store, controller.entries)
    whole = tmp_path / "whole.db"
    keep(whole, controller.entries)
    other = HistoryReader(whole)
    for job in (serial, array, wide):
        assert read.job(job) == other.job(job)
    other.close()


def test_a_history_that_is_given_a_later_state_fails_loudly(store):
    controller = cluster()
    submit(controller)
    keep(store, controller.entries)
    writer = HistoryWriter(store)
    with pytest.raises(HistoryError, match="what happened between is lost"):
        writer.begin(replayed(controller.entries), epoch=1)
    writer.close()


@only_files
def test_a_commit_that_fails_keeps_what_was_gathered(store, read, monkeypatch):
    controller = cluster()
    job = submit(controller)
    writer = HistoryWriter(store)
    writer.take(controller.entries, crc=1, epoch=1)
    other = sqlite3.connect(store, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer.store.connection.execute("PRAGMA busy_timeout = 1")
    with pytest.raises(HistoryError, match="locked"):
        writer.commit()
    other.execute("ROLLBACK")
    other.close()
    assert writer.has_news
    writer.commit()
    writer.close()
    assert read.job(job) is not None


def test_a_store_of_another_release_is_refused(store):
    keep(store, cluster().entries)
    run_sql(store, "UPDATE schema SET version = 99")
    with pytest.raises(HistoryError, match="has schema 99"):
        HistoryWriter(store)
    reader = HistoryReader(store)
    with pytest.raises(HistoryError, match="has schema 99"):
        reader.job(1)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"this is no database at all, but long enough to be read as one" * 20)
    with pytest.raises(HistoryError):
        HistoryWriter(junk)


def test_many_ended_elements_of_one_record_are_stored_with_few_statements(store):
    controller = cluster(["h1"])
    job = submit(controller, submission(elements="1-50000"))
    writer = HistoryWriter(store)
    writer.take(controller.entries, crc=1, epoch=1)
    writer.commit()
    count = 50_000
    zeros, seq = [0] * count, controller.state.seq + 1
    record = Ended([job] * count, list(range(1, count + 1)), [1] * count, [1] * count, zeros,
                   zeros, zeros, zeros, zeros, zeros, zeros, zeros)  # fmt: skip
    entry = Entry(seq, 1, Cause("reported"), (record,))
    calls = count_calls(lambda: (writer.take([entry], crc=1, epoch=1), writer.commit()))
    assert writer.seq == seq
    writer.close()
    assert calls < 10 * count


@pytest.mark.parametrize("is_remembered", [True, False])
def test_separate_jobs_withdrawn_together_cost_no_calls_each(store, read, is_remembered):
    controller = cluster(["h1"])
    jobs = [submit(controller) for _ in range(200)]
    array = submit(controller, submission(elements="1-3"))
    if not is_remembered:
        keep(store, controller.entries)
    # A gap, an array among others in a command of its own, and an entry that is all plain jobs.
    del jobs[100]
    kill(controller, array)
    before = len(controller.entries)
    kill(controller, *jobs)
    entry = controller.entries[-1]
    assert len(controller.entries) == before + 1
    keep(store, controller.entries[:before])
    writer = HistoryWriter(store)
    record = Entry(entry.seq, entry.at_us, Cause("tick", "controller", ""), entry.records)
    assert count_calls(lambda: (writer.take([record], crc=1, epoch=1), writer.commit())) < 300
    writer.close()
    for job in (jobs[0], jobs[99], jobs[100], jobs[-1]):
        (gone,) = read.job(job).withdrawn
        assert (gone.first, gone.last, gone.by) == (0, 0, "alice")
        assert read.job(job).is_finished
    assert read.job(jobs[99] + 1).withdrawn == ()
    (gone,) = read.job(array).withdrawn
    assert (gone.first, gone.last) == (1, 3)


@pytest.mark.parametrize("at_once", [True, False])
def test_what_was_opened_again_is_told_by_its_last_end(store, read, at_once):
    controller = cluster(["h1"])
    job = submit(controller)
    run_job(controller, job, exit_code=3)
    steps = [len(controller.entries)]
    again = RequeueJobs("alice", False, chosen(job), ("EXIT",))
    controller.tell(again, by="alice")
    steps.append(len(controller.entries))
    run_job(controller, job)
    steps.append(len(controller.entries))
    for count in steps[-1:] if at_once else steps:
        keep(store, controller.entries[:count])
        past = read.job(job)
        done, exited = {steps[0]: (0, 1), steps[1]: (0, 0), steps[2]: (1, 0)}[count]
        assert (past.done, past.exited) == (done, exited)
        assert len(past.elements) == done + exited
    assert read.job(job).elements[0].ended.attempt == 2
    assert read.outcomes([job]) == [(job, Outcome.DONE, 0)]


def test_why_a_job_was_requeued_is_told_as_long_as_there_is_history(store, read):
    controller = cluster(["h1", "h2"])
    job = submit(controller, submission(rerunnable=True))
    place(controller, job)
    report_started(controller, job)
    leave_host(controller, "h1")
    tick(controller, after_us=120_000_000)
    at_us = controller.now_us
    run_job(controller, job, host="h2")
    keep(store, controller.entries)
    (element,) = read.job(job).elements
    text = "host h1 was lost: it was away for 2m"
    assert element.requeue == (EndCause.HOST_LOST, at_us, text)
    assert element.ended.attempt == 2


def test_an_end_that_was_opened_again_takes_its_detail_along(store, read):
    controller = cluster(["h1"])
    job = submit(controller)
    run_job(controller, job, exit_code=3)
    keep(store, controller.entries)
    run_sql(store, f"INSERT INTO details VALUES ({job}, 0, 'the disk was full')")
    assert read.job(job).elements[0].detail == "the disk was full"
    controller.tell(RequeueJobs("alice", False, chosen(job), ("EXIT",)), by="alice")
    run_job(controller, job)
    keep(store, controller.entries)
    (element,) = read.job(job).elements
    assert (element.detail, element.requeue[0]) == ("", EndCause.REQUEUE_OWNER)


def test_how_long_elements_were_ineligible_is_told_once_they_have_left_the_state(store, read):
    controller = cluster(["h1"], clean_period_us=60 * SECOND_US)
    job = submit(controller, submission(elements="1-9:2"))
    stop(controller, (job, 3, 5))
    tick(controller, after_us=10 * SECOND_US)
    resume(controller, (job, 3, 3))
    place(controller, job, 3)
    report_started(controller, job, 3)
    report_ended(controller, job, 3)
    kill(controller, job)
    keep(store, controller.entries)
    assert read.job(job).ineligible is None
    tick(controller, after_us=70 * SECOND_US)
    plain = submit(controller)
    run_job(controller, plain)
    tick(controller, after_us=70 * SECOND_US)
    keep(store, controller.entries)
    assert plain not in controller.state.jobs
    assert read.job(plain).ineligible == ()
    rows = past_elements(read.job(job))
    assert [(one.index, one.count, round(one.ineligible_s)) for one in rows] == [
        (1, 1, 0), (3, 1, 10), (5, 1, 10), (7, 2, 0)
    ]  # fmt: skip
    assert read.course(job).events[-1].kind != Happening.INELIGIBLE


def test_of_jobs_that_an_earlier_release_has_forgotten_it_is_not_known(store, read):
    controller = cluster(["h1"], clean_period_us=SECOND_US)
    jobs = [submit(controller) for _ in range(2)]
    entries = []
    for number, job in enumerate(jobs):
        run_job(controller, job)
        tick(controller, after_us=10 * SECOND_US)
        timed_from = 2 * number
        entries = [
            msgspec.structs.replace(
                one,
                records=tuple(
                    msgspec.structs.replace(record, timed_from=timed_from)
                    if record == JobsForgotten([job], [], 1)
                    else record
                    for record in one.records
                ),
            )
            for one in controller.entries
        ]
        keep(store, entries)
    assert [read.job(job).ineligible for job in jobs] == [None, ()]
