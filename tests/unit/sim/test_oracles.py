"""What the oracles of a world look at, and when."""

import pytest

from xce.sim.oracles import Truth
from xce.testing.builders import cluster


def test_what_is_given_out_is_looked_at_again_whenever_anything_about_it_changes() -> None:
    truth = Truth()
    truth.state = cluster({"h1": 4, "h2": 4}, pools={"seats": 3}).state
    table, pools = truth.state.hosts, truth.state.pools
    truth.note_stored([])
    table.used[0, 1] = 4
    truth.note_stored([])
    for column, value in ((table.used, 5), (table.total, 3)):
        before = column[0, 1]
        column[0, 1] = value
        for _ in range(2):
            with pytest.raises(AssertionError, match="a host is over-committed"):
                truth.note_stored([])
        column[0, 1] = before
        truth.note_stored([])
    table.exclusive[0], table.attempts[0] = 1, 2
    with pytest.raises(AssertionError, match="an exclusive host is shared"):
        truth.note_stored([])
    table.attempts[0] = 1
    truth.note_stored([])
    pools.used["seats"] = 4
    with pytest.raises(AssertionError, match="pool seats is over-committed"):
        truth.note_stored([])
