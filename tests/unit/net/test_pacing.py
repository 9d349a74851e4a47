"""Work at a steady pace."""

from xce.net.pacing import WAITING_MAX, Pacer


class Clock:
    """Has what was asked for done when time goes by."""

    def __init__(self):
        self.later = []
        self.done = []
        self.dropped = []
        self.pacer = Pacer(0.5, lambda span_s, do: self.later.append((span_s, do)))

    def put(self, what, user="ann"):
        self.pacer.put(user, lambda: self.done.append(what), lambda: self.dropped.append(what))

    def pass_by(self):
        ((span_s, do),) = self.later
        self.later.clear()
        assert span_s == 0.5
        do()


def test_the_first_is_done_at_once_and_each_other_in_its_turn():
    clock = Clock()
    for what in range(3):
        clock.put(what)
    assert clock.done == [0]
    clock.pass_by()
    assert clock.done == [0, 1]
    clock.pass_by()
    clock.pass_by()
    assert clock.done == [0, 1, 2]
    assert clock.later == []
    clock.put(3)
    assert clock.done == [0, 1, 2, 3]


def test_a_bounded_number_waits():
    clock = Clock()
    for what in range(WAITING_MAX + 2):
        clock.put(what)
    assert clock.dropped == [WAITING_MAX + 1]


def test_each_user_has_his_turn_however_much_another_one_wants():
    clock = Clock()
    for what in range(5):
        clock.put(what)
    clock.put("b1", "bob")
    clock.put("c1", "cy")
    clock.put("b2", "bob")
    for _ in range(7):
        clock.pass_by()
    assert clock.done == [0, 1, "b1", "c1", 2, "b2", 3, 4]


def test_who_has_most_waiting_keeps_nobody_out():
    clock = Clock()
    for what in range(WAITING_MAX + 1):
        clock.put(what)
    for what in range(3):
        clock.put(f"b{what}", "bob")
    assert clock.dropped == [WAITING_MAX, WAITING_MAX - 1, WAITING_MAX - 2]
    for _ in range(6):
        clock.pass_by()
    assert clock.done == [0, 1, "b0", 2, "b1", 3, "b2"]
    assert clock.pacer._count == WAITING_MAX - 6


def test_of_many_who_have_one_each_the_newest_is_dropped():
    clock = Clock()
    for number in range(WAITING_MAX + 2):
        clock.put(number, f"u{number}")
    assert clock.dropped == [WAITING_MAX + 1]
