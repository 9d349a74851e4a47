"""What a job asks for: the compiled resource request, and the key of a request class.

A `Request` is what ``-n``, ``-R``, ``-m``, ``-x`` and the queue's defaults compile into. It is
immutable and hashable; two jobs whose requests are equal are indistinguishable to placement.
"""

from typing import Final

import msgspec

from xce.model.ids import Micros

TASKS_MAX: Final = 10_000_000
"""Most tasks that one job may ask for."""


class Amount(msgspec.Struct, frozen=True, array_like=True, order=True):
    """An amount of one consumable resource (a host counter or a pool)."""

    resource: str
    value: int
    """In base units: slots, MiB for memory, units of a declared counter. At least 1."""
    per: str = "task"
    """``task``, ``host`` (once on each host used) or ``job`` (once for the job)."""


class HostChoice(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One name of ``-m``: a host that may be used, with its preference (higher is better)."""

    host: str
    preference: int = 0


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A compiled resource request.

    One slot for each task is implied and does not stand in ``amounts``.
    """

    tasks_min: int = 1
    tasks_max: int = 1
    amounts: tuple[Amount, ...] = ()
    """Sorted by resource and ``per``; one entry for each such pair."""
    select: str = ""
    """The select expression in canonical text; empty: any host. Compiled by ``resreq.select``."""
    order: str = ""
    """The order keys in canonical text, e.g. ``-slots:mem``; empty: the cluster's default."""
    one_host: bool = False
    """``span[hosts=1]``: all tasks on one host."""
    ptile: int = 0
    """``span[ptile=n]``: n tasks on each host, the remainder on the last; 0: no such wish."""
    hosts: tuple[HostChoice, ...] = ()
    """``-m``: only these hosts, in order of preference; empty: all hosts."""
    other_hosts: bool = False
    """``-m "... others"``: the hosts of ``hosts`` are only preferred."""
    exclusive: bool = False
    """``-x``: no other job beside it on its hosts."""

    @property
    def is_serial(self) -> bool:
        """Whether every placement of it is on one host: one task, or ``span[hosts=1]`` with one
        fixed count, so that many alike are placed in bulk.
        """
        return self.tasks_min == self.tasks_max and (self.tasks_max == 1 or self.one_host)


class ClassKey(msgspec.Struct, frozen=True, array_like=True):
    """What decides where and when a job may run. Jobs with equal keys form a request class."""

    request: Request
    queue: str
    user: str
    project: str = "default"
    priority: int = 0
    run_limit_us: Micros = 0
    """The effective run limit; 0: none."""
    estimate_us: Micros = 0
    """The user's run time estimate (``-We``); 0: none. Never kills."""
    app: str = ""
