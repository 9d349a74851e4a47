import time
from collections.abc import Iterator

import pytest

from xce.client.moment import parse_moment

NOW = 1_790_000_000.0


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("@1789999999.5", NOW - 0.5),
        ("10m", NOW - 600),
        ("1.5h ago", NOW - 5400),
        ("2026-09-21T13:33:20", 1_789_997_600.0),
        ("2026-09-21 13:33:20Z", 1_789_997_600.0),
        ("2026-09-21T15:33:20+02:00", 1_789_997_600.0),
        ("2026-09-21", 1_789_948_800.0),
        ("13:00", 1_789_995_600.0),
        ("13:00:30", 1_789_995_630.0),
        ("23:59", 1_789_948_740.0),
    ],
)
def test_an_instant_is_read(text: str, moment: float) -> None:
    assert parse_moment(text, now_s=NOW) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "25:00",
        "12:60",
        "@",
        "10",
        "10x",
        "2026-13-01",
        "9" * 5000 + "s",
        "9" * 400 + "d",
    ],
)
def test_what_is_no_instant_is_none(text: str) -> None:
    assert parse_moment(text, now_s=NOW) is None
