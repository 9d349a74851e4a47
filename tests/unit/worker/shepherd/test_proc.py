"""What /proc says: processes in the middle of `exec` are waited for."""

import os
import subprocess
import sys

import pytest

from xce.worker.shepherd import proc


def test_of_what_runs_nothing_is_waited_for() -> None:
    # Kernel threads, zombies and ordinary processes.
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert proc.wait_for_execs(5.0)


def test_what_has_no_arguments_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    real, hidden = proc.load_file, [b"", b"", b"x"]
    own = f"/proc/{os.getpid()}/cmdline"

    def load(path: str, size: int = 4096) -> bytes:
        return hidden.pop(0) if path == own else real(path, size)

    monkeypatch.setattr(proc, "load_file", load)
    assert proc.wait_for_execs(5.0)
    assert hidden == []


def test_the_wait_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    real = proc.load_file
    own = f"/proc/{os.getpid()}/cmdline"
    monkeypatch.setattr(
        proc, "load_file", lambda path, size=4096: b"" if path == own else real(path, size)
    )
    assert not proc.wait_for_execs(0.02)
