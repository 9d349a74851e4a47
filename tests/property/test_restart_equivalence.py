"""A controller that is stopped at any event and started again changes nothing of the schedule."""

import os
from random import Random

import pytest
from restarted import RestartedRun, draw_scenario, schedule_of

from xce.cli.xceadmin.scenario_words import CommandWords
from xce.sim.scenario_file import parse_scenario

SEEDS = range(int(os.environ.get("XCE_RESTART_SEEDS", "12")))
STOPS = 6
"""Single events at which it is stopped, for each scenario; in the long form at every one."""


def run(seed: int, stops, *, with_scheduler: bool = False) -> RestartedRun:
    text = draw_scenario(Random(seed))
    scenario = parse_scenario(text, file="s", name="s", load_texts=lambda _: {})
    made = RestartedRun(scenario, CommandWords(), stops=stops, with_scheduler=with_scheduler)
    made.run()
    return made


def never(_: int) -> bool:
    return False


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("with_scheduler", [False, True], ids=["controller", "both"])
def test_stopped_at_every_event_it_gives_the_same_schedule(seed: int, with_scheduler: bool) -> None:
    whole = run(seed, never)
    stopped = run(seed, lambda _: True, with_scheduler=with_scheduler)
    assert stopped.restarts >= whole.happened
    assert schedule_of(stopped) == schedule_of(whole)


@pytest.mark.parametrize("seed", SEEDS)
def test_stopped_at_one_event_it_gives_the_same_schedule(seed: int) -> None:
    whole = run(seed, never)
    expected = schedule_of(whole)
    rng = Random(seed)
    for at in sorted(rng.sample(range(1, whole.happened + 1), min(STOPS, whole.happened))):
        stopped = run(seed, lambda number, at=at: number == at)
        assert stopped.restarts == 1
        assert schedule_of(stopped) == expected, f"stopped at event {at}"


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(1_000, 1_060))
def test_stopped_at_each_event_in_turn_it_gives_the_same_schedule(seed: int) -> None:
    whole = run(seed, never)
    expected = schedule_of(whole)
    for at in range(1, whole.happened + 1):
        stopped = run(seed, lambda number, at=at: number == at, with_scheduler=at % 2 == 0)
        assert schedule_of(stopped) == expected, f"stopped at event {at}"


def test_the_scenarios_have_a_bit_of_everything() -> None:
    stats, attempts = set(), 0
    for seed in SEEDS:
        rows = schedule_of(run(seed, never))
        stats |= {row[2] for row in rows}
        attempts = max(attempts, *(int(str(row[6])) for row in rows))
    assert stats >= {"DONE", "EXIT"}
    assert attempts > 1
