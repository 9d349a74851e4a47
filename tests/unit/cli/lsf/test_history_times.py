import time

import pytest
from job_rows import utc  # noqa: F401 - a fixture

from xce.cli.lsf.history_times import parse_span
from xce.cli.lsf.options import UsageError

NOW = 1_720_085_460  # Thu Jul  4 09:31:00 2024 UTC
DAY = 86_400
pytestmark = pytest.mark.usefixtures("utc")


def at(*fields):
    return int(time.mktime((*fields, *[0] * (6 - len(fields)), 0, 0, -1)))


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("2024/01/02/03:04,2024/1/2/03:05", (at(2024, 1, 2, 3, 4), at(2024, 1, 2, 3, 5) + 59)),
        ("2024/1/1,", (at(2024, 1, 1), None)),
        (",2024/1/1", (None, at(2024, 1, 2) - 1)),
        ("2", (at(2024, 7, 2), at(2024, 7, 3) - 1)),
        ("3/15", (at(2024, 3, 15), at(2024, 3, 16) - 1)),
        ("2/", (at(2024, 2, 1), at(2024, 3, 1) - 1)),
        ("2023/12/", (at(2023, 12, 1), at(2024, 1, 1) - 1)),
        ("8:30,", (at(2024, 7, 4, 8, 30), None)),
        ("8:", (at(2024, 7, 4, 8), at(2024, 7, 4, 9) - 1)),
        (".,", (NOW, None)),
        (".-2,", (NOW - 2 * DAY, None)),
        (".-3:,.", (NOW - 3 * 3600, NOW)),
        (".-1/,", (at(2024, 6, 4, 9, 31), None)),
    ],
)
def test_spans_of_time_are_read_as_lsf_writes_them(text, span):
    low, _, high = parse_span(text, NOW, option="-C").partition(",")
    assert (int(low) if low else None, int(high) if high else None) == span


@pytest.mark.parametrize(
    "text",
    ["", ",", "x", "2024/13/1", "2/30", "1/2/3/4", "25:00", "8:61", ".x", ".-", "5,4", "a/b/"],
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError):
        parse_span(text, NOW, option="-C")
