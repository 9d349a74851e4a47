"""How many processors of a machine are believed to be free from when on: steps in time."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


class Profile:
    """Steps; the last one is without end.

    Args:
        now: When it begins.
        gains: When processors come free, and how many, in order of time.
    """

    def __init__(self, now: int, gains: Sequence[tuple[int, int]]) -> None:
        self._times = [now]
        self._free = [0]
        for at, size in gains:
            if at <= self._times[-1]:
                self._free[-1] += size
            else:
                self._times.append(at)
                self._free.append(self._free[-1] + size)

    def forget(self, now: int) -> None:
        """Begin at ``now``."""
        first = bisect_left(self._times, now + 1) - 1
        if first > 0:
            del self._times[:first]
            del self._free[:first]
        self._times[0] = max(self._times[0], now)

    def fits_now(self, sizes: Numbers, spans: Numbers) -> Flags:
        """Return who finds so many processors free from now on for so long."""
        now = self._times[0]
        reach = bisect_left(self._times, now + int(spans.max()))
        least = np.minimum.accumulate(np.array(self._free[:reach], np.int64))
        times = np.array(self._times[:reach], np.int64)
        fits: Flags = sizes <= least[times.searchsorted(now + spans) - 1]
        return fits

    def frees(self, sizes: Numbers) -> Numbers:
        """Return when so many are free for the first time, however short."""
        most = np.maximum.accumulate(np.array(self._free, np.int64))
        times: Numbers = np.array(self._times, np.int64)[most.searchsorted(sizes)]
        return times

    def begins_before(self, size: int, span: int, until: int) -> bool:
        """Return whether ``size`` is free for ``span`` from an instant before ``until`` on."""
        times = self._times
        return times[self._find(size, span, bisect_left(times, until))[0]] < until

    def reserve(self, size: int, span: int) -> int:
        """Take ``size`` for ``span`` as early as that is free throughout; return from when."""
        times, free = self._times, self._free
        first, last = self._find(size, span, len(times))
        end = times[first] + span
        if last == len(times) or times[last] > end:
            times.insert(last, end)
            free.insert(last, free[last - 1])
        for place in range(first, last):
            free[place] -= size
        return times[first]

    def _find(self, size: int, span: int, stop: int) -> tuple[int, int]:
        """Return the first step from which on ``size`` is free for ``span``, and the one behind.

        The search is given up at the step ``stop``, or the first behind it where enough is free.
        """
        times, free = self._times, self._free
        first = last = 0
        while True:
            while free[first] < size:
                first += 1
            if first >= stop:
                return first, first
            end = times[first] + span
            last = max(first, last)
            while last < len(times) and times[last] < end and free[last] >= size:
                last += 1
            if last == len(times) or times[last] >= end:
                return first, last
            first = last + 1
