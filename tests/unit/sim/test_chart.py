from pathlib import Path
from random import Random

import pytest

from xce.cli.xceadmin.scenario_words import CommandWords
from xce.daemon.config_directory import load_texts
from xce.sim.chart import FreeSlots, Run, gantt, make_chart, queue_length, read_chart, utilisation
from xce.sim.journal_chart import read_journal_chart
from xce.sim.scenario_file import load_scenario
from xce.sim.scenario_journal import run_scenario

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))


def chart(*runs: Run, queue: tuple[tuple[float, int], ...] = (), slots: int = 4):
    last = max((run.end for run in runs), default=0)
    return make_chart("c", slots=slots, first=0, last=last, runs=runs, waits=(), queue=queue)


def test_utilisation_is_the_share_of_slots_in_use_between_starts_and_ends() -> None:
    curve = utilisation(chart(Run("a", 0, 10, (("h1", 2),)), Run("b", 5, 10, (("h1", 1),))))
    assert curve == ([0, 5, 10], [0.5, 0.75, 0.0])


def test_who_is_followed_at_once_leaves_no_dip() -> None:
    curve = utilisation(chart(Run("a", 0, 10, (("h1", 4),)), Run("b", 10, 20, (("h1", 4),))))
    assert curve == ([0, 10, 20], [1.0, 1.0, 0.0])


def test_the_queue_has_those_who_came_and_were_not_started() -> None:
    queue = ((0, 1), (0, 1), (3, -1), (7, 1))
    assert queue_length(chart(Run("a", 0, 9, (("h", 1),)), queue=queue)) == (
        [0, 3, 7, 9],
        [2, 1, 2, 2],
    )


def test_an_empty_run_has_flat_curves() -> None:
    assert utilisation(chart()) == ([0], [0.0])
    assert gantt(chart()) == []


@pytest.mark.parametrize("seed", range(10))
def test_no_two_bars_of_a_host_share_a_slot_at_one_time(seed: int) -> None:
    rng = Random(seed)
    runs = []
    for number in range(60):
        start = rng.randint(0, 50)
        hosts = tuple((host, rng.randint(1, 5)) for host in rng.sample(["h1", "h2", "h3"], 2))
        runs.append(Run(str(number), start, start + rng.randint(1, 20), hosts))
    bars = gantt(chart(*runs))
    assert sum(bar.slots for bar in bars) == sum(run.slots for run in runs)
    for place, one in enumerate(bars):
        for other in bars[:place]:
            is_apart = one.host != other.host or one.end <= other.start or other.end <= one.start
            is_beside = one.slot + one.slots <= other.slot or other.slot + other.slots <= one.slot
            assert is_apart or is_beside


def test_free_slots_that_lie_beside_one_another_are_one_piece_again() -> None:
    free = FreeSlots()
    pieces = [free.take(2) for _ in range(4)]
    free.give(pieces[0])
    free.give(pieces[2])
    assert free.take(3) == [(0, 2), (4, 1)]
    free.give([(0, 2), (4, 1)])
    free.give(pieces[1])
    assert free.take(6) == [(0, 6)]
    free.give(pieces[3])
    assert free.take(3) == [(6, 3)]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_journal_and_the_simulation_that_wrote_it_show_the_same(
    path: Path, tmp_path: Path
) -> None:
    scenario = load_scenario(path, load_texts)
    document = run_scenario(scenario, CommandWords(), journal=tmp_path / "j")
    simulated = read_chart(document)
    recorded = read_journal_chart(tmp_path / "j")
    if any(row["attempt"] > 1 for row in document["jobs"]):
        # The simulation's object has the last attempts only.
        assert len(recorded.runs) > len(simulated.runs)
        return
    if scenario.until_us is None:
        assert {(run.start, run.end, run.hosts) for run in simulated.runs} == {
            (run.start, run.end, run.hosts) for run in recorded.runs
        }
    assert sorted(simulated.waits) == sorted(recorded.waits)
    first = simulated.first
    counted = [(at - first, change) for at, change in simulated.queue if at - first]
    # What waits before a snapshot or is refused comes and ceases at one instant.
    assert _sums(counted) == _sums([(at - first, change) for at, change in recorded.queue if at])


def _sums(queue: list[tuple[float, int]]) -> dict[float, int]:
    sums: dict[float, int] = {}
    for at, change in queue:
        sums[at] = sums.get(at, 0) + change
    return {at: change for at, change in sums.items() if change and at}
