import json
from pathlib import Path

import pytest
import yaml

from xce.cli.xceadmin.main import main

TINY = Path(__file__).parents[3] / "data" / "swf" / "tiny.swf"
SCENARIO = """
cluster: {hosts: [{names: h1, slots: 2, mem: 4G}]}
jobs:
  - {id: a, at: 0, submit: "bsub -n 2 -R 'rusage[mem=1G]' -W 10", runtime: 300s}
  - {id: b, at: 5, user: u2, submit: "bsub --nonsense", runtime: 1s}
expect:
  - {at: 10, job: a, state: RUN, hosts: {h1: 2}}
  - {job: a, start: 1, end: 301, state: DONE}
"""


def scenario(tmp_path: Path, text: str) -> str:
    file = tmp_path / "case.yaml"
    file.write_text(text)
    return str(file)


def test_a_run_tells_all_of_every_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", scenario(tmp_path, SCENARIO), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    first, second = document["jobs"]
    assert first == {
        "id": "a", "jobid": 1, "index": 0, "state": "DONE", "submit": 0, "start": 1, "end": 301,
        "wait": 1, "attempt": 1, "exit": 0, "reason": None, "rule": "turn",
        "placement": [
            {
                "host": "h1", "role": "", "slots": 2, "gpus": [], "amounts": {"mem": 2048},
                "ranks": [0, 1],
            }
        ],
    }  # fmt: skip
    assert (second["state"], second["jobid"]) == ("EXIT", None)
    assert "--nonsense" in second["reason"]
    assert document["scenario"] == "case"
    assert document["summary"]["utilisation"] == pytest.approx(600 / 602)
    assert [item["ok"] for item in document["expect"]] == [True, True]


def test_runs_are_alike_whatever_the_time_zone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scenario(
        tmp_path,
        "cluster: {hosts: [{names: h1}]}\n"
        "jobs: [{id: a, at: 0, submit: bsub -b 3:00, runtime: {between: [1, 99]}}]\n"
        "expect: [{job: a, start: 3:00:01}]\n",
    )
    digests = set()
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        assert main(["sim", "run", file, "-o", "json", "--seed", "7"]) == 0
        digests.add(capsys.readouterr().out)
    assert len(digests) == 1


def test_the_seed_draws_run_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = scenario(
        tmp_path,
        "cluster: {hosts: [{names: h1}]}\n"
        "jobs: [{id: a, at: 0, submit: bsub, runtime: {between: [1, 1000]}}]\n",
    )
    ends = set()
    for seed in ("1", "2", "3"):
        assert main(["sim", "run", file, "-o", "json", "--seed", seed]) == 0
        ends.add(json.loads(capsys.readouterr().out)["jobs"][0]["end"])
    assert len(ends) > 1


def test_what_does_not_hold_is_named_with_what_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SCENARIO.replace("end: 301", "end: 300").replace("{h1: 2}", "{h2: 1}, rule: backfill")
    file = scenario(tmp_path, text)
    assert main(["sim", "run", file, "-o", "yaml"]) == 1
    told = capsys.readouterr()
    assert f"{file}:7: expected" in told.err
    assert "hosts are {'h1': 2}" in told.err
    assert "rule is turn" in told.err
    assert "end is 301" in told.err
    assert yaml.safe_load(told.out)["expect"][1]["found"] == "end is 301"
    assert main(["sim", "run", file]) == 1
    assert "FAILED line 8" in capsys.readouterr().out


def test_a_wrong_file_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = scenario(tmp_path, "cluster: {hosts: [{name: h1}]}\n")
    assert main(["sim", "run", file]) == 2
    assert f"{file}:1: cluster.hosts[1].name: a host entry has no key" in capsys.readouterr().err
    assert main(["sim", "run", str(tmp_path / "none.yaml")]) == 2


def test_a_journal_that_cannot_be_written_is_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = scenario(tmp_path, SCENARIO)
    for place, why in ((Path(file) / "inside", "Not a directory"), (Path(file), "File exists")):
        assert main(["sim", "run", file, "--journal", str(place)]) == 2
        assert capsys.readouterr().err == f"{place}: {why}\n"
    directory = str(tmp_path / "journal")
    assert main(["sim", "run", file, "--journal", directory]) == 0
    assert main(["sim", "run", file, "--journal", directory]) == 2
    assert "there is a journal already" in capsys.readouterr().err


