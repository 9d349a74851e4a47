"""What is free while a session gives it out: a copy, so that the state is only read."""

import numpy as np

from xce.sched.columns import HostFacts
from xce.sched.outside import hosts_of_subjects
from xce.state.cluster import ClusterState
from xce.state.hosts import Column, Flags


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
    ) -> None:
        self.free = free
        """Along resources and hosts; no slot is free on a host that somebody has for himself."""
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

    def least(self, other: "Ground") -> "Ground":
        """Return what is free here and on another ground."""
        free, row = np.minimum(self.free, other.free), self.word_row
        free[row:] = self.free[row:] & other.free[row:]
        return Ground(free, self.empty & other.empty, self.where, row)

    def take(self, numbers: Column, amounts: Column, *, exclusive: bool) -> None:
        """Give out ``amounts`` (a column each) on the hosts ``numbers``, each named once."""
        self.content = None
        self.free[:, numbers] -= amounts
        self.empty[numbers] = False
        if exclusive:
            self.free[0, numbers] = 0


def open_ground(state: ClusterState) -> Ground:
    """Return what is free now."""
    table = state.hosts
    free = table.free()
    free[0][table.exclusive > 0] = 0
    empty = (table.attempts == 0) & ~table.held.any(axis=0)
    return Ground(free, empty, hosts_of_subjects(state), table.word_row)


def idle_ground(facts: HostFacts) -> Ground:
    """Return what would be free if nothing ran."""
    free = facts.idle()
    ground = Ground(free, np.ones(free.shape[1], np.bool_), word_row=facts.table.word_row)
    ground.is_idle = True
    return ground
