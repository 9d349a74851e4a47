import json
from pathlib import Path

import pytest

from xce.cli.xceadmin.main import main

NOW = """
cluster:
  hosts: [{names: "h[1-2]", slots: 2}]
  supply: {pools: {lic: 1}}
jobs:
  - {id: a, at: 0, submit: "bsub -n 3 -W 10", runtime: 300s}
  - {id: b, at: 0, submit: "bsub -J 'b[1-4]' -We 2", runtime: 10s}
  - {id: c, at: 5, submit: "bsub -R 'rusage[lic=2]'", runtime: 10s}
  - {id: d, at: 6, submit: "bsub", runtime: 10s}
events:
  - {at: 25, do: "bstop d"}
until: 30
"""


@pytest.fixture
def state_dir(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The state directory of a cluster with jobs that run, wait and are held."""
    (tmp_path / "now.yaml").write_text(NOW)
    words = ["sim", "run", str(tmp_path / "now.yaml"), "--journal", str(tmp_path / "s/journal")]
    assert main(words) == 0
    (tmp_path / "s/config").mkdir()
    (tmp_path / "s/config/hosts.yaml").write_text("- {names: 'h[1-2]', slots: 2}\n")
    capsys.readouterr()
    return tmp_path / "s"


def run(
    capsys: pytest.CaptureFixture[str], directory: Path, *words: str, status: int = 0
) -> dict[str, object]:
    command = ["sim", "snapshot", "--dir", str(directory), "-o", "json", *words]
    assert main(command) == status
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def rows(document: dict[str, object]) -> dict[tuple[str, int], dict[str, object]]:
    return {(job["id"], job["index"]): job for job in document["jobs"]}


def test_what_runs_and_waits_goes_on_as_is_believed(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(run(capsys, state_dir))
    # The last entry was at 25, when d was held: that is 0 now.
    assert (found["1", 0]["start"], found["1", 0]["end"]) == (-24, 576)
    assert found["2", 1]["end"] == -14
    assert (found["2", 3]["start"], found["2", 3]["end"]) == (-2, 118)
    assert (found["2", 4]["start"], found["2", 4]["end"]) == (119, 239)
    assert found["3", 0]["state"] == "PEND"
    assert "unsatisfiable" in str(found["3", 0]["reason"])
    assert found["4", 0]["state"] == "PSUSP"


def test_a_change_is_shown_beside_what_would_be_without_it(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = tmp_path / "change.yaml"
    change.write_text(
        "cluster: {supply: {pools: {lic: 2}}}\n"
        "jobs: [{id: new, at: 0, submit: bsub -n 2, runtime: 60s}]\n"
        "events: [{at: 10, do: bkill 1, as: root}]\n"
        "expect: [{job: new, state: DONE}]\n"
    )
    document = run(capsys, state_dir, "--change", str(change))
    found, before = rows(document), rows(document["baseline"])
    assert (before["1", 0]["end"], found["1", 0]["end"]) == (576, 10)
    assert (before["3", 0]["state"], found["3", 0]["start"]) == ("PEND", 11)
    assert found["new", 0]["state"] == "DONE"
    assert ("new", 0) not in before
    assert main(["sim", "snapshot", "--dir", str(state_dir), "--change", str(change)]) == 0
    text = capsys.readouterr().out
    assert text.index("snapshot:") < text.index("change:")


def test_a_change_may_expect_what_does_not_hold(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = tmp_path / "change.yaml"
    change.write_text(
        "jobs: [{id: new, at: 0, submit: bsub -n 9}]\nexpect: [{job: new, state: RUN}]\n"
    )
    document = run(capsys, state_dir, "--change", str(change), status=1)
    assert "PEND" in document["expect"][0]["found"]


def test_the_journal_is_as_it_was(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(state_dir / "journal")]) == 0
    before = capsys.readouterr().out
    run(capsys, state_dir)
    assert main(["replay", str(state_dir / "journal")]) == 0
    assert capsys.readouterr().out == before


def test_a_cluster_that_is_not_there_and_a_wrong_change_are_told(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "snapshot", "--dir", str(tmp_path / "none")]) == 3
    change = tmp_path / "change.yaml"
    change.write_text("cluster: {hosts: [{name: x}]}\n")
    assert main(["sim", "snapshot", "--dir", str(state_dir), "--change", str(change)]) == 2
    assert "change.yaml:1: cluster.hosts[1].name" in capsys.readouterr().err


def test_a_plot_shows_it_with_and_without_the_change(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = tmp_path / "change.yaml"
    change.write_text("cluster: {supply: {pools: {lic: 2}}}\n")
    plot = tmp_path / "what-if.svg"
    run(capsys, state_dir, "--change", str(change), "--plot", str(plot))
    assert "as it is: utilisation" in plot.read_text()
    assert "change.yaml: utilisation" in plot.read_text()
