"""The spool of mail: an event makes one row, whatever is told twice or is too much."""

import msgspec
import pytest

from xce.journal import mail_spool
from xce.journal.mail_spool import MailSpool
from xce.model.command import Accepted, RequeueJobs
from xce.model.mail import ENDS, MailConfig, Notice
from xce.state.snapshot import dump, load
from xce.testing.builders import (
    chosen,
    cluster,
    kill,
    modify,
    place,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
    tick,
)

ON = MailConfig(smtp="localhost:25")


@pytest.fixture
def spool(tmp_path):
    found = MailSpool(tmp_path / "mail.db")
    yield found
    found.close()


def mailed(controller, notices=ENDS, **more):
    wanted = submission(**more)
    spec = msgspec.structs.replace(wanted.spec, notices=int(notices))
    return submit(controller, msgspec.structs.replace(wanted, spec=spec))


def store(spool, entries):
    spool.take(entries)
    return spool.commit()


def rows(spool):
    return [(one.job, one.index, one.notice) for one in spool.due(1 << 62, 1_000)]


def test_an_event_makes_one_row_though_its_entries_come_again(spool, tmp_path):
    controller = cluster({"h1": 4}, mail=ON)
    job = mailed(controller, ENDS | Notice.START)
    run_job(controller, job)
    assert store(spool, controller.entries)
    assert not store(spool, controller.entries)
    again = MailSpool(tmp_path / "mail.db")
    store(again, controller.entries)
    assert rows(again) == [(job, 0, Notice.START), (job, 0, Notice.DONE)]
    again.close()


def test_what_was_known_is_known_to_one_that_begins_anew(spool, tmp_path):
    controller = cluster({"h1": 4}, mail=ON)
    job = mailed(controller)
    store(spool, controller.entries)
    before = len(controller.entries)
    run_job(controller, job, exit_code=1)
    again = MailSpool(tmp_path / "mail.db")
    assert (again.config, again.cluster) == (ON, "xce")
    store(again, controller.entries[before:])
    assert rows(again) == [(job, 0, Notice.EXIT)]
    again.close()


def test_nothing_is_kept_while_no_mail_is_sent(spool):
    controller = cluster({"h1": 4})
    run_job(controller, mailed(controller))
    store(spool, controller.entries)
    assert rows(spool) == []


def test_a_job_that_never_ran_brings_none(spool):
    controller = cluster({"h1": 4}, mail=ON)
    kill(controller, mailed(controller))
    store(spool, controller.entries)
    assert rows(spool) == []


def test_a_snapshot_tells_what_mail_is_wanted_about(spool):
    controller = cluster({"h1": 4}, mail=ON)
    job = mailed(controller)
    spool.begin(controller.state)
    spool.commit()
    before = len(controller.entries)
    run_job(controller, job)
    store(spool, controller.entries[before:])
    assert rows(spool) == [(job, 0, Notice.DONE)]


def test_a_changed_job_is_still_mailed_about(spool):
    controller = cluster({"h1": 4}, mail=ON)
    job = mailed(controller)
    modify(controller, job, name="other")
    run_job(controller, job)
    store(spool, controller.entries)
    assert rows(spool) == [(job, 0, Notice.DONE)]


def wish(controller, job, notices):
    """Let mail be wanted about something else of a job."""
    assert isinstance(modify(controller, job, notices=int(notices)), Accepted)


def start(controller, job, *indices):
    place(controller, job, *indices)
    for index in indices:
        report_started(controller, job, index)


def end(controller, job, *indices):
    for index in indices:
        report_ended(controller, job, index)


@pytest.mark.parametrize("at", ["once", "twice", "restarts", "snapshot"])
def test_what_was_placed_before_a_change_has_the_mail_that_it_was_placed_with(spool, tmp_path, at):
    controller = cluster({"h1": 8}, mail=ON)
    with_mail = mailed(controller, elements="1-9:2")
    without = mailed(controller, Notice.NONE, elements="1-9:2")
    for job in (with_mail, without):
        start(controller, job, 1, 3)
    wish(controller, with_mail, Notice.NONE)
    wish(controller, without, ENDS | Notice.START)
    end(controller, with_mail, 1)
    end(controller, without, 1)
    for job in (with_mail, without):
        start(controller, job, 5)
        controller.tell(RequeueJobs("alice", False, chosen((job, 3, 3)), ("RUN",)), by="alice")
        report_ended(controller, job, 3, exit_code=1)
        start(controller, job, 3)
    cut = len(controller.entries)
    if at == "snapshot":
        store(spool, controller.entries)
        begun = MailSpool(tmp_path / "mail2.db")
        begun.begin(load(dump(controller.state)))
    for job in (with_mail, without):
        end(controller, job, 3, 5)
    wanted = [(with_mail, 1, Notice.DONE)]
    wanted += [(without, index, Notice.START) for index in (5, 3)]
    wanted += [(without, index, Notice.DONE) for index in (3, 5)]
    if at == "snapshot":
        store(begun, controller.entries[cut:])
        assert rows(begun) == [row for row in wanted if row[2] != Notice.START and row[1] != 1]
        begun.close()
        return
    step = {"once": len(controller.entries), "twice": cut, "restarts": 1}[at]
    for first in range(0, len(controller.entries), step):
        store(spool, controller.entries[first : first + step])
        if at == "restarts":
            spool.close()
            spool.__init__(tmp_path / "mail.db")
    assert sorted(rows(spool)) == sorted(wanted)
    kill(controller, with_mail)
    kill(controller, without)
    tick(controller, after_us=10**11)
    store(spool, controller.entries)
    assert not spool._wishes
    assert not spool._store.rows("SELECT * FROM wishes")


def test_what_has_left_the_cluster_is_forgotten_and_its_mail_is_not(spool):
    controller = cluster({"h1": 4}, mail=ON)
    job = mailed(controller)
    run_job(controller, job)
    tick(controller, after_us=10**11)
    assert job not in controller.state.jobs
    store(spool, controller.entries)
    assert rows(spool) == [(job, 0, Notice.DONE)]
    assert not spool._jobs
    assert not spool._specs


def test_too_many_messages_are_not_taken_and_counted(spool, monkeypatch):
    monkeypatch.setattr(mail_spool, "JOB_MAX", 2)
    monkeypatch.setattr(mail_spool, "ROWS_MAX", 3)
    controller = cluster({"h1": 8}, mail=ON)
    for _ in range(2):
        run_array(controller, mailed(controller, elements="1-4"))
    store(spool, controller.entries)
    assert len(rows(spool)) == 3
    assert spool.dropped == 5


def run_array(controller, job):
    place(controller, job)
    for index in range(1, 5):
        report_started(controller, job, index)
        report_ended(controller, job, index)


def test_a_message_that_is_tried_later_stands_behind_those_that_are_due(spool):
    controller = cluster({"h1": 4}, mail=ON)
    jobs = [mailed(controller) for _ in range(2)]
    for job in jobs:
        run_job(controller, job)
    store(spool, controller.entries)
    first, second = spool.due(10, 10)
    spool.put_back(first, 100)
    assert spool.due(99, 10) == [second]
    assert spool.next_at_us() == 0
    spool.remove(second)
    assert spool.next_at_us() == 100
    (later,) = spool.due(100, 10)
    assert (later.number, later.tries) == (first.number, 1)
