import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import xce
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


@pytest.mark.parametrize("is_installed", [False, True], ids=["launcher", "installed script"])
def test_an_interrupt_while_a_command_loads_ends_it_without_a_word(
    tmp_path: Path, is_installed: bool
) -> None:
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\npathlib.Path(__file__).with_name('loads').touch()\ntime.sleep(60)\n"
        "def main():\n    return 0\n"
    )
    if is_installed:
        words = [PYTHON, "-c", "from xce.cli.start import _run; _run('slow')"]
    else:
        launcher = tmp_path / "command"
        launcher.write_text(render_launcher("slow", python=PYTHON, paths=[tmp_path]))
        words = [PYTHON, "-IS", launcher]
    paths = f"{Path(xce.__path__[0]).parent}:{tmp_path}"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    runs = subprocess.Popen(
        words, env={"PYTHONPATH": paths}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 30
    while not (tmp_path / "loads").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    runs.send_signal(signal.SIGINT)
    said, _ = runs.communicate(timeout=30)
    assert (runs.returncode, said) == (-signal.SIGINT, b"")


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    environ = {**os.environ, "XCE_DIR": str(tmp_path)}
    environ.pop("PYTHONUNBUFFERED", None)
    for words in (["xce", "--help"], ["xce", "status"], ["xceadmin", "--help"], ["xce", "env"]):
        line = f"from xce.cli.{words[0]}.main import main; import sys; sys.exit(main({words[1:]}))"
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-c", line], stdout=writer, stderr=subprocess.PIPE, text=True,
            check=False, env=environ,
        )  # fmt: skip
        os.close(writer)
        assert "Traceback" not in done.stderr
        assert "BrokenPipe" not in done.stderr


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
