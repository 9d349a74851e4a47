"""What a timeline keeps of what will be free."""

import numpy as np

from xce.sched import timeline
from xce.sched.ground import Ground
from xce.sched.running import Releases
from xce.sched.timeline import Piece, Timeline, View


def test_what_is_kept_of_other_instants_is_bounded_and_forgotten_when_anything_changes(
    monkeypatch,
):
    free = np.zeros((1, 4), np.int64)
    monkeypatch.setattr(timeline, "VIEWS_BYTES_MAX", 5 * free.nbytes)
    at_us = np.arange(1, 41)
    releases = Releases(
        at_us, at_us % 4, np.ones((1, 40), np.int64), np.zeros((0, 40), np.int64), at_us * 0
    )
    made = Timeline(0, View(Ground(free, np.zeros(4, np.bool_)), {}), np.full((1, 4), 10), releases)
    for instant in at_us.tolist():
        assert made.view(instant, 1).ground.free.sum() == instant
        assert len(made._views) <= 5
    assert made.view(40, 1) is made.view(40, 1)
    piece = Piece(np.asarray([2]), np.asarray([[3]]), {}, exclusive=False)
    early, late = made.view(10, 1), made.view(36, 1)
    made.reserve(piece, 35, 35, 3)
    assert made.view(10, 1) is early
    assert made.view(36, 1) is not late
    assert [int(made.view(at, 1).ground.free[0, 2]) for at in (34, 35, 37, 38)] == [9, 6, 6, 10]
    made.take(piece, 50)
    assert made.view(10, 1) is not early
    assert int(early.ground.free[0, 2]) - int(made.view(10, 1).ground.free[0, 2]) == 3
