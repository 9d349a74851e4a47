from types import SimpleNamespace

from xce.sim.loop import Doom, Loop, Process, call_apart
from xce.sim.starter import Starter


class Desk(Process):
    """A worker that dies when it is asked for the first task."""

    def __init__(self, loop):
        super().__init__(loop)
        self.begun = []
        self.doom = Doom("ask", 1)

    def begin(self, key, task):
        self.begun.append(task.name)
        self.seam("ask")


def test_who_dies_while_another_calls_takes_only_himself_along():
    loop = Loop()
    desk = Desk(loop)
    went_on = []

    def ask():
        call_apart(desk.begin, (1, 1, 1), SimpleNamespace(name="t0"))
        went_on.append(loop.now_us)

    loop.after(5, ask)
    loop.run_until(10)
    assert went_on == [5]
    assert not desk.is_alive


def test_a_process_whose_worker_dies_goes_on_to_ask_for_its_other_tasks():
    loop = Loop()
    desk = Desk(loop)
    starter = Starter((1, 1, 1), lambda: desk, lambda _: None)
    for host in ("h2", "h3"):
        starter.start(host, 1, 0, lambda what, code: None)
    assert desk.begun == ["t0", "t1"]
    assert not desk.is_alive
