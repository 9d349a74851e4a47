"""Swarms go on where they were interrupted, count what met what, and make failures smaller."""

import re
from pathlib import Path

import msgspec
import pytest

from xce.journal.codec import decode_batch
from xce.sim import host, leader, planner, remote, shepherd, swarm
from xce.sim.coverage import CALM, EVENTS, Coverage, Strikes, no_coverage, render_table
from xce.sim.faults import COUNTED, COUNTED_OF_RESTORE, COUNTED_OF_TRUST, DIALS, Faults
from xce.sim.havoc import SEAMS, TASK_SEAMS
from xce.sim.loop import DiedError, Doom, Loop, Process
from xce.sim.shrink import live, render_shrunk, shrink
from xce.sim.untrue import UntrueError
from xce.sim.world import World


class FussyWorld(World):
    """Cannot bear that a snapshot is made where commits are late."""

    def _check_end(self) -> None:
        super()._check_end()
        strikes = self.strikes.found.strikes
        if strikes["late_permille"] and strikes["snapshots"]:
            raise UntrueError(f"{strikes['snapshots']} snapshots")


def fussy_seed() -> int:
    return next(seed for seed in range(200) if live(seed, kind=FussyWorld)[1] is not None)


def test_a_failure_is_made_as_small_as_it_can_be() -> None:
    seed = fussy_seed()
    found = shrink(seed, kind=FussyWorld)
    assert [item.kind for item in found.items.values()] == ["snapshots"]
    assert found.items_before > 5
    assert "late_permille" not in found.without
    assert "break_permille" in found.without
    assert found.failure.text == "1 snapshots"
    lines = render_shrunk(found)
    assert lines[0] == f"seed {seed}: 1 snapshots"
    assert f"--seeds {seed} --keep {next(iter(found.items))} --without" in lines[-1]
    kept = frozenset(found.items)
    _, again = live(seed, keep=kept, without=found.without, kind=FussyWorld)
    assert again is not None
    assert again.where == found.failure.where
    assert live(seed, keep=frozenset(), without=found.without, kind=FussyWorld)[1] is None


def test_a_seed_that_does_not_fail_cannot_be_made_smaller() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        shrink(3)


def test_a_swarm_goes_on_where_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(swarm, "CHUNK", 2)
    notes = tmp_path / "notes"
    heard: list[int] = []

    def hear(chunk, done: int) -> None:
        heard.append(done)
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swarm.live_all(0, 6, jobs=1, notes=notes, hear=hear)
    with notes.open("ab") as file:
        file.write(b'{"first": 4, "las')  # as a crash leaves it
    result = swarm.live_all(0, 6, jobs=1, notes=notes, hear=lambda _, done: heard.append(done))
    assert heard == [2, 4, 6, 7]
    assert (result.seeds, result.lived, result.failures) == (7, 3, [])
    whole = swarm.live_all(0, 6, jobs=1)
    assert result.coverage == whole.coverage
    assert whole.lived == 7


def test_two_processes_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swarm, "CHUNK", 1)
    assert swarm.live_all(0, 3, jobs=2).coverage == swarm.live_all(0, 3, jobs=1).coverage


def test_a_result_is_told_in_words_and_as_an_object() -> None:
    result = swarm.live_all(0, 1, jobs=1)
    lines = swarm.render_result(result, [])
    assert any(line.startswith("job-submitted") for line in lines)
    assert any(line.startswith("  shepherd: ordered") for line in lines)
    assert "2 seeds, 0 fail" in lines[-1]
    document = msgspec.json.decode(msgspec.json.encode(swarm.render_json(result, [])))
    assert document["seeds"] == 2
    assert document["failures"] == []
    assert any(event == "job-submitted" for event, _, _ in document["events_by_fault"])


def test_every_fault_has_a_column_and_every_event_a_row() -> None:
    spans = {"until_us", "slow_us_max"}
    counted = {*COUNTED, *COUNTED_OF_TRUST, *COUNTED_OF_RESTORE}
    assert set(Faults.__struct_fields__) == counted | {*DIALS} | spans
    table = render_table(no_coverage(), swarm.FAULTS)
    assert {line.split()[0] for line in table if not line.startswith(" ")} == set(EVENTS)
    assert all(any(f" {fault} (" in line for line in table) for fault in swarm.FAULTS)


def test_a_fault_is_at_work_for_a_while() -> None:
    world = World(3, keep=frozenset())
    loop = Loop()
    strikes = Strikes(loop)
    world._run_until(2_000_000)
    entries = world.disk.batches[0]
    seen: list[Coverage] = []
    for at_us, fault in ((0, "cuts"), (1_000_000, ""), (10_000_000, "")):
        loop.run_until(at_us)
        if fault:
            strikes.note(fault)
        strikes.note_entries(_entries(entries))
        seen.append(msgspec.structs.replace(strikes.found, pairs=strikes.found.pairs.copy()))
    pairs = [coverage.pairs for coverage in seen]
    assert pairs[0]["config-applied", "cuts"] == 1
    assert pairs[1]["config-applied", "cuts"] == 2
    assert pairs[2]["config-applied", "cuts"] == 2
    assert pairs[2]["config-applied", CALM] == 1


def _entries(batch):
    return decode_batch(batch.content, previous_crc=batch.crc_before, expected_seq=batch.first)[0]


def test_who_dies_at_a_seam_takes_only_himself_along() -> None:
    loop = Loop()
    process, done = Process(loop), []

    def work() -> None:
        done.append("before")
        process.seam("middle")
        done.append("behind")

    process.doom = Doom("middle", 2)
    for at_us in (1, 2, 3):
        process.after(at_us, work)
    loop.at(4, done.append, "others")
    loop.run_until(10)
    assert done == ["before", "behind", "before", "others"]
    assert not process.is_alive


def test_a_seam_of_another_name_is_passed() -> None:
    process = Process(Loop())
    process.doom = Doom("there", 1)
    process.seam("here")
    with pytest.raises(DiedError, match="there"):
        process.seam("there")


@pytest.mark.parametrize(
    ("process", "shells"),
    [
        ("controller", (leader,)),
        ("scheduler", (planner,)),
        ("worker", (host, remote)),
        ("shepherd", (shepherd,)),
    ],
)
def test_every_seam_is_in_the_shell_of_its_process(process: str, shells) -> None:
    text = "".join(Path(shell.__file__).read_text() for shell in shells)
    found = set(re.findall(r'(?:self|shell)\.seam\("([^"]+)"\)', text))
    assert found == {*SEAMS[process], *TASK_SEAMS.get(process, ())}


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_processes_die_at_every_seam() -> None:
    found = swarm.live_all(0, 1_999, jobs=2).coverage
    never = [
        f"{process}.{seam}"
        for process, seams in SEAMS.items()
        for seam in (*seams, *TASK_SEAMS.get(process, ()))
        if not found.seams[f"{process}.{seam}"]
    ]
    assert not never
    missing = [fault for fault in swarm.FAULTS if not found.pairs["job-submitted", fault]]
    assert not missing
