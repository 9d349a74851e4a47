"""Run windows: when they open and close, and what that does to the jobs of their queues.

Nothing starts outside. What still runs when one closes is suspended until the next one opens.
"""

from collections.abc import Mapping

from xce.control.selection import index_runs
from xce.model.command import ResolveWindows
from xce.model.ids import Index, JobId, Micros
from xce.model.job import Stop
from xce.model.ranges import from_sorted
from xce.model.record import Record, StopsChanged
from xce.model.record_windows import WindowsMoved, WindowsResolved
from xce.state.cluster import ClusterState, Window
from xce.state.job import Job


def decide_windows(state: ClusterState, command: ResolveWindows, now_us: Micros) -> list[Record]:
    """Return what is new about windows, and which have opened or closed."""
    known = [(name, found) for name, found in command.queues if name in state.queues]
    wanted = {name: Window(found, _is_open(state, name)) for name, found in known}
    records: list[Record] = []
    version = state.config_version
    if wanted != state.windows or version != state.windows_version:
        intervals = [window.intervals for window in wanted.values()]
        records.append(WindowsResolved(list(wanted), intervals, version))
    return [*records, *decide_moves(state, wanted, now_us, is_new=True)]


def _is_open(state: ClusterState, queue: str) -> bool:
    return queue in state.windows and state.windows[queue].is_open


def decide_moves(
    state: ClusterState,
    windows: Mapping[str, Window],
    now_us: Micros,
    *,
    is_new: bool = False,
) -> list[Record]:
    """Return which of ``windows`` open or close now, and whom that suspends or lets go on.

    Args:
        state: The state.
        windows: The windows of all queues that have some.
        now_us: The present instant.
        is_new: Look at the jobs of all queues, not only of those that open or close.
    """
    should = {
        name: any(opens_us <= now_us < closes_us for opens_us, closes_us in window.intervals)
        for name, window in windows.items()
    }
    opened = [name for name, window in windows.items() if should[name] and not window.is_open]
    closed = [
        name
        for name, window in windows.items()
        if not should[name] and (window.is_open or _has_missed(state, window, now_us))
    ]
    records: list[Record] = []
    if opened:
        records.append(WindowsMoved(opened, True))
    if closed:
        records.append(WindowsMoved(closed, False))
    stopping = {name for name in (windows if is_new else closed) if not should[name]}
    if stopping:
        records.extend(_decide_stops(state, stopping))
    if is_new or opened:
        records.extend(_decide_goes(state, {name for name in windows if not should[name]}))
    return records


def _has_missed(state: ClusterState, window: Window, now_us: Micros) -> bool:
    """Return whether a whole window has passed unseen since the last entry."""
    return any(
        state.now_us < opens_us and closes_us <= now_us for opens_us, closes_us in window.intervals
    )


def _decide_stops(state: ClusterState, queues: set[str]) -> list[Record]:
    runs = StopRuns()
    wanted: dict[JobId, list[int]] = {}
    for job in state.jobs.values():
        for position, attempt in (job.live or {}).items():
            is_meant = state.classes[attempt.cls].key.queue in queues
            if is_meant and not attempt.is_firm and not attempt.stops & Stop.WINDOW:
                wanted.setdefault(job.id, []).append(position)
    for job_id, positions in wanted.items():
        runs.add(state.jobs[job_id], positions)
    return runs.changed(Stop.WINDOW, is_on=True)


def _decide_goes(state: ClusterState, closed: set[str]) -> list[Record]:
    waiting: dict[JobId, list[int]] = {}
    for job_id, position in state.stopped:
        attempt = state.attempt(job_id, position)
        if attempt is None or not attempt.stops & Stop.WINDOW:
            continue
        if state.classes[attempt.cls].key.queue not in closed:
            waiting.setdefault(job_id, []).append(position)
    runs = StopRuns()
    for job_id, positions in waiting.items():
        runs.add(state.jobs[job_id], positions)
    return runs.changed(Stop.WINDOW, is_on=False)


class StopRuns:
    """Columns of element runs that are suspended, or go on, as they grow."""

    def __init__(self) -> None:
        self.jobs: list[JobId] = []
        self.firsts: list[Index] = []
        self.lasts: list[Index] = []

    def add(self, job: Job, positions: list[int]) -> None:
        """Add elements of a job."""
        for first, last in index_runs(job, from_sorted(sorted(positions))):
            self.jobs.append(job.id)
            self.firsts.append(first)
            self.lasts.append(last)

    def changed(self, stop: Stop, *, is_on: bool) -> list[Record]:
        """Return the record of it, if there is anything in it."""
        if not self.jobs:
            return []
        return [StopsChanged(self.jobs, self.firsts, self.lasts, stop, is_on)]


def next_move_us(state: ClusterState) -> Micros:
    """Return the next instant at which a run window opens or closes; 0: none is known."""
    instants = [
        closes_us if window.is_open else opens_us
        for window in state.windows.values()
        for opens_us, closes_us in window.intervals
        if (closes_us if window.is_open else opens_us) > state.now_us
    ]
    return min(instants, default=0)
