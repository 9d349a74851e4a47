"""Scorers: which of the hosts that may take a request are the best. Ties end in the host number.

Without ``order[]`` work is spread: the host with most free slots is best, as users of a load
ordered system expect, and alike tasks are levelled over hosts; so it makes no difference whether
they come together or one by one. For parallel jobs the same order also gives few hosts. With
``order[]`` hosts are filled one after another in the order of its keys (``-slots`` packs), with
``order[!...]``, and where GPUs are wanted, they are put in order again for each attempt. The
preferences of ``-m`` come first.
"""

from typing import Final

import numpy as np

from xce.sched.columns import HostColumns, HostFacts
from xce.sched.gpu_mix import rank_by_gpus, rank_each_by_gpus
from xce.sched.ground import Ground
from xce.sched.shape import Shape
from xce.state.hosts import Column

_LAST: Final = (1 << 62) - 1
"""The sort key of a host that lacks what is ordered by."""
_NONE: Final = -(1 << 62)
"""Fewer slots than any host has free."""
_LOWEST: Final = -1
"""Less than any preference of a host that is named."""
_RANKED_MAX: Final = 1 << 17
"""So many attempts with GPUs are looked at each for itself; more fill the hosts as they are."""


def preferences(shape: Shape, facts: HostFacts) -> Column | None:
    """Return the preference of each host, higher is better; None: all are alike."""
    choices, request = shape.request.hosts, shape.request
    levels = {choice.preference for choice in choices}
    levels |= {request.others_preference} if request.other_hosts else set()
    if not choices or len(levels) == 1:
        return None
    column = np.full(facts.table.count, request.others_preference, np.int64)
    for choice in choices:
        numbers = facts.table.named(choice.host)
        column[numbers] = _LOWEST
    for choice in choices:
        numbers = facts.table.named(choice.host)
        column[numbers] = np.maximum(column[numbers], choice.preference)
    return column


def rank_hosts(shape: Shape, ground: Ground, facts: HostFacts) -> Column:
    """Return all host numbers, the best one first."""
    if shape.order:
        columns = HostColumns(facts, ground.free, ground.pools)
        keys = [_sort_key(columns, *key) for key in reversed(shape.order)]
    elif shape.gpu is not None:
        keys = [-rank_by_gpus(shape, shape.gpu, ground, facts)]
    else:
        keys = [-ground.free[0]]
    if shape.preference is not None:
        keys.append(-shape.preference)
    return np.lexsort(keys)


def _sort_key(columns: HostColumns, name: str, is_descending: bool) -> Column:
    if columns.kind(name) == "boolean":
        milli, defined = columns.flag(name).astype(np.int64), np.ones(columns.count, np.bool_)
    else:
        milli, defined = columns.number(name)
    return np.where(defined, -milli if is_descending else milli, _LAST)


def share_out(
    shape: Shape, ground: Ground, facts: HostFacts, room: Column, wanted: int
) -> tuple[Column, Column]:
    """Return hosts and how many of ``wanted`` alike attempts each gets, each at least one.

    Args:
        shape: What is placed.
        ground: What is free before.
        facts: The hosts.
        room: How many attempts each host can take.
        wanted: At least 1 and at most the sum of ``room``.
    """
    there = room.nonzero()[0]
    if len(there) == 1:
        return there, np.asarray([wanted], np.int64)
    if shape.order or shape.gpu is not None:
        ranked = rank_hosts(shape, ground, facts)
        attempts = np.minimum(room, wanted)
        if not shape.order:
            # Before a host gets any, all those that are better for the first one have got some.
            attempts[ranked[attempts[ranked] > 0][wanted:]] = 0
        keys = _keys_of_each(shape, ground, facts, attempts)
        if keys is not None:
            return _one_by_one(shape, attempts, wanted, keys)
        return _fill(ranked, room, wanted)
    slots = int(shape.unit[0])
    if shape.preference is None:
        shares = level(ground.free[0], room, wanted, slots)
    else:
        shares = np.zeros_like(room)
        for value in np.unique(shape.preference)[::-1].tolist():
            part = np.where(shape.preference == value, room, 0)
            size = min(wanted, int(part.sum()))
            if size:
                shares += level(ground.free[0], part, size, slots)
                wanted -= size
    numbers = np.flatnonzero(shares)
    return numbers, shares[numbers]


