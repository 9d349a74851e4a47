"""Reads of output on their way between apiservers and workers."""

import pytest

from xce.daemon.relays import PIECE_MAX, READS_MAX, Relays
from xce.net.frame import WireError
from xce.net.message import OutputChunk, ReadOutput


class End:
    """A peer that keeps what it is sent."""

    def __init__(self):
        self.sent = []
        self.is_open = True

    def send(self, message):
        self.sent.append(message)


def read(number, limit=100):
    return ReadOutput(number, "h1", 1, 0, 1, "stdout", "", "/", "ann", 1001, 1001, 0, limit)


@pytest.fixture
def ends():
    return Relays(), End(), End()


def test_a_read_goes_to_the_worker_and_its_piece_comes_back(ends):
    relays, asker, worker = ends
    relays.ask(asker, read(7), worker)
    (passed,) = worker.sent
    relays.answer(worker, OutputChunk(passed.id, b"text", 4))
    assert asker.sent == [OutputChunk(7, b"text", 4)]
    relays.answer(worker, OutputChunk(passed.id, b"again", 5))
    assert len(asker.sent) == 1


def test_nobody_answers_for_another_host(ends):
    relays, asker, worker = ends
    relays.ask(asker, read(7), worker)
    with pytest.raises(WireError, match="only what it was asked"):
        relays.answer(End(), OutputChunk(worker.sent[0].id, b"forged", 6))
    assert asker.sent == []


def test_a_piece_is_not_longer_than_was_asked_for(ends):
    relays, asker, worker = ends
    relays.ask(asker, read(7, limit=3), worker)
    with pytest.raises(WireError, match="4 bytes came where 3"):
        relays.answer(worker, OutputChunk(worker.sent[0].id, b"four", 4))
    relays.ask(asker, read(8, limit=1 << 40), worker)
    assert worker.sent[-1].limit == PIECE_MAX
    relays.ask(asker, read(9, limit=-5), worker)
    assert worker.sent[-1].limit == 0


def test_one_asker_has_a_bounded_number_of_reads_under_way(ends):
    relays, asker, worker = ends
    for number in range(READS_MAX + 1):
        relays.ask(asker, read(number), worker)
    assert len(worker.sent) == READS_MAX
    assert "try again" in asker.sent[-1].error
    relays.answer(worker, OutputChunk(worker.sent[0].id, b"", 0))
    relays.ask(asker, read(99), worker)
    assert len(worker.sent) == READS_MAX + 1
    relays.ask(End(), read(1), worker)
    assert len(worker.sent) == READS_MAX + 2


def test_a_host_that_is_not_there_is_said_so(ends):
    relays, asker, worker = ends
    worker.is_open = False
    for gone in (worker, None):
        relays.ask(asker, read(1), gone)
        assert asker.sent[-1].error == "host h1 is not connected"


def test_when_a_worker_goes_its_askers_are_told_and_when_an_asker_goes_nobody(ends):
    relays, asker, worker = ends
    other = End()
    relays.ask(asker, read(1), worker)
    relays.ask(other, read(1), worker)
    relays.drop(other)
    relays.drop(worker)
    assert asker.sent[-1].error == "the host's worker is gone"
    assert other.sent == []
    relays.answer(worker, OutputChunk(1, b"", 0))
