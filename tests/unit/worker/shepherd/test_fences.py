"""Leases of attempts, without processes: what is frozen, goes on, and is to be killed, and when."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xce.worker.shepherd import fences, rundir
from xce.worker.shepherd.attempts import ENDED, LEAVING, Attempt, restore
from xce.worker.shepherd.fences import Fences
from xce.worker.shepherd.spawn import Ids

S = 1_000_000
KEY = (1, 0, 1)
ROW = [1, 0, 1, 60 * S, 80 * S]


class Rig:
    """Fences of one attempt by clocks that a test turns; the machine has slept for an hour."""

    def __init__(self, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = runs
        self.now_us = 0
        self.asleep_us = 3_600 * S
        self.done: list[str] = []
        monkeypatch.setattr(fences, "boot_us", lambda: self.now_us)
        self.attempt = Attempt(KEY, str(runs / "1.0.1"), ids=Ids(0, 0, ()), note="n", mark="m")
        (runs / "1.0.1").mkdir()
        self.begin()

    def begin(self, boot: str = "b") -> None:
        """Begin as a shepherd that has just come."""
        reach: Any = SimpleNamespace(
            begin=lambda: None,
            stop=lambda _: self.done.append("stop"),
            go_on=lambda _: self.done.append("go on"),
        )
        clock = lambda: self.now_us - self.asleep_us  # noqa: E731
        self.fences = Fences(str(self.runs), boot, {KEY: self.attempt}, reach, clock)

    def look(self, at_s: int) -> tuple[bool, list[str], list[bool]]:
        """Return whether it is to be killed, what was done, and what was told."""
        self.now_us, self.done = at_s * S, []
        late, told = self.fences.look()
        return late == [self.attempt], self.done, [event[-1] for event in told]


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


NOTHING = (False, [], [])


def test_an_attempt_runs_is_frozen_and_is_killed_each_once(rig: Rig) -> None:
    rig.fences.take([ROW])
    assert rig.fences.next_due_us() == 60 * S
    assert rig.look(59) == NOTHING
    assert rig.look(60) == (False, ["stop"], [True])
    assert rig.fences.next_due_us() == 80 * S
    assert rig.look(79) == NOTHING
    assert rig.look(80) == (True, [], [])
    assert not rig.attempt.frozen_us, "its next steps are not held up"
    assert rig.look(81) == NOTHING
    assert rig.fences.next_due_us() == 0


def test_after_a_long_sleep_it_is_killed_without_being_frozen_first(rig: Rig) -> None:
    rig.fences.take([ROW])
    assert rig.look(3_000) == (True, [], [])


def test_what_is_frozen_goes_on_with_a_lease_and_without_one_that_is_wanted(rig: Rig) -> None:
    for rows in ([[1, 0, 1, 90 * S, 99 * S]], []):
        rig.fences.take([[1, 0, 1, 1, 2**60]])
        assert rig.look(50)[1] == ["stop"]
        rig.fences.take(rows)
        assert rig.look(51)[1] == ["go on"]
        assert not rig.attempt.frozen_us
    assert rig.attempt.stopped_us == 2 * S


def test_what_its_user_has_stopped_stays_stopped_after_the_thaw(rig: Rig) -> None:
    rig.attempt.note_still(1, still=True)
    rig.fences.take([ROW])
    assert rig.look(60)[1] == ["stop"]
    rig.fences.take([[1, 0, 1, 90 * S, 99 * S]])
    assert rig.look(61) == (False, [], [False])
    assert rig.attempt.suspended_us
    assert not rig.attempt.frozen_us


def test_a_worker_that_knows_of_no_contact_changes_nothing(rig: Rig) -> None:
    rig.fences.take([ROW])
    rig.fences.take([[1, 0, 1, -1, -1]])
    assert rig.fences.next_due_us() == 60 * S
    assert rig.look(60)[1] == ["stop"]
    rig.fences.take([[1, 0, 1, -1, -1], [2, 0, 1, -1, -1]])
    assert rig.look(61) == NOTHING
    assert rig.look(80)[0]


def test_the_next_shepherd_knows_the_leases_and_what_is_frozen(rig: Rig) -> None:
    status = rundir.store_intent(rig.attempt.path, {
        "key": list(KEY), "mark": "m", "boot": "b", "at": 1, "uid": 0, "gid": 0, "groups": [],
        "limit_kib": 0, "grouped": False, "report": "", "detail": "", "note": "n",
    })  # fmt: skip
    rig.fences.take([ROW])
    rig.look(60)
    stored = rundir.load(rig.attempt.path, KEY, wall_us=0)
    assert stored is not None
    rig.attempt = restore(stored, rig.attempt.path, boot="b", now_us=61 * S)
    assert rig.attempt.frozen_us == rig.now_us - rig.asleep_us
    rig.begin()
    rig.done = []
    rig.fences.freeze_again()
    assert rig.done == ["stop"], "its shepherd may have been killed before it did so"
    assert rig.look(79) == NOTHING
    assert rig.look(80)[0]
    rig.begin(boot="another")
    assert rig.fences.next_due_us() == 0
    os.close(status)


def test_what_is_frozen_stays_so_where_the_leases_are_lost(rig: Rig) -> None:
    rig.fences.take([ROW])
    rig.look(60)
    (rig.runs / fences.LEASES).write_text("{}")
    rig.begin()
    rig.fences.freeze_again()
    rig.fences.take([[1, 0, 1, -1, -1]])
    assert rig.look(999) == NOTHING
    rig.fences.take([[1, 0, 1, 2_000 * S, 3_000 * S]])
    assert rig.look(1_000)[1] == ["go on"]


def test_a_worker_of_an_older_release_says_one_instant_by_the_other_clock(rig: Rig) -> None:
    rig.fences.take([[1, 0, 1, 60 * S - rig.asleep_us]])
    assert rig.look(59) == NOTHING
    assert rig.look(60) == (True, [], [])


def test_a_worker_is_told_of_freezing_only_if_it_knows_of_it(rig: Rig) -> None:
    rig.fences.take([ROW])
    rig.fences.leave_worker()
    assert rig.look(60) == (False, ["stop"], [])


@pytest.mark.parametrize("state", [LEAVING, ENDED])
def test_what_is_left_of_an_attempt_is_frozen_and_nothing_where_nothing_is(
    rig: Rig, state: int
) -> None:
    rig.attempt.state = state
    rig.fences.take([ROW])
    assert rig.look(60)[1] == (["stop"] if state == LEAVING else [])


def test_post_hooks_are_left_alone(rig: Rig) -> None:
    rig.attempt.course = SimpleNamespace(is_posting=True)  # type: ignore[assignment]
    rig.fences.take([ROW])
    assert rig.look(60) == NOTHING
