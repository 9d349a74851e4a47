"""Files are written whole or not at all, and what is added is added as one piece."""

import errno
import os
import subprocess
import sys

import pytest

from xce.step import file_sink
from xce.step.file_codes import FULL, UNWRITABLE
from xce.step.file_sink import Sink, append_to, fault_of


@pytest.fixture(params=["nameless", "named"])
def kind(request, monkeypatch):
    """File systems that have files without names, and those that have none."""
    if request.param == "named":

        def refuse(directory):
            raise OSError(errno.EOPNOTSUPP, "no such files")

        monkeypatch.setattr(file_sink, "_open_nameless", refuse)
    return request.param


def written(path, content=b"new", mode=0o751):
    sink = Sink(str(path))
    sink.write(0, content)
    sink.replace(mode)
    sink.close()


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_new_file_has_its_mode_and_an_old_one_keeps_its_own(tmp_path, kind):
    written(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o751 & ~file_sink._mask()
    (tmp_path / "a").chmod(0o604)
    written(tmp_path / "a", b"newer")
    assert (tmp_path / "a").read_bytes() == b"newer"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o604
    assert names(tmp_path) == ["a"]


def test_a_name_may_be_as_long_as_names_may_be(tmp_path, kind):
    path = tmp_path / ("\N{HIRAGANA LETTER A}" * 85)
    for content in (b"new", b"newer"):
        written(path, content)
        assert path.read_bytes() == content
    assert names(tmp_path) == [path.name]


def test_who_reads_an_old_file_reads_it_to_its_end(tmp_path, kind):
    (tmp_path / "a").write_text("old")
    with (tmp_path / "a").open() as reader:
        written(tmp_path / "a")
        assert reader.read() == "old"


def test_what_is_not_finished_leaves_nothing(tmp_path, kind):
    (tmp_path / "a").write_text("old")
    sink = Sink(str(tmp_path / "a"))
    sink.write(0, b"half")
    assert (sink.size, (tmp_path / "a").read_text()) == (4, "old")
    sink.close()
    assert names(tmp_path) == ["a"]


def test_links_stay_and_lead_to_what_is_new(tmp_path, kind):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "far").symlink_to("not yet")
    written(tmp_path / "link")
    written(tmp_path / "far")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == (tmp_path / "not yet").read_text() == "new"


def test_a_link_that_the_kernel_does_not_follow_is_not_followed(tmp_path, monkeypatch):
    """One of somebody else in a directory for everybody, where the kernel protects such links."""
    (tmp_path / "own").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    stat = os.stat

    def protected(path, **more):
        if str(path) == f"{tmp_path}/link":
            raise PermissionError(errno.EACCES, "Permission denied")
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", protected)
    with pytest.raises(PermissionError):
        Sink(f"{tmp_path}/link")


def test_a_file_with_several_names_has_the_content_under_each(tmp_path, kind):
    (tmp_path / "a").write_text("old and longer")
    os.link(tmp_path / "a", tmp_path / "b")
    written(tmp_path / "a")
    assert (tmp_path / "b").read_text() == "new"
    assert names(tmp_path) == ["a", "b"]


def test_a_file_in_a_closed_directory_is_written_where_it_is(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old and longer")
    number = (tmp_path / "a").stat().st_ino
    real = file_sink._open_nameless

    def refuse(directory):
        if directory == str(tmp_path):
            raise PermissionError(errno.EACCES, "closed")
        return real(directory)

    monkeypatch.setattr(file_sink, "_open_nameless", refuse)
    written(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "a").stat().st_ino == number
    with pytest.raises(PermissionError):
        Sink(str(tmp_path / "b"))


def test_pieces_may_come_twice_and_the_end_may_be_nearer(tmp_path, kind):
    sink = Sink(str(tmp_path / "a"))
    for place, content in ((0, b"abcd"), (2, b"cdef"), (2, b"cd")):
        sink.write(place, content)
    sink.cut(4)
    sink.replace(0o600)
    sink.close()
    assert (tmp_path / "a").read_bytes() == b"abcd"


def test_what_is_no_file_or_has_no_directory_is_not_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("pipe", "none/x", "."):
        with pytest.raises(OSError):  # noqa: PT011 - whichever
            Sink(str(tmp_path / path))


def test_what_does_not_fit_is_taken_away_again(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")
    (tmp_path / "more").write_text("more")
    real = os.write

    def write(fd, content):
        real(fd, bytes(content)[:2])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(file_sink.os, "write", write)
    reader = os.open(tmp_path / "more", os.O_RDONLY)
    with pytest.raises(OSError, match="full") as caught:
        append_to(str(tmp_path / "a"), reader, 0o600)
    os.close(reader)
    assert fault_of(caught.value) == FULL
    assert fault_of(PermissionError(errno.EACCES, "")) == UNWRITABLE
    assert (tmp_path / "a").read_text() == "old"


def test_many_that_add_at_once_do_not_mix(tmp_path):
    program = (
        "import os, sys; from xce.step.file_sink import append_to; "
        "fd = os.open(sys.argv[1], os.O_RDONLY); append_to(sys.argv[2], fd, 0o600)"
    )
    size = 3 << 20
    for letter in "ab":
        (tmp_path / letter).write_text(letter * size)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    adders = [
        subprocess.Popen(
            [sys.executable, "-c", program, tmp_path / letter, tmp_path / "all"], env=environ
        )
        for letter in "ab"
    ]
    assert [adder.wait(60) for adder in adders] == [0, 0]
    found = (tmp_path / "all").read_text()
    assert found in ("a" * size + "b" * size, "b" * size + "a" * size)
