"""A policy: plain lists of the functions that a session calls."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from xce.sched import filter as filters
from xce.sched.columns import HostFacts
from xce.sched.filter import Sieve, SilentSieve
from xce.sched.ground import Ground
from xce.sched.order import ORDERS, Order
from xce.sched.score import rank_hosts, share_out
from xce.sched.shape import Shape
from xce.state.hosts import Column, Flags

StandingFilter: TypeAlias = Callable[[Sieve, Shape, HostFacts], None]
"""Takes hosts out for what only records about hosts or configuration change."""
CurrentFilter: TypeAlias = Callable[[Sieve, Shape, Ground, HostFacts], None]
"""Takes hosts out for what is free."""
Ranking: TypeAlias = Callable[[Shape, Ground, HostFacts], Column]
"""Orders hosts for one parallel attempt, the best first."""
Sharing: TypeAlias = Callable[[Shape, Ground, HostFacts, Column, int], tuple[Column, Column]]
"""Shares many alike serial attempts out over hosts."""


class Policy(NamedTuple):
    """How sessions decide. Filters are asked in this order; the first to object is the reason."""

    orders: Mapping[str, Order]
    """By the name that a queue gives."""
    lasting: tuple[StandingFilter, ...]
    """Depend on the request, the configuration and what hosts are."""
    passing: tuple[StandingFilter, ...]
    """Depend on which hosts are there and open."""
    current: tuple[CurrentFilter, ...]
    ranking: Ranking
    sharing: Sharing


FIRST_COME: Final = Policy(
    orders=ORDERS,
    lasting=(
        filters.filter_asked,
        filters.filter_queue,
        filters.filter_select,
        filters.filter_same,
        filters.filter_domain,
        filters.filter_size,
        filters.filter_device_kinds,
        filters.filter_processor_kinds,
        filters.filter_avoided,
    ),
    passing=(filters.filter_reach, filters.filter_open, filters.filter_device_open),
    current=(
        filters.filter_taken,
        filters.filter_select_now,
        filters.filter_empty,
        filters.filter_own_domains,
        filters.filter_threshold,
        filters.filter_load,
        filters.filter_amounts,
        filters.filter_devices,
        filters.filter_processors,
    ),
    ranking=rank_hosts,
    sharing=share_out,
)
"""First come, first served by queue priority and class priority, load spread over hosts."""


def sift(shape: Shape, ground: Ground, facts: HostFacts, policy: Policy, share: Column) -> Sieve:
    """Return the hosts on which a share of a request is free, and why the others are not."""
    return _sift(Sieve(shape.allowed, share, shape.standing), shape, ground, facts, policy)


def fitting(shape: Shape, ground: Ground, facts: HostFacts, policy: Policy) -> Flags:
    """Return the hosts on which the least share of a request is free."""
    return _sift(SilentSieve(shape.allowed, shape.unit), shape, ground, facts, policy).left


def _sift(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts, policy: Policy) -> Sieve:
    if not shape.is_whole:
        for current in policy.current:
            current(sieve, shape, ground, facts)
    return sieve
