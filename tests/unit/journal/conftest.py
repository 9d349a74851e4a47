"""Where a history is: each test runs with a file, and with PostgreSQL."""

from pathlib import Path

import pytest
from history_places import make_place

from xce.journal.history_place import HistoryPlace


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> HistoryPlace:
    return make_place(request.param, tmp_path)
