"""What is free while a session gives it out: a copy, so that the state is only read."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from xce.sched.columns import HostFacts
from xce.sched.outside import hosts_of_subjects
from xce.state.cluster import ClusterState
from xce.state.hosts import Column, Flags

_NO_POOLS: Final[Mapping[str, int]] = {}


class Ground:
    """Free amounts on hosts. Within a session they only shrink."""

    is_idle = False
    """Whether it is what would be free if nothing ran, so that no load is known."""

    def __init__(
        self,
        free: Column,
        empty: Flags,
        where: dict[str, Column] | None = None,
        word_row: int | None = None,
        taken: Flags | None = None,
        pools: Mapping[str, int] = _NO_POOLS,
    ) -> None:
        self.free = free
        """Along resources and hosts; no slot is free on a host that somebody has for himself."""
        self.taken: Flags = np.zeros(free.shape[1], np.bool_) if taken is None else taken
        """Such hosts, where that is told apart from hosts whose slots are used."""
        self.pools = pools
        """What pools have at the same instant, for conditions on hosts that read it."""
        self.word_row = len(free) if word_row is None else word_row
        """The first row that is a word of a set of processors, not an amount."""
        self.empty = empty
        """Hosts on which nothing runs."""
        self.where: dict[str, Column] = {} if where is None else where
        """By job or group that relations name: its hosts. One that waits itself has none; one that
        does not matter is not there."""
        self.content: int | None = None
        """The number that `Memory` gave to what is free; None: not numbered yet. It stands for
        ``empty`` too, which follows from ``free`` as long as totals stay."""

        self.keeps_log = False
        self.log: list[int] = []
        """The hosts on which something was given out, where that is kept."""

    def copy(self) -> "Ground":
        """Return the same, which stays as it is when something is given out here."""
        return Ground(
            self.free.copy(), self.empty.copy(), self.where, self.word_row, self.taken.copy(),
            self.pools,
        )  # fmt: skip

    def least(self, other: "Ground", pools: Mapping[str, int]) -> "Ground":
        """Return what is free here and on another ground; ``pools``: likewise."""
        free, row = np.minimum(self.free, other.free), self.word_row
        free[row:] = self.free[row:] & other.free[row:]
        return Ground(free, self.empty & other.empty, self.where, row, pools=pools)

    def take(self, numbers: Column, amounts: Column, *, exclusive: bool) -> None:
        """Give out ``amounts`` (a column each) on the hosts ``numbers``, each named once."""
        self.content = None
        self.free[:, numbers] -= amounts
        self.empty[numbers] = False
        if exclusive:
            self.free[0, numbers] = 0
            self.taken[numbers] = True
        if self.keeps_log:
            self.log += numbers.tolist()

    def take_tasks(
        self, numbers: list[int], sizes: list[int], rows: Sequence[tuple[int, int, int]]
    ) -> None:
        """Give out what some tasks on a few hosts take.

        Args:
            numbers: The hosts, each once.
            sizes: How many tasks on each.
            rows: Of each resource that is taken: its row, for each task, and once on a host.
        """
        self.content = None
        free, empty = self.free, self.empty
        for number, size in zip(numbers, sizes, strict=True):
            empty[number] = False
            for row, each, once in rows:
                free[row, number] -= each * size + once
        if self.keeps_log:
            self.log += numbers


def open_ground(state: ClusterState, pools: Mapping[str, int]) -> Ground:
    """Return what is free now; ``pools``: what they have, to be kept so by the caller."""
    table = state.hosts
    free = table.free()
    taken: Flags = table.exclusive > 0
    free[0][taken] = 0
    empty: Flags = table.attempts == 0
    if state.holds:
        empty &= ~table.held.any(axis=0)
    return Ground(free, empty, hosts_of_subjects(state), table.word_row, taken, pools)


def idle_ground(facts: HostFacts, pools: Mapping[str, int]) -> Ground:
    """Return what would be free if nothing ran; ``pools``: all that they have."""
    free, row = facts.idle(), facts.table.word_row
    ground = Ground(free, np.ones(free.shape[1], np.bool_), word_row=row, pools=pools)
    ground.is_idle = True
    return ground
