"""Copies of ``bsub -f``: within one host, and between the job's and that of the submission."""

import contextlib
import os
import subprocess
import sys

import pytest

from xce.client import file_copy, file_copy_main
from xce.client.file_copy import (
    CopyError,
    Door,
    fetch_file,
    open_door,
    run_copy,
    send_file,
)
from xce.client.file_end import CARRIED_MAX, PIECE_MAX, FileEnd
from xce.step.file_codes import (
    AWAY,
    BEGIN_AGAIN,
    ELSEWHERE,
    FULL,
    MOVED,
    TOO_LONG,
    UNKNOWN,
    UNREADABLE,
    UNWRITABLE,
)
from xce.step.file_copy import copy_file, place_of
from xce.step.file_sink import Sink


def run(way, place, local, remote):
    return run_copy(0, way, place, local, remote, environ={})


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
    assert (
        run_copy(
            0,
            "before",
            place_of(f"{tmp_path}/local"),
            f"{tmp_path}/local",
            f"{tmp_path}/sub",
            environ={},
        )
        == 0
    )
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
    words = ["copy", "0", "before", place_of(f"{tmp_path}/a"), f"{tmp_path}/a", f"{tmp_path}/b"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", file_copy_main.__file__, *words], check=False
    )
    assert done.returncode == 0
    assert (tmp_path / "b").read_text() == "x"


def test_a_copy_into_a_pipe_without_a_reader_fails_and_does_not_wait(tmp_path):
    (tmp_path / "in").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    assert copy_file(f"{tmp_path}/in", f"{tmp_path}/pipe", appends=False) == UNWRITABLE
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert copy_file(f"{tmp_path}/in", f"{tmp_path}/pipe", appends=False) == 0
    assert os.read(reader, 10) == b"x"
    os.close(reader)


class Way(Door):
    """A way to a `FileEnd` in this process, on which things go wrong as planned, one a piece.

    ``away``: it is not passed on; ``mute``: it is done and the answer is lost; ``lost``: so, and
    the end is gone; a number: that comes back.
    """

    def __init__(self, way, local, *faults, place="", name="name"):
        self.pauses = []
        super().__init__("", {}, 0, self.pauses.append)
        self.faults = list(faults)
        self.made = (way, place or place_of(str(local)), str(local), name)
        self.end_ = None
        self.is_done = False

    def _exchange(self, order, content):
        fault = self.faults.pop(0) if self.faults else ""
        if fault in ("away", "busy"):
            return {"is_away": True, "is_busy": fault == "busy"}, b""
        if isinstance(fault, int):
            return {"code": fault}, b""
        answer = self._take(order, content)
        if fault == "lost":
            self.leave()
        if fault:
            raise ConnectionResetError
        return answer

    def _take(self, order, content):
        if order["what"] == "end":
            return {}, b""
        if self.end_ is None:
            if order["place"]:
                return {"code": BEGIN_AGAIN}, b""
            self.end_ = FileEnd(*self.made)
        if order.get("is_end") and self.is_done:
            return {"code": 0, "is_over": True}, b""
        answer = self.end_.take({"do": order["what"], **order}, content)
        self.is_done = bool(answer[0].get("is_over"))
        return answer

    def leave(self):
        if self.end_ is not None:
            self.end_.close()
        self.end_, self.is_done = None, False


SIZES = [0, 1, PIECE_MAX - 1, PIECE_MAX, PIECE_MAX + 1, 3 * PIECE_MAX]
FAULTS = ["away", "mute", "lost"]
ENDS = [(0, 0), (5, 1), (PIECE_MAX, 1), (3 * PIECE_MAX + 5, 4)]
"""How much is added, and which order is the last; of nothing it does not matter how often."""


@pytest.mark.parametrize("size", SIZES)
def test_content_comes_whole_with_its_mode_and_goes_whole(tmp_path, size):
    local, remote = tmp_path / "local", tmp_path / "remote"
    local.write_bytes(os.urandom(size))
    local.chmod(0o750)
    with contextlib.closing(Way("before", local)) as way:
        fetch_file(way, str(remote))
        way.leave()
    assert remote.read_bytes() == local.read_bytes()
    assert remote.stat().st_mode & 0o700 == 0o700
    back = tmp_path / "back"
    way = Way("after", back)
    send_file(way, str(remote), appends=False)
    way.leave()
    assert back.read_bytes() == local.read_bytes()
    way = Way("append", back)
    send_file(way, str(remote), appends=True)
    way.leave()
    assert back.read_bytes() == 2 * local.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "local", "remote"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("piece", range(4))
