"""What storage does to a cluster: bytes that change, files that vanish, directories that go."""

import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from place import Place, make_place

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
