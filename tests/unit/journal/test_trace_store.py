"""Traces on disk: numbers that go on, bounds that hold, damage that is named and skipped."""

import os
import zlib

import pytest

from xce.journal.trace_store import (
    HEAD,
    SUFFIX,
    UNPACKED_BYTES_MAX,
    TraceStoreError,
    TraceWriter,
    open_writer,
    read_file,
    read_traces,
    trace_files,
)
from xce.model.trace import Candidate, SessionTrace, Sifted, Step, Table


def session(seq=1, **more):
    tables = [Table(kind).columns for kind in (Step, Sifted, Candidate)]
    return SessionTrace(
        seq=seq, now_us=seq * 1_000_000, classes=1, hosts=2, turns=1,
        steps=tables[0], sifted=tables[1], candidates=tables[2], **more,
    )  # fmt: skip


def numbers(directory, damaged=None):
    return [item.number for item in read_traces(directory, [] if damaged is None else damaged)]


def write(directory, count, **options):
    writer = TraceWriter(directory, **options)
    return [writer.write(session(seq)) for seq in range(1, count + 1)]


def test_sessions_are_read_back_the_newest_first(tmp_path):
    assert write(tmp_path / "t", 3) == [1, 2, 3]
    found = list(read_traces(tmp_path / "t", []))
    assert [(item.number, item.seq) for item in found] == [(3, 3), (2, 2), (1, 1)]
    assert found[0] == session(3, number=3)


def test_numbers_go_on_with_another_writer_and_in_another_file(tmp_path):
    write(tmp_path, 2)
    assert write(tmp_path, 2) == [3, 4]
    assert numbers(tmp_path) == [4, 3, 2, 1]
    assert [path.name for path in trace_files(tmp_path)] == [
        f"{1:012d}{SUFFIX}", f"{3:012d}{SUFFIX}",
    ]  # fmt: skip


def test_what_is_kept_is_bounded_and_the_oldest_goes_first(tmp_path):
    write(tmp_path, 300, total_bytes=5_000, file_bytes=1_000)
    kept = numbers(tmp_path)
    assert kept == list(range(300, 300 - len(kept), -1))
    assert 20 < len(kept) < 100
    assert sum(path.stat().st_size for path in trace_files(tmp_path)) < 5_200
    assert write(tmp_path, 1) == [301]


def test_where_nothing_is_there_is_nothing(tmp_path):
    assert numbers(tmp_path / "none") == []
    (tmp_path / "notes.txt").write_text("x")
    assert numbers(tmp_path) == []


def test_a_flipped_byte_anywhere_ends_the_file_and_is_named(tmp_path):
    write(tmp_path, 3)
    write(tmp_path, 1)
    path = trace_files(tmp_path)[0]
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        damaged = []
        found = numbers(tmp_path, damaged)
        assert found[0] == 4
        assert found[1:] in ([], [1], [2, 1])
        assert len(damaged) == 1
        assert str(path) in damaged[0]


def test_a_file_that_is_cut_off_gives_what_is_whole(tmp_path):
    write(tmp_path, 2)
    (path,) = trace_files(tmp_path)
    whole = path.read_bytes()
    second = len(HEAD) + 8 + int.from_bytes(whole[len(HEAD) : len(HEAD) + 4], "little")
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        damaged = []
        assert [item.number for item in read_file(path, damaged)] == [1] * (size >= second)
        assert bool(damaged) == (size not in (len(HEAD), second))
    assert write(tmp_path, 1) == [2], "its numbers are not known, and its file is left alone"


def test_a_frame_that_says_it_is_huge_is_damage(tmp_path):
    path = tmp_path / f"{1:012d}{SUFFIX}"
    path.write_bytes(HEAD + b"\xff\xff\xff\xff" * 2 + b"x" * 100)
    damaged = []
    assert list(read_file(path, damaged)) == []
    assert damaged == [f"{path}: damaged at byte {len(HEAD)}; the rest of it is skipped"]
    assert write(tmp_path, 1) == [2], "a damaged file is never written to"


def test_a_foreign_file_is_named(tmp_path):
    path = tmp_path / f"{7:012d}{SUFFIX}"
    path.write_text("something else")
    damaged = []
    assert numbers(tmp_path, damaged) == []
    assert damaged == [f"{path}: is no file of traces; it is skipped"]


def test_a_directory_that_cannot_be_used_is_an_error_with_its_name(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(TraceStoreError, match=r"file"):
        TraceWriter(tmp_path / "file").write(session())
    damaged = []
    assert numbers(tmp_path / "file", damaged) == []
    assert damaged == [f"{tmp_path / 'file'}: Not a directory"]
    with pytest.raises(TraceStoreError, match=r"file"):
        open_writer(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    write(tmp_path, 1)
    (path,) = trace_files(tmp_path)
    path.chmod(0)
    damaged = []
    assert numbers(tmp_path, damaged) == []
    assert damaged == [f"{path}: Permission denied"]


def test_a_simulation_writes_only_where_no_traces_are(tmp_path):
    open_writer(tmp_path / "t", first=7).write(session())
    assert numbers(tmp_path / "t") == [7]
    with pytest.raises(TraceStoreError, match="there are traces already"):
        open_writer(tmp_path / "t")


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00", b"not packed", zlib.compress(b""), zlib.compress(b"\x93\x01\x02\x03"),
     zlib.compress(b"\x00" * (UNPACKED_BYTES_MAX + 1)), zlib.compress(b"\xdd\xff\xff\xff\xff"),
     zlib.compress(b"\x91" * 100_000 + b"\x00")],
)  # fmt: skip
def test_a_frame_with_a_right_checksum_and_nonsense_in_it_is_damage(tmp_path, content):
    path = tmp_path / f"{1:012d}{SUFFIX}"
    head = len(content).to_bytes(4, "little") + zlib.crc32(content).to_bytes(4, "little")
    path.write_bytes(HEAD + head + content)
    damaged = []
    assert list(read_file(path, damaged)) == []
    assert len(damaged) == 1
