import os
from pathlib import Path

import pytest

from xce.step.streams import LINE_MAX, Sink, open_sinks


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def test_each_line_is_named_and_the_last_one_is_ended(pipe):
    sink = Sink(pipe[1], "a.0: ")
    for content in (b"one\ntw", b"o\n\nthr", b"ee"):
        sink.write(content)
    assert os.read(pipe[0], 100) == b"a.0: one\na.0: two\na.0: \n"
    sink.close()
    assert os.read(pipe[0], 100) == b"a.0: three\n"


def test_a_line_without_end_is_written_in_pieces(tmp_path):
    with (tmp_path / "o").open("wb") as file:
        sink = Sink(file.fileno(), "a: ")
        sink.write(b"x" * LINE_MAX)
        sink.write(b"y")
        assert (tmp_path / "o").read_bytes() == b"a: " + b"x" * LINE_MAX + b"y\n"


def test_where_nobody_reads_any_more_what_is_written_is_lost(pipe):
    sink = Sink(-1, "a: ")
    sink.write(b"x\n")
    sink.close()


def test_files_are_added_to_and_errors_go_with_the_output(tmp_path):
    (tmp_path / "o").write_text("old\n")
    sinks = open_sinks("o", "", cwd=str(tmp_path), label="a: ")
    sinks.output.write(b"out\0")
    sinks.error.write(b"err")
    sinks.close()
    assert (tmp_path / "o").read_bytes() == b"old\nout\0err"


def test_of_two_files_the_first_is_closed_where_the_second_cannot_be_opened(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        open_sinks("o", "no/e", cwd=str(tmp_path), label="")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
