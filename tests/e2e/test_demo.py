"""`make demo`: everything ends as announced, twice in a row, and Ctrl-C leaves no job behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DEMO = [sys.executable, "-m", "xce.cli.xce.main", "demo"]


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    state = str(tmp_path / "demo")
    yield {**os.environ, "XCE_DEMO_DIR": state}
    words = [sys.executable, "-m", "xce.cli.xce.main", "down", "--jobs", "--dir", state]
    subprocess.run(words, check=False, timeout=90, capture_output=True)


def test_the_demo_ends_as_announced_and_can_be_run_again(environ: dict[str, str]) -> None:
    for number in (1, 2):
        done = subprocess.run(
            DEMO, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        for text in (
            "1000 squares, sum 333833500",
            "EXIT 3     EXIT 3",
            "unsatisfiable",
            f"results/00{number}",
            "down --dir",
        ):
            assert text in done.stdout, done.stdout


def test_an_interrupted_demo_ends_its_jobs(environ: dict[str, str]) -> None:
    # A shell lets what it starts in the background ignore interrupts, and that is handed down.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    demo = subprocess.Popen(
        DEMO, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    signal.signal(signal.SIGINT, before)
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if "Job <3>" in line:
            break
    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, "".join(lines) + rest
    assert "the jobs of this run were killed" in rest
    assert "down --jobs" in rest
