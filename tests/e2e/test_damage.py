"""What storage does to a cluster: bytes that change, files that vanish, directories that go."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from place import Place, make_place, until

from xce.daemon.components import find_daemons
from xce.daemon.paths import find_layout


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    yield from make_place(tmp_path, "state")


def test_a_damaged_script_ends_its_job_and_nothing_else(place: Place) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "2")
    (place.home / "s.sh").write_text("#!/bin/sh\necho one script of its own\n")
    with (place.home / "s.sh").open() as script:
        done = subprocess.run(
            ["bsub", "-H"], stdin=script, env=place.environ, cwd=place.home,
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    job = done.stdout.split("<")[1].split(">")[0]
    place.xce("down")
    connection = sqlite3.connect(place.root / "journal" / "journal.db")
    with connection:
        changed = connection.execute(
            "UPDATE blobs SET content = CAST(replace(CAST(content AS TEXT), 'own', 'OWN') AS BLOB)"
            " WHERE instr(content, CAST('of its own' AS BLOB))"
        ).rowcount
    connection.close()
    assert changed == 1
    found = place.admin("journal", "verify", status=1)
    assert "DAMAGED blob" in found
    assert f"end if they start: {job}" in found
    place.xce("up")
    before = find_daemons(place.root)["controller"]
    place.run("bresume", job)
    place.until_stat(job, "EXIT")
    assert "the stored script of the job is damaged" in place.run("bjobs", "-l", job).stdout
    other = place.submit("true")
    place.until_stat(other, "DONE")
    assert find_daemons(place.root)["controller"] == before


@pytest.mark.parametrize("is_emptied", [True, False], ids=["emptied", "removed"])
@pytest.mark.parametrize("kept", ["history", "hosts"])
def test_a_lost_journal_is_not_a_new_cluster_while_anything_remembers_jobs(
    place: Place, kept: str, is_emptied: bool
) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "2")
    place.until_stat(place.submit("echo output is kept"), "DONE")
    place.xce("down")
    shutil.move(place.root / "journal", place.home / "journal")
    shutil.move(place.root / kept, place.home / kept)
    (place.root / "journal").mkdir(mode=0o700)
    if is_emptied:
        (place.root / "journal" / "journal.db").touch()
    shutil.rmtree(place.root / {"history": "hosts", "hosts": "history"}[kept])
    shutil.move(place.home / kept, place.root / kept)
    refusal = place.xce("up", status=1)
    assert "no entry is stored, but there was a cluster here" in refusal
    assert f"{place.root / kept}" in refusal
    place.xce("down")
    shutil.rmtree(place.root / "journal")
    shutil.move(place.home / "journal", place.root / "journal")
    place.xce("up")
    assert place.submit("true") == "2"


def test_a_journal_removed_under_a_running_cluster_ends_acknowledgements(place: Place) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "2")
    place.until_stat(place.submit("true"), "DONE")
    (place.root / "journal").rename(place.root / "journal.away")
    place.environ["XCE_WAIT_DAEMON"] = "3"
    refused = place.run("bsub", "true", status=255)
    assert "journal.db: was removed while the controller uses it" in refused.stderr
    assert "was removed" in place.xce("status", status=1)
    place.xce("logs", "controller")
    (place.root / "journal.away").rename(place.root / "journal")
    until(
        lambda: place.run("bsub", "true", status=None).returncode == 0, what="the journal is back"
    )
    place.xce("down")
    place.admin("journal", "verify")


def test_a_run_directory_that_vanished_is_made_again(place: Place) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "2")
    job = place.submit("-o", "out", "while [ ! -e go ]; do sleep 0.05; done; echo went on")
    place.until_stat(job, "RUN")
    shutil.rmtree(find_layout(place.root).run)
    began = time.monotonic()
    assert "is up already" in place.xce("up")
    assert time.monotonic() - began < 20
    assert place.stat(job) == "RUN"
    # The shepherd listens again too: the next worker finds it, and what it minds.
    socket = find_layout(place.root).shepherd_socket("h1")
    until(socket.exists, what="the shepherd's socket")
    worker = find_daemons(place.root)["worker-h1"]
    os.kill(worker.pid, signal.SIGKILL)
    (place.home / "go").touch()
    place.until_stat(job, "DONE")
    assert (place.home / "out").read_text().startswith("went on\n")
    place.until_stat(place.submit("true"), "DONE")
    shutil.rmtree(find_layout(place.root).run)
    began = time.monotonic()
    place.xce("down")
    assert time.monotonic() - began < 25
    assert find_daemons(place.root) == {}


def test_host_directories_that_vanished_are_made_again(place: Place) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "2")
    place.until_stat(place.submit("-o", "one", "echo one"), "DONE")
    shutil.rmtree(place.root / "hosts")
    # The same text: what the worker believes to have is gone.
    for number in range(2):
        job = place.submit("-o", f"one.{number}", "echo one")
        place.until_stat(job, "DONE")
        assert (place.home / f"one.{number}").read_text().startswith("one\n")
    kept = place.submit("echo kept")
    place.until_stat(kept, "DONE")
    assert place.run("xcecli", "output", kept).stdout == "kept\n"


def test_a_start_that_fails_tells_its_cause_where_people_look(place: Place) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "2")
    place.until_stat(place.submit("true"), "DONE")
    # Neither the directory nor one in its place can be made.
    shutil.rmtree(place.root / "hosts")
    (place.root / "hosts").touch()
    job = place.submit("echo another text")
    until(lambda: "avoided" in place.run("xcecli", "why", job).stdout, what="a failed start")
    why = place.run("xcecli", "why", job).stdout
    assert "A start on h1 failed: cannot" in why
    assert "ask for less" not in why
    assert "xceadmin hosts open" in why
    assert "Unable to start the job on the host" in place.run("bjobs", "-l", job).stdout
    assert "start-failed" in place.xce("logs", "worker-h1", "-n", "50")
    (place.root / "hosts").unlink()
    place.admin("hosts", "open", "h1")
    place.until_stat(job, "DONE")


def test_a_cluster_is_the_same_through_a_link(place: Place, tmp_path: Path) -> None:
    link = tmp_path / "by another name"
    link.symlink_to(place.root)
    place.environ["XCE_DIR"] = str(link)
    place.xce("up", "--hosts", "h1", "--slots", "2")
    job = place.submit("true")
    for root in (place.root, link):
        place.environ["XCE_DIR"] = str(root)
        place.until_stat(job, "DONE")
        assert ": ready" in place.xce("status")
        assert "is up already" in place.xce("up")
    assert len(find_daemons(place.root)) == 6
    place.environ["XCE_DIR"] = str(link)
    assert "no job ran" in place.xce("down")
    place.environ["XCE_DIR"] = str(place.root)
    assert "no cluster runs here" in place.xce("status", status=1)


@pytest.mark.parametrize(
    "words",
    [("worker", "--host", "h1"), ("scheduler",), ("history",), ("controller",)],
    ids=lambda words: words[0],
)
def test_a_second_daemon_of_a_kind_refuses_and_disturbs_nothing(
    place: Place, words: tuple[str, ...]
) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "2")
    before = find_daemons(place.root)
    module = f"xce.daemon.{words[0]}"
    done = place.run(
        sys.executable, "-m", module, "--dir", str(place.root), *words[1:], status=1
    )  # fmt: skip
    name = "history writer" if words[0] == "history" else words[0]
    assert f"in use by another {name} (process " in done.stderr
    job = place.submit("true")
    place.until_stat(job, "DONE")
    assert find_daemons(place.root) == before


def test_output_of_a_job_whose_file_could_not_be_opened_is_never_somebody_elses(
    place: Place,
) -> None:
    place.xce("up", "--hosts", "h1", "--slots", "4")
    # A program that runs cannot be written by anybody, and has content of its own.
    busy = place.home / "busy"
    shutil.copy("/bin/sleep", busy)
    runs = subprocess.Popen([busy, "300"])
    os.mkfifo(place.home / "pipe")
    try:
        for name in ("busy", "pipe"):
            job = place.submit("-o", name, "echo mine; while [ ! -e go ]; do sleep 0.05; done")
            place.until_stat(job, "RUN")
            until(
                lambda job=job: place.run("xcecli", "output", job).stdout == "mine\n",
                what="output of a running job",
            )
            both = place.submit("-o", "out.%J", "-e", name, "echo out; echo err >&2")
            place.until_stat(both, "EXIT")
            assert place.run("xcecli", "output", both, "--stderr").stdout == "err\n"
            assert place.run("xcecli", "output", both).stdout.startswith("out\n")
            (place.home / "go").touch()
            place.until_stat(job, "EXIT")
            assert "TERM_OUTPUT" in place.run("bjobs", "-l", job).stdout
            until(
                lambda job=job: place.run("xcecli", "output", job).stdout == "mine\n",
                what="output of a job that has ended",
            )
            silent = place.submit("-o", name, "true")
            place.until_stat(silent, "EXIT")
            assert place.run("xcecli", "output", silent).stdout == ""
            (place.home / "go").unlink()
    finally:
        runs.kill()
        runs.wait()
