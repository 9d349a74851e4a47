"""Virtual time: a heap of instants, and processes whose plans die with them.

A process names the *seams* of its shell: the places between two acts where it can be killed with
the one done and the other not.
"""

import heapq
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from xce.model.ids import Micros


class Doom(msgspec.Struct):
    """At which seam a process dies."""

    seam: str
    """Its name; empty: any."""
    left: int
    """It dies when it comes there so many times more."""


class DiedError(Exception):
    """A process was killed at a seam; nothing of what it was about to do is done."""

    def __init__(self, process: "Process", seam: str) -> None:
        super().__init__(seam)
        self.process = process
        self.seam = seam


class Loop:
    """Calls what is due, in order of time, then in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now_us: Micros = 0
        """Monotonic time since the beginning of the world."""
        self.calls = 0
        self._heap: list[_Call] = []
        self._number = 0

    def at(self, at_us: Micros, call: Callable[..., object], *args: object) -> None:
        """Have ``call(*args)`` made at an instant, now if that is past."""
        self.push(max(at_us, self.now_us), None, call, args)

    def after(self, span_us: Micros, call: Callable[..., object], *args: object) -> None:
        """Have ``call(*args)`` made ``span_us`` from now."""
        self.push(self.now_us + max(span_us, 0), None, call, args)

    def push(
        self,
        at_us: Micros,
        owner: "Process | None",
        call: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        """Have a call made at an instant that is not past, if its owner still lives then."""
        self._number += 1
        heapq.heappush(self._heap, (at_us, self._number, owner, call, args))

    def run_until(self, at_us: Micros) -> None:
        """Make every call up to an instant; who dies at a seam takes only himself along."""
        heap = self._heap
        while heap and heap[0][0] <= at_us:
            self.now_us, _, owner, call, args = heapq.heappop(heap)
            self.calls += 1
            if owner is not None and not owner.is_alive:
                continue
            call_apart(call, *args)
        self.now_us = at_us


def call_apart(call: Callable[..., object], *args: object) -> None:
    """Call another process: who dies in it takes only himself along, and the caller goes on."""
    try:
        call(*args)
    except DiedError as death:
        death.process.on_death(death.process, death.seam)


class Process:
    """Something that can be killed at any instant, and at any seam."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.is_alive = True
        self.doom: Doom | None = None
        self.on_death: Callable[[Process, str], object] = lambda process, _: process.kill()
        """Called when it dies at a seam; kills it."""

    def kill(self) -> None:
        """Die at once."""
        self.is_alive = False

    def seam(self, name: str) -> None:
        """Come to a place where it may be killed.

        Raises:
            DiedError: It is.
        """
        doom = self.doom
        if doom is not None and doom.seam in ("", name):
            doom.left -= 1
            if doom.left == 0:  # else another one of those who share it has died
                self.doom = None
                raise DiedError(self, name)

    def after(self, span_us: Micros, call: Callable[..., object], *args: object) -> None:
        """Have a call made later, unless the process is killed before."""
        loop = self.loop
        loop.push(loop.now_us + span_us if span_us > 0 else loop.now_us, self, call, args)


_Call: TypeAlias = tuple[Micros, int, Process | None, Callable[..., object], tuple[Any, ...]]
"""When, in which order, whose, and what."""
