"""What many hosts in one process tell: each trouble once, whoever has it first."""

import logging

from xce.daemon import hollow
from xce.daemon.hollow import _FirstOfAll


def record(event, why, level=logging.WARNING, exc_info=None):
    made = logging.makeLogRecord({"msg": event, "levelno": level, "exc_info": exc_info})
    made.__dict__["why"] = why
    return made


def test_one_host_tells_what_all_of_them_see_and_the_next_after_a_while(monkeypatch):
    now = 0.0
    monkeypatch.setattr(hollow.time, "monotonic", lambda: now)
    filtered = _FirstOfAll()
    told = [filtered.filter(record("controller-unreachable", "closed")) for _ in range(100)]
    assert told == [True] + [False] * 99
    assert filtered.filter(record("controller-unreachable", "no route"))
    assert filtered.filter(record("worker-refused", "closed", logging.ERROR))
    assert not filtered.filter(record("worker-refused", "closed", logging.ERROR))
    now = hollow.AGAIN_S
    assert filtered.filter(record("controller-unreachable", "closed"))


def test_a_fault_of_ours_is_always_told_and_nothing_grows_without_bounds():
    filtered = _FirstOfAll()
    fault = record("worker-failed", "", logging.ERROR, (ValueError, ValueError(), None))
    assert all(filtered.filter(fault) for _ in range(3))
    for number in range(5_000):
        filtered.filter(record("a", number))
    assert len(filtered._told) <= 1_000
