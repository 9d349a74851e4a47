"""What was acknowledged survives `kill -9` at any moment; one writer at a time."""

import random
import signal
import time
from pathlib import Path

import pytest
from journal_runs import acknowledged, check_everything_is_there, start_writer


def kill_and_check(tmp_path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    last = 0
    for number in range(rounds):
        writer = start_writer(tmp_path, seed + number)
        assert writer.stdout is not None
        assert writer.stderr is not None
        begun = writer.stdout.readline()
        assert begun.startswith(b"START"), writer.stderr.read()
        assert int(begun.split()[1]) >= last
        time.sleep(chance.uniform(0.0, 0.3))
        writer.send_signal(signal.SIGKILL)
        said, errors = writer.communicate(timeout=20)
        assert (writer.returncode, errors) == (-signal.SIGKILL, b"")
        last = max([last, *acknowledged(said)])
        check_everything_is_there(tmp_path, last)
    assert last > 100


def test_kill_9_of_the_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    kill_and_check(tmp_path, rounds=10, seed=1)


@pytest.mark.long
def test_kill_9_of_the_writer_loses_nothing_acknowledged_long(tmp_path: Path) -> None:
    for seed in range(100, 1100, 100):
        kill_and_check(tmp_path / str(seed), rounds=25, seed=seed)


def test_a_second_writer_is_refused_and_told_who_holds_the_journal(tmp_path: Path) -> None:
    first = start_writer(tmp_path, 1)
    assert first.stdout is not None
    assert first.stdout.readline().startswith(b"START")
    second = start_writer(tmp_path, 2)
    said, errors = second.communicate(timeout=20)
    assert (second.returncode, said) == (3, b"")
    assert f"another controller (process {first.pid})" in errors.decode()
    first.send_signal(signal.SIGKILL)
    said, _ = first.communicate(timeout=20)
    third = start_writer(tmp_path, 3)
    assert third.stdout is not None
    assert int(third.stdout.readline().split()[1]) >= max(acknowledged(said))
    third.kill()
    third.communicate(timeout=20)
