"""What a job asks for: the compiled resource request, and the key of a request class.

A `Request` is what ``-n``, ``-R``, ``-m``, ``-x`` and the queue's defaults compile into. It is
immutable and hashable; two jobs whose requests are equal are indistinguishable to placement.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from xce.model.constraint import Constraint
from xce.model.device import GpuWish
from xce.model.ids import Micros

TASKS_MAX: Final = 10_000_000
"""Most tasks that one job may ask for."""


class Phase(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A later phase of an amount: what is held once the phase before it is over."""

    value: int
    duration_us: Micros = 0
    """0: to the end; only the last phase may have none."""
    decay: bool = False


class Amount(msgspec.Struct, frozen=True, array_like=True, order=True):
    """An amount of one consumable resource (a host counter or a pool)."""

    resource: str
    value: int
    """In base units: slots, MiB for memory, units of a declared counter. At least 1."""
    per: str = "task"
    """``task``, ``host`` (once on each host used) or ``job`` (once for the job)."""
    duration_us: Micros = 0
    """Reserved for so long from the start; 0: to the end."""
    decay: bool = False
    """With a duration: comes free bit by bit over it instead of all at its end."""
    phases: tuple[Phase, ...] = ()
    """What is held after ``duration_us``, one phase after the other; empty: nothing."""


class Threshold(msgspec.Struct, frozen=True, array_like=True, order=True):
    """``rusage[...:threshold=v]``: start only where the resource's present value allows it."""

    resource: str
    value_milli: int
    """In thousandths. A floor for resources of which more is better, else a ceiling."""


