import gzip
from pathlib import Path

import pytest

from xce.sim.swf import Cleaning, SwfError, clean, load_log, parse_log

TINY = Path(__file__).parents[2] / "data" / "swf" / "tiny.swf"


def test_a_log_is_read_with_its_quirks(tmp_path: Path) -> None:
    log = load_log(TINY)
    assert log.processors == 4
    assert log.header["Version"] == "2.2"
    assert [record.job for record in log.records] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert log.records[0].average_cpu == 99
    packed = tmp_path / "tiny.swf.gz"
    packed.write_bytes(gzip.compress(TINY.read_bytes()))
    assert load_log(packed) == log


def test_strict_cleaning_drops_what_cannot_run_and_says_why() -> None:
    jobs, dropped = clean(load_log(TINY).records, Cleaning(procs=4))
    assert [job.number for job in jobs] == [1, 2, 3, 4, 5]
    assert dropped == {
        "no run time": 1,
        "wider than the machine": 1,
        "no requested time": 1,
    }


def test_model_cleaning_takes_the_run_time_for_a_missing_request() -> None:
    jobs, _ = clean(load_log(TINY).records, Cleaning(procs=4, model=True))
    assert [(job.number, job.request) for job in jobs][-1] == (8, 25)


def test_size_may_be_what_was_requested_alone() -> None:
    line = "1 0 -1 5 8 -1 -1 2 5 -1 1 1 1 -1 1 -1 -1 -1"
    records = parse_log([line], file="x").records
    assert clean(records, Cleaning(procs=8))[0][0].size == 8
    assert clean(records, Cleaning(procs=8, field8_only=True))[0][0].size == 2


def test_run_time_is_cut_to_the_request_and_estimates_may_be_the_real_ones() -> None:
    records = parse_log(["1 0 -1 50 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1"], file="x").records
    (job,), _ = clean(records, Cleaning(procs=1))
    assert (job.run, job.request) == (20, 20)
    records = parse_log(["1 0 -1 50 1 -1 -1 1 90 -1 1 1 1 -1 1 -1 -1 -1"], file="x").records
    (job,), _ = clean(records, Cleaning(procs=1, actual=True))
    assert (job.run, job.request) == (50, 50)


def test_jobs_come_in_order_of_submission_then_position() -> None:
    lines = [
        f"{n} {at} -1 5 1 -1 -1 1 5 -1 1 1 1 -1 1 -1 -1 -1" for n, at in ((1, 9), (2, 3), (3, 3))
    ]
    jobs, _ = clean(parse_log(lines, file="x").records, Cleaning(procs=1))
    assert [job.number for job in jobs] == [2, 3, 1]
    jobs, _ = clean(parse_log(lines, file="x").records, Cleaning(procs=1), limit=2)
    assert [job.number for job in jobs] == [2, 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 2 3", "log:1: has 3 columns"),
        (" ".join(["x"] * 18), "log:1: could not convert"),
        (" ".join(["inf"] * 18), "every column is a number"),
    ],
)
def test_a_line_that_is_no_job_is_named(text: str, expected: str) -> None:
    with pytest.raises(SwfError, match=expected):
        parse_log([text], file="log")


def test_a_broken_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SwfError, match="cannot be read"):
        load_log(tmp_path / "none.swf")
    cut = tmp_path / "cut.swf.gz"
    cut.write_bytes(gzip.compress(TINY.read_bytes())[:-20])
    with pytest.raises(SwfError, match="cannot be read"):
        load_log(cut)
