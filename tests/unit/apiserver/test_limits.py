"""How much one user may ask."""

import pytest
from rest_cluster import run_rest

from xce.apiserver import limits
from xce.apiserver.limits import Limits
from xce.apiserver.problems import ProblemError
from xce.model.api import ApiConfig


def test_a_burst_is_let_in_and_then_the_rate():
    now = [0.0]
    found = Limits(lambda: now[0])
    for _ in range(20):
        found.enter("ann", 10.0)
        found.leave("ann", 0)
    with pytest.raises(ProblemError) as raised:
        found.enter("ann", 10.0)
    assert raised.value.problem.status == 429
    assert raised.value.retry_after_s == 1
    found.enter("bob", 10.0)
    now[0] = 0.1
    found.enter("ann", 10.0)
    with pytest.raises(ProblemError):
        found.enter("ann", 10.0)


def test_a_slow_rate_says_how_long_to_wait():
    found = Limits(lambda: 0.0)
    found.enter("ann", 0.1)
    with pytest.raises(ProblemError) as raised:
        found.enter("ann", 0.1)
    assert raised.value.retry_after_s == 10


def test_requests_at_once_and_their_bytes_are_bounded(monkeypatch):
    monkeypatch.setattr(limits, "RUNNING_MAX", 3)
    monkeypatch.setattr(limits, "BYTES_MAX", 100)
    found = Limits(lambda: 0.0)
    for _ in range(3):
        found.enter("ann", 1_000.0)
    with pytest.raises(ProblemError):
        found.enter("ann", 1_000.0)
    found.charge("ann", 60)
    with pytest.raises(ProblemError):
        found.charge("ann", 60)
    found.leave("ann", 60)
    found.enter("ann", 1_000.0)
    found.charge("ann", 100)


def test_many_names_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(limits, "BUCKETS_MAX", 100)
    found = Limits(lambda: 0.0)
    found.enter("busy", 1.0)
    for number in range(1_000):
        found.enter(f"address {number}", 1.0)
        found.leave(f"address {number}", 0)
    assert len(found._buckets) <= 101
    found.leave("busy", 0)


def test_too_many_requests_are_answered_with_429_and_how_long_to_wait():
    async def story(rest):
        statuses = [(await rest.get("/cluster"))[0] for _ in range(8)]
        assert statuses[:4] == [200] * 4
        assert 429 in statuses
        assert rest.headers["Retry-After"] == "1"
        rest.be("bob")
        status, _ = await rest.get("/cluster")
        assert status == 200

    run_rest(story, api=ApiConfig(requests_per_s=2))
