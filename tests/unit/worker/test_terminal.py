"""The far end of a job's terminal: places, bounds, leases."""

import base64
import os
import select
from typing import Any

import pytest

from xce.worker.shepherd.terminal import LEASE_US, TYPED_MAX, UNREAD_MAX, Ends, Terminals

KEY = (1, 0, 1)


class Far:
    """A job's end of its streams, and the order of who asks."""

    def __init__(self, mode: str = "I") -> None:
        self.all = Terminals()
        self.ends: Ends = self.all.open(KEY, mode, [5, 7], os.geteuid(), os.getegid(), 0)
        self.all.start(KEY)

    def write(self, content: bytes) -> None:
        os.write(self.ends.output, content)
        self.all.serve()

    def ask(self, now_us: int = 0, **given: Any) -> list[Any]:
        fields: dict[str, Any] = {"offset": 0, "limit": 0, "wait_us": 0, "place": 0, "typed": b""}
        fields |= {"is_end": False, "rows": 0, "columns": 0, "hangs_up": False}
        fields.update(given)
        fields["typed"] = base64.b64encode(fields["typed"]).decode()
        self.all.take(now_us, 9, list(KEY), list(fields.values()))
        return self.told(now_us)

    def told(self, now_us: int = 0, *, running: bool = True) -> list[Any]:
        return self.all.look(now_us, {KEY} if running else set())

    def close(self) -> None:
        self.ends.close()
        self.all.drop(KEY)


@pytest.fixture
def far() -> Any:
    found = Far()
    yield found
    found.close()


def content_of(events: list[Any]) -> bytes:
    return b"".join(base64.b64decode(event[3]) for event in events if event[0] == "terminal")


def test_what_was_read_can_be_read_again_by_who_lost_the_answer(far: Far) -> None:
    far.write(b"abcdef")
    assert content_of(far.ask(offset=0, limit=3)) == b"abc"
    assert content_of(far.ask(offset=3, limit=9)) == b"def"
    assert content_of(far.ask(offset=1, limit=9)) == b"bcdef"


def test_an_ask_waits_for_something_to_tell(far: Far) -> None:
    assert far.ask(limit=9, wait_us=1_000_000) == []
    far.write(b"x")
    assert content_of(far.told()) == b"x"
    assert far.ask(offset=1, limit=9, wait_us=1_000_000) == []
    (event,) = far.told(1_000_000)
    assert content_of([event]) == b""
    assert not event[5]


def test_what_is_typed_twice_arrives_once(far: Far) -> None:
    assert far.ask(place=0, typed=b"abc")[0][4] == 3
    assert far.ask(place=0, typed=b"abcd")[0][4] == 4
    assert far.ask(place=9, typed=b"gap")[0][4] == 4
    assert os.read(far.ends.input, 99) == b"abcd"


def test_what_there_is_no_room_for_is_sent_again(far: Far) -> None:
    place, sent = 0, b"x" * (4 * TYPED_MAX)
    for _ in range(9):
        place = far.ask(place=place, typed=sent[place : place + TYPED_MAX])[0][4]
    assert TYPED_MAX <= place < len(sent)
    took = b""
    while place < len(sent) or len(took) < len(sent):
        took += os.read(far.ends.input, 1 << 16)
        far.all.serve()
        place = far.ask(place=place, typed=sent[place : place + TYPED_MAX])[0][4]
    assert took == sent


def test_a_job_waits_while_nobody_reads(far: Far) -> None:
    os.set_blocking(far.ends.output, False)
    written = 0
    while select.select([], [far.ends.output], [], 0)[1]:
        written += os.write(far.ends.output, b"y" * 4096)
        far.all.serve()
    assert UNREAD_MAX <= written < 3 * UNREAD_MAX
    read = b""
    while len(read) < written:
        read += content_of(far.ask(offset=len(read), limit=1 << 16))
        far.all.serve()
    assert read == b"y" * written


def test_the_end_of_input_closes_a_pipe_and_is_a_key_at_a_terminal(far: Far) -> None:
    far.ask(place=0, typed=b"last", is_end=True)
    assert os.read(far.ends.input, 99) == b"last"
    assert os.read(far.ends.input, 99) == b""
    other = Far("Is")
    other.ask(place=0, typed=b"line\n", is_end=True)
    assert os.read(other.ends.input, 99) == b"line\n"
    assert os.read(other.ends.input, 99) == b""
    other.close()


def test_a_terminal_has_the_size_that_was_said_last() -> None:
    far = Far("Ip")
    assert os.get_terminal_size(far.ends.input) == (7, 5)
    far.ask(rows=30, columns=90)
    assert os.get_terminal_size(far.ends.input) == (90, 30)
    far.close()


def test_the_end_comes_behind_all_that_was_written() -> None:
    far = Far("Is")
    os.write(far.ends.output, b"bye")
    far.ends.close()
    while select.select([far.all.epoll], [], [], 0)[0]:
        far.all.serve()
    first = far.ask(offset=0, limit=2)
    assert (content_of(first), first[0][5]) == (b"by", False)
    last = far.ask(offset=2, limit=9)
    assert (content_of(last), last[0][5]) == (b"e", True)
    assert far.told(running=False) == []
    assert KEY in far.all  # until somebody has asked for what lies behind
    far.ask(offset=3, limit=9)
    far.told(running=False)
    assert KEY not in far.all


def test_who_does_not_ask_any_more_has_lost_the_terminal(far: Far) -> None:
    far.ask(5, limit=1)
    assert far.told(LEASE_US) == []
    lost = [["terminal-lost", *KEY]]
    assert far.told(LEASE_US + 5) == lost
    assert far.told(LEASE_US + 6) == []
    assert far.told(LEASE_US + 2_000_000) == lost
    assert far.told(LEASE_US + 9_000_000, running=False) == []
    assert KEY not in far.all


def test_a_hang_up_answers_who_waits(far: Far) -> None:
    assert far.ask(limit=9, wait_us=1_000_000) == []
    events = far.ask(hangs_up=True)
    assert [event[0] for event in events] == ["terminal", "terminal", "terminal-lost"]
    assert all(event[5] for event in events[:2])


def test_there_is_no_terminal_of_a_job_without_one() -> None:
    every = Terminals()
    every.take(0, 3, [7, 0, 1], [0, 1, 0, 0, "", False, 0, 0, False])
    ((kind, number, *_, is_over, error),) = every.look(0, set())
    assert (kind, number, is_over, error) == ("terminal", 3, True, "there is no terminal")


@pytest.mark.parametrize("mode", ["I", "Ip"])
def test_an_end_that_is_closed_is_watched_no_more_though_a_child_has_a_copy(mode: str) -> None:
    # So it is from when the kernel lets the shepherd go on until the child has closed its copies.
    far = Far(mode)
    (own,) = far.all._all.values()
    copy = os.dup(own.reading)
    try:
        far.ends.close()
        for _ in range(3):
            far.all.serve()
        assert own.reading == -1
        assert far.all.epoll.poll(0) == []
    finally:
        os.close(copy)
        far.all.drop(KEY)
