"""Which directory a path of ``bsub -f`` leads to."""

import pytest

from xce.step import file_copy
from xce.step.file_copy import Mount, is_place, mount_of, place_of

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


def test_a_file_is_where_it_was_as_long_as_its_directory_is(tmp_path):
    place = place_of(f"{tmp_path}/new/file")
    assert is_place(f"{tmp_path}/new/file", place)
    (tmp_path / "new").mkdir()
    assert is_place(f"{tmp_path}/new/file", place)
    for other in ("nonsense", "1 gone", place.replace("2 ", "1 ", 1), f"{place}0"):
        assert not is_place(f"{tmp_path}/new/file", other)


def test_a_machine_that_is_known_may_have_been_started_anew(monkeypatch, tmp_path):
    depth, boot, device, inode = place_of(f"{tmp_path}/file").split()
    before = f"{depth} {boot[::-1]} {device} {inode}"
    assert not is_place(f"{tmp_path}/file", before)
    assert is_place(f"{tmp_path}/file", before, any_boot=True)
    assert not is_place(f"{tmp_path}/file", f"{before}0", any_boot=True)
    mounted(monkeypatch, tmp_path, "nas:/vol")
    assert not is_place(f"{tmp_path}/file", before, any_boot=True)
    assert not is_place(f"{tmp_path}/file", "1 nfs4 nas:/other /export", any_boot=True)
    assert is_place(f"{tmp_path}/file", "1 nfs4 nas:/vol /export", any_boot=True)
