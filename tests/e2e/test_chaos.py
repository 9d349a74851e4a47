"""Short chaos runs: real clusters under load, and the ledger of the load holds afterwards."""

import json
from pathlib import Path

import pytest
from chaos_checks import judge
from chaos_load import Sent, load_ledger
from chaos_rigs import rigs
from chaos_run import run_once

RIGS = sorted(rigs())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", RIGS)
def test_nothing_acknowledged_is_lost_or_runs_twice(name: str) -> None:
    print(run_once(name, seed=1, seconds=5))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10, 14))
@pytest.mark.parametrize("name", RIGS)
def test_nothing_is_lost_in_longer_runs(name: str, seed: int) -> None:
    print(run_once(name, seed=seed, seconds=40))


class Told:
    """A cluster that says what the test wants."""

    def __init__(self, *rows: dict[str, object]) -> None:
        self._rows = rows

    def rows(self, *_: object) -> list[dict[str, object]]:
        return [dict(row) for row in self._rows]


def row(job: int = 1, **members: object) -> dict[str, object]:
    plain = {"jobid": job, "index": 0, "name": "load-1", "stat": "DONE", "attempt": 1}
    return {**plain, "cause": "", "exit_code": 0, **members}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ledger with one acknowledged job, and no marks yet."""
    (tmp_path / "marks").mkdir()
    lines = [["sent", "load-1", 0, 0, True], ["acknowledged", "load-1", 1]]
    (tmp_path / "ledger").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return tmp_path


def verdict(place: Path, marks: str, *rows: dict[str, object], loses_hosts: bool = True):
    (place / "marks" / "1.0").write_text(marks)
    live = Told(*rows)
    return judge(live, place / "ledger", place / "marks", loses_hosts=loses_hosts)  # type: ignore[arg-type]


def test_a_ledger_is_read_as_it_was_written(place: Path) -> None:
    kept = load_ledger(place / "ledger")
    assert kept.acknowledged == {1: Sent("load-1", 0, 0, rerunnable=True)}
    assert kept.sent == {"load-1"}


def test_what_was_refused_must_not_be_there(place: Path) -> None:
    lines = [["sent", "load-2", 0, 0, False], ["refused", "load-2", "journal-full"]]
    with (place / "ledger").open("a") as file:
        file.write("\n".join(map(json.dumps, lines)) + "\n")
    assert verdict(place, "b 1\ne 1\n", row()).is_good
    assert verdict(place, "b 1\ne 1\n", row(), row(job=2, name="load-2")).wrong


def test_other_refusals_are_no_part_of_a_run(place: Path) -> None:
    with (place / "ledger").open("a") as file:
        file.write('["sent", "load-2", 0, 0, false]\n["refused", "load-2", "forbidden"]\n')
    with pytest.raises(AssertionError, match="forbidden"):
        load_ledger(place / "ledger")


@pytest.mark.parametrize(
    ("marks", "rows", "loses_hosts"),
    [
        ("b 1\ne 1\n", [row()], False),
        ("b 1\nb 2\ne 2\n", [row(attempt=2)], True),
        ("b 1\ne 1\nb 2\ne 2\n", [row(attempt=2)], True),
    ],
)
def test_what_is_allowed_is_good(place: Path, marks: str, rows, loses_hosts: bool) -> None:
    assert verdict(place, marks, *rows, loses_hosts=loses_hosts).is_good


@pytest.mark.parametrize(
    ("marks", "rows", "loses_hosts", "what"),
    [
        ("", [], True, "lost"),
        ("b 1\n", [row(stat="RUN")], True, "lost"),
        ("b 1\ne 1\nb 1\ne 1\n", [row()], True, "doubled"),
        ("b 1\nb 2\ne 1\ne 2\n", [row(attempt=2)], True, "doubled"),
        ("b 1\ne 1\nb 2\ne 2\n", [row(attempt=2)], False, "doubled"),
        ("b 1\ne 1\n", [row(), row(job=2)], True, "doubled"),
        ("b 1\n", [row()], True, "wrong"),
        ("b 1\ne 1\n", [row(stat="EXIT", exit_code=3)], True, "wrong"),
        ("b 1\ne 1\n", [row(stat="EXIT", cause="TERM_HOST_LOST")], True, "wrong"),
        ("b 1\ne 1\n", [row(), row(job=9, name="other")], True, "wrong"),
    ],
)
def test_what_is_not_allowed_is_found(
    place: Path, marks: str, rows, loses_hosts: bool, what: str
) -> None:
    found = verdict(place, marks, *rows, loses_hosts=loses_hosts)
    assert getattr(found, what)
    assert not found.is_good