def test_what_is_left_out_of_a_log_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.swf"
    line = "{} 0 -1 {} 1 -1 -1 1 {} -1 1 1 1 -1 -1 -1 -1 -1\n"
    log.write_text("".join(line.format(*job) for job in ((1, 5, 9), (2, 5, -1), (3, 0, 9))))
    assert main(["sim", "swf", str(log), "--procs", "1"]) == 0
    assert "  jobs left out 2: no requested time 1, no run time 1\n" in capsys.readouterr().out


def test_a_gpu_trace_that_is_not_there_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "gpu-trace", "none.csv", "b.csv"]) == 2
    assert "none.csv" in capsys.readouterr().err


def test_a_log_is_run_with_its_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "swf", str(TINY), "-o", "json", "--jobs", "--hosts", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    starts = {job["id"]: job["start"] for job in document["jobs"]}
    assert starts == {"1": 0, "2": 100, "3": 20, "4": 150, "5": 30}
    assert document["summary"]["sum_start"] == 300
    assert document["summary"]["utilisation"] == 840 / (4 * 350)
    assert document["summary"]["max_wait"] == 130
    assert sum(item["slots"] for item in document["jobs"][1]["placement"]) == 4
    assert main(["sim", "swf", str(TINY), "-o", "json"]) == 0
    assert "jobs" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "starts"),
    [
        (["--backfill", "none"], [0, 100, 150, 150, 150]),
        (["--backfill", "conservative"], [0, 100, 20, 150, 30]),
        (["--backfill", "easy-sjbf"], [0, 100, 20, 150, 30]),
        (["--policy", "sjf"], [0, 100, 20, 150, 30]),
        (["--same-second", "event"], [0, 100, 20, 150, 30]),
        (["--limit", "2"], [0, 100]),
        (["--procs", "9"], [0, 10, 20, 20, 50, 220]),
        (["--clean", "model", "--estimates", "actual", "--size", "req"], [0, 100, 20, 150, 30]),
    ],
)
def test_every_option_of_a_log_counts(
    words: list[str], starts: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "swf", str(TINY), "-o", "json", "--jobs", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [job["start"] for job in document["jobs"]] == starts


def test_processors_that_do_not_spread_over_the_hosts_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sim", "swf", str(TINY), "--hosts", "3"]) == 2
    assert "do not spread evenly" in capsys.readouterr().err


def test_plots_are_drawn_where_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = scenario(tmp_path, SCENARIO)
    assert main(["sim", "run", file, "--plot", str(tmp_path / "p.svg")]) == 0
    assert f"plotted: {tmp_path / 'p.svg'}" in capsys.readouterr().err
    assert "case: utilisation" in (tmp_path / "p.svg").read_text()
    assert main(["sim", "swf", str(TINY), "--plot", str(tmp_path / "d"), "-o", "json"]) == 0
    assert "jobs" not in json.loads(capsys.readouterr().out)
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == [
        "gantt.svg", "queue.svg", "utilisation.svg", "waits.svg",
    ]  # fmt: skip
    assert main(["sim", "run", file, file, "--plot", str(tmp_path / "p.svg")]) == 2
    assert "takes one FILE, or a directory" in capsys.readouterr().err
    assert main(["sim", "run", file, "--plot", str(tmp_path / "p.gif")]) == 2
    assert "plots end in .svg or .png" in capsys.readouterr().err


def test_several_scenarios_are_plotted_into_a_directory_each(tmp_path: Path) -> None:
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(SCENARIO)
    assert main(["sim", "run", *map(str, files), "--plot", str(tmp_path / "d")]) == 0
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["a", "b"]


def test_a_journal_is_plotted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = str(tmp_path / "j")
    assert main(["sim", "run", scenario(tmp_path, SCENARIO), "--journal", journal]) == 0
    capsys.readouterr()
    assert main(["journal", "plot", journal, "--plot", str(tmp_path / "j.png")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'j.png'}\n"
    assert main(["journal", "plot", journal, "--plot", str(tmp_path / "j.pdf")]) == 2
    assert main(["journal", "plot", str(tmp_path / "none")]) == 3
    assert "there is no journal" in capsys.readouterr().err