def _one_by_one(
    shape: Shape, attempts: Column, wanted: int, keys: list[Column]
) -> tuple[Column, Column]:
    """Share out so that each attempt goes to the host that is the best after those before it.

    Args:
        shape: What is placed.
        attempts: How many of them are laid out on each host: all that may go there.
        wanted: At most as many as that are in all.
        keys: What each finds there, host by host. One that finds better ones than the attempt
            before it on its host follows that one at once.
    """
    at = np.repeat(np.arange(len(attempts)), attempts)
    if shape.preference is not None:
        keys = [*keys, -shape.preference[at]]
    order = np.lexsort(keys)
    differs = np.zeros(len(at), np.bool_)
    for key in keys:
        differs[1:] |= np.diff(key[order]) != 0
    rank = np.empty(len(at), np.int64)
    rank[order] = np.cumsum(differs)
    own = at * len(at)
    worst = np.maximum.accumulate(rank + own) - own
    shares = np.bincount(at[np.argsort(worst, kind="stable")[:wanted]], minlength=len(attempts))
    numbers = np.flatnonzero(shares)
    return numbers, shares[numbers]


def _keys_of_each(
    shape: Shape, ground: Ground, facts: HostFacts, attempts: Column
) -> list[Column] | None:
    """Return what each attempt finds, the most important key last; None: one order of hosts holds
    for all of them.
    """
    if shape.gpu is not None and not shape.order:
        if int(attempts.max()) <= 1 or int(attempts.sum()) > _RANKED_MAX:
            return None
        return [-rank_each_by_gpus(shape, shape.gpu, ground, facts, attempts)]
    if not shape.request.order.startswith("!"):
        return None
    at = np.repeat(np.arange(len(attempts)), attempts)
    before = np.arange(len(at)) - np.repeat(np.cumsum(attempts) - attempts, attempts)
    columns = HostColumns(facts, ground.free, ground.pools)
    return [_key_after(columns, key, shape.unit, at, before) for key in reversed(shape.order)]


def _key_after(
    columns: HostColumns, key: tuple[str, bool], unit: Column, at: Column, before: Column
) -> Column:
    """Return a sort key as attempts find it, each on its host ``at`` with ``before`` it there."""
    name, is_descending = key
    found: Column = _sort_key(columns, *key)[at]
    row = columns.row(name)
    if row is None or not unit[row]:
        return found
    left = columns.left(row)[at] - unit[row] * before * 1000
    # What was measured may be less than what is free, and then it is what counts.
    value = np.minimum(left, -found if is_descending else found)
    return np.where(found == _LAST, found, -value if is_descending else value)


def _fill(ranked: Column, room: Column, wanted: int) -> tuple[Column, Column]:
    room = room[ranked]
    before = np.cumsum(room) - room
    shares = np.clip(wanted - before, 0, room)
    used = shares > 0
    return ranked[used], shares[used]


def level(free: Column, room: Column, wanted: int, slots: int) -> Column:
    """Return how many attempts each host gets when each goes where most slots are free.

    The result is that of placing them one by one, ties by host number: the k-th attempt on a host
    finds ``free - (k - 1) * slots`` there, and the ``wanted`` largest of these numbers are taken.
    The number of the last one taken is found by bisection.

    Args:
        free: Free slots of each host.
        room: How many attempts each can take.
        wanted: At least 1 and at most the sum of ``room``.
        slots: Slots of one attempt.
    """
    used = room > 0
    if wanted == 1:
        shares = np.zeros_like(room)
        shares[int(np.argmax(np.where(used, free, _NONE)))] = 1
        return shares
    if wanted == int(room.sum()):
        return room
    high = int(free[used].max()) + 1
    low = int((free - (room - 1) * slots)[used].min())
    # Invariant: at least ``wanted`` attempts find ``low`` or more free, fewer find ``high``.
    while high - low > 1:
        middle = (low + high) // 2
        if int(_attempts_above(free, room, middle, slots).sum()) >= wanted:
            low = middle
        else:
            high = middle
    shares = _attempts_above(free, room, high, slots)
    more = np.flatnonzero(_attempts_above(free, room, low, slots) > shares)
    shares[more[: wanted - int(shares.sum())]] += 1
    return shares


def _attempts_above(free: Column, room: Column, floor: int, slots: int) -> Column:
    """Return how many attempts on each host find at least ``floor`` slots free."""
    return np.clip((free - floor) // slots + 1, 0, room)
