"""What controllers ask of a shepherd: each hears the answers to its own questions only."""

from types import SimpleNamespace

import pytest

from xce.model.task import ReadTask
from xce.model.usage import AttemptUse
from xce.net import message as m
from xce.worker.action import TaskTold, Uses
from xce.worker.asks import Asks

KEY = (1, 0, 1)
READ = ReadTask("t", 0, 0, 10, 1_000_000)


class Link:
    """A shepherd that keeps what it is told."""

    is_ready = True
    orders = 3

    def __init__(self):
        self.sent = []

    def send(self, frame):
        self.sent += frame.orders


@pytest.fixture
def way():
    link, said = Link(), []
    accounts = SimpleNamespace(known=lambda owner: None)
    return SimpleNamespace(link=link, said=said, asks=Asks(link, accounts, None, said.append))


def told(order):
    return TaskTold(order.id, 0, "", 7, 0, "", 0, "", 0, is_over=False, code=0)


def test_an_answer_goes_to_who_asked(way):
    way.asks.serve_task(5, KEY, READ)
    (order,) = way.link.sent
    way.asks.take(told(order))
    assert [(piece.id, piece.task.pid) for piece in way.said] == [(5, 7)]


def test_another_controller_is_not_given_the_answer_to_what_an_earlier_one_asked(way):
    way.asks.serve_task(5, KEY, READ)
    way.asks.serve_terminal(m.TerminalAsk(6, "h1", 1, 0, 1))
    way.asks.leave_controller()
    way.asks.serve_task(5, (2, 0, 1), READ)
    early, _, late = way.link.sent
    way.asks.take(told(early))
    assert way.said == []
    way.asks.take(told(late))
    assert [piece.id for piece in way.said] == [5]


def test_who_asked_a_shepherd_that_is_gone_is_told_to_ask_again(way):
    way.asks.serve_task(5, KEY, READ)
    way.asks.give_up()
    assert [(piece.id, piece.fault.name) for piece in way.said] == [(5, "AWAY")]


def test_what_attempts_use_is_told_to_who_asked(way):
    use = AttemptUse(1, 0, 1, 5, 10, 20, 15, 0, 3, 77, (77,))
    way.asks.read_usage(m.ReadUsage(5, "h1"))
    (order,) = way.link.sent
    for _ in range(2):
        way.asks.take(Uses(order.id, (use,)))
    assert way.said == [m.HostUsage(5, (use,))]
    way.asks.read_usage(m.ReadUsage(6, "h1"))
    way.asks.give_up()
    assert way.said[1:] == [m.HostUsage(6, error="the host's shepherd was restarted; try again")]


@pytest.mark.parametrize(("is_ready", "orders"), [(False, 3), (True, 2)])
def test_a_shepherd_that_cannot_say_what_attempts_use_is_not_asked(way, is_ready, orders):
    way.link.is_ready, way.link.orders = is_ready, orders
    way.asks.read_usage(m.ReadUsage(5, "h1"))
    assert way.link.sent == []
    assert "just starting" in way.said[0].error or "earlier release" in way.said[0].error
