"""Tasks on other hosts in whole worlds: the books find what must not be, and worlds have it all."""

import pytest
from msgspec.structs import replace
from rough_worlds import complaint

from xce.control import observe
from xce.model.record import Requeued
from xce.model.task import PartSeen
from xce.net import task_relays
from xce.sim.faults import Faults
from xce.sim.tasks import KnownTasks
from xce.sim.world import World
from xce.worker.core import HostState
from xce.worker.parts import Parts

SEEDS = range(60)


class TaskWorld(World):
    """A world whose jobs start tasks, with trouble that parts feel."""

    def __init__(self, seed):
        faults = Faults(
            until_us=20_000_000, break_permille=10, worker_crashes=4, controller_crashes=2,
            cutoffs=2, cuts=4, seam_crashes=4, delay_us_max=50_000,
        )  # fmt: skip
        super().__init__(seed, faults)

    @staticmethod
    def _draws_tasks(seed):
        return True


def test_the_worlds_themselves_are_in_order_and_start_tasks():
    worlds = [TaskWorld(seed) for seed in range(5)]
    for world in worlds:
        world.live()
    assert sum(world.task_books.started for world in worlds) > 20
    assert sum(world.task_books.counted for world in worlds) > 5


def whole_end_at_once(self, live, one):
    """An attempt is over with its first host."""
    live.parts.clear()
    self._led.pop(live.key, None)
    if live.is_part:
        self._remember(one)
    return one


def refuse_nothing(state, ask, by):
    return None


def see_each_part_gone(self, key):
    live = self._attempts.live_of(key)
    return PartSeen(is_gone=live is None or not live.is_part or bool(live.step))


def forget_what_was_used(self, one):
    self._gone[one.key] = PartSeen(is_gone=True)


def open_part_again(self, key, now_us):
    return self.live_of(key) is None


serve_known = KnownTasks.serve


def forget_names(self, key, order, answer, begun):
    return serve_known(self, key, order, answer, None if begun is None else set())


BUGS = {
    "an attempt is over with its first host": (Parts, "whole_end", whole_end_at_once),
    "any host may be asked for a task": (task_relays, "refuse_ask", refuse_nothing),
    "a part is said to be gone before it is": (Parts, "seen", see_each_part_gone),
    "what a part used is forgotten": (Parts, "_remember", forget_what_was_used),
    "a task may come behind the end of its attempt": (HostState, "close_part", open_part_again),
    "a task may be started again when it is over": (KnownTasks, "serve", forget_names),
}
CI = ("an attempt is over with its first host", "any host may be asked for a task")


def is_found(name, patch):
    owner, attribute, bug = BUGS[name]
    patch.setattr(owner, attribute, bug)
    error, count = complaint(TaskWorld, SEEDS)
    print(f"{name}: {count} worlds: {type(error).__name__}: {error}"[:300])
    return error is not None


@pytest.mark.parametrize("name", CI)
def test_a_bug_about_parts_is_found(monkeypatch, name):
    assert is_found(name, monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BUGS)
def test_every_bug_about_parts_is_found(monkeypatch, name):
    assert is_found(name, monkeypatch)


class HastyTaskWorld(TaskWorld):
    """Users who requeue what has just begun, and nothing that would excuse a wrong account."""

    def __init__(self, seed):
        World.__init__(self, seed, Faults(until_us=20_000_000, races=60, delay_us_max=5_000))


def test_what_tasks_of_a_requeued_attempt_used_is_missed(monkeypatch):
    note = observe._note_used

    def forget_parts(record, attempt, item, begun, now_us):
        if isinstance(record, Requeued):
            item = replace(item, user_us=min(item.user_us, 1_000))
        note(record, attempt, item, begun, now_us)

    assert complaint(HastyTaskWorld, range(3))[0] is None
    monkeypatch.setattr(observe, "_note_used", forget_parts)
    error, _ = complaint(HastyTaskWorld, SEEDS)
    assert "are to be counted" in str(error)
