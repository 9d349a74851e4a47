"""A shape: what placement sees of a request class. Masks are kept per shape, shared by classes.

A request with parts or alternatives has a shape for each of them: `inner`. Its own masks are then
those of the hosts that any of them may use, and its own amounts are empty.
"""

import functools
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from xce.model.constraint import Exclusive, Near
from xce.model.ids import HostNumber, Micros
from xce.model.reason import HostReason, Reason
from xce.model.request import Request
from xce.resreq.select import compile_order, compile_select
from xce.sched.devices import GpuShape
from xce.sched.processor_room import ProcessorShape
from xce.sched.ties import Fabric
from xce.state.cluster import RequestClass
from xce.state.hosts import Column, Flags
from xce.state.needs import Form, Need, open_form

_NO_FLAGS: Final[Flags] = np.zeros(0, np.bool_)


class ShapeKey(NamedTuple):
    """Two classes with equal keys can be placed in exactly the same ways."""

    request: Request
    queue_hosts: tuple[str, ...]
    avoid: tuple[HostNumber, ...]
    waited_us: Micros = 0
    """The longest delay in the request that has passed."""
    load_sched: tuple[tuple[str, int], ...] = ()
    """Load indices with the worst values on hosts on which it may start, in thousandths."""


Content: TypeAlias = tuple[int, int, tuple[int, ...]]
"""The number of a ground's content, as `Memory` numbers it; of the load of hosts, and what pools
have, where that has a say."""


class Verdict(NamedTuple):
    """A request was found not to fit on this ground, and why."""

    content: Content
    reason: Reason


