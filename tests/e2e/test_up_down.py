"""A whole cluster from `xce up` to `xce down`, with what may go wrong in between."""

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from place import Place, make_place, until

from xce.cli.xce.down import find_shepherds
from xce.daemon.components import find_daemons
from xce.daemon.paths import find_layout


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    yield from make_place(tmp_path, "state")


@pytest.fixture
def deep_place(tmp_path: Path) -> Iterator[Place]:
    yield from make_place(tmp_path, "/".join(["a directory"] * 12))


def test_up_twice_status_and_down(place: Place) -> None:
    text = place.xce("up", "--hosts", "h[1-2]", "--slots", "3")
    assert "is up: h1, h2; 6 slots" in text
    assert "isolation:" in text
    assert "is up already" in place.xce("up")
    assert "xce down, then xce up" in place.xce("up", "--workers", "3", status=1)
    status = json.loads(place.xce("status", "--json"))
    assert status["ready"]
    assert {daemon["name"] for daemon in status["daemons"]} == {
        "node-manager", "controller", "scheduler", "apiserver", "history", "worker-h1", "worker-h2",
    }  # fmt: skip
    assert all(daemon["running"] for daemon in status["daemons"])
    place.xce("logs", "-n", "5")
    assert "no job ran" in place.xce("down")
    assert find_daemons(place.root) == {}
    assert "no cluster runs here" in place.xce("down")
    assert "no cluster runs here" in place.xce("status", status=1)


def test_a_killed_cluster_goes_on_and_its_jobs_never_noticed(place: Place) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "4")
    job = place.submit("-o", "out.%J", "sleep 3; echo survived")
    place.until_stat(job, "RUN")
    for process in find_daemons(place.root).values():
        os.kill(process.pid, signal.SIGKILL)
    until(lambda: not find_daemons(place.root), what="all killed")
    assert "is up: h1" in place.xce("up")
    place.until_stat(job, "DONE")
    assert (place.home / f"out.{job}").read_text().startswith("survived\n")


def test_down_lets_jobs_go_on_and_up_finds_them(place: Place) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "4")
    job = place.submit("-o", "out.%J", "until [ -e go ]; do sleep 0.1; done; echo went on")
    place.until_stat(job, "RUN")
    assert "1 running job goes on" in place.xce("down")
    assert find_daemons(place.root) == {}
    (place.home / "go").touch()
    place.xce("up")
    place.until_stat(job, "DONE")


def test_down_with_jobs_ends_one_that_ignores_term(place: Place) -> None:
    place.xce("up", "--hosts", "h1")
    config = place.root / "config" / "xce.yaml"
    config.write_text(config.read_text() + "\nkill_interval_s: 1\n")
    place.xce("down")
    place.xce("up")
    job = place.submit("-o", "/dev/null", "trap '' INT TERM; echo $$ >pid; sleep 300 & wait; wait")
    place.until_stat(job, "RUN")
    until(
        lambda: (place.home / "pid").exists() and (place.home / "pid").read_text(), what="it runs"
    )
    pid = int((place.home / "pid").read_text())
    assert "its jobs were ended" in place.xce("down", "--jobs")
    assert not Path(f"/proc/{pid}").exists()
    assert find_shepherds(find_layout(place.root)) == []


def test_a_node_manager_that_is_killed_is_replaced(place: Place) -> None:
    place.xce("up", "--hosts", "h1")
    before = find_daemons(place.root)
    os.kill(before["node-manager"].pid, signal.SIGKILL)
    until(lambda: "node-manager" not in find_daemons(place.root), what="killed")
    assert "is up: h1" in place.xce("up")
    after = find_daemons(place.root)
    assert after.pop("node-manager") != before.pop("node-manager")
    assert after == before
    os.kill(after["controller"].pid, signal.SIGKILL)
    until(
        lambda: (
            find_daemons(place.root).get("controller", after["controller"]) != after["controller"]
        ),
        what="the controller is started again",
    )
    job = place.submit("-o", "/dev/null", "true")
    place.until_stat(job, "DONE")


def test_a_state_directory_that_lies_too_deep_for_sockets(deep_place: Place) -> None:
    deep_place.xce("up", "--hosts", "h" * 60, "--slots", "2")
    assert (deep_place.root / "run").is_symlink()
    job = deep_place.submit("-o", "out.%J", "echo deep")
    deep_place.until_stat(job, "DONE")
    run = find_layout(deep_place.root).run
    deep_place.xce("down", "--jobs")
    subprocess.run(["rm", "-r", str(run)], check=True)
    deep_place.xce("up")  # /tmp was emptied
    assert deep_place.stat(job) == "DONE"


def test_a_wrong_configuration_is_told_and_nothing_is_started(place: Place) -> None:
    config = place.root / "config"
    config.mkdir()
    (config / "queues.yaml").write_text("- name: a\n  prio: 3\n")
    assert "queues.yaml:2: [1].prio: a queue has no key 'prio'" in place.xce("up", status=1)
    assert find_daemons(place.root) == {}


def test_a_daemon_that_cannot_start_is_named_with_its_log(place: Place) -> None:
    place.xce("up", "--hosts", "h1")
    place.submit("-o", "/dev/null", "true")
    place.xce("down", "--jobs")
    journal = sqlite3.connect(find_layout(place.root).journal_file)
    with journal:
        journal.execute("UPDATE batches SET content = zeroblob(length(content)) WHERE first = 1")
    journal.close()
    text = place.xce("up", status=1)
    assert "controller does not start (exit code 1); its log ends:" in text
    assert "journal.db" in text
    assert find_daemons(place.root) == {}
