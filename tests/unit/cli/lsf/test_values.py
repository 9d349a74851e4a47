import time

import pytest
from job_rows import utc  # noqa: F401 - a fixture

from xce.cli.lsf.values import (
    BadValueError,
    parse_begin,
    parse_deadline,
    parse_duration_s,
    parse_job_id,
    parse_size_kib,
    parse_tasks,
    split_job_name,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 600),
        ("3:30", 12_600),
        ("0:30", 1_800),
        ("00:02", 120),
        ("0:5", 300),
        ("1:0", 3_600),
        ("0.5", 30),
        ("90", 5_400),
        ("144:00", 518_400),
        ("1:90", 9_000),
        ("0.01", 1),
        (" 7 ", 420),
    ],
)
def test_a_duration_is_hours_and_minutes(text, seconds):
    assert parse_duration_s(text, option="-W") == seconds


@pytest.mark.parametrize(
    "text", ["soon", "", "1:30:00", "-5", "0", "0:0", "5.", ".", "1:", "1h", "٣", "5/hostA", "1:-2"]
)
def test_what_is_no_duration_is_refused_by_name(text):
    with pytest.raises(BadValueError, match="Bad RUNLIMIT specification: -W"):
        parse_duration_s(text, option="-W")


@pytest.mark.parametrize(
    ("text", "kib"),
    [
        ("60MB", 61_440),
        ("4096MB", 4_194_304),
        ("2048KB", 2_048),
        ("1G", 1_048_576),
        ("1gb", 1_048_576),
        ("1.5G", 1_572_864),
        ("1GiB", 1_048_576),
        ("1T", 2**30),
        ("0.0001K", 1),
    ],
)
def test_a_written_unit_counts(text, kib):
    assert parse_size_kib(text, option="-M") == kib


def test_a_bare_size_needs_a_unit_from_elsewhere():
    assert parse_size_kib("500", option="-M") is None
    assert parse_size_kib("500", option="-M", bare_unit="K") == 500
    assert parse_size_kib("500", option="-M", bare_unit="G") == 500 * 1024 * 1024


@pytest.mark.parametrize("text", ["", "x", "MB", "-1", "1Q", "0MB", "5 parsecs", "500!", "1.2.3M"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(BadValueError, match="Bad MEMLIMIT specification"):
        parse_size_kib(text, option="-M")


def test_tasks_are_one_number_or_a_range():
    assert parse_tasks("4") == [4, 4]
    assert parse_tasks("2,8") == [2, 8]
    assert parse_tasks("2, 8") == [2, 8]
    assert parse_tasks("99999999") == [99_999_999, 99_999_999]


@pytest.mark.parametrize("text", ["0", "5,2", "0,4", "", ",", "4,", "-1", "a", "1,2,3", "1.5"])
def test_impossible_numbers_of_tasks_are_refused(text):
    with pytest.raises(BadValueError, match="Bad number of tasks"):
        parse_tasks(text)


NOW = 1_720_085_460  # Thu Jul  4 09:31:00 2024 UTC


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10:00", "2024-07-04 10:00"),
        ("9:31", "2024-07-04 09:31"),
        ("9:30", "2024-07-05 09:30"),
        ("20:08:15", "2024-07-20 08:15"),
        ("3:08:15", "2024-08-03 08:15"),
        ("31:0:0", "2024-07-31 00:00"),
        ("1:31:00:00", "2025-01-31 00:00"),
        ("12:25:06:05", "2024-12-25 06:05"),
        ("2:29:00:00", "2028-02-29 00:00"),
        ("2030:2:28:1:2", "2030-02-28 01:02"),
        ("2001:1:1:0:0", "2001-01-01 00:00"),
    ],
)
def test_a_begin_time_is_the_next_that_fits(text, expected):
    at = parse_begin(text, NOW)
    assert time.strftime("%Y-%m-%d %H:%M", time.gmtime(at)) == expected


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9:32", "2024-07-04 09:32"),
        ("9:31", "2024-07-05 09:31"),
        ("4:09:30", "2024-08-04 09:30"),
        ("7:04:09:31", "2025-07-04 09:31"),
        ("2024:7:4:9:32", "2024-07-04 09:32"),
    ],
)
def test_a_deadline_is_the_next_instant_that_is_still_to_come(text, expected):
    at = parse_deadline(text, NOW)
    assert time.strftime("%Y-%m-%d %H:%M", time.gmtime(at)) == expected


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("text", ["2024:7:4:9:31", "2001:1:1:0:0"])
def test_a_deadline_in_the_past_is_refused(text):
    with pytest.raises(BadValueError, match="Job termination time cannot be in the past"):
        parse_deadline(text, NOW)


def test_an_impossible_deadline_is_refused():
    with pytest.raises(BadValueError, match="Bad time specification: -t 24:00"):
        parse_deadline("24:00", NOW)


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "24:00",
        "10:60",
        "a:b",
        "32:1:1",
        "13:1:1:1",
        "2:30:1:1",
        "2023:2:29:1:1",
        "1:2:3:4:5:6",
        "1960:1:1:1:1",
        "-1:00",
    ],
)
def test_impossible_times_are_refused(text):
    with pytest.raises(BadValueError, match="Bad time specification: -b"):
        parse_begin(text, NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ("a", "")),
        ("a[1-10]", ("a", "1-10")),
        ("a[1-10:2, 15]%5", ("a", "1-10:2,15%5")),
        ("[1-3]", ("", "1-3")),
        ("a%5", ("a%5", "")),
        ("100%", ("100%", "")),
        ("a b/c\"d'é", ("a b/c\"d'é", "")),
        ("a[b", ("a[b", "")),
        ("Snakemake_rule_x:w=1___(uuid)", ("Snakemake_rule_x:w=1___(uuid)", "")),
        ("x" * 1024, ("x" * 1024, "")),
        ("a[5-1]", ("a", "5-1")),
        ("a[1]%0", ("a", "1%0")),
    ],
)
def test_a_job_name_may_carry_an_index_list(text, expected):
    assert split_job_name(text) == expected


@pytest.mark.parametrize("text", ["", "a[]", "a[1]b", "a]", "x" * 4095, "a[ ]"])
def test_impossible_job_names_are_refused(text):
    with pytest.raises(BadValueError, match="Bad job name"):
        split_job_name(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", "12"),
        ("012", "12"),
        ("0", "0"),
        ("12[3]", "12[3]"),
        ("12[ 1-3, 7 ]", "12[1-3,7]"),
        ("12[1-9:2]", "12[1-9:2]"),
    ],
)
def test_job_ids_have_one_form(text, expected):
    assert parse_job_id(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "a", "-1", "12[", "12[]", "12]", "[1]", "12[a]", "0[1]", "12[1-]", "12[1,]", "9" * 20],
)
def test_what_is_no_job_id_is_illegal(text):
    with pytest.raises(BadValueError, match="Illegal job ID"):
        parse_job_id(text)
