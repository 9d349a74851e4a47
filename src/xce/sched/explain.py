"""Reasons: what the filters and allocators found, as values."""

from typing import Final, TypeAlias

import msgspec
import numpy as np

from xce.model.reason import HostCode, HostReason, Reason, ReasonCode, Wake
from xce.sched.columns import HostColumns, HostFacts
from xce.sched.filter import Sieve
from xce.sched.ground import Ground, idle_ground
from xce.sched.place import pools
from xce.sched.place.capacity import capacity, most_tasks
from xce.sched.policy import Policy
from xce.sched.score import preferences
from xce.sched.shape import Shape
from xce.state.cluster import ClusterState
from xce.state.hosts import Column, Flags

_MOVING: Final = frozenset({HostCode.SLOTS_BUSY, HostCode.AMOUNT_SHORT, HostCode.EXCLUSIVE})
"""Codes under which hosts come and go with what is given out."""
_NO_HOSTS: Final = Reason(ReasonCode.NO_HOSTS)
Gist: TypeAlias = tuple[object, ...]


def compile_standing(shape: Shape, state: ClusterState, facts: HostFacts, policy: Policy) -> None:
    """Work out what holds for a shape as long as hosts and configuration stay as they are."""
    sieve = Sieve(facts.table.is_configured.copy(), shape.unit)
    for lasting in policy.lasting:
        lasting(sieve, shape, facts)
    never = _explain_never(sieve, shape, state, facts)
    for passing in policy.passing:
        passing(sieve, shape, facts)
    shape.allowed, shape.standing = sieve.left, tuple(sieve.reasons)
    shape.preference = preferences(shape, facts)
    shape.never = never if facts.has_joined.any() else _NO_HOSTS
    if shape.never is not None and not shape.select_moves:
        shape.fixed = shape.never
    elif not shape.allowed.any():
        needed = shape.tasks_min if shape.tasks_min > 1 else 0
        nowhere = Reason(ReasonCode.HOSTS, shape.standing, needed=needed)
        shape.fixed = shape.never or nowhere


def _explain_never(
    sieve: Sieve, shape: Shape, state: ClusterState, facts: HostFacts
) -> Reason | None:
    """Return why a request could not run if the whole cluster were idle, or None."""
    shortage = pools.explain_shortage(shape, state.pools.total, is_total=True)
    if shortage is not None:
        return shortage
    ground, reasons = idle_ground(facts), list(sieve.reasons)
    passes = np.ones(facts.table.count, np.bool_)
    if shape.program is not None and shape.select_moves:
        passes = shape.program.mask(HostColumns(facts, ground.free))
        refused = int(np.count_nonzero(sieve.left & ~passes))
        reasons.extend([HostReason(HostCode.SELECT, refused)] if refused else [])
    most = most_tasks(shape, capacity(shape, ground.free, sieve.left & passes))
    if most >= shape.tasks_min:
        return None
    wide = sieve.left_or(HostCode.TOO_SMALL) & passes
    reason = _conclude(shape, ground, reasons, most, wide)
    return msgspec.structs.replace(reason, unsatisfiable=True)


def sift(shape: Shape, ground: Ground, facts: HostFacts, policy: Policy, share: Column) -> Sieve:
    """Return the hosts on which a share of a request is free, and why the others are not."""
    sieve = Sieve(shape.allowed, share, shape.standing)
    for current in policy.current:
        current(sieve, shape, ground, facts)
    return sieve


def explain_ground(
    shape: Shape, ground: Ground, facts: HostFacts, policy: Policy, sieve: Sieve
) -> Reason:
    """Return why a request does not fit on ``ground``, when pools are not to blame.

    Args:
        shape: What was tried.
        ground: On what.
        facts: The hosts.
        policy: Whose filters to ask when more is wanted of a host than its least share.
        sieve: What `sift` found for the least share.
    """
    if shape.never is not None:
        return shape.never
    if shape.tasks_min == 1:
        return Reason(ReasonCode.HOSTS, tuple(sieve.reasons))
    if shape.tile is not shape.unit:
        sieve = sift(shape, ground, facts, policy, shape.tile)
    wide = sieve.left_or(HostCode.SLOTS_BUSY, HostCode.AMOUNT_SHORT)
    room = capacity(shape, ground.free, wide)
    reasons = sieve.reasons
    if not shape.is_spanned:
        reasons = _with_partly_busy(sieve, int(room.later.max(initial=0)), shape.tasks_min)
    return _conclude(shape, ground, reasons, most_tasks(shape, room), wide)


def _with_partly_busy(sieve: Sieve, best: int, needed: int) -> list[HostReason]:
    """Count the hosts that could take a part of the request as busy, beside those that are full."""
    size = int(np.count_nonzero(sieve.left))
    others = [item for item in sieve.reasons if item.code is not HostCode.SLOTS_BUSY]
    size += sum(item.hosts for item in sieve.reasons if item.code is HostCode.SLOTS_BUSY)
    if size == 0:
        return others
    return [*others, HostReason(HostCode.SLOTS_BUSY, size, "", needed, best)]


def _conclude(
    shape: Shape, ground: Ground, reasons: list[HostReason], most: int, wide: Flags
) -> Reason:
    """Return the reason of a request of which only ``most`` tasks fit.

    Args:
        shape: What was tried.
        ground: On what.
        reasons: Why hosts could not take it.
        most: The most tasks that fit together.
        wide: The hosts that could take any of it.
    """
    needed = shape.tasks_min if shape.tasks_min > 1 else 0
    if needed and shape.is_spanned:
        in_all = int(capacity(shape, ground.free, wide).later.sum())
        if in_all >= needed:
            return Reason(ReasonCode.SPAN, tuple(reasons), needed=needed, available=in_all)
    return Reason(ReasonCode.HOSTS, tuple(reasons), needed=needed, available=most if needed else 0)


def gist(reason: Reason) -> Gist:
    """Return what is told anew when it differs (see `xce.sched.waiting`).

    Which numbers of free amounts stood in the way is not in it, nor how many hosts were short of
    each: they change with every start and end, and each change would be a record.
    """
    standing = tuple(item for item in reason.host_reasons if not _moves(item))
    moving = frozenset((item.code, item.resource) for item in reason.host_reasons if _moves(item))
    return (reason.code, reason.unsatisfiable, reason.resource, standing, moving)


def _moves(item: HostReason) -> bool:
    # A select over free amounts names them, see `xce.sched.filter.filter_select_now`.
    return item.code in _MOVING or (item.code is HostCode.SELECT and bool(item.resource))


def cures(reason: Reason) -> frozenset[Wake]:
    """Return the kinds of change that can cure ``reason``."""
    match reason.code:
        case ReasonCode.RESERVED:
            return frozenset({Wake.CAPACITY, Wake.POOL, Wake.RESERVATION, Wake.CONFIG})
        case ReasonCode.POOL:
            return frozenset({Wake.POOL, Wake.CONFIG})
        case _:
            return frozenset({Wake.CAPACITY, Wake.CONFIG})
