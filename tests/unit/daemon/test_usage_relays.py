"""What running attempts use, on its way between apiservers and workers."""

from types import SimpleNamespace

import pytest

from xce.daemon.usage_relays import ASKS_MAX, SINCE, UsageRelays
from xce.model.usage import AttemptUse
from xce.net.frame import WireError
from xce.net.message import HostUsage, ReadUsage

USE = AttemptUse(1, 0, 1, 2_000_000, 10, 20, 15, 0, 3, 77, (77, 78))


class End:
    """A peer that keeps what it is sent."""

    def __init__(self, protocol=SINCE):
        self.sent = []
        self.is_open = True
        self.protocol = protocol

    def send(self, message):
        self.sent.append(message)


@pytest.fixture
def way():
    return SimpleNamespace(relays=UsageRelays(), asker=End(), worker=End())


def ask(way, number=7, worker=None):
    way.relays.ask(way.asker, ReadUsage(number, "h1"), worker or way.worker)


def test_a_question_goes_to_the_worker_and_its_answer_comes_back_once(way):
    ask(way)
    (passed,) = way.worker.sent
    assert passed.host == "h1"
    for _ in range(2):
        way.relays.answer(way.worker, HostUsage(passed.id, (USE,)))
    assert way.asker.sent == [HostUsage(7, (USE,))]


def test_nobody_answers_for_another_host(way):
    ask(way)
    with pytest.raises(WireError, match="only what it was asked"):
        way.relays.answer(End(), HostUsage(way.worker.sent[0].id, (USE,)))
    assert way.asker.sent == []


@pytest.mark.parametrize(
    "changes",
    [
        {"job": -1}, {"attempt": 1 << 40}, {"cpu_us": -1}, {"cpu_us": 1 << 63}, {"mem_kib": -1},
        {"max_mem_kib": 1 << 60}, {"threads": -3}, {"pids": (1, -2)},
    ],
)  # fmt: skip
def test_what_no_attempt_can_use_is_no_answer(way, changes):
    ask(way)
    values = {name: getattr(USE, name) for name in USE.__struct_fields__} | changes
    with pytest.raises(WireError, match="out of bounds|no number"):
        way.relays.answer(way.worker, HostUsage(way.worker.sent[0].id, (AttemptUse(**values),)))
    assert way.asker.sent == []


def test_one_asker_asks_a_bounded_number_of_hosts_at_once(way):
    for number in range(ASKS_MAX + 1):
        ask(way, number)
    assert len(way.worker.sent) == ASKS_MAX
    assert way.asker.sent == [HostUsage(ASKS_MAX, error="too many hosts at once; try again")]


def test_who_cannot_answer_is_not_asked(way):
    earlier = End(protocol=SINCE - 1)
    ask(way, 1, earlier)
    way.worker.is_open = False
    ask(way, 2)
    way.relays.ask(way.asker, ReadUsage(3, "h1"), None)
    assert earlier.sent == way.worker.sent == []
    errors = [(told.id, told.error) for told in way.asker.sent]
    assert errors == [
        (1, "the worker of host h1 is of an earlier release"),
        (2, "host h1 is not connected"), (3, "host h1 is not connected"),
    ]  # fmt: skip


def test_when_a_worker_goes_its_askers_are_told_and_when_an_asker_goes_nobody(way):
    ask(way)
    way.relays.drop(way.worker)
    assert way.asker.sent == [HostUsage(7, error="the host's worker is gone")]
    ask(way, 8)
    way.relays.drop(way.asker)
    way.relays.answer(way.worker, HostUsage(way.worker.sent[-1].id, (USE,)))
    assert len(way.asker.sent) == 1
