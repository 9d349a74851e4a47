"""The node manager with daemons that only sleep: what it starts, watches, takes over and ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xce.daemon.paths import Layout, open_layout
from xce.daemon.processes import find_processes, identify

DRIVER = """
import sys
from pathlib import Path
from xce.daemon.components import Component
from xce.daemon.logs import open_log
from xce.daemon.node_manager import NodeManager
from xce.daemon.paths import open_layout
sleep = "import time; time.sleep(600)"
names = ("controller", "worker-a")
plan = [Component(name, ("-c", sleep, f"{sys.argv[1]}/{name}")) for name in names]
plan += [Component("apiserver", ("-c", "raise SystemExit(3)", f"{sys.argv[1]}/apiserver"))]
NodeManager(open_layout(Path(sys.argv[1])), plan, open_log("node-manager")).run()
"""


def until(look: Callable[[], object], *, what: str) -> None:
    deadline = time.monotonic() + 20
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    layout = open_layout(tmp_path / "state")
    yield layout
    for name in ("controller", "worker-a"):
        for process in find_processes([f"{layout.root}/{name}"]):
            os.kill(process.pid, signal.SIGKILL)


def start(layout: Layout) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DRIVER, str(layout.root)])


def pids(layout: Layout) -> dict[str, int]:
    """Return the sleepers that run, by name."""
    found = {}
    for name in ("controller", "worker-a"):
        for process in find_processes([f"{layout.root}/{name}"]):
            found[name] = process.pid
    return found


def test_what_ends_is_started_again_and_what_lives_is_taken_over(layout: Layout) -> None:
    manager = start(layout)
    try:
        until(lambda: len(pids(layout)) == 2, what="both started")
        first = pids(layout)
        os.kill(first["controller"], signal.SIGKILL)
        until(
            lambda: pids(layout).get("controller", first["controller"]) != first["controller"],
            what="started again",
        )
        second = pids(layout)
        assert second["worker-a"] == first["worker-a"]

        manager.kill()
        manager.wait()
        assert pids(layout) == second  # daemons do not depend on it
        manager = start(layout)
        until(layout.node_manager_file.exists, what="written down")
        until(lambda: _written(layout, "pid") == manager.pid, what="written down anew")
        assert pids(layout) == second

        until(lambda: _failures(layout, "apiserver") >= 3, what="one that cannot start is retried")
        manager.send_signal(signal.SIGTERM)
        assert manager.wait(timeout=20) == 0
        assert pids(layout) == {}
        assert not layout.node_manager_file.exists()
    finally:
        manager.kill()
        manager.wait()


def _written(layout: Layout, key: str) -> object:
    return json.loads(layout.node_manager_file.read_text())[key]


def _failures(layout: Layout, name: str) -> int:
    daemons = json.loads(layout.node_manager_file.read_text())["components"]
    return next(daemon["failures"] for daemon in daemons if daemon["name"] == name)


def test_a_second_node_manager_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "state"
    layout = open_layout(root)
    (layout.config / "xce.yaml").write_text("")
    holder = "import time; from xce.daemon.node_manager import *; lock_state_dir(open_layout("
    holder += f"Path({str(root)!r}))); print('held', flush=True); time.sleep(60)"
    first = subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        second = subprocess.run(
            [sys.executable, "-m", "xce.daemon.node_manager", "--dir", str(root)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert second.returncode == 75
        assert "another node manager" in second.stderr
    finally:
        first.kill()
        first.communicate()
    assert identify(first.pid) is None
