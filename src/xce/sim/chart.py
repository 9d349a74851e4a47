"""What a plot shows of a run, as columns and curves; drawing is `xce.sim.plot`'s.

Instants are seconds from the run's 0.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Run(NamedTuple):
    """One attempt of an element."""

    name: str
    start: float
    end: float
    hosts: tuple[tuple[str, int], ...]
    """Slots by host."""

    @property
    def slots(self) -> int:
        """Slots on all hosts."""
        return sum(size for _, size in self.hosts)


class Chart(NamedTuple):
    """What is to be drawn of one run."""

    title: str
    slots: int
    """Of the whole cluster."""
    first: float
    last: float
    runs: tuple[Run, ...]
    """In the order of their starts."""
    waits: tuple[float, ...]
    """How long each run's element waited for it."""
    queue: tuple[tuple[float, int], ...]
    """Elements that came (1) to wait, or ceased (-1), in order of time."""


class Curve(NamedTuple):
    """Steps: the value holds from its time to the next one."""

    times: list[float]
    values: list[float]


class Bar(NamedTuple):
    """A run, or the part of it, that lies on neighbouring slots of one host."""

    host: str
    slot: int
    slots: int
    start: float
    end: float
    number: int
    """Of the run, in the order of the starts."""


def read_chart(document: dict[str, Any], *, title: str = "") -> Chart:
    """Return what is to be drawn of a simulation's object, which has its jobs."""
    runs: list[Run] = []
    waits: list[float] = []
    queue: list[tuple[float, int]] = []
    rows = [row for row in document["jobs"] if row["submit"] is not None]
    first = min((row["submit"] for row in rows), default=0)
    last = first + document["summary"]["makespan"]
    for row in rows:
        submit, start, end = row["submit"], row["start"], row["end"]
        ceases = end if start is None else start
        queue.append((submit, 1))
        if ceases is not None:
            queue.append((ceases, -1))
            last = max(last, ceases)
        if start is None:
            continue
        name = f"{row['id']}[{row['index']}]" if row["index"] else str(row["id"])
        hosts = tuple((entry["host"], entry["slots"]) for entry in row["placement"])
        runs.append(Run(name, start, last if end is None else end, hosts))
        waits.append(row["wait"])
    return make_chart(
        title or document["scenario"],
        slots=document["summary"]["processors"],
        first=first,
        last=max([last, *(run.end for run in runs)]),
        runs=runs,
        waits=waits,
        queue=queue,
    )


def make_chart(
    title: str,
    *,
    slots: int,
    first: float,
    last: float,
    runs: Iterable[Run],
    waits: Iterable[float],
    queue: Iterable[tuple[float, int]],
) -> Chart:
    """Return a chart of things in any order."""
    by_start = sorted(runs, key=lambda run: (run.start, run.end))
    by_time = sorted(queue, key=lambda item: item[0])
    return Chart(title, slots, first, last, tuple(by_start), tuple(waits), tuple(by_time))


def utilisation(chart: Chart) -> Curve:
    """Return the share of the slots that is in use."""
    changes = [(run.start, run.slots) for run in chart.runs]
    changes += [(run.end, -run.slots) for run in chart.runs]
    changes.sort(key=lambda item: item[0])
    curve = _sum_up(changes, chart)
    whole = max(1, chart.slots)
    return Curve(curve.times, [value / whole for value in curve.values])


def queue_length(chart: Chart) -> Curve:
    """Return how many elements wait."""
    return _sum_up(chart.queue, chart)


def _sum_up(changes: Sequence[tuple[float, int]], chart: Chart) -> Curve:
    """Return the running sum; several changes of one instant are one step."""
    curve = Curve([chart.first], [0])
    for at, change in changes:
        if at > curve.times[-1]:
            curve.times.append(at)
            curve.values.append(curve.values[-1])
        curve.values[-1] += change
    if chart.last > curve.times[-1]:
        curve.times.append(chart.last)
        curve.values.append(curve.values[-1])
    return curve


def gantt(chart: Chart) -> list[Bar]:
    """Return where the runs lie on the hosts' slots: each on the first that are free."""
    free: dict[str, FreeSlots] = {}
    ends: list[tuple[float, int, str, list[tuple[int, int]]]] = []
    bars: list[Bar] = []
    for number, run in enumerate(chart.runs):
        while ends and ends[0][0] <= run.start:
            _, _, host, pieces = heapq.heappop(ends)
            free[host].give(pieces)
        for host, size in run.hosts:
            pieces = free.setdefault(host, FreeSlots()).take(size)
            heapq.heappush(ends, (run.end, len(bars), host, pieces))
            bars += [Bar(host, at, count, run.start, run.end, number) for at, count in pieces]
    return bars


class FreeSlots:
    """The slots of a host that are free, from 0 on; there are as many as are asked for."""

    def __init__(self) -> None:
        self._gaps: list[tuple[int, int]] = []
        """Free ones below `_top`, as ``(first, count)``, sorted, none beside another."""
        self._top = 0

    def take(self, size: int) -> list[tuple[int, int]]:
        """Return the first free slots as ``(first, count)``, and count them as used."""
        taken: list[tuple[int, int]] = []
        while size and self._gaps:
            first, count = self._gaps[0]
            used = min(size, count)
            taken.append((first, used))
            size -= used
            if used == count:
                del self._gaps[0]
            else:
                self._gaps[0] = (first + used, count - used)
        if size:
            if taken and taken[-1][0] + taken[-1][1] == self._top:
                first, count = taken.pop()
                taken.append((first, count + size))
            else:
                taken.append((self._top, size))
            self._top += size
        return taken

    def give(self, pieces: Iterable[tuple[int, int]]) -> None:
        """Count slots as free again."""
        for first, count in pieces:
            at = bisect_left(self._gaps, (first, 0))
            if at < len(self._gaps) and first + count == self._gaps[at][0]:
                count += self._gaps.pop(at)[1]
            if at and sum(self._gaps[at - 1]) == first:
                first, before = self._gaps[at - 1]
                self._gaps[at - 1] = (first, before + count)
            else:
                self._gaps.insert(at, (first, count))