def test_whoever_is_away_in_any_piece_the_copy_is_whole(tmp_path, fault, piece):
    local, remote = tmp_path / "local", tmp_path / "remote"
    content = os.urandom(3 * PIECE_MAX + 5)
    local.write_bytes(content)
    remote.write_bytes(b"before")
    faults = ["", "", "", "", ""]
    faults[piece] = fault
    way = Way("before", local, *faults)
    fetch_file(way, str(remote))
    way.leave()
    assert remote.read_bytes() == content
    assert way.pauses
    local.write_bytes(b"before")
    way = Way("after", local, *faults)
    send_file(way, str(remote), appends=False)
    way.leave()
    assert local.read_bytes() == content


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("size", "piece"), [(size, piece) for size, last in ENDS for piece in range(last + 1)]
)
def test_it_is_added_once_or_that_is_not_known(tmp_path, fault, size, piece):
    local, remote = tmp_path / "local", tmp_path / "remote"
    content = os.urandom(size)
    local.write_bytes(b"head")
    remote.write_bytes(content)
    faults = [""] * 5
    faults[piece] = fault
    way = Way("append", local, *faults)
    if ((size, piece) in ENDS[1:]) and fault == "lost":
        with pytest.raises(CopyError) as caught:
            send_file(way, str(remote), appends=True)
        assert caught.value.code == UNKNOWN
    else:
        send_file(way, str(remote), appends=True)
    way.leave()
    assert local.read_bytes() == b"head" + content


def test_nobody_is_waited_for_without_end(tmp_path):
    local, remote = tmp_path / "local", tmp_path / "remote"
    remote.write_bytes(b"x")
    for appends, code in ((False, AWAY), (True, UNKNOWN)):
        way = Way("append" if appends else "after", local, *[""] * appends, *["away"] * 1000)
        with pytest.raises(CopyError) as caught:
            send_file(way, str(remote), appends=appends)
        assert caught.value.code == code
        assert file_copy.PATIENCE_S <= sum(way.pauses) < 2 * file_copy.PATIENCE_S
    with pytest.raises(CopyError) as caught:
        fetch_file(Way("before", local, *[BEGIN_AGAIN] * 1000), str(remote))
    assert caught.value.code == AWAY
    assert remote.read_bytes() == b"x"


def test_a_host_that_is_busy_is_waited_for_as_long_as_the_step_may_take(tmp_path):
    local, remote = tmp_path / "local", tmp_path / "remote"
    local.write_bytes(b"x")
    way = Way("before", local, *["busy"] * 100)
    fetch_file(way, str(remote))
    assert remote.read_bytes() == b"x"
    assert sum(way.pauses) > 2 * file_copy.PATIENCE_S


def test_a_copy_that_stops_midway_leaves_the_file_as_it_was(tmp_path):
    local, remote = tmp_path / "local", tmp_path / "remote"
    remote.write_bytes(bytes(2 * PIECE_MAX))
    local.write_bytes(b"old")
    for way in ("after", "append"):
        going = Way(way, local, "", 77)
        with pytest.raises(CopyError):
            send_file(going, str(remote), appends=way == "append")
        going.leave()
        assert local.read_bytes() == b"old"
    local.write_bytes(bytes(2 * PIECE_MAX))
    remote.write_bytes(b"old")
    with pytest.raises(CopyError):
        fetch_file(Way("before", local, "", 77), str(remote))
    assert remote.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local", "remote"]


def code_of(copy, *words, **more):
    with pytest.raises(CopyError) as caught:
        copy(*words, **more)
    return caught.value.code


def test_each_end_says_what_it_cannot_read_or_write(tmp_path, monkeypatch):
    local, remote = tmp_path / "local", tmp_path / "remote"
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    elsewhere = place_of(f"{tmp_path}/folder/x")
    local.write_bytes(b"x")
    place = place_of(str(local))
    for source in ("none", "pipe", "folder"):
        assert code_of(fetch_file, Way("before", tmp_path / source), str(remote)) == UNREADABLE
        path = str(tmp_path / source)
        assert code_of(send_file, Way("after", local), path, appends=False) == UNREADABLE
    for way in (Way("after", tmp_path / "pipe"), Way("after", tmp_path / "folder/none/x")):
        assert code_of(send_file, way, str(local), appends=False) == UNWRITABLE
    assert code_of(fetch_file, Way("before", local, place=elsewhere), str(remote)) == MOVED
    moved = Way("after", local, place=elsewhere)
    assert code_of(send_file, moved, str(local), appends=False) == MOVED
    # What the job did not ask for is not done.
    assert code_of(fetch_file, Way("after", local), str(remote)) == UNWRITABLE
    assert code_of(send_file, Way("before", local), str(local), appends=False) == UNWRITABLE
    assert place == place_of(str(local))
    with remote.open("wb") as file:
        file.truncate(CARRIED_MAX + 1)
    assert code_of(fetch_file, Way("before", remote), str(local)) == TOO_LONG
    assert code_of(send_file, Way("after", local), str(remote), appends=False) == TOO_LONG
    assert local.read_bytes() == b"x"

    def write(sink, place, content):
        raise OSError(28, "no space")

    monkeypatch.setattr(Sink, "write", write)
    assert code_of(send_file, Way("after", remote), str(local), appends=False) == FULL


def test_a_directory_takes_what_is_sent_under_its_name_where_the_job_ran(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "source").write_text("x")
    way = Way("after", tmp_path / "folder", name="result")
    send_file(way, str(tmp_path / "source"), appends=False)
    way.leave()
    assert (tmp_path / "folder" / "result").read_text() == "x"


def test_outside_of_a_job_there_is_no_way():
    assert open_door({"XCE_JOBID": "1"}, 0) is None
    names = ("XCE_JOBID", "XCE_JOBINDEX", "XCE_ATTEMPT", "XCE_LAUNCH_KEY", "XCE_LAUNCH_SOCKET")
    assert open_door(dict.fromkeys(names, "1"), 0) is not None
