"""Copies of ``bsub -f``: only where the directory is the one of the submission."""

import os
import subprocess
import sys

import pytest

from xce.step import file_copy
from xce.step.file_copy import ELSEWHERE, UNREADABLE, UNWRITABLE, Mount, mount_of, place_of, run

MOUNTS = [
    "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
    "30 21 0:50 /export/home /home rw - nfs4 nas:/vol rw,addr=10.0.0.1",
    "31 30 0:51 / /home/a\\040b rw - ext4 /dev/sdb rw",
    "32 21 0:52 / /mnt rw - nfs localhost:/x rw",
    "33 21 0:53 / /mnt rw - nfs other:/y rw",
    "short line",
]


@pytest.mark.parametrize(
    ("directory", "mount"),
    [
        ("/", Mount("/", "/", "ext4", "/dev/sda1")),
        ("/home", Mount("/home", "/export/home", "nfs4", "nas:/vol")),
        ("/home/u/x", Mount("/home", "/export/home", "nfs4", "nas:/vol")),
        ("/homes", Mount("/", "/", "ext4", "/dev/sda1")),
        ("/home/a b/c", Mount("/home/a b", "/", "ext4", "/dev/sdb")),
        ("/mnt", Mount("/mnt", "/", "nfs", "other:/y")),
    ],
)
def test_a_directory_is_on_what_is_mounted_nearest_above_it_and_last(directory, mount):
    assert mount_of(directory, MOUNTS) == mount


def mounted(monkeypatch, tmp_path, source, kind="nfs4", root="/export"):
    """Let a directory appear as mounted from a server."""
    line = f"30 21 0:50 {root} {tmp_path} rw - {kind} {source} rw"
    found = mount_of(str(tmp_path), [line])
    monkeypatch.setattr(file_copy, "mount_of", lambda directory, lines: found)


def test_on_a_network_file_system_a_place_is_its_source_and_the_path_in_it(monkeypatch, tmp_path):
    (tmp_path / "u").mkdir()
    mounted(monkeypatch, tmp_path, "nas:/vol")
    assert place_of(f"{tmp_path}/u/file") == "1 nfs4 nas:/vol /export/u"
    assert place_of(f"{tmp_path}/u/not/yet/file") == "3 nfs4 nas:/vol /export/u"
    assert place_of(f"{tmp_path}/u/not/yet/file", 3) == "3 nfs4 nas:/vol /export/u"


@pytest.mark.parametrize(
    ("source", "kind"), [("localhost:/vol", "nfs4"), ("127.0.0.1:/v", "nfs"), ("/dev/sda1", "ext4")]
)
def test_elsewhere_it_is_the_directorys_number_on_this_boot(monkeypatch, tmp_path, source, kind):
    mounted(monkeypatch, tmp_path, source, kind)
    found = tmp_path.stat()
    depth, boot, device, inode = place_of(f"{tmp_path}/file").split()
    assert (depth, int(device), int(inode)) == ("1", found.st_dev, found.st_ino)
    assert len(boot) == 36


def test_the_place_is_that_of_the_file_behind_links(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to("real/file")
    (tmp_path / "folder").symlink_to("real")
    place = place_of(f"{tmp_path}/real/file")
    assert place_of(f"{tmp_path}/link") == place
    assert place_of(f"{tmp_path}/folder/file") == place
    assert place_of(f"{tmp_path}/file") != place


def test_the_root_is_no_file():
    with pytest.raises(FileNotFoundError):
        place_of("/")
    with pytest.raises(FileNotFoundError):
        place_of("/a", 9)


def test_files_are_copied_both_ways_and_added_to(tmp_path):
    local, remote = tmp_path / "local", tmp_path / "remote"
    local.write_text("a")
    local.chmod(0o750)
    place = place_of(str(local))
    assert run("before", place, str(local), str(remote)) == 0
    assert (remote.read_text(), remote.stat().st_mode & 0o700) == ("a", 0o700)
    remote.write_text("b")
    assert run("append", place, str(local), str(remote)) == 0
    assert local.read_text() == "ab"
    assert run("after", place, str(local), str(remote)) == 0
    assert local.read_text() == "b"


def test_a_directory_takes_a_file_under_its_own_name(tmp_path):
    (tmp_path / "local").write_text("a")
    (tmp_path / "sub").mkdir()
    assert run("before", place_of(f"{tmp_path}/local"), f"{tmp_path}/local", f"{tmp_path}/sub") == 0
    assert (tmp_path / "sub" / "local").read_text() == "a"


@pytest.mark.parametrize("way", ["before", "after", "append"])
def test_a_file_on_itself_stays_as_it_is(tmp_path, way):
    path = tmp_path / "file"
    path.write_text("a")
    assert run(way, place_of(str(path)), str(path), str(path)) == 0
    assert path.read_text() == "a"


def test_another_directory_is_not_touched(tmp_path):
    """As on a host that has not the directory of the submission, but one of this name."""
    (tmp_path / "local").write_text("a")
    (tmp_path / "elsewhere").mkdir()
    place = place_of(f"{tmp_path}/elsewhere/local")
    for way in ("before", "after", "append"):
        assert run(way, place, f"{tmp_path}/local", f"{tmp_path}/remote") == ELSEWHERE
    assert not (tmp_path / "remote").exists()
    assert run("before", "nonsense", f"{tmp_path}/local", f"{tmp_path}/remote") == ELSEWHERE
    assert run("after", "1 gone", f"{tmp_path}/gone/x", f"{tmp_path}/local") == ELSEWHERE


def test_what_cannot_be_read_or_written_is_told_apart(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("a")
    place = place_of(f"{tmp_path}/file")
    for source in ("none", "pipe", "."):
        assert run("after", place, f"{tmp_path}/file", f"{tmp_path}/{source}") == UNREADABLE
    assert (tmp_path / "file").read_text() == "a"
    assert run("before", place, f"{tmp_path}/file", f"{tmp_path}/no/such") == UNWRITABLE


def test_it_runs_isolated_as_a_program(tmp_path):
    (tmp_path / "a").write_text("x")
    words = ["before", place_of(f"{tmp_path}/a"), f"{tmp_path}/a", f"{tmp_path}/b"]
    done = subprocess.run([sys.executable, "-I", "-S", file_copy.__file__, *words], check=False)
    assert done.returncode == 0
    assert (tmp_path / "b").read_text() == "x"


def test_a_copy_into_a_pipe_without_a_reader_fails_and_does_not_wait(tmp_path):
    (tmp_path / "in").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    assert file_copy.copy_file(f"{tmp_path}/in", f"{tmp_path}/pipe", appends=False) == UNWRITABLE
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert file_copy.copy_file(f"{tmp_path}/in", f"{tmp_path}/pipe", appends=False) == 0
    assert os.read(reader, 10) == b"x"
    os.close(reader)
