"""What controllers ask of a shepherd: each hears the answers to its own questions only."""

from types import SimpleNamespace

import pytest

from xce.model.task import ReadTask
from xce.net import message as m
from xce.worker.action import TaskTold
from xce.worker.asks import Asks

KEY = (1, 0, 1)
READ = ReadTask("t", 0, 0, 10, 1_000_000)


class Link:
    """A shepherd that keeps what it is told."""

    is_ready = True

    def __init__(self):
        self.orders = []

    def send(self, frame):
        self.orders += frame.orders


@pytest.fixture
def way():
    link, said = Link(), []
    accounts = SimpleNamespace(known=lambda owner: None)
    return SimpleNamespace(link=link, said=said, asks=Asks(link, accounts, None, said.append))


def told(order):
    return TaskTold(order.id, 0, "", 7, 0, "", 0, "", 0, is_over=False, code=0)


def test_an_answer_goes_to_who_asked(way):
    way.asks.serve_task(5, KEY, READ)
    (order,) = way.link.orders
    way.asks.take(told(order))
    assert [(piece.id, piece.task.pid) for piece in way.said] == [(5, 7)]


def test_another_controller_is_not_given_the_answer_to_what_an_earlier_one_asked(way):
    way.asks.serve_task(5, KEY, READ)
    way.asks.serve_terminal(m.TerminalAsk(6, "h1", 1, 0, 1))
    way.asks.leave_controller()
    way.asks.serve_task(5, (2, 0, 1), READ)
    early, _, late = way.link.orders
    way.asks.take(told(early))
    assert way.said == []
    way.asks.take(told(late))
    assert [piece.id for piece in way.said] == [5]


def test_who_asked_a_shepherd_that_is_gone_is_told_to_ask_again(way):
    way.asks.serve_task(5, KEY, READ)
    way.asks.give_up()
    assert [(piece.id, piece.fault.name) for piece in way.said] == [(5, "AWAY")]