class Shape:
    """A compiled request with its masks; valid while the content of the host table stays."""

    def __init__(self, key: ShapeKey, need: Need, *, alternative: int = 0) -> None:
        self.request, self.queue_hosts, self.avoid = key.request, key.queue_hosts, key.avoid
        request = key.request
        self.waited_us, self.load_sched = key.waited_us, key.load_sched
        self.alternative = alternative
        """Which alternative of the whole request it is (part of)."""
        self.inner: tuple[Shape, ...] = ()
        """Of its parts, or of the alternatives that are open; empty: it is simple."""
        self.per_task: Column = need.per_task
        self.per_host: Column = need.per_host
        self.per_first: Column = need.per_host + need.per_job
        """Once on the first host, beside the tasks."""
        self.task_pools = need.task_pools
        self.job_pools = need.job_pools
        self.tasks_min, self.tasks_max = request.tasks_min, request.tasks_max
        least, full, is_single = shares_of(request)
        self.is_single = is_single
        """Whether it is always on one host."""
        once = self.per_first if is_single else self.per_host
        self.unit: Column = self.per_task * least + once
        """The least that it takes on a host; all that a serial attempt takes."""
        self.least = least
        """The fewest tasks that it may have on a host."""
        self.tile: Column = self.unit if full == least else self.per_task * full + once
        """What it takes on a host that ``span[]`` wants filled."""
        self.order = compile_order(request.order)
        self.program = compile_select(request.select) if request.select else None
        self.preference: Column | None = None
        """By host; None: all are alike."""
        # Set by `xce.sched.standing.compile_standing`.
        self.tiles: Column | None = None
        """By host: tasks lie on it in blocks of so many; None: in any number."""
        self.ceilings: Column | None = None
        """By host: the most tasks that ``span[]`` allows there; None: any number."""
        self.groups: Column | None = None
        """By host: a code for what all of its hosts must have in common, -1: it lacks it."""
        self.domains: Column | None = None
        """By host: the code of its domain, -1: in none; None: hosts are domains, or no matter."""
        self.gpu: GpuShape | None = None
        """What it wants of GPUs; None: nothing."""
        self.allowed: Flags = _NO_FLAGS
        """Hosts that pass the lasting and passing filters."""
        self.standing: tuple[HostReason, ...] = ()
        """Why the others do not."""
        self.never: Reason | None = None
        """Why it could not run even if the cluster were idle."""
        self.fixed: Reason | None = None
        """Why it can fit nowhere until hosts or configuration change."""
        self.verdict: Verdict | None = None
        self.users = 0
        """How many classes have it."""

    select_moves = False
    """Whether ``select[]`` names what is given out; set by `compile_standing`, too."""
    reads_pools = False
    """Whether ``select[]`` names pools; set by `compile_standing`, too."""
    reads_load = False
    """Whether what hosts measure has a say; set by `compile_standing`, too."""
    processors: ProcessorShape | None = None
    """What it wants of processors; None: any. Set by `compile_standing`, too."""
    leads: Flags | None = None
    """By host: whether it may be the first one, and then no other; None: any may."""
    fabric: Fabric | None = None
    """What relations between its parts, and to jobs outside, ask of it."""

    @property
    def is_whole(self) -> bool:
        """Whether it has parts or alternatives."""
        return bool(self.request.parts or self.request.alternatives)

    @functools.cached_property
    def looks_outside(self) -> bool:
        """Whether it depends on where other jobs are, so that nothing found of it lasts."""
        return any(isinstance(item, Near) for item in self.request.constraints) or any(
            inner.looks_outside for inner in self.inner
        )

    @functools.cached_property
    def weighs_pools(self) -> bool:
        """Whether pools that last for its fewest tasks may still be why it does not fit: they
        choose among alternatives; and where hosts are filled not every number of tasks will do.
        """
        is_ranged = self.tasks_min < self.tasks_max and bool(self.task_pools)
        return bool(self.request.alternatives) or (is_ranged and not self.is_loose)

    @functools.cached_property
    def wants_gpus(self) -> bool:
        """Whether any form of it wants GPUs, so that what others ask of them has a say."""
        return self.request.gpu is not None or any(inner.wants_gpus for inner in self.inner)

    @functools.cached_property
    def binds(self) -> bool:
        """Whether any form of it wants processors of its own."""
        return bool(self.request.affinity) or any(inner.binds for inner in self.inner)

    @functools.cached_property
    def is_alone(self) -> bool:
        """Whether it wants hosts for itself."""
        return (
            self.request.exclusive
            or self.closes_domains
            or any(isinstance(item, Exclusive) for item in self.request.constraints)
            or any(inner.is_alone for inner in self.inner)
        )

    @property
    def closes_domains(self) -> bool:
        """Whether ``cu[excl]`` wants the domains of its hosts for itself."""
        return self.request.cu is not None and self.request.cu.exclusive

    @functools.cached_property
    def asked(self) -> Column:
        """The resources of which it takes some on each host."""
        return np.flatnonzero(self.per_task + self.per_host)

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether nothing but what is free on hosts decides where it goes; see `xce.sched.lane`."""
        request = self.request
        return not (
            self.is_whole
            or not self.is_loose
            or self.order
            or self.preference is not None
            or self.select_moves
            or self.load_sched
            or request.thresholds
            or request.constraints
            or request.exclusive
            or request.affinity
            or self.task_pools
            or self.job_pools
            or (request.is_serial and self.tasks_max > 1)
        )

    @functools.cached_property
    def plain_rows(self) -> tuple[tuple[int, int, int], ...]:
        """Of each resource that it takes: its row, for each task, and once on a host."""
        return _rows_of(self.per_task, self.per_host)

    @functools.cached_property
    def first_rows(self) -> tuple[tuple[int, int, int], ...]:
        """As `plain_rows`, on the first host."""
        return _rows_of(self.per_task, self.per_first)

    @functools.cached_property
    def unit_rows(self) -> tuple[tuple[int, int, int], ...]:
        """As `plain_rows`, where each task is a whole serial attempt."""
        return _rows_of(self.unit, self.unit * 0)

    @functools.cached_property
    def is_loose(self) -> bool:
        """Whether its tasks may lie anywhere, and hosts differ by what they have free alone."""
        return (
            not self.is_spanned
            and self.request.gpu is None
            and not self.request.affinity
            and bool((self.per_first == self.per_host).all())
        )

    @property
    def is_spanned(self) -> bool:
        """Whether it is said how tasks lie on hosts, or which is the first of them."""
        return self.is_laid or bool(self.request.hosts_first)

    @property
    def is_laid(self) -> bool:
        """Whether it is said how tasks lie on hosts."""
        request = self.request
        return bool(
            request.one_host
            or request.ptile
            or request.block
            or request.stripe
            or request.gtile
            or request.hosts_max
            or request.same
            or request.cu
        )


def _rows_of(each: Column, once: Column) -> tuple[tuple[int, int, int], ...]:
    rows = (each + once).nonzero()[0].tolist()
    return tuple((row, int(each[row]), int(once[row])) for row in rows)


def compile_shape(key: ShapeKey, found: RequestClass) -> Shape:
    """Return the shape of a request class, without masks."""
    forms = [
        (number, open_form(key.request, found.forms, number, key.waited_us))
        for number in range(len(found.forms))
    ]
    shapes = [_compile_form(key, number, form) for number, form in forms if form is not None]
    if not key.request.alternatives:
        return shapes[0]
    whole = Shape(key, _nothing(found.forms[0].needs[0]))
    whole.inner = tuple(shapes)
    return whole


def _compile_form(key: ShapeKey, number: int, form: Form) -> Shape:
    if not form.request.parts:
        (need,) = form.needs
        return Shape(_within(key, form.request), need, alternative=number)
    whole = Shape(_within(key, form.request), _nothing(form.needs[0]), alternative=number)
    whole.inner = tuple(
        Shape(_within(key, role), need, alternative=number)
        for role, need in zip(form.roles, form.needs, strict=True)
    )
    return whole


def _within(key: ShapeKey, request: Request) -> ShapeKey:
    """Return the key of a part or alternative."""
    return key._replace(request=request)


def _nothing(like: Need) -> Need:
    return Need(like.per_task * 0, like.per_task * 0, like.per_task * 0, (), ())


def shares_of(request: Request) -> tuple[int, int, bool]:
    """Return the smallest number of tasks that may be on a host, the one that is wanted, and
    whether it is always one host.
    """
    low, high = request.tasks_min, request.tasks_max
    tile = max(request.ptile, request.block)
    if request.one_host or request.hosts_max == 1 or high == 1:
        return low, low, True
    if not tile or request.ptile_by_type:
        # Hosts of some type may take as few as one.
        return 1, 1, False
    if high <= tile:
        return low, low, True
    least = 1 if low < high else low % tile or tile
    return least, min(tile, low), False
