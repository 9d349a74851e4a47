"""What is under way between askers and workers: bounded, nobody else's to answer, and forgotten."""

import pytest

from xce.net.frame import WireError
from xce.net.relay_table import RelayTable

ANN, BOB, H1, H2 = (object() for _ in range(4))


@pytest.fixture
def table():
    return RelayTable(2)


def test_who_was_asked_answers_once(table):
    number = table.add(ANN, H1, "what")
    assert table.find(H1, number).asked == "what"
    with pytest.raises(WireError, match="only what it was asked"):
        table.find(H2, number)
    table.end(number)
    assert table.find(H1, number) is None
    assert table.find(H2, number) is None


def test_an_answer_to_what_an_earlier_controller_passed_on_finds_nothing(table):
    number = table.add(ANN, H1, "before")
    after = RelayTable(2)
    after.add(ANN, H1, "after")
    assert after.find(H1, number) is None


def test_one_asker_has_a_bounded_part(table):
    numbers = [table.add(ANN, H1, number) for number in range(2)]
    assert table.is_full(ANN)
    assert not table.is_full(BOB)
    table.end(numbers[0])
    assert not table.is_full(ANN)


def test_who_ends_is_forgotten_and_those_who_wait_for_him_are_told(table):
    table.add(ANN, H1, "a")
    table.add(BOB, H1, "b")
    table.add(BOB, H2, "c")
    assert [(item.asker, item.asked) for item in table.drop(H1)] == [(ANN, "a"), (BOB, "b")]
    assert table.drop(BOB) == []
    assert table._under_way == table._count == {}


def test_a_host_that_asks_itself_is_told_nothing(table):
    table.add(H1, H1, "a")
    assert table.drop(H1) == []
