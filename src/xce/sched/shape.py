"""A shape: what placement sees of a request class. Masks are kept per shape, shared by classes."""

from typing import Final, NamedTuple

import numpy as np

from xce.model.ids import HostNumber
from xce.model.reason import HostReason, Reason
from xce.model.request import Request
from xce.resreq.select import compile_order, compile_select
from xce.sched.columns import MOVING
from xce.state.cluster import RequestClass
from xce.state.hosts import Column, Flags

_NO_FLAGS: Final[Flags] = np.zeros(0, np.bool_)


class ShapeKey(NamedTuple):
    """Two classes with equal keys can be placed in exactly the same ways."""

    request: Request
    queue_hosts: tuple[str, ...]
    avoid: tuple[HostNumber, ...]


class Verdict(NamedTuple):
    """A request was found not to fit on this ground, and why."""

    content: int
    """The number of the ground's content, as `Memory` numbers it."""
    reason: Reason


class Shape:
    """A compiled request with its masks; valid for one ``change`` of the host table."""

    def __init__(self, key: ShapeKey, found: RequestClass) -> None:
        self.request, self.queue_hosts, self.avoid = key
        request = key.request
        self.per_task: Column = found.per_task
        self.per_host: Column = found.per_host
        self.per_first: Column = found.per_host + found.per_job
        """Once on the first host, beside the tasks."""
        self.task_pools = found.task_pools
        self.job_pools = found.job_pools
        self.tasks_min, self.tasks_max = request.tasks_min, request.tasks_max
        least, full, is_single = _shares(request)
        once = self.per_first if is_single else self.per_host
        self.unit: Column = self.per_task * least + once
        """The least that it takes on a host; all that a serial attempt takes."""
        self.tile: Column = self.unit if full == least else self.per_task * full + once
        """What it takes on a host that ``span[]`` wants filled."""
        self.order = compile_order(request.order)
        self.program = compile_select(request.select) if request.select else None
        self.select_moves = self.program is not None and not MOVING.isdisjoint(self.program.names)
        self.preference: Column | None = None
        """By host; None: all are alike."""
        # Set by `xce.sched.explain.compile_standing`.
        self.allowed: Flags = _NO_FLAGS
        """Hosts that pass the lasting and passing filters."""
        self.standing: tuple[HostReason, ...] = ()
        """Why the others do not."""
        self.never: Reason | None = None
        """Why it could not run even if the cluster were idle."""
        self.fixed: Reason | None = None
        """Why it can fit nowhere until hosts or configuration change."""
        self.verdict: Verdict | None = None

    @property
    def is_spanned(self) -> bool:
        """Whether ``span[]`` says how tasks lie on hosts."""
        return self.request.one_host or self.request.ptile > 0


def _shares(request: Request) -> tuple[int, int, bool]:
    """Return the smallest number of tasks that may be on a host, the one that is wanted, and
    whether it is always one host.
    """
    low, high, ptile = request.tasks_min, request.tasks_max, request.ptile
    if request.one_host or high <= max(ptile, 1):
        return low, low, True
    if not ptile:
        return 1, 1, False
    least = 1 if low < high else low % ptile or ptile
    return least, min(ptile, low), False
