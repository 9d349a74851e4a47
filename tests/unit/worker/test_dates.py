import time

import pytest

from xce.worker.dates import render_date


def test_an_instant_is_told_in_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert render_date(1_800_000_000_000_000) == "Fri Jan 15 17:00:00 2027"
    finally:
        monkeypatch.undo()
        time.tzset()
