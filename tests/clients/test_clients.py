"""Programs that others wrote for LSF run real jobs on a real cluster: ``make test-clients``.

Each runs in a directory and with a home of its own, from the environment that ``XCE_CLIENTS`` names
(``scripts/test-clients`` makes it), and prints what came of its jobs.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_programs import PLACE, field, open_cluster, run, run_program
from live import Live

NAMED = os.environ.get("XCE_CLIENTS", "")
ENVIRONMENT = Path(NAMED)

pytestmark = pytest.mark.skipif(not NAMED, reason="XCE_CLIENTS is not set: make test-clients")


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with open_cluster(ENVIRONMENT) as cluster:
        yield cluster


def test_dask_jobqueue_scales_to_two_workers_and_kills_them(live: Live, tmp_path: Path) -> None:
    said = run_program(live, ENVIRONMENT, "dask_jobqueue_lsf", place=tmp_path)
    assert said.splitlines()[-1] == "sum 40425"
    assert len(field(live, "jobid", "dask-worker")) == 2
    assert set(field(live, "proj_name", "dask-worker")) == {"dask project"}
    assert set(field(live, "stat", "dask-worker")) <= {"EXIT", "DONE", "RUN"}


def test_parsl_asks_for_a_whole_node(live: Live, tmp_path: Path) -> None:
    said = run_program(live, ENVIRONMENT, "parsl_lsf", "nodes", place=tmp_path)
    assert "doubles [0, 2, 4, 6, 8]" in said
    assert "states ['RUNNING']" in said
    assert field(live, "slots", "parsl.htex*") == ["4"]


def test_parsl_asks_for_tasks(live: Live, tmp_path: Path) -> None:
    said = run_program(live, ENVIRONMENT, "parsl_lsf", "tasks", place=tmp_path)
    assert "doubles [0, 2, 4, 6, 8]" in said


def test_snakemake_runs_a_workflow(live: Live, tmp_path: Path) -> None:
    words = ["snakemake", "-s", str(PLACE / "programs" / "workflow.smk"), "--executor", "lsf"]
    words += ["--jobs", "4", "--latency-wait", "5", "--directory", str(tmp_path)]
    run(live, [f"{ENVIRONMENT}/bin/{words[0]}", *words[1:]], tmp_path, HOME=str(tmp_path))
    numbers = (tmp_path / "sum.txt").read_text().splitlines()
    assert numbers[:2] == ["1", "2"]
    assert numbers[2] in ("on n1 2", "on n2 2")


def test_toil_runs_a_workflow(live: Live, tmp_path: Path) -> None:
    said = run_program(live, ENVIRONMENT, "toil_lsf", place=tmp_path, HOME=str(tmp_path))
    assert "tens [10, 20]" in said


def test_pysqa_submits_looks_and_deletes(live: Live, tmp_path: Path) -> None:
    said = run_program(live, ENVIRONMENT, "pysqa_lsf", place=tmp_path)
    assert said.splitlines() == ["first None True", "second running", "left 0"]


def test_executorlib_runs_functions(live: Live, tmp_path: Path) -> None:
    assert "sums 3 30" in run_program(live, ENVIRONMENT, "executorlib_pysqa", place=tmp_path)


def test_ipyparallel_starts_engines_as_an_array(live: Live, tmp_path: Path) -> None:
    profile = tmp_path / ".ipython" / "profile_default"
    profile.mkdir(parents=True)
    # Engines give up after five seconds else, on a busy machine too.
    (profile / "ipengine_config.py").write_text("c.IPEngine.timeout = 60\n")
    # A job's home is always its user's own.
    said = run_program(
        live, ENVIRONMENT, "ipyparallel_lsf", place=tmp_path, IPYTHONDIR=str(profile.parent)
    )
    assert "cubes [0, 1, 8, 27]" in said
    assert field(live, "jobindex", "ipengine") == ["1", "2"]


def test_batchspawner_starts_finds_and_ends_a_server(live: Live, tmp_path: Path) -> None:
    said = run_program(live, ENVIRONMENT, "batchspawner_lsf", place=tmp_path).splitlines()
    assert said[0] == "submitted True"
    assert said[1] in ("host n1", "host n2")
    assert said[2:] == ["poll None", "after 1"]
