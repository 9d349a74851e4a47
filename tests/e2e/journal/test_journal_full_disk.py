"""A full disk refuses, keeps what was acknowledged, and goes on when space returns."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from journal_runs import check_everything_is_there, start_writer
from journals import filled

SIZE = "3m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_refuses_keeps_everything_and_recovers(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 * 1024 * 1024))
    writer = start_writer(small_disk / "journal", 1, padding=500)
    assert writer.stdout is not None
    last = 0
    for line in writer.stdout:
        if line.startswith(b"TROUBLE"):
            assert b"journal.db: database or disk is full" in line
            break
        last = int(line.split()[-1])
    assert last > 0
    check_everything_is_there(small_disk / "journal", last)

    ballast.unlink()
    assert writer.stdout.readline().split()[0].isdigit()
    assert writer.stdout.readline() == b"WELL\n"
    while b"TROUBLE" not in (line := writer.stdout.readline()):
        last = int(line)
    writer.kill()
    writer.communicate(timeout=20)
    check_everything_is_there(small_disk / "journal", last)


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@pytest.mark.parametrize("is_new", [True, False], ids=["a new journal", "an old journal"])
def test_a_controller_that_starts_on_a_full_disk_says_so(small_disk: Path, is_new: bool) -> None:
    if not is_new:
        filled(small_disk / "journal", 1, 2)
    fill(small_disk)
    writer = start_writer(small_disk / "journal", 1)
    _, errors = writer.communicate(timeout=20)
    assert writer.returncode == 1
    assert "JournalTroubleError" in errors.decode()
    assert str(small_disk / "journal") in errors.decode()
    (small_disk / "ballast").unlink()
    filled(small_disk / "journal", 1)
    check_everything_is_there(small_disk / "journal", 0)
