"""After a restore hosts know more than the journal: nothing is killed or taken for another."""

import pytest

from xce.control.strangers import ATTEMPTS_SKIPPED, JOBS_SKIPPED, SKIPPED_PER_S
from xce.model.command import (
    Accepted,
    DeclareHostsLost,
    EndStrangers,
    Selection,
    SetHostsOpen,
    SignalJobs,
)
from xce.model.effect import Launch, SendSignal, SetLimits, SetSuspended, Terminate
from xce.model.host_record import StaleGone, StrangersSeen
from xce.model.ids import SECOND_US
from xce.model.job import EndCause
from xce.model.observation import AttemptSeen, HostJoined, ReignBegan, Reported
from xce.model.refusal import RefusalCode
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import ended_element, stat_of
from xce.testing.builders import (
    cluster,
    join_host,
    kill,
    leave_host,
    place,
    replayed,
    report_ended,
    report_started,
    resume,
    submission,
    submit,
    tick,
)
from xce.testing.recorded import RecordedController


def lived():
    """Return a controller after a life with each phase of a job, and what it told its hosts."""
    controller = cluster({"h1": 9, "h2": 9, "h3": 9})
    first, second = submit(controller), submit(controller, submission(rerunnable=True))
    many = submit(controller, submission(elements="1-4"))
    place(controller, first)
    report_started(controller, first)
    place(controller, second, host="h2")
    place(controller, many, 1, 2)
    report_started(controller, many, 1)
    report_ended(controller, first)
    kill(controller, (many, 2, 2))
    third = submit(controller)
    place(controller, third)
    report_started(controller, third)
    return controller


def restored(controller, seq):
    """Return the controller of a journal that ends with entry ``seq``, in its first reign."""
    state = replayed(controller.entries[:seq])
    again = RecordedController(state, now_us=controller.now_us + 1_000)
    again.entries = controller.entries[:seq]
    again.tell(ReignBegan(is_restored=True), by="controller")
    return again


def join_all(controller, **words):
    for host in ("h1", "h2", "h3"):
        join_host(controller, host, **words)


def launched(controller):
    """Return the keys of all that hosts were told to start."""
    return {
        (host, effect.job, index, attempt)
        for host, effect in controller.effects(0)
        if isinstance(effect, Launch)
        for index, attempt in zip(effect.indices, effect.attempts, strict=True)
    }


def seen(keys, host):
    return [AttemptSeen(*key[1:], running=True) for key in sorted(keys) if key[0] == host]


def signal(controller, job, number):
    selection = Selection(jobs=((job, ()),))
    controller.tell(SignalJobs("alice", False, selection, number), by="alice")


def killed(controller):
    return [effect for _, effect in controller.effects(0) if isinstance(effect, Terminate)]


def stat(controller, job, position=0):
    return stat_of(controller.state, controller.job(job), position)


@pytest.mark.parametrize("forgets", [False, True])
def test_nothing_of_the_lost_entries_is_killed_or_given_out_again(forgets):
    whole = lived()
    before = set() if forgets else launched(whole)
    for seq in range(4, len(whole.entries)):
        controller = restored(whole, seq)
        state = controller.state
        known = {
            (job.id, job.index(place), one.attempt)
            for job in state.jobs.values()
            for place in range(job.size)
            if (one := job.ended_at(place)) is not None
        }
        for host in ("h1", "h2"):
            join_host(controller, host, attempts=seen(before, host))
        join_host(controller, "h3")
        stale = {key for keys in state.hosts.stale.values() for key in keys}
        assert stale <= known, f"{stale - known} are killed in a restore of {seq}"
        controller.tell(EndStrangers("root", ("h1", "h2"), is_admin=True), by="root")
        submit(controller)
        for job in list(state.jobs.values()):
            held = [job.index(place) for first, last in job.held for place in (first, last)]
            for index in dict.fromkeys(held):
                resume(controller, (job.id, index, index), by="root", is_admin=True)
            pending = [n for first, last in job.pending for n in range(first, last + 1)]
            for position in pending:
                place(controller, job.id, job.index(position), host="h3")
        fresh = {key[1:] for key in launched(controller) if key[0] == "h3"}
        assert fresh
        assert fresh.isdisjoint(key[1:] for key in launched(whole))
        check_state(state)
        assert digest(load(dump(state))) == digest(state)


def test_ids_and_numbers_are_left_out_once_for_each_restore():
    whole = lived()
    controller = restored(whole, len(whole.entries))
    next_job = whole.state.next_job + JOBS_SKIPPED
    assert submit(controller) == next_job
    again = restored(controller, len(controller.entries))
    assert submit(again) == next_job + 1 + JOBS_SKIPPED
    assert again.state.attempts_above == 2 * ATTEMPTS_SKIPPED
    again.tell(ReignBegan(), by="controller")
    assert submit(again) == next_job + 2 + JOBS_SKIPPED


