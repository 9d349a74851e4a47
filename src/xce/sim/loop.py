"""Virtual time: a heap of instants, and processes whose plans die with them."""

import heapq
from collections.abc import Callable
from typing import Any

from xce.model.ids import Micros


class Loop:
    """Calls what is due, in order of time, then in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now_us: Micros = 0
        """Monotonic time since the beginning of the world."""
        self.calls = 0
        self._heap: list[tuple[Micros, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, at_us: Micros, call: Callable[..., object], *args: object) -> None:
        """Have ``call(*args)`` made at an instant, now if that is past."""
        self._number += 1
        heapq.heappush(self._heap, (max(at_us, self.now_us), self._number, call, args))

    def after(self, span_us: Micros, call: Callable[..., object], *args: object) -> None:
        """Have ``call(*args)`` made ``span_us`` from now."""
        self.at(self.now_us + span_us, call, *args)

    def run_until(self, at_us: Micros, check: Callable[[], object]) -> None:
        """Make every call up to an instant; ``check`` follows each."""
        heap = self._heap
        while heap and heap[0][0] <= at_us:
            self.now_us, _, call, args = heapq.heappop(heap)
            self.calls += 1
            call(*args)
            check()
        self.now_us = at_us


class Process:
    """Something that can be killed at any instant."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.is_alive = True

    def after(self, span_us: Micros, call: Callable[..., object], *args: object) -> None:
        """Have a call made later, unless the process is killed before."""
        self.loop.after(span_us, self._run, call, args)

    def _run(self, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.is_alive:
            call(*args)