class CuWish(msgspec.Struct, frozen=True, array_like=True):
    """``cu[]``: how the hosts may lie in the domains of a topology level."""

    level: str = ""
    """Name of the level; ``host`` for hosts themselves; empty: the cluster's default level."""
    pref: str = "config"
    """``config``, ``minavail``, ``maxavail`` or ``bestfit``; never filters."""
    max_domains: int = 0
    """``maxcus``; 0: any number."""
    min_slots: int = 0
    """``usablecuslots``: least usable slots in a domain that is used."""
    balance: bool = False
    exclusive: bool = False
    """``excl``: no other job in the domains used."""
    max_wait_us: Micros = 0
    """``maxwait``: give up the wish after waiting so long; 0: never."""


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
    """``span[ptile=n]``: n tasks on each host, the remainder on the last; -1: as many as the
    host has slots (``'!'``); 0: no such wish."""
    hosts: tuple[HostChoice, ...] = ()
    """``-m``: only these hosts, in order of preference; empty: all hosts."""
    other_hosts: bool = False
    """``-m "... others"``: the hosts of ``hosts`` are only preferred."""
    exclusive: bool = False
    """``-x``: no other job beside it on its hosts."""
    block: int = 0
    """``span[block=n]``: whole blocks of n tasks on each host; 0: no such wish."""
    stripe: int = 0
    """``span[stripe]``: spread round-robin, at most so many tasks on a host; -1: no bound; 0: no
    such wish."""
    hosts_max: int = 0
    """Most hosts that may be used; 0: any number."""
    same: tuple[str, ...] = ()
    """``same[a:b]``: each of these attributes has one value over all hosts. Sorted."""
    cu: CuWish | None = None
    affinity: str = ""
    """``affinity[]`` in canonical text; empty: none."""
    thresholds: tuple[Threshold, ...] = ()
    parts: tuple["Part", ...] = ()
    """The parts of a compound request, in order; empty: not compound. ``tasks_min`` and
    ``tasks_max`` are their sum; ``amounts``, ``select``, ``order`` and the span are the parts'."""
    alternatives: tuple["Alternative", ...] = ()
    """``{...} || {...}``: tried in order; empty: none. Each is a whole request; of this one only
    ``tasks_*``, ``exclusive`` and what is said of hosts count then."""
    ptile_by_type: tuple[tuple[str, int], ...] = ()
    """``span[ptile=n,TYPE:m...]``: m in place of n on hosts of that type or model. Sorted."""
    gtile: int = 0
    """``span[gtile=n]``: GPUs on each host; -1: all (``'!'``); 0: no such wish."""
    whole_hosts: int = 0
    """``-nnodes n``: exactly n hosts, all slots of each; 0: no such wish. ``ptile`` is -1 then, and
    ``tasks_min`` what they must have together."""
    gpu: GpuWish | None = None
    """GPUs; they do not stand in ``amounts``."""
    constraints: tuple[Constraint, ...] = ()
    """What relations ask of the parts and of their standing to other jobs. A request that has any
    is compound, if only of one part; of alternatives the outer request has them."""
    others_preference: int = -1
    """Where ``other_hosts`` holds: the preference of the hosts that ``hosts`` does not name."""
    hosts_excluded: tuple[str, ...] = ()
    """``-m "all ~name"``: hosts that may not be used. Sorted."""
    hosts_first: tuple[str, ...] = ()
    """``-m "name! ..."``: the first host is one of these, and no other of them is used. They stand
    in ``hosts`` too. Sorted; empty: any host may be the first."""

    def on_hosts_of(self, outer: "Request") -> "Request":
        """Return it with what another request says of hosts: of which it is a part, say."""
        return msgspec.structs.replace(
            self,
            hosts=outer.hosts,
            other_hosts=outer.other_hosts,
            exclusive=outer.exclusive,
            others_preference=outer.others_preference,
            hosts_excluded=outer.hosts_excluded,
            hosts_first=outer.hosts_first,
        )

    def with_tasks(self, low: int, high: int) -> "Request":
        """Return it as if this range of tasks had been asked for.

        Of parts the last one, if it may have a range, has what the others leave.
        """
        replace, parts = msgspec.structs.replace, self.parts
        if self.alternatives:
            return self.with_alternatives(
                [one.request.with_tasks(low, high) for one in self.alternatives]
            )
        if parts:
            others, last = sum(part.tasks for part in parts[:-1]), parts[-1]
            least, most = max(1, low - others), high - others
            if not last.tasks_max or most < least:
                return self
            low = others + least
            request = replace(last.request, tasks_min=least, tasks_max=most)
            parts = (*parts[:-1], replace(last, tasks=least, request=request, tasks_max=most))
        return replace(self, tasks_min=low, tasks_max=high, parts=parts)

    def with_alternatives(self, requests: Sequence["Request"]) -> "Request":
        """Return it with other requests in place of those of its alternatives."""
        replace = msgspec.structs.replace
        return replace(
            self,
            tasks_min=min(one.tasks_min for one in requests),
            tasks_max=max(one.tasks_max for one in requests),
            alternatives=tuple(
                replace(one, request=request)
                for one, request in zip(self.alternatives, requests, strict=True)
            ),
        )

    @property
    def tasks_asked(self) -> int:
        """Most tasks that were asked for by number; whole hosts have as many as they have slots."""
        return self.tasks_min if self.whole_hosts else self.tasks_max

    @property
    def is_serial(self) -> bool:
        """Whether every placement of it is on one host: one task, or ``span[hosts=1]`` with one
        fixed count, so that many alike are placed in bulk.
        """
        return (
            self.tasks_min == self.tasks_max
            and (self.tasks_max == 1 or self.one_host)
            and not (self.parts or self.alternatives or self.cu or self.constraints)
        )


class Part(msgspec.Struct, frozen=True, array_like=True):
    """One part of a compound request: a role. Only the last one may have a range of tasks."""

    name: str
    """As given (``N*{name: ...}``), else ``part0``, ``part1``, ... by place."""
    tasks: int
    """Fewest."""
    request: "Request"
    """Simple: no parts, no alternatives; its ``tasks_min`` and ``tasks_max`` are as here."""
    tasks_max: int = 0
    """Most; 0: as ``tasks`` says. Where its queue leaves no range of one that was asked for, it is
    as many as ``tasks``."""

    @property
    def is_ranged(self) -> bool:
        """Whether as many tasks of it start as can, within its range."""
        return self.tasks_max > self.tasks


class Alternative(msgspec.Struct, frozen=True, array_like=True):
    """One alternative of a request."""

    request: "Request"
    """Simple or compound."""
    delay_us: Micros = 0
    """Considered only when the job has waited so long since it was submitted."""


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
    """The application profile; empty: none."""
    group: str = ""
    """The job group; empty: none."""
