import json
from pathlib import Path

import pytest

from xce.cli.xceadmin.main import NOT_BUILT, main


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
