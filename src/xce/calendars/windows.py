"""Run windows of queues as instants.

A window opens and closes at wall times. Where a clock is set forward over one of them, it is taken
as the instant of the jump; where it is set back and a wall time comes twice, a window opens at the
first and closes at the second, so that it is open whenever the clock on the wall says so.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from xce.model.command import ResolveWindows
from xce.model.config import ClusterConfig, WindowConfig
from xce.model.ids import Micros

if TYPE_CHECKING:  # whoever reads the configuration need not load the state
    from xce.state.cluster import ClusterState

DAYS_AHEAD: Final = 15
"""Windows are resolved for so long; long before its end they are resolved again."""
RESOLVE_EVERY_US: Final[Micros] = 12 * 3_600_000_000
_WEEK: Final = 7
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


def resolve_windows(config: ClusterConfig, now_us: Micros) -> ResolveWindows:
    """Return the windows of all queues that have some, as instants from yesterday on."""
    zone = ZoneInfo(config.time_zone)
    return ResolveWindows(
        tuple(
            (queue.name, tuple(each_interval(queue.run_windows, zone, now_us)))
            for queue in config.queues
            if queue.run_windows
        )
    )


def each_interval(
    windows: Iterable[WindowConfig], zone: ZoneInfo, now_us: Micros
) -> Iterator[tuple[Micros, Micros]]:
    """Yield when windows are open: sorted, apart from each other, none over before ``now_us``."""
    found = sorted(
        interval
        for window in windows
        for interval in _occurrences(window, zone, now_us)
        if interval[1] > now_us and interval[0] < interval[1]
    )
    while found:
        opens_us, closes_us = found.pop(0)
        while found and found[0][0] <= closes_us:
            closes_us = max(closes_us, found.pop(0)[1])
        yield opens_us, closes_us


def _occurrences(
    window: WindowConfig, zone: ZoneInfo, now_us: Micros
) -> Iterator[tuple[Micros, Micros]]:
    today = (_EPOCH + timedelta(microseconds=now_us)).astimezone(zone).date()
    midnight = datetime(today.year, today.month, today.day)  # noqa: DTZ001 - wall time
    span = _WEEK if window.weekly else 1
    # Sunday is day 0, as in LSF; a window that began before today may be open still.
    back = (today.weekday() + 1) % _WEEK if window.weekly else 0
    begin = midnight - timedelta(days=back + span)
    minutes = window.end_min - window.start_min
    minutes += span * 24 * 60 if minutes <= 0 else 0
    for _ in range(0, DAYS_AHEAD + 2 * span, span):
        opens = begin + timedelta(minutes=window.start_min)
        closes = opens + timedelta(minutes=minutes)
        yield _instant(opens, zone, is_end=False), _instant(closes, zone, is_end=True)
        begin += timedelta(days=span)


def _instant(wall: datetime, zone: ZoneInfo, *, is_end: bool) -> Micros:
    """Return the instant of a wall time."""
    found = wall.replace(tzinfo=zone, fold=int(is_end)).astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None) == wall:
        return _micros(found)
    # The clock jumps over it: the instant of the jump lies between its two readings.
    early = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    late = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    before = early.astimezone(zone).utcoffset()
    while late - early > _SECOND:
        middle = early + (late - early) // 2
        if middle.astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return _micros(late.replace(microsecond=0))


def _micros(instant: datetime) -> Micros:
    return (instant - _EPOCH) // timedelta(microseconds=1)


class Resolver:
    """Knows when windows must be resolved (again); one that got lost is given again."""

    def __init__(self) -> None:
        self._at_us: Micros = 0

    def due(self, state: "ClusterState", now_us: Micros) -> ResolveWindows | None:
        """Return the windows as instants when the configuration or half a day has passed."""
        if not (
            state.windows
            or state.stopped
            or any(queue.run_windows for queue in state.config.queues)
        ):
            return None
        is_known = state.windows_version == state.config_version
        if is_known and now_us < self._at_us + RESOLVE_EVERY_US:
            return None
        self._at_us = now_us
        return resolve_windows(state.config, now_us)
