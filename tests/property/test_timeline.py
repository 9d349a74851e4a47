"""The timeline against a slow, obvious twin: free slots of each host at each tick."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xce.sched.ground import Ground
from xce.sched.running import Releases
from xce.sched.timeline import Piece, Timeline, View

TICKS = 30
HOSTS = 3
SLOTS = (4, 6, 3)

running = st.lists(
    st.tuples(st.integers(0, HOSTS - 1), st.integers(1, 3), st.integers(1, TICKS)), max_size=7
)
asks = st.lists(
    st.tuples(st.integers(1, 10), st.integers(1, 12), st.booleans()), min_size=1, max_size=6
)


def spread(free: np.ndarray, tasks: int, *, one_host: bool) -> np.ndarray | None:
    """Return the tasks on each host, the first ones filled first, or None."""
    room = free.clip(min=0)
    if one_host:
        fits = np.flatnonzero(room >= tasks)
        if not len(fits):
            return None
        sizes = np.zeros(HOSTS, np.int64)
        sizes[fits[0]] = tasks
        return sizes
    if room.sum() < tasks:
        return None
    before = np.cumsum(room) - room
    return np.clip(tasks - before, 0, room)


def begun(runs: list[tuple[int, int, int]]) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    free, kept = np.asarray(SLOTS, np.int64), []
    for host, size, end in runs:
        if free[host] >= size:
            free[host] -= size
            kept.append((host, size, end))
    return free, kept


@settings(max_examples=200, derandomize=True, deadline=None)
@given(runs=running, wanted=asks)
def test_an_earliest_start_is_the_first_that_delays_no_earlier_promise(
    runs: list[tuple[int, int, int]], wanted: list[tuple[int, int, bool]]
) -> None:
    free, kept = begun(runs)
    total = np.asarray([SLOTS, SLOTS], np.int64)
    far = TICKS * 8
    twin = np.repeat(free[None, :], far, axis=0)
    for host, size, end in kept:
        twin[end:, host] += size
    view = View(Ground(np.stack((free, free)), free == np.asarray(SLOTS)), {})
    sizes = np.asarray([size for _, size, _ in kept], np.int64)
    releases = Releases(
        np.asarray([end for _, _, end in kept], np.int64),
        np.asarray([host for host, _, _ in kept], np.int64),
        np.stack((sizes, sizes)),
        np.zeros((0, len(kept)), np.int64),
        np.zeros(len(kept), np.int64),
    )
    timeline = Timeline(0, view, total, releases)
    for tasks, span, one_host in wanted:

        def found(view: View, tasks: int = tasks, one_host: bool = one_host) -> np.ndarray | None:
            return spread(view.ground.free[0], tasks, one_host=one_host)

        expected = next(
            (
                at
                for at in range(far - span)
                if spread(twin[at : at + span].min(axis=0), tasks, one_host=one_host) is not None
            ),
            None,
        )
        now = found(timeline.window(span))
        if now is not None:
            assert expected == 0
            numbers = np.flatnonzero(now)
            amounts = np.stack((now[numbers], now[numbers]))
            timeline.take(Piece(numbers, amounts, {}, exclusive=False), span)
            twin[:span] -= now
            continue
        first = timeline.earliest(span, tasks, lambda view: found(view) is not None)
        assert (first[0] if first is not None else None) == expected
        if first is None:
            continue
        at, told = first
        assert at == told
        sizes = found(timeline.view(at, span))
        assert sizes is not None
        numbers = np.flatnonzero(sizes)
        amounts = np.stack((sizes[numbers], sizes[numbers]))
        timeline.reserve(Piece(numbers, amounts, {}, exclusive=False), at, told, span)
        twin[at : at + span] -= sizes
