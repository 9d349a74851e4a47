"""Which daemons there are, and which of the processes of this machine they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from xce.daemon.components import find_daemons, plan_components
from xce.daemon.processes import identify
from xce.model.errors import ConfigError


def test_a_cluster_has_one_worker_for_each_host() -> None:
    plan = plan_components(Path("/d"), ["a", "b"])
    assert [component.name for component in plan] == [
        "controller", "history", "scheduler", "apiserver", "worker-a", "worker-b",
    ]  # fmt: skip
    assert [component.kind for component in plan][-2:] == ["worker", "worker"]


def test_a_machine_may_run_some_of_them_only() -> None:
    plan = plan_components(Path("/d"), ["a", "b"], ["scheduler", "controller", "worker-b"])
    assert [component.name for component in plan] == ["controller", "scheduler", "worker-b"]
    plan = plan_components(Path("/d"), ["a", "b"], ["worker"])
    assert [component.name for component in plan] == ["worker-a", "worker-b"]
    with pytest.raises(ConfigError, match="no daemon is called worker-c: expected controller,"):
        plan_components(Path("/d"), ["a", "b"], ["worker-c"])


def test_of_processes_with_one_command_line_the_oldest_is_the_daemon(tmp_path: Path) -> None:
    """A child that was just forked has its parent's command line until it runs something else."""
    script = tmp_path / "sleeper.py"
    script.write_text("import sys; print(flush=True); sys.stdin.read()")
    words = [sys.executable, str(script), "-m", "xce.daemon.worker", "--dir", str(tmp_path)]
    words += ["--host", "h1"]
    sleepers = []
    for _ in range(3):
        pipe = subprocess.PIPE
        sleepers.append(subprocess.Popen(words, stdin=pipe, stdout=pipe))
        assert sleepers[-1].stdout is not None
        sleepers[-1].stdout.readline()
    try:
        assert find_daemons(tmp_path) == {"worker-h1": identify(sleepers[0].pid)}
        assert find_daemons(tmp_path / "other") == {}
    finally:
        for sleeper in sleepers:
            sleeper.communicate()
