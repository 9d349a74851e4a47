import subprocess
import sys
from pathlib import Path

import pytest

from xce.cli.xce.environment import render_env
from xce.cli.xce.launchers import render_launcher, render_launchers
from xce.daemon.settings import Settings

PYTHON = Path(sys.executable).resolve()


def run(launcher: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([launcher, *words], capture_output=True, text=True, check=False)


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A command that tells its words; its directory needs quoting."""
    source = tmp_path / "so'ur ce"
    source.mkdir()
    text = "import sys\ndef main():\n    print(sys.argv[1:])\n    return 7\n"
    (source / "tell.py").write_text(text)
    return source


def test_a_launcher_starts_its_command_without_site(command: Path, tmp_path: Path) -> None:
    text = render_launcher("tell", python=PYTHON, paths=[command])
    assert text.startswith(f"#!{PYTHON} -IS\n")
    (tmp_path / "tell").write_text(text)
    (tmp_path / "tell").chmod(0o755)
    done = run(tmp_path / "tell", "a b", "c")
    assert (done.returncode, done.stdout) == (7, "['a b', 'c']\n")


@pytest.mark.parametrize("directory", ["with blank", "long" * 40])
def test_an_interpreter_that_no_first_line_can_name_is_started_by_the_shell(
    command: Path, tmp_path: Path, directory: str
) -> None:
    python = tmp_path / directory / "python3"
    python.parent.mkdir()
    python.symlink_to(PYTHON)
    text = render_launcher("tell", python=python, paths=[command])
    assert text.startswith("#!/bin/sh\n")
    (tmp_path / "tell").write_text(text)
    (tmp_path / "tell").chmod(0o755)
    done = run(tmp_path / "tell", "a b", "$HOME")
    assert (done.returncode, done.stdout, done.stderr) == (7, "['a b', '$HOME']\n", "")


def test_there_is_a_launcher_for_every_command() -> None:
    names = set(render_launchers())
    assert {"bsub", "bjobs", "xce", "xcecli", "xceadmin"} <= names
    assert not names & {"front", "options", "times"}


def test_the_environment_names_the_state_directory_only_when_it_is_not_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XCE_DIR", raising=False)
    default = Settings(Path("/d"), is_default=True)
    assert render_env(default, Path("/l x"), path="/bin") == ["export PATH='/l x':\"$PATH\""]
    assert render_env(default, Path("/l"), path="/l:/bin") == []
    other = Settings(Path("/o'"), is_default=False)
    assert render_env(other, Path("/l"), path="/l:/bin") == ["export XCE_DIR='/o'\"'\"''"]
