"""`make demo`: everything ends as announced, twice in a row, and Ctrl-C leaves no job behind."""

import os
import re
import signal
import subprocess
import sys
import time
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


def test_an_interrupt_while_bsub_runs_ends_that_job_too(
    environ: dict[str, str], tmp_path: Path
) -> None:
    subprocess.run(DEMO, env=environ, timeout=120, check=True, capture_output=True)
    # A bsub that tells late: it was accepted, and nobody knows yet.
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "bsub").write_text(
        '#!/bin/sh\nPATH=${PATH#*:}; said=$(bsub "$@"); touch accepted; '
        'until [ -e told ]; do sleep 0.05; done; echo "$said"\n'
    )
    (slow / "bsub").chmod(0o755)
    results = tmp_path / "results"
    results.mkdir()
    root = environ["XCE_DEMO_DIR"]
    program = (
        "import sys; from pathlib import Path; from xce.cli.xce.demo_jobs import submit_all\n"
        "jobs = []\n"
        "try:\n    submit_all(Path(sys.argv[1]), dict(__import__('os').environ), jobs)\n"
        "except KeyboardInterrupt:\n    print('interrupted with', [job.jobid for job in jobs])\n"
    )
    path = f"{slow}:{Path(sys.prefix) / 'xce-bin'}:{environ['PATH']}"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    submitter = subprocess.Popen(
        [sys.executable, "-c", program, results],
        env={**environ, "PATH": path, "XCE_DIR": root},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 30
    while not (results / "accepted").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    submitter.send_signal(signal.SIGINT)
    (results / "told").touch()
    said, _ = submitter.communicate(timeout=60)
    assert re.search(r"interrupted with \[\d+\]", said), said


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
