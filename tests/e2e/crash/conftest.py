"""What the tests of this directory share; a file that needs another cluster has its own."""

from collections.abc import Iterator

import pytest
from live import Live, open_live
from other_user import IS_ROOT, NOBODY

MODES = ("root", "user") if IS_ROOT else ("user",)


@pytest.fixture(scope="module", params=MODES)
def live(request: pytest.FixtureRequest) -> Iterator[Live]:
    """A cluster of one host, of root and of an ordinary user, as far as who runs this can be."""
    uid = NOBODY if request.param == "user" and IS_ROOT else None
    with open_live(uid) as live:
        live.configure("kill_interval_s: 1\n")
        live.xce("up", "--hosts", "h1", "--slots", "64")
        yield live
