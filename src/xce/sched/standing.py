"""What holds for a shape as long as hosts and configuration stay as they are."""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Final

import msgspec
import numpy as np

from xce.model.load import INDICES
from xce.model.reason import HostCode, Reason, ReasonCode
from xce.sched import filter as filters
from xce.sched.columns import OWN_LEVEL, HostFacts
from xce.sched.devices import lay_out
from xce.sched.explain import (
    conclude,
    conclude_alternatives,
    conclude_parts,
    everyone,
    explain_tasks,
)
from xce.sched.explain_relations import explain_relations
from xce.sched.filter import Sieve
from xce.sched.ground import idle_ground
from xce.sched.place import pools
from xce.sched.place.capacity import room_on
from xce.sched.place.compound import Candidates
from xce.sched.place.domains import Trail
from xce.sched.place.simple import most_of
from xce.sched.place.whole import find_whole
from xce.sched.policy import Policy
from xce.sched.processor_room import lay_out as lay_out_processors
from xce.sched.score import preferences
from xce.sched.shape import Shape
from xce.sched.ties import lay_out_ties
from xce.state.cluster import ClusterState
from xce.state.hosts import Column

_NO_HOSTS: Final = Reason(ReasonCode.NO_HOSTS)
_UNBOUNDED: Final = 1 << 40


def compile_standing(shape: Shape, state: ClusterState, facts: HostFacts, policy: Policy) -> None:
    """Set the masks of a shape, and why it can never run or not until hosts change."""
    _lay_out(shape, facts)
    if shape.is_whole:
        _compile_whole(shape, state, facts, policy)
        return
    sieve = _lasting_sieve(shape, facts, policy)
    with_closed(shape, are_open=True)
    never = _explain_never(sieve, shape, state, facts)
    with_closed(shape, are_open=False)
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


def with_closed(shape: Shape, *, are_open: bool) -> None:
    """Have placement take GPUs that are closed or gone for open ones, or not."""
    for inner in shape.inner:
        with_closed(inner, are_open=are_open)
    if shape.gpu is not None:
        match = shape.gpu.kind if are_open else shape.gpu.kind & shape.gpu.usable
        shape.gpu = shape.gpu._replace(match=match)


def _lasting_sieve(shape: Shape, facts: HostFacts, policy: Policy) -> Sieve:
    """Return the hosts that pass the lasting filters."""
    sieve = Sieve(facts.table.is_configured.copy(), shape.unit)
    for lasting in policy.lasting:
        lasting(sieve, shape, facts)
    return sieve


def _idle_sieve(
    shape: Shape, facts: HostFacts, policy: Policy, pools_total: Mapping[str, int]
) -> Sieve:
    """Return the hosts that could take a share of a request if nothing ran."""
    sieve, idle = _lasting_sieve(shape, facts, policy), idle_ground(facts, pools_total)
    if shape.program is not None and shape.select_moves:
        filters.filter_select_now(sieve, shape, idle, facts)
    filters.filter_threshold(sieve, shape, idle, facts)
    return sieve


def _explain_never(
    sieve: Sieve, shape: Shape, state: ClusterState, facts: HostFacts
) -> Reason | None:
    """Return why a request could not run if the whole cluster were idle, or None."""
    shortage = pools.explain_shortage(shape, state.pools.total, is_total=True)
    if shortage is not None:
        return shortage
    ground, trail = idle_ground(facts, state.pools.total), Trail()
    reasons = list(sieve.reasons)
    now = Sieve(sieve.left, shape.unit)
    filters.filter_select_now(now, shape, ground, facts)
    filters.filter_threshold(now, shape, ground, facts)
    filters.filter_devices(now, shape, ground, facts)
    # Which free amounts a select named is of no interest here: it is about all that there is.
    reasons += [
        msgspec.structs.replace(item, resource="") if item.code is HostCode.SELECT else item
        for item in now.reasons
    ]
    passes = ~(sieve.left & ~now.left)
    room = room_on(shape, ground.free, now.left, everyone(facts))
    most = most_of(shape, room, trail)
    if most >= shape.tasks_min:
        return explain_tasks(shape, room, state.pools.total, is_total=True)
    if trail.is_cut:
        return None
    wide = sieve.left_or(HostCode.TOO_SMALL) & passes
    reason = conclude(shape, room_on(shape, ground.free, wide, everyone(facts)), reasons, most)
    # A host that is avoided may be tried again later, and one that has not come yet may have the
    # processors: that is not for ever.
    passing = (HostCode.AVOIDED, HostCode.PROCESSORS_UNKNOWN)
    is_lasting = not any(item.code in passing for item in reason.host_reasons)
    return msgspec.structs.replace(reason, unsatisfiable=is_lasting)