def test_what_was_submitted_since_a_restore_begins_with_the_first_attempt():
    controller = restored(lived(), 4)
    join_all(controller)
    job = submit(controller)
    place(controller, job)
    assert controller.attempt(job).number == 1


def test_a_host_with_strangers_is_closed_and_says_which_until_it_is_opened():
    controller = restored(lived(), 4)
    strange = [AttemptSeen(77, 3, 1, running=True), AttemptSeen(78, 0, 2, running=True)]
    join_host(controller, "h1", attempts=strange)
    table = controller.state.hosts
    assert not table.is_open[0]
    assert table.comments[0].startswith("quarantined: ")
    assert table.comments[0].endswith("77[3].1, 78.2")
    controller.tell(SetHostsOpen("root", ("h1",), True, is_admin=True), by="root")
    leave_host(controller, "h1")
    join_host(controller, "h1", attempts=strange)
    assert table.is_open[0]
    leave_host(controller, "h1")
    join_host(controller, "h1", attempts=[*strange, AttemptSeen(79, 0, 1, running=True)])
    assert not table.is_open[0]
    leave_host(controller, "h1")
    join_host(controller, "h1")
    assert not table.strange


def test_an_element_of_which_a_stranger_runs_is_held():
    whole = lived()
    submitted = next(entry.seq for entry in whole.entries if entry.cause.kind == "submit-jobs")
    controller = restored(whole, submitted)
    (job,) = controller.state.jobs
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    assert stat(controller, job) == "PSUSP"
    assert killed(controller) == []
    resume(controller, job, by="root", is_admin=True)
    assert stat(controller, job) == "PEND"


def test_strangers_are_killed_on_an_administrators_word():
    controller = restored(lived(), 4)
    join_host(controller, "h1", attempts=[AttemptSeen(77, 0, 1, running=True)])
    refused = controller.tell(EndStrangers("carol", ("h1",)), by="carol")
    assert refused[0].code == RefusalCode.DENIED
    leave_host(controller, "h2")
    results = controller.tell(EndStrangers("root", ("h1", "h2", "h9"), is_admin=True), by="root")
    assert results[0] == Accepted(text="1 unknown attempts are being ended")
    assert [item.code for item in results[1:]] == [
        RefusalCode.WRONG_STATE, RefusalCode.UNKNOWN_HOST,
    ]  # fmt: skip
    assert controller.effects() == [
        ("h1", Terminate(77, 0, 1, EndCause.NONE, force=True, forget=True))
    ]
    assert controller.entries[-1].records[0] == StrangersSeen(0, [], [], [])
    controller.tell(Reported("h1", 1, gone=((77, 0, 1),)), by="host h1")
    assert controller.entries[-1].records == (StaleGone(0, [77], [0], [1]),)


@pytest.mark.parametrize("boot_id", ["boot-1", "boot-2"])
def test_an_attempt_that_was_about_to_start_and_that_its_host_has_forgotten_starts_anew(boot_id):
    whole = lived()
    placed = next(entry.seq for entry in whole.entries if entry.cause.kind == "propose-plan")
    controller = restored(whole, placed)
    (job,) = (one for one in controller.state.jobs.values() if one.live)
    join_all(controller, boot_id=boot_id)
    assert job.live_count == 0
    assert stat(controller, job.id) == "PEND"
    place(controller, job.id)
    assert controller.attempt(job.id).number == controller.state.attempts_above + 1
    check_state(controller.state)


def test_an_attempt_that_ran_and_that_its_host_has_forgotten_has_ended_and_says_why():
    whole = lived()
    started = next(entry.seq for entry in whole.entries if entry.cause.kind == "reported")
    controller = restored(whole, started)
    (job,) = (one for one in controller.state.jobs.values() if one.live)
    join_host(controller, "h1")
    assert ended_element(controller.job(job.id), 0)[0].cause == EndCause.STATUS_LOST
    assert "restored" in controller.job(job.id).details[0]


def test_without_a_restore_there_are_no_strangers():
    controller = lived()
    report = HostJoined("h1", "boot-1", 4, 8192, (AttemptSeen(1, 0, 9, running=True),))
    controller.tell(report, by="host h1")
    assert not controller.state.hosts.strange
    assert controller.state.hosts.stale[0]


def test_ids_that_hosts_report_are_left_out_unless_they_are_absurd():
    controller = restored(lived(), 4)
    before = controller.state.next_job
    strange = [
        AttemptSeen(before + 5, 0, 1, running=True),
        AttemptSeen(1 << 62, 0, 1, running=True),
    ]
    join_host(controller, "h1", attempts=strange)
    assert submit(controller) == before + 6
    assert len(controller.state.hosts.strange[0]) == 2


@pytest.mark.parametrize("number", [0, -1, 1 << 62])
def test_a_host_that_reports_nonsense_of_a_job_harms_nobody(number):
    controller = cluster()
    job = submit(controller)
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, number, running=True)])
    assert controller.state.hosts.stale[0] == {(job, 0, number): None}
    check_state(controller.state)


