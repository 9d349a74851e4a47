"""Reasons: what the filters and allocators found, as values."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from xce.model.load import INDICES
from xce.model.reason import HostCode, HostReason, Reason, ReasonCode, Wake
from xce.model.request import Request
from xce.sched.columns import HostFacts
from xce.sched.explain_relations import explain_relations
from xce.sched.filter import Sieve
from xce.sched.ground import Ground
from xce.sched.place import pools
from xce.sched.place.capacity import Room, room_on
from xce.sched.place.compound import Candidates
from xce.sched.place.domains import Trail
from xce.sched.place.simple import most_of, most_without_domains
from xce.sched.place.whole import find_whole
from xce.sched.policy import Policy, sift
from xce.sched.shape import Shape
from xce.state.hosts import Column, Flags

_MOVING: Final = frozenset(
    {
        HostCode.SLOTS_BUSY,
        HostCode.AMOUNT_SHORT,
        HostCode.EXCLUSIVE,
        HostCode.TAKEN,
        HostCode.THRESHOLD,
        HostCode.LOAD,
        HostCode.DEVICES_BUSY,
        HostCode.DEVICES_SPLIT,
        HostCode.PROCESSORS_BUSY,
    }
)
"""Codes under which hosts come and go with what is given out."""
Gist: TypeAlias = tuple[object, ...]


def explain_ground(
    shape: Shape,
    ground: Ground,
    facts: HostFacts,
    policy: Policy,
    sieve: Sieve,
    pools_free: Mapping[str, int],
) -> Reason:
    """Return why a request does not fit on ``ground``, when its own pools are not to blame.

    Args:
        shape: What was tried.
        ground: On what.
        facts: The hosts.
        policy: Whose filters to ask when more is wanted of a host than its least share.
        sieve: What `sift` found for the least share.
        pools_free: What pools have, for alternatives.
    """
    if shape.never is not None:
        return shape.never
    if shape.request.alternatives:
        whys = [_explain_one(inner, ground, facts, policy, pools_free) for inner in shape.inner]
        return conclude_alternatives(whys)
    if shape.request.parts:
        return _explain_parts(shape, ground, facts, policy)
    if shape.tasks_min == 1 and not shape.is_spanned:
        return Reason(ReasonCode.HOSTS, tuple(sieve.reasons))
    if shape.tile is not shape.unit:
        sieve = sift(shape, ground, facts, policy, shape.tile)
    wide = sieve.left_or(
        HostCode.SLOTS_BUSY, HostCode.AMOUNT_SHORT, HostCode.DEVICES_BUSY, HostCode.DEVICES_SPLIT,
        HostCode.PROCESSORS_BUSY,
    )  # fmt: skip
    room, trail = room_on(shape, ground.free, wide, everyone(facts)), Trail()
    reasons = sieve.reasons
    if not shape.is_spanned:
        reasons = _with_partly_busy(sieve, int(room.later.max(initial=0)), shape.tasks_min)
    most = most_of(shape, room, trail)
    if most >= shape.tasks_min:
        short = explain_tasks(shape, room, pools_free)
        if short is not None:
            return short
    return conclude(shape, room, reasons, most, is_cut=trail.is_cut)


def explain_tasks(
    shape: Shape, room: Room, pools_free: Mapping[str, int], *, is_total: bool = False
) -> Reason | None:
    """Return the pool that does not last for as few tasks as hosts can have, or None.

    So it may be where hosts are filled, or shares of domains are even: not every count will do.

    Args:
        shape: What was tried; it would fit if pools had no end.
        room: The hosts that could take any of it.
        pools_free: What each pool has.
        is_total: It is the totals, so that a shortage lasts.
    """
    low, high = pools.most_tasks(shape, pools_free), shape.tasks_max
    if low >= high or most_of(shape, room, Trail(), low) >= shape.tasks_min:
        return None
    # With a larger bound there are more choices: the fewest tasks are the least bound that does.
    while high - low > 1:
        middle = (low + high) // 2
        if most_of(shape, room, Trail(), middle) >= shape.tasks_min:
            high = middle
        else:
            low = middle
    short = pools.explain_shortage(shape, pools_free, tasks=high, is_total=is_total)
    return short and msgspec.structs.replace(short, detail="hosts")


def everyone(facts: HostFacts) -> Column:
    """Return the numbers of all hosts."""
    return np.arange(facts.table.count)


def _explain_one(
    shape: Shape,
    ground: Ground,
    facts: HostFacts,
    policy: Policy,
    pools_free: Mapping[str, int],
) -> Reason:
    """Return why an alternative or part does not fit."""
    known = shape.never or shape.fixed or pools.explain_shortage(shape, pools_free)
    if known is not None:
        return known
    sieve = sift(shape, ground, facts, policy, shape.unit)
    return explain_ground(shape, ground, facts, policy, sieve, pools_free)


def _explain_parts(shape: Shape, ground: Ground, facts: HostFacts, policy: Policy) -> Reason:
    """Return which parts do not fit even alone, or that all do but not together."""
    alone: list[tuple[int, Reason]] = []
    masks: list[Flags] = []
    for place, part in enumerate(shape.inner):
        sieve = sift(part, ground, facts, policy, part.unit)
        masks.append(sieve.left)
        room = room_on(part, ground.free, sieve.left, everyone(facts))
        if most_of(part, room, Trail()) < part.tasks_min:
            alone.append((place, _explain_one(part, ground, facts, policy, {})))
    if not alone:
        trail = Trail()
        places = Candidates(tuple(masks), tuple(everyone(facts) for _ in masks))
        related = explain_relations(shape, ground, places, facts)
        if related is not None:
            return related
        # What is found here, and was not by the session's own order of hosts, it has missed.
        found = find_whole(shape, ground, places, trail)
        if trail.is_cut or (found is not None and shape.fabric is not None):
            return Reason(ReasonCode.SEARCH, needed=shape.tasks_min)
    return conclude_parts(shape, alone)


def conclude_parts(shape: Shape, alone: Sequence[tuple[int, Reason]]) -> Reason:
    """Return the reason of a compound request; ``alone``: the parts that do not fit alone."""
    under = tuple(
        msgspec.structs.replace(why, role=shape.request.parts[place].name) for place, why in alone
    )
    return Reason(ReasonCode.PARTS, needed=shape.tasks_min, under=under)


def conclude_alternatives(whys: Sequence[Reason]) -> Reason:
    """Return the reason of a request none of whose open alternatives fits."""
    if not whys:
        return Reason(ReasonCode.DELAY)
    under = tuple(
        msgspec.structs.replace(why, role=f"alternative {number}")
        for number, why in enumerate(whys, 1)
    )
    return Reason(
        ReasonCode.ALTERNATIVES,
        under=under,
        unsatisfiable=all(why.unsatisfiable for why in whys),
    )


def _with_partly_busy(sieve: Sieve, best: int, needed: int) -> list[HostReason]:
    """Count the hosts that could take a part of the request as busy, beside those that are full."""
    size = int(np.count_nonzero(sieve.left))
    others = [item for item in sieve.reasons if item.code is not HostCode.SLOTS_BUSY]
    size += sum(item.hosts for item in sieve.reasons if item.code is HostCode.SLOTS_BUSY)
    if size == 0:
        return others
    return [*others, HostReason(HostCode.SLOTS_BUSY, size, "", needed, best)]


def conclude(
    shape: Shape, room: Room, reasons: Sequence[HostReason], most: int, *, is_cut: bool = False
) -> Reason:
    """Return the reason of a request of which only ``most`` tasks fit.

    Args:
        shape: What was tried.
        room: The hosts that could take any of it.
        reasons: Why hosts could not take it.
        most: The most tasks that fit together.
        is_cut: More might fit, if one searched on.
    """
    if is_cut:
        return Reason(ReasonCode.SEARCH, tuple(reasons), needed=shape.tasks_min, available=most)
    needed = shape.tasks_min if shape.tasks_min > 1 else 0
    if shape.request.whole_hosts:
        few = _too_few_hosts(shape.request, room, reasons)
        if few is not None:
            return few
    if shape.is_spanned:
        in_all = int(room.most.sum())
        if in_all >= max(needed, 1):
            code = ReasonCode.SPAN if shape.is_laid else ReasonCode.FIRST_HOST
            wish, what = shape.request.cu, _section(shape.request)
            if wish is not None and most_without_domains(shape, room) >= shape.tasks_min:
                code, what = ReasonCode.DOMAINS, wish.level or "compute unit"
            return Reason(code, tuple(reasons), what, shape.tasks_min, in_all)
    return Reason(ReasonCode.HOSTS, tuple(reasons), needed=needed, available=most if needed else 0)


def _too_few_hosts(request: Request, room: Room, reasons: Sequence[HostReason]) -> Reason | None:
    """Return that ``-nnodes`` finds too few hosts, or too few slots on so many; None: enough."""
    whole = request.whole_hosts
    slots = np.sort(room.tile[(room.most >= room.tile) & (room.most > 0)])[::-1]
    if len(slots) < whole:
        return Reason(ReasonCode.SPAN, tuple(reasons), "-nnodes", whole, len(slots))
    in_all = int(slots[:whole].sum())
    if in_all >= request.tasks_min:
        return None
    return Reason(
        ReasonCode.SPAN, tuple(reasons), "-nnodes", request.tasks_min, in_all, detail="slots"
    )


def _section(request: Request) -> str:
    """Return what says where tasks lie, where that is not ``span[]`` alone."""
    if not request.same:
        return ""
    if request.whole_hosts:
        return "-nnodes and same[]"
    is_spanned = request.one_host or request.ptile or request.block or request.stripe
    return "span[] and same[]" if is_spanned or request.hosts_max or request.gtile else "same[]"


def gist(reason: Reason) -> Gist:
    """Return what is told anew when it differs (see `xce.sched.waiting`).

    Which numbers of free amounts stood in the way is not in it, nor how many hosts were short of
    each: they change with every start and end, and each change would be a record.
    """
    standing = tuple(item for item in reason.host_reasons if not _moves(item))
    moving = frozenset((item.code, item.resource) for item in reason.host_reasons if _moves(item))
    under = tuple(map(gist, reason.under))
    return (
        reason.code, reason.unsatisfiable, reason.resource, standing, moving, reason.role, under,
        reason.relation, reason.subject, reason.near,
    )  # fmt: skip


def _moves(item: HostReason) -> bool:
    # A select over free amounts names them, see `xce.sched.filter.filter_select_now`.
    return item.code in _MOVING or (item.code is HostCode.SELECT and bool(item.resource))


def _reads_load(item: HostReason) -> bool:
    is_asked = item.code in (HostCode.SELECT, HostCode.THRESHOLD, HostCode.LOAD)
    return is_asked and not set(INDICES).isdisjoint(item.resource.split(","))


def cures(reason: Reason) -> frozenset[Wake]:
    """Return the kinds of change that can cure ``reason``."""
    match reason.code:
        case ReasonCode.RELATION if reason.relation in ("near", "apart", "job"):
            # A start elsewhere may cure it.
            kinds = {Wake.CAPACITY, Wake.RESERVATION}
        case ReasonCode.RESERVED:
            kinds = {Wake.CAPACITY, Wake.POOL, Wake.RESERVATION}
        case ReasonCode.POOL:
            kinds = {Wake.POOL, Wake.CAPACITY} if reason.detail else {Wake.POOL}
        case ReasonCode.DEADLINE:
            kinds = set()
        case _:
            kinds = {Wake.CAPACITY}
    if any(_reads_load(item) for item in reason.host_reasons):
        kinds.add(Wake.LOAD)
    if any(_moves(item) and item.code is HostCode.SELECT for item in reason.host_reasons):
        kinds.add(Wake.POOL)  # whose amounts a select may name, too
    return frozenset({*kinds, Wake.CONFIG}).union(*map(cures, reason.under))
