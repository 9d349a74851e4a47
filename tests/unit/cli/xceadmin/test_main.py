import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from xce.cli.xceadmin.commands import COMMANDS
from xce.cli.xceadmin.main import NOT_BUILT, build_parser, main
from xce.client.rest import ProblemError

NUMBERS = {"backup", "history", "init", "restore"}
"""Subcommands that come to the state, whose columns are NumPy's."""


def test_check_tells_what_a_valid_directory_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.yaml").write_text("- {names: 'h[1-3]', state: closed}\n")
    assert main(["check", str(tmp_path)]) == 0
    assert "hosts    3, 3 of them closed" in capsys.readouterr().out


def test_check_fails_with_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.yaml").write_text("- {names: a, slots: x}\n- {names: b, slots: y}\n")
    assert main(["check", str(tmp_path), "--json"]) == 1
    told = capsys.readouterr()
    assert len(json.loads(told.out)["problems"]) == 2
    assert "2 problems found" in told.err


def test_check_of_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["check", str(tmp_path / "none")], ["check", "--dir", str(tmp_path / "none")]):
        assert main(words) == 1
        assert "none" in (said := capsys.readouterr().err)
        assert "does not exist" in said
    (tmp_path / "file").touch()
    assert main(["check", str(tmp_path / "file")]) == 1
    assert "is no directory" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(NOT_BUILT))
def test_what_is_not_built_is_refused_by_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--any"]) == 2
    assert f"xceadmin {name} is not built yet" in capsys.readouterr().err


def test_an_unreachable_cluster_is_status_5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["hosts", "close", "h1", "--dir", str(tmp_path), "--wait-daemon", "0"]
    assert main(words) == 5
    assert "Cannot connect" in capsys.readouterr().err


def test_a_journal_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    assert main(["journal", "verify", "--dir", str(tmp_path)]) == 3


def test_wrong_usage_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["hosts"],
        ["hosts", "close", "a[1-"],
        ["nonsense"],
        ["hosts", "open", "a", "--wait"],
        ["hosts", "drain", "a", "--yes"],
        ["hosts", "lost", "a", "--yes", "-C", "why"],
    ):
        try:
            status = main(words)
        except SystemExit as stop:
            status = stop.code
        assert status == 2, words


def test_a_host_is_not_given_up_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hosts", "lost", "h1"]) == 1
    assert "say --yes" in capsys.readouterr().err


def test_the_whole_help_names_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    for name in (*COMMANDS, *NOT_BUILT):
        assert f"\n    {name} " in said


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_subcommand_is_the_same_alone_and_among_the_others(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    helps = []
    for parser in (build_parser(name), build_parser()):
        with pytest.raises(SystemExit):
            parser.parse_args([name, "--help"])
        helps.append(capsys.readouterr().out)
    assert helps[0] == helps[1]
    assert f"usage: xceadmin {name}" in helps[0]


@pytest.mark.parametrize("name", sorted({*COMMANDS} - {"sim", "replay"}))
def test_a_subcommand_loads_what_it_needs(name: str) -> None:
    code = (
        "import sys; from xce.cli.xceadmin.main import build_parser; "
        f"build_parser({name!r}); print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not [one for one in loaded if one.startswith("xce.sim")]
    if name not in NUMBERS:
        assert "numpy" not in loaded


def test_a_refusal_begins_with_the_commands_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ProblemError(403, {"code": "denied", "detail": "you lack the permission"})

    monkeypatch.setattr("xce.cli.xceadmin.apiserver.Api.call", refuse)
    for words in (["apply"], ["hosts", "open", "h1"]):
        assert main([*words, "--dir", str(tmp_path)]) == 4
        assert capsys.readouterr().err == f"xceadmin {words[0]}: you lack the permission\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["adopt", "h1", "--yes"], "--yes belongs to lost and kill"),
        (["adopt", "h1", "-C", "why"], "-C does not belong to adopt"),
        (["kill", "h1", "-C", "why"], "-C does not belong to kill"),
        (["open", "h1", "--yes"], "--yes belongs to lost and kill"),
        (["drain", "h[1", "--wait"], "h[1"),
    ],
)
def test_what_hosts_does_not_take_is_said_at_once(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hosts", *words]) == 2
    assert said in capsys.readouterr().err


def test_strangers_are_not_killed_where_nobody_says_yes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert main(["hosts", "kill", "h1"]) == 1
    assert "say --yes" in capsys.readouterr().err
