"""What cannot be: hosts taken out because their domains could not hold what must lie in them.

Only necessary conditions, by sums over the codes of domains; so what is left may still not do, but
where nothing is left there is no placement.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from xce.sched.ties import Bond, Quota
from xce.state.hosts import Column, Flags

_ROUNDS_MAX: Final = 8


class Demand(NamedTuple):
    """What a part wants."""

    tasks: int
    per_task: Column
    one_host: bool


class Rooms(NamedTuple):
    """What hosts can take: columns along hosts."""

    caps: tuple[Column, ...]
    """By part: tasks, 0 where it may not be."""
    free: Column
    """Along resources: what is free, none negative."""


def sums_of(codes: Column, values: Column, count: int) -> Column:
    """Return the sum of values by code; hosts of code -1 do not count."""
    inside = codes >= 0
    sums = np.zeros(count, np.int64)
    np.add.at(sums, codes[inside], values[inside])
    return sums


def bounds_of(
    part: int, bond: Bond, demand: Demand, cap: Column, quotas: Sequence[Quota]
) -> Column:
    """Return the most tasks of a part that fit into each domain of a bond, at most."""
    if demand.one_host:
        most = np.zeros(bond.width, np.int64)
        inside = bond.codes >= 0
        np.maximum.at(most, bond.codes[inside], cap[inside])
        return most
    sums = sums_of(bond.codes, cap, bond.width)
    for quota in quotas:
        if part in quota.parts:
            np.minimum(sums, _quota_sums(bond, quota, cap), out=sums)
    return sums


def _quota_sums(bond: Bond, quota: Quota, cap: Column) -> Column:
    """Return the most tasks in each domain of a bond that a quota leaves.

    Exact where domains of one level lie in those of the other; else nothing is taken off.
    """
    width = int(quota.codes.max(initial=-1)) + 1
    inner = np.minimum(sums_of(quota.codes, cap, width), quota.most)
    both = (quota.codes >= 0) & (bond.codes >= 0)
    outer = np.full(width, -1, np.int64)
    outer[quota.codes[both]] = bond.codes[both]
    if (outer[quota.codes[both]] == bond.codes[both]).all():
        return sums_of(outer, inner, bond.width)
    other = np.full(bond.width, -1, np.int64)
    other[bond.codes[both]] = quota.codes[both]
    if (other[bond.codes[both]] == quota.codes[both]).all():
        return np.minimum(sums_of(bond.codes, cap, bond.width), quota.most)
    return sums_of(bond.codes, cap, bond.width)


def narrow(
    demands: Sequence[Demand], rooms: Rooms, bonds: Sequence[Bond], quotas: Sequence[Quota]
) -> tuple[Column, ...] | None:
    """Return what hosts can take once domains that cannot do are out; None: it fits nowhere.

    Args:
        demands: What each part wants.
        rooms: What hosts can take.
        bonds: What must lie in one domain; narrow ones first work best.
        quotas: What must be spread.
    """
    caps = [cap.copy() for cap in rooms.caps]
    for quota in quotas:
        inside = quota.codes >= 0
        for part in quota.parts:
            caps[part] = np.where(inside, caps[part], 0)
    everywhere = [
        Bond((part,), np.zeros(len(caps[part]), np.int64), 1) for part in range(len(caps))
    ]
    everywhere.append(Bond(tuple(range(len(caps))), np.zeros(len(caps[0]), np.int64), 1))
    everywhere += [Bond(quota.parts, np.zeros(len(caps[0]), np.int64), 1) for quota in quotas]
    for _ in range(_ROUNDS_MAX):
        changed = False
        for bond in (*bonds, *everywhere):
            good = good_domains(bond, demands, caps, rooms.free, quotas)
            if not good.any():
                return None
            if good.all() and (bond.width == 1):
                continue
            keep = (bond.codes >= 0) & good[bond.codes]
            for part in bond.parts:
                if (caps[part][~keep] > 0).any():
                    caps[part] = np.where(keep, caps[part], 0)
                    changed = True
        if not changed:
            break
    return tuple(caps)


def _large_tasks_fit(
    bond: Bond, row: int, demands: Sequence[Demand], caps: Sequence[Column], free: Column
) -> Flags:
    """Return the domains with room for the largest tasks, counted as whole tasks of one resource.

    Of parts whose tasks take at least so much each, a host has no more than so many tasks.
    """
    good: Flags = np.ones(bond.width, np.bool_)
    parts = sorted(
        (part for part in bond.parts if demands[part].per_task[row]),
        key=lambda part: -int(demands[part].per_task[row]),
    )
    usable = np.zeros(len(bond.codes), np.bool_)
    wanted = 0
    for place, part in enumerate(parts):
        usable |= caps[part] > 0
        wanted += demands[part].tasks
        if place:
            most = np.where(usable, free // int(demands[part].per_task[row]), 0)
            good &= sums_of(bond.codes, most, bond.width) >= wanted
    return good


def good_domains(
    bond: Bond,
    demands: Sequence[Demand],
    caps: Sequence[Column],
    free: Column,
    quotas: Sequence[Quota],
) -> Flags:
    """Return the domains of a bond that could hold all of its parts, as far as sums can tell."""
    good: Flags = np.ones(bond.width, np.bool_)
    any_use = np.zeros(len(bond.codes), np.bool_)
    for part in bond.parts:
        demand = demands[part]
        good &= bounds_of(part, bond, demand, caps[part], quotas) >= demand.tasks
        any_use |= caps[part] > 0
    if not good.any() or len(bond.parts) == 1:
        return good
    wanted = sum(demands[part].per_task * demands[part].tasks for part in bond.parts)
    for row in np.flatnonzero(wanted).tolist():
        values = np.where(any_use, free[row], 0)
        good &= sums_of(bond.codes, values, bond.width) >= int(np.asarray(wanted)[row])
        if not good.any():
            return good
        good &= _large_tasks_fit(bond, row, demands, caps, values)
    for quota in quotas:
        shared = [part for part in bond.parts if part in quota.parts]
        if len(shared) > 1:
            together = np.sum([caps[part] for part in shared], axis=0)
            left = _quota_sums(bond, quota, together)
            good &= left >= sum(demands[part].tasks for part in shared)
    return good
