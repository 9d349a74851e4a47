"""What storage does to a cluster: bytes that change, files that vanish, directories that go."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from place import Place, make_place, until

from xce.daemon.components import find_daemons


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
