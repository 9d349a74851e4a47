"""Clients whose installation is light run with all other tests, from an environment made for it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_programs import open_cluster, pinned, run_program
from live import Live


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with PSI/J; without a package index the tests are skipped."""
    place = tmp_path_factory.mktemp("clients") / "venv"
    python = str(Path(sys.executable).resolve())
    subprocess.run([python, "-m", "venv", str(place)], check=True, timeout=120)
    words = [f"{place}/bin/python", "-m", "pip", "install", "--quiet", pinned("psij-python")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode:
        assert "No matching distribution" in done.stderr, done.stderr
        pytest.skip("no package index has psij-python")
    return place


@pytest.fixture(scope="module")
def live(environment: Path) -> Iterator[Live]:
    with open_cluster(environment) as cluster:
        yield cluster


def test_psij_runs_jobs_that_end_well_and_not_and_on_whole_nodes(
    live: Live, environment: Path, tmp_path: Path
) -> None:
    said = run_program(live, environment, "psij_lsf", place=tmp_path, HOME=str(tmp_path))
    assert said.splitlines() == ["good COMPLETED 0", "bad FAILED 7", "wide COMPLETED 0"]
    assert (tmp_path / "good.out").read_text() == "hello-psij\n"
    assert (tmp_path / "wide.out").read_text() in ("wide n1 4 n2 4\n", "wide n2 4 n1 4\n")
