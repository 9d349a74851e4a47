"""Orders about remote tasks on their way between the workers of one attempt's hosts."""

import pytest
from msgspec.structs import replace

from xce.model.job import EndCause
from xce.model.task import (
    PIECE_MAX,
    EndFile,
    EndTask,
    FileSeen,
    HoldPart,
    ReadFile,
    ReadTask,
    StartTask,
    TaskFault,
    TaskSeen,
    WriteFile,
)
from xce.net.frame import WireError
from xce.net.message import TaskAsk, TaskPiece
from xce.net.task_relays import NAME_MAX, START_MAX, TaskRelays, host_asked
from xce.testing.builders import (
    cluster,
    gang,
    kill,
    leave_host,
    propose,
    report_started,
    submission,
    submit,
    tick,
)

START = StartTask("t", (b"true",), (b"A=1",), b"/", 0o022, has_input=False)
HOLD = HoldPart(False, 0, 0, EndCause.NONE, 0, 0, 0)


class End:
    """A peer that keeps what it is sent."""

    def __init__(self, protocol=2):
        self.sent = []
        self.is_open = True
        self.protocol = protocol

    def send(self, message):
        self.sent.append(message)


class Way:
    """Relays with a job on h1 and h2, led by h1; h3 has nothing of it."""

    def __init__(self, **spec):
        self.controller = cluster({"h1": 4, "h2": 4, "h3": 4})
        asked = submission(tasks=4)
        asked = replace(asked, spec=replace(asked.spec, **spec))
        self.job = submit(self.controller, asked)
        propose(self.controller, gang(self.controller, self.job, hosts={"h1": 2, "h2": 2}))
        report_started(self.controller, self.job)
        self.relays, self.asker, self.worker = TaskRelays(), End(), End()

    def ask(self, order=HOLD, *, host="h2", by="h1", attempt=1, worker=None, number=7, behind=0):
        ask = TaskAsk(number, host, self.job, 0, attempt, order)
        state = self.controller.state
        self.relays.ask(
            self.asker, ask, state, by=by, worker=worker or self.worker,
            durable_seq=state.seq - behind,
        )  # fmt: skip

    def refused(self, fault, words):
        (piece,) = self.asker.sent
        assert self.worker.sent == []
        assert piece.fault is fault
        assert words in piece.text
        assert piece.id == 7


@pytest.fixture
def way():
    return Way()


def test_an_order_goes_to_the_other_host_and_its_answer_comes_back(way):
    way.ask(EndTask("t"))
    (passed,) = way.worker.sent
    assert (passed.host, passed.order, passed.launch) == ("h2", EndTask("t"), None)
    way.relays.answer(way.worker, TaskPiece(passed.id, task=TaskSeen(pid=5)))
    assert way.asker.sent == [TaskPiece(7, task=TaskSeen(pid=5))]


def test_what_is_started_is_said_by_the_controller_and_not_by_who_asks(way):
    state = way.controller.state
    forged = TaskAsk(7, "h2", way.job, 0, 1, START)
    way.ask(START)
    launch = way.worker.sent[0].launch
    assert launch.owner == state.jobs[way.job].owner
    assert (launch.indices, launch.attempts) == ([0], [1])
    assert launch.hosts == (("h1", 2), ("h2", 2))
    way.relays.ask(
        way.asker, replace(forged, launch=replace(launch, owner=replace(launch.owner, uid=0))),
        state, by="h1", worker=way.worker, durable_seq=state.seq,
    )  # fmt: skip
    assert way.worker.sent[1].launch.owner == launch.owner


@pytest.mark.parametrize("by", ["h2", "h3"])
def test_only_the_first_host_of_an_attempt_asks(way, by):
    way.ask(host="h1" if by == "h2" else "h2", by=by)
    way.refused(TaskFault.OVER, f"host {by} does not lead this attempt")


def test_another_attempt_is_none_of_its_business(way):
    way.ask(attempt=2)
    way.refused(TaskFault.OVER, "does not lead")


@pytest.mark.parametrize("host", ["h3", "h1", "nowhere"])
def test_only_its_other_hosts_are_asked(way, host):
    way.ask(host=host)
    way.refused(TaskFault.REFUSED, f"host {host} is none of the job's other hosts")


def test_nothing_is_started_for_a_job_that_is_being_ended_and_the_rest_is_passed_on(way):
    kill(way.controller, way.job)
    way.ask(START)
    way.refused(TaskFault.REFUSED, "the job is being ended")
    way.ask(HOLD)
    assert len(way.worker.sent) == 1


def test_a_host_that_is_away_is_said_so_and_one_that_is_lost_is_over(way):
    way.worker.is_open = False
    way.ask()
    way.refused(TaskFault.AWAY, "host h2 is not connected")
    leave_host(way.controller, "h2")
    tick(way.controller, after_us=1_000_000_000)
    way.ask()
    assert way.asker.sent[1].fault is TaskFault.OVER


def test_nobody_is_told_that_a_host_is_lost_before_that_is_stored(way):
    leave_host(way.controller, "h2")
    tick(way.controller, after_us=1_000_000_000)
    seq = way.controller.state.seq
    way.ask(behind=1)
    way.relays.settle(seq - 1)
    assert way.asker.sent == []
    way.relays.settle(seq)
    way.refused(TaskFault.OVER, "host h2 was lost")
    way.ask(behind=1)
    way.relays.drop(way.asker)
    way.relays.settle(seq)
    assert len(way.asker.sent) == 1