def test_the_same_backup_restored_again_later_gives_out_nothing_twice():
    whole, found = lived(), []
    for later_s in (10, 3_600):
        again = RecordedController(replayed(whole.entries[:4]), now_us=whole.now_us)
        again.now_us += later_s * SECOND_US
        again.tell(ReignBegan(is_restored=True), by="controller")
        found.append((again.state.next_job, again.state.attempts_above))
    (jobs, attempts), (later_jobs, later_attempts) = found
    assert later_jobs - jobs == later_attempts - attempts == 3_590 * SKIPPED_PER_S


def test_nothing_starts_until_each_host_has_said_what_it_runs():
    controller = restored(lived(), 4)
    job = submit(controller)
    for host in ("h1", "h2"):
        join_host(controller, host)
        place(controller, job, host="h1")
        assert stat(controller, job) == "PEND"
        assert not controller.state.hosts.usable().any()
    check_state(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)
    join_host(controller, "h3")
    place(controller, job, host="h1")
    assert stat(controller, job) == "RUN"
    leave_host(controller, "h3")
    assert controller.state.hosts.usable().any()


def test_a_host_that_never_came_is_waited_for_and_can_be_given_up():
    whole = cluster({"h1": 9, "h2": 9}, join=False)
    controller = restored(whole, len(whole.entries))
    join_host(controller, "h1")
    assert list(controller.state.hosts.unasked) == [1]
    results = controller.tell(DeclareHostsLost("root", ("h2",), is_admin=True), by="root")
    assert results == (Accepted(text="lost"),)
    assert controller.state.hosts.usable().tolist() == [True, False]
    check_state(controller.state)


def test_a_host_that_was_given_up_before_the_backup_is_asked_too():
    whole = cluster({"h1": 9, "h2": 9})
    leave_host(whole, "h2")
    whole.tell(DeclareHostsLost("root", ("h2",), is_admin=True), by="root")
    controller = restored(whole, len(whole.entries))
    assert list(controller.state.hosts.unasked) == [0, 1]
    join_host(controller, "h1")
    tick(controller, after_us=2 * controller.state.config.host_grace_us)
    assert not controller.state.hosts.unasked
    check_state(controller.state)


def test_an_element_of_which_a_stranger_runs_does_not_start_again_by_itself():
    controller = cluster({"h1": 9, "h2": 9})
    job = submit(controller, submission(rerunnable=True))
    place(controller, job, host="h1")
    report_started(controller, job)
    controller = restored(controller, len(controller.entries))
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    join_host(controller, "h2", attempts=[AttemptSeen(job, 0, 2, running=True)])
    assert stat(controller, job) == "RUN"
    leave_host(controller, "h1")
    controller.tell(DeclareHostsLost("root", ("h1",), is_admin=True), by="root")
    assert stat(controller, job) == "PSUSP"


def test_what_is_being_ended_on_somebodys_word_is_not_named_again():
    controller = restored(lived(), 4)
    strange = [AttemptSeen(77, 0, 1, running=True)]
    join_host(controller, "h1", attempts=strange)
    controller.tell(EndStrangers("root", ("h1",), is_admin=True), by="root")
    controller.tell(SetHostsOpen("root", ("h1",), True, is_admin=True), by="root")
    leave_host(controller, "h1")
    join_host(controller, "h1", attempts=strange)
    table = controller.state.hosts
    assert table.is_open[0]
    assert table.stale[0] == {(77, 0, 1): None}
    assert controller.effects()[-1][1].forget


def test_ids_that_are_left_out_for_a_host_change_nothing_for_jobs_submitted_since():
    controller = restored(lived(), 4)
    join_all(controller)
    job = submit(controller, submission(rerunnable=True))
    beyond = controller.state.next_job + 5
    leave_host(controller, "h2")
    join_host(controller, "h2", attempts=[AttemptSeen(beyond, 0, 1, running=True)])
    place(controller, job)
    leave_host(controller, "h1")
    join_host(controller, "h1")
    assert controller.attempt(job).number == 1
    assert [effect.attempts for _, effect in controller.effects()] == [[1]]


def test_a_host_is_told_anew_how_what_it_ran_before_shall_be():
    controller = cluster({"h1": 9})
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    signal(controller, job, 10)
    controller = restored(controller, len(controller.entries))
    running = [AttemptSeen(job, 0, 1, running=True)]
    join_host(controller, "h1", attempts=running)
    told = [effect for _, effect in controller.effects()]
    assert [type(effect) for effect in told] == [SetSuspended, SetLimits]
    assert not told[0].suspended
    signal(controller, job, 12)
    (sent,) = [one for _, one in controller.effects() if isinstance(one, SendSignal)]
    assert (sent.signal, sent.number) == (12, controller.state.attempts_above + 1)
    check_state(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)
