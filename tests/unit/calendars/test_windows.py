"""Run windows as instants, over the changes of daylight saving time."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from xce.calendars.windows import each_interval, resolve_windows
from xce.config.values import parse_windows
from xce.model.config import ClusterConfig, QueueConfig

DAY = "2026-03-28T12:00"


def micros(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def intervals(text: str, zone: str, now: str, count: int = 3) -> list[tuple[str, str]]:
    found = list(each_interval(parse_windows(text), ZoneInfo(zone), micros(now)))[:count]
    return [tuple(_text(value) for value in pair) for pair in found]


def _text(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).strftime("%m-%dT%H:%M")


@pytest.mark.parametrize(
    ("text", "zone", "now", "expected"),
    [
        # A night without a change.
        ("20:00-8:30", "UTC", "2026-01-10T12:00", [("01-10T20:00", "01-11T08:30")]),
        # One that began yesterday is open still.
        ("20:00-8:30", "UTC", "2026-01-10T03:00", [("01-09T20:00", "01-10T08:30")]),
        # Berlin, winter and summer.
        ("20:00-6:00", "Europe/Berlin", "2026-01-10T12:00", [("01-10T19:00", "01-11T05:00")]),
        ("20:00-6:00", "Europe/Berlin", "2026-07-10T12:00", [("07-10T18:00", "07-11T04:00")]),
        # The night in which the clock goes from 2:00 to 3:00 has an hour less ...
        ("20:00-6:00", "Europe/Berlin", "2026-03-28T12:00", [("03-28T19:00", "03-29T04:00")]),
        # ... and the one in which it goes from 3:00 to 2:00 an hour more.
        ("20:00-6:00", "Europe/Berlin", "2026-10-24T12:00", [("10-24T18:00", "10-25T05:00")]),
        # Opens at a time that does not exist: at the jump.
        ("2:30-5:00", "Europe/Berlin", "2026-03-29T00:00", [("03-29T01:00", "03-29T03:00")]),
        # Closes at such a time: at the jump.
        ("1:00-2:30", "Europe/Berlin", "2026-03-29T00:00", [("03-29T00:00", "03-29T01:00")]),
        # Lies whole in the hour that is left out: it is not open that day.
        ("2:10-2:50", "Europe/Berlin", "2026-03-29T00:30", [("03-30T00:10", "03-30T00:50")]),
        # Opens and closes at a time that comes twice: at the first, at the second.
        ("2:30-5:00", "Europe/Berlin", "2026-10-24T12:00", [("10-25T00:30", "10-25T04:00")]),
        ("1:00-2:30", "Europe/Berlin", "2026-10-24T12:00", [("10-24T23:00", "10-25T01:30")]),
        ("2:00-3:00", "Europe/Berlin", "2026-10-24T12:00", [("10-25T00:00", "10-25T02:00")]),
        # Other hemispheres, other jumps: Lord Howe moves by half an hour.
        ("2:15-4:00", "Australia/Lord_Howe", "2026-10-03T12:00", [("10-03T15:30", "10-03T17:00")]),
        ("1:45-4:00", "Australia/Lord_Howe", "2026-04-04T12:00", [("04-04T14:45", "04-04T17:30")]),
        # New York.
        ("22:00-4:00", "America/New_York", "2026-03-07T20:00", [("03-08T03:00", "03-08T08:00")]),
        ("22:00-4:00", "America/New_York", "2026-10-31T20:00", [("11-01T02:00", "11-01T09:00")]),
        # A weekly one: Friday 19:00 to Monday 8:30 (day 0 is Sunday), over a change.
        ("5:19:00-1:8:30", "UTC", "2026-01-10T12:00", [("01-09T19:00", "01-12T08:30")]),
        (
            "5:19:00-1:8:30",
            "Europe/Berlin",
            "2026-03-26T12:00",
            [("03-27T18:00", "03-30T06:30")],
        ),
        # Windows that touch or overlap are one.
        ("8-12 12-18", "UTC", "2026-01-10T00:00", [("01-10T08:00", "01-10T18:00")]),
        ("8-12 10:30-18", "UTC", "2026-01-10T00:00", [("01-10T08:00", "01-10T18:00")]),
    ],
)
def test_wall_times_become_instants(
    text: str, zone: str, now: str, expected: list[tuple[str, str]]
) -> None:
    assert intervals(text, zone, now, len(expected)) == expected


def test_all_day_is_one_interval() -> None:
    ((opens, closes),) = list(
        each_interval(parse_windows("0-24"), ZoneInfo("Europe/Berlin"), micros(DAY))
    )
    assert closes - opens > 14 * 24 * 3_600_000_000


def test_only_queues_with_windows_are_named() -> None:
    queues = (
        QueueConfig(name="night", run_windows=parse_windows("20:00-8:00")),
        QueueConfig(name="normal"),
    )
    command = resolve_windows(ClusterConfig(queues=queues), micros(DAY))
    assert [name for name, _ in command.queues] == ["night"]