def test_a_worker_of_an_older_release_is_not_asked(way):
    way.ask(worker=End(protocol=1))
    way.refused(TaskFault.REFUSED, "of a release without remote tasks")


@pytest.mark.parametrize(
    "order",
    [
        replace(START, name="x" * (NAME_MAX + 1)),
        replace(START, argv=()),
        replace(START, env=(b"x" * START_MAX, b"y")),
        ReadTask("t", 0, 0, PIECE_MAX + 1, 0),
    ],
)
def test_an_order_out_of_bounds_is_refused(way, order):
    way.ask(order)
    way.refused(TaskFault.REFUSED, "too long")


def test_a_worker_answers_only_what_it_was_asked(way):
    way.ask()
    with pytest.raises(WireError):
        way.relays.answer(End(), TaskPiece(way.worker.sent[0].id))
    content = b"x" * (2 * PIECE_MAX + 1)
    piece = TaskPiece(way.worker.sent[0].id, task=TaskSeen(out=content))
    with pytest.raises(WireError):
        way.relays.answer(way.worker, piece)


def test_when_a_worker_goes_who_asked_is_told_and_when_that_goes_nobody(way):
    way.ask()
    way.relays.drop(way.worker)
    (piece,) = way.asker.sent
    assert (piece.id, piece.fault) == (7, TaskFault.AWAY)
    way.ask(number=8)
    way.relays.drop(way.asker)
    way.relays.drop(way.worker)
    assert len(way.asker.sent) == 1
    way.relays.answer(way.worker, TaskPiece(way.worker.sent[-1].id))


PIECE = ReadFile("c", 0, 0, PIECE_MAX)


def test_files_are_asked_for_where_the_job_was_submitted_whoever_is_named():
    way = Way(from_host="h3.site", transfers=(("/in", ">", "in", "1 boot 1 2"),))
    state = way.controller.state
    for order in (PIECE, WriteFile("c", 0, 0, b"x", 0o600, True), EndFile("c", 0)):
        ask = TaskAsk(7, "h2", way.job, 0, 1, order)
        assert host_asked(state, ask) == "h3"
        way.ask(order, host="h3")
        launch = way.worker.sent[-1].launch
        assert (launch is None) == isinstance(order, EndFile)
    assert way.worker.sent[0].launch.spec.transfers[0][0] == "/in"
    assert host_asked(state, TaskAsk(7, "h2", way.job, 0, 1, HOLD)) == "h2"


def test_the_host_of_a_file_is_the_machine_where_its_place_was_noted_and_else_the_submissions():
    transfers = (("/in", ">", "in", "1 boot-a 1 2"), ("/b", "<", "b", "2 nfs4 nas:/v /x"))
    way = Way(from_host="h3", transfers=transfers)
    state = way.controller.state
    ask = TaskAsk(7, "", way.job, 0, 1, PIECE)
    other = replace(ask, order=EndFile("c", 1))
    none = [
        replace(ask, job=999), replace(ask, index=5), replace(ask, order=EndFile("c", 2)),
        replace(ask, order=EndFile("c", -1)),
    ]  # fmt: skip
    assert [host_asked(state, one) for one in none] == [""] * 4
    assert (host_asked(state, ask), host_asked(state, other)) == ("h3", "h3")
    for boots, host in ((["", "boot-a", "boot-b"], "h2"), (["", "boot-a", "boot-a"], "h3")):
        state.hosts.boot_ids[:] = boots
        assert (host_asked(state, ask), host_asked(state, other)) == (host, "h3")


def test_files_of_a_job_that_is_being_ended_are_still_carried_and_others_are_not(way):
    kill(way.controller, way.job)
    way.ask(PIECE)
    assert len(way.worker.sent) == 1
    way.worker.sent.clear()
    way.ask(PIECE, attempt=2)
    way.refused(TaskFault.OVER, "does not lead")


@pytest.mark.parametrize(
    "order",
    [
        ReadFile("c", 0, 0, PIECE_MAX + 1), ReadFile("c", 0, -1, 1), ReadFile("", 0, 0, 1),
        WriteFile("c", 0, 0, bytes(PIECE_MAX + 1), 0, True), EndFile("c" * (NAME_MAX + 1), 0),
    ],
)  # fmt: skip
def test_orders_about_files_are_bounded(way, order):
    way.ask(order)
    way.refused(TaskFault.REFUSED, "too long")


def test_without_a_host_of_the_submission_nothing_is_carried(way):
    way.ask(PIECE, host="")
    way.refused(TaskFault.REFUSED, "none of this cluster")


def test_a_piece_of_a_file_is_bounded(way):
    way.ask(PIECE)
    piece = TaskPiece(way.worker.sent[0].id, file=FileSeen(content=bytes(PIECE_MAX + 1)))
    with pytest.raises(WireError):
        way.relays.answer(way.worker, piece)
    way.relays.answer(way.worker, replace(piece, file=FileSeen(content=b"x")))
    assert way.asker.sent[0].file.content == b"x"


def test_a_stranger_is_asked_to_wait_and_what_was_adopted_begins_nothing_on_other_hosts(way):
    """After a restore: see `xce.control.adopt`."""
    state, key = way.controller.state, (way.job, 0, 1)
    state.hosts.strange[0] = {key: None}
    way.ask()
    way.refused(TaskFault.AWAY, "the restored journal does not know this attempt")
    del state.hosts.strange[0]
    state.attempt(way.job, 0).is_adopted = True
    way.ask(START)
    way.ask(HOLD)
    assert [one.launch for one in way.worker.sent] == [None, None]
