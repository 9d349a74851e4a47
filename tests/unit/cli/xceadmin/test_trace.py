"""``xceadmin trace``, and the traces that simulations and replays write."""

import asyncio
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from rest_cluster import run_rest

from xce.cli.xceadmin.main import main

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def sim(name, directory, *words):
    return main(["sim", "run", str(SCENARIOS / f"{name}.yaml"), *words, "--trace", str(directory)])


def test_a_replay_traces_all_its_sessions_or_one(tmp_path, capsys):
    journal = str(tmp_path / "j")
    assert sim("kill", tmp_path / "t", "--journal", journal) == 0
    assert main(["replay", journal, "--trace", str(tmp_path / "all")]) == 0
    assert main(["replay", journal, "--trace", str(tmp_path / "one"), "--session", "2"]) == 0
    assert len(list((tmp_path / "one").iterdir())) == 1
    assert (tmp_path / "one" / "000000000002.trace").exists()
    capsys.readouterr()
    assert main(["replay", journal, "--trace", str(tmp_path / "x"), "--session", "99"]) == 3
    assert "there is no session 99" in capsys.readouterr().err
    assert main(["replay", journal, "--session", "2"]) == 2
    assert main(["replay", journal, "--trace", str(tmp_path / "y"), "--session", "0"]) == 2
    assert main(["replay", journal, "--trace", str(tmp_path / "all")]) == 1
    assert "there are traces already" in capsys.readouterr().err


def test_a_simulation_traces_one_file_into_an_empty_directory(tmp_path, capsys):
    assert sim("kill", tmp_path / "t") == 0
    assert sim("kill", tmp_path / "t") == 2
    assert "there are traces already" in capsys.readouterr().err
    file = str(SCENARIOS / "kill.yaml")
    assert main(["sim", "run", file, file, "--trace", str(tmp_path / "u")]) == 2
    assert "--trace takes one FILE" in capsys.readouterr().err


@pytest.fixture
def tell(monkeypatch, capsys):
    """Run the command against a cluster; return its status, output and errors."""
    with tempfile.TemporaryDirectory() as directory:
        socket = Path(directory) / "run" / "api.sock"
        socket.parent.mkdir()
        monkeypatch.setenv("XCE_DIR", directory)

        async def run(rest, *words):
            if not socket.is_symlink():
                socket.symlink_to(rest.socket)
            clock = SimpleNamespace(time=lambda: rest.controller.now_us / 1_000_000)
            monkeypatch.setattr("xce.cli.xceadmin.trace.time", clock)
            status = await asyncio.to_thread(main, ["trace", *words, "--wait-daemon", "0"])
            captured = capsys.readouterr()
            return status, captured.out, captured.err

        yield run


def test_rules_are_switched_on_listed_and_off(tell):
    async def story(rest):
        job = await rest.submit()
        assert await tell(rest, "list") == (0, "nothing is traced\n", "")
        rest.be("root", is_admin=True)
        found = await tell(rest, "on", "--job", str(job), "--for", "90s")
        assert found == (0, "rule 1: traced for 1m 30s\n", "")
        await tell(rest, "on", "--user", "bob", "--for", "2h")
        await tell(rest, "on", "--queue", "normal")
        await tell(rest, "on", "--next", "3")
        _, out, _ = await tell(rest, "list")
        assert [line.split()[0] for line in out.splitlines()] == ["RULE", *"1234"]
        for text in ("job 1", "user bob", "queue normal", "all, in 3 sessions", "10m"):
            assert text in out
        status, out, _ = await tell(rest, "list", "--json")
        assert [rule["rule"] for rule in json.loads(out)] == [1, 2, 3, 4]
        assert await tell(rest, "off", "2") == (0, "rule 2: not-traced\n", "")
        status, out, err = await tell(rest, "off", "2", "3")
        assert (status, out) == (3, "rule 3: not-traced\n")
        assert "no rule of what is traced has the number 2" in err
        status, out, _ = await tell(rest, "off", "--all", "--json")
        assert [result["rule"] for result in json.loads(out)] == [1, 4]
        assert await tell(rest, "off", "--all") == (0, "no rule is in effect\n", "")

    run_rest(story)


def test_refusals_have_their_exit_status(tell):
    async def story(rest):
        job = await rest.submit()
        rest.be("bob")
        for words, status, text in (
            (["on", "--job", str(job)], 4, "job 1 belongs to alice"),
            (["on", "--job", "99"], 3, "no job has the id 99"),
            (["on", "--user", "bob"], 4, "only administrators"),
            (["on"], 2, "on takes one of"),
            (["on", "--job", "1", "--for", "soon"], 2, "'soon' is no span"),
            (["on", "--job", "1", "--for", "99d"], 1, "for_s"),
            (["off"], 2, "off takes"),
            (["off", "1", "--all"], 2, "off takes"),
            (["off", "--job", "1"], 2, "off takes"),
            (["list", "--all"], 2, "list takes nothing more"),
        ):
            found = await tell(rest, *words)
            assert found[0] == status, (words, found)
            assert text in found[2], (words, found)

    run_rest(story)


def test_a_cluster_that_is_away_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XCE_DIR", str(tmp_path))
    assert main(["trace", "list", "--wait-daemon", "0"]) == 5
    assert capsys.readouterr().err
