"""Work at a steady pace."""

from xce.net.pacing import WAITING_MAX, Pacer


class Clock:
    """Has what was asked for done when time goes by."""

    def __init__(self):
        self.later = []
        self.done = []
        self.pacer = Pacer(0.5, lambda span_s, do: self.later.append((span_s, do)))

    def put(self, what):
        return self.pacer.put(lambda: self.done.append(what))

    def pass_by(self):
        ((span_s, do),) = self.later
        self.later.clear()
        assert span_s == 0.5
        do()


def test_the_first_is_done_at_once_and_each_other_in_its_turn():
    clock = Clock()
    for what in range(3):
        assert clock.put(what)
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
    taken = [clock.put(what) for what in range(WAITING_MAX + 2)]
    assert taken == [True] * (WAITING_MAX + 1) + [False]