def _lay_out(shape: Shape, facts: HostFacts) -> None:
    """Set what a request says of how tasks lie on hosts, host by host."""
    if shape.program is not None:
        shape.select_moves = not facts.moving.isdisjoint(shape.program.names)
        shape.reads_pools = not facts.pools.isdisjoint(shape.program.names)
    request = shape.request
    shape.reads_load = reads_load(shape)
    shape.groups = _groups(request.same, facts)
    if request.hosts_first:
        shape.leads = filters.named(facts, request.hosts_first)
    if request.gpu is not None and not shape.is_whole:
        sockets = facts.sockets if request.gpu.tile else None
        shape.gpu = lay_out(request.gpu, facts.devices, facts.table.device_row, sockets)
    if not shape.is_whole:
        table = facts.table
        shape.processors = lay_out_processors(request.affinity, table.processors, table.word_row)
    if request.parts and request.constraints:
        names = [part.name for part in request.parts]
        shape.fabric = lay_out_ties(request.constraints, names, facts)
    if request.cu is not None:
        level = facts.level(request.cu.level)
        shape.domains = None if level == OWN_LEVEL else facts.labels(level).astype(np.int64)
    _lay_out_span(shape, facts)


def _lay_out_span(shape: Shape, facts: HostFacts) -> None:
    """Set in what blocks tasks lie on hosts, and how many may lie there."""
    request, count = shape.request, facts.table.count
    if request.ptile or request.ptile_by_type:
        slots = np.maximum(facts.idle()[0], 1)
        tiles = np.full(count, request.ptile) if request.ptile > 0 else slots
        if request.ptile == 0:
            tiles = np.full(count, _UNBOUNDED)
        for word, size in request.ptile_by_type:
            for name in ("type", "model"):
                codes, code_of = facts.text(name)
                tiles = np.where(codes == code_of.get(word, -2), size, tiles)
        shape.ceilings = tiles
        shape.tiles = np.where(tiles == _UNBOUNDED, 1, tiles)
    elif request.gtile and shape.gpu is not None:
        gpu = shape.gpu
        have = (gpu.kind & gpu.usable).sum(axis=0)
        shape.ceilings = shape.tiles = np.maximum(have // gpu.wish.count, 1)
    elif request.block:
        shape.tiles = np.full(count, request.block)
    elif request.stripe > 0:
        shape.ceilings = np.full(count, request.stripe)


def reads_load(shape: Shape) -> bool:
    """Return whether what hosts measure has a say in where a request fits."""
    names = {name for name, _ in (*shape.order, *shape.load_sched)}
    names.update(threshold.resource for threshold in shape.request.thresholds)
    if shape.program is not None:
        names.update(shape.program.names)
    return not names.isdisjoint(INDICES) or any(map(reads_load, shape.inner))


def _groups(names: tuple[str, ...], facts: HostFacts) -> Column | None:
    """Return a code for each combination of values of attributes; -1: a value is missing."""
    if not names:
        return None
    codes = np.stack([facts.values(name) for name in names])
    _, groups = np.unique(codes, axis=1, return_inverse=True)
    found: Column = np.where((codes >= 0).all(axis=0), groups.reshape(-1), -1)
    return found


def _compile_whole(shape: Shape, state: ClusterState, facts: HostFacts, policy: Policy) -> None:
    """Set the masks of a request with parts or alternatives from theirs."""
    for inner in shape.inner:
        compile_standing(inner, state, facts, policy)
    shape.reads_pools = any(inner.reads_pools for inner in shape.inner)
    masks = [inner.allowed for inner in shape.inner]
    shape.allowed = reduce(or_, masks) if masks else np.zeros(facts.table.count, np.bool_)
    if not facts.has_joined.any():
        shape.never = shape.fixed = _NO_HOSTS
        return
    if shape.request.alternatives:
        whys = [inner.fixed for inner in shape.inner]
        if all(whys):
            shape.fixed = conclude_alternatives([why for why in whys if why is not None])
        delays = [item.delay_us for item in shape.request.alternatives]
        if len(shape.inner) == len(delays) and all(inner.never for inner in shape.inner):
            shape.never = shape.fixed
        return
    shape.never = _never_together(shape, state, facts, policy)
    alone = [(place, part.fixed) for place, part in enumerate(shape.inner)]
    fixed = [(place, why) for place, why in alone if why is not None]
    if shape.never is not None and not any(part.select_moves for part in shape.inner):
        shape.fixed = shape.never
    elif fixed:
        shape.fixed = shape.never or conclude_parts(shape, fixed)


def _never_together(
    shape: Shape, state: ClusterState, facts: HostFacts, policy: Policy
) -> Reason | None:
    """Return why parts could not run together if the whole cluster were idle, or None."""
    shortage = pools.explain_shortage(shape, state.pools.total, is_total=True)
    if shortage is not None:
        return shortage
    whys = [(place, part.never) for place, part in enumerate(shape.inner)]
    alone = [(place, why) for place, why in whys if why is not None]
    if alone:
        return msgspec.structs.replace(conclude_parts(shape, alone), unsatisfiable=True)
    total, trail = state.pools.total, Trail()
    ground = idle_ground(facts, total)
    masks = tuple(_idle_sieve(part, facts, policy, total).left for part in shape.inner)
    ranked = tuple(everyone(facts) for _ in shape.inner)
    with_closed(shape, are_open=True)
    found = find_whole(shape, ground, Candidates(masks, ranked), trail)
    with_closed(shape, are_open=False)
    if found is not None or trail.is_cut:
        return None
    places = Candidates(masks, ranked)
    related = explain_relations(shape, ground, places, facts)
    why = related if related is not None else conclude_parts(shape, [])
    return msgspec.structs.replace(why, unsatisfiable=True)
