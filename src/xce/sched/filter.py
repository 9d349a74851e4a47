"""Filters: which hosts may take a request, and the reason for each that may not.

A filter is a function that takes hosts out of a sieve. A host is counted once, under the first
filter that took it out. *Lasting* filters depend on the request, the configuration and what hosts
are; *passing* ones on which hosts are there and open; *current* ones on what is free.
"""

from operator import attrgetter
from typing import Final

import numpy as np

from xce.model.device import WHOLE, GpuWish
from xce.model.load import RISING
from xce.model.reason import HostCode, HostReason
from xce.sched.columns import HostColumns, HostFacts
from xce.sched.devices import device_room, groups_by_devices
from xce.sched.ground import Ground
from xce.sched.processor_room import free_processors, tasks_by_processors
from xce.sched.shape import Shape
from xce.state.hosts import Column, Flags

_HOST: Final = attrgetter("host")


class Sieve:
    """The hosts that are left, and why the others are not."""

    def __init__(self, left: Flags, share: Column, reasons: tuple[HostReason, ...] = ()) -> None:
        self.left = left
        self.share = share
        """What must fit on a host, along resources."""
        self.reasons = list(reasons)
        self._out: dict[HostCode, Flags] = {}

    def keep(
        self,
        mask: Flags,
        code: HostCode,
        *,
        resource: str = "",
        needed: int = 0,
        have: Column | None = None,
    ) -> None:
        """Take out what is not in ``mask``.

        Args:
            mask: The hosts that pass.
            code: Why the others do not.
            resource: What they are short of.
            needed: How much of it is needed on a host.
            have: How much of it each host has.
        """
        out = self.left > mask
        size = int(np.count_nonzero(out))
        if size:
            best = max(int(have[out].max()), 0) if have is not None else 0
            self.reasons.append(HostReason(code, size, resource, needed, best))
            self.left = self.left > out
            self._out[code] = self._out[code] | out if code in self._out else out

    def settle(self, mask: Flags) -> bool:
        """Take out what is not in ``mask``, if nothing is to be said of it; False: something is."""
        return not np.count_nonzero(self.left > mask)

    def left_or(self, *codes: HostCode) -> Flags:
        """Return the hosts that are left or that were taken out for one of ``codes``."""
        mask = self.left
        for code in codes:
            if code in self._out:
                mask = mask | self._out[code]
        return mask


class SilentSieve(Sieve):
    """A sieve of which nobody asks why hosts were taken out."""

    def keep(
        self,
        mask: Flags,
        code: HostCode,
        *,
        resource: str = "",
        needed: int = 0,
        have: Column | None = None,
    ) -> None:
        """Take out what is not in ``mask``."""
        self.left = self.left & mask

    def settle(self, mask: Flags) -> bool:
        """Take out what is not in ``mask``."""
        self.left = self.left & mask
        return True


def named(facts: HostFacts, names: tuple[str, ...]) -> Flags:
    """Return which hosts are among ``names``, or in a domain of such a name."""
    mask = np.zeros(facts.table.count, np.bool_)
    for name in names:
        mask[facts.table.named(name)] = True
    return mask


def filter_asked(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts of ``-m``."""
    request = shape.request
    if request.hosts and not request.other_hosts:
        sieve.keep(named(facts, tuple(map(_HOST, request.hosts))), HostCode.NOT_ASKED)
    if request.hosts_first and shape.is_single:
        sieve.keep(named(facts, request.hosts_first), HostCode.NOT_ASKED)
    if request.hosts_excluded:
        sieve.keep(~named(facts, request.hosts_excluded), HostCode.NOT_ASKED)


def filter_queue(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts of the queue."""
    if shape.queue_hosts:
        sieve.keep(named(facts, shape.queue_hosts), HostCode.NOT_IN_QUEUE)


def filter_select(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep what ``select[]`` wants, if that is the same whatever is free."""
    if shape.program is not None and not shape.select_moves:
        columns = HostColumns(facts, facts.table.total)
        sieve.keep(shape.program.mask(columns), HostCode.SELECT)


def filter_size(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts that could take the share of the request when empty."""
    have = facts.idle()
    for row in sieve.share.nonzero()[0].tolist():
        needed = int(sieve.share[row])
        name = facts.table.resources[row]
        sieve.keep(
            have[row] >= needed,
            HostCode.TOO_SMALL,
            resource=name,
            needed=needed,
            have=facts.table.total[row],
        )


def filter_avoided(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Take out hosts on which an earlier attempt failed through the host's fault."""
    if shape.avoid:
        mask = np.ones(facts.table.count, np.bool_)
        mask[list(shape.avoid)] = False
        sieve.keep(mask, HostCode.AVOIDED)


def filter_reach(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts whose worker is there, and where nothing stale runs any more."""
    sieve.keep(facts.table.reachable(), HostCode.UNREACHABLE)


def filter_open(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts that are open."""
    sieve.keep(facts.table.is_open, HostCode.CLOSED)


def filter_same(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts that have a value of what ``same[]`` names."""
    for name in shape.request.same:
        sieve.keep(facts.values(name) >= 0, HostCode.NO_VALUE, resource=name)


def filter_domain(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts that lie in a domain of the level that ``cu[]`` names."""
    wish = shape.request.cu
    if wish is not None and shape.domains is not None:
        level = facts.level(wish.level)
        sieve.keep(shape.domains >= 0, HostCode.NO_DOMAIN, resource=level)


def filter_threshold(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts) -> None:
    """Keep the hosts on which what is free is beyond the thresholds of ``rusage[]``."""
    if not shape.request.thresholds:
        return
    columns = HostColumns(facts, ground.free, is_idle=ground.is_idle)
    for threshold in shape.request.thresholds:
        if threshold.resource in facts.table.row:
            # Else it is a pool's, see `xce.sched.place.pools`.
            passes = columns.number(threshold.resource)[0] >= threshold.value_milli
            sieve.keep(passes, HostCode.THRESHOLD, resource=threshold.resource)


def filter_load(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts) -> None:
    """Keep the hosts on which no load index is worse than the queue wants it, or known at all."""
    for name, limit in shape.load_sched:
        columns = HostColumns(facts, ground.free)
        milli, defined = columns.number(name)
        passes = milli <= limit if name in RISING else milli >= limit
        sieve.keep(passes | ~defined, HostCode.LOAD, resource=name)


def filter_select_now(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts) -> None:
    """Keep what ``select[]`` wants, if that depends on what is free."""
    if shape.program is not None and shape.select_moves:
        columns = HostColumns(facts, ground.free, ground.pools, is_idle=ground.is_idle)
        moving = ",".join(sorted(facts.moving & set(shape.program.names)))
        mask = shape.program.mask(columns, columns.unsettled)
        sieve.keep(mask, HostCode.SELECT, resource=moving)


def filter_taken(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts) -> None:
    """Take out the hosts that another job has for itself."""
    if ground.taken.any():
        sieve.keep(~ground.taken, HostCode.TAKEN)


def filter_empty(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts) -> None:
    """Keep the hosts without any other job for a request that wants hosts of its own."""
    if shape.request.exclusive:
        sieve.keep(ground.empty, HostCode.EXCLUSIVE)


def filter_own_domains(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts) -> None:
    """Keep the hosts in whose domain no other job is for a request with ``cu[excl]``."""
    if not shape.closes_domains:
        return
    idle, domains = ground.empty, shape.domains
    if domains is not None:
        idle = ~np.isin(domains, domains[~idle & (domains >= 0)])
    sieve.keep(idle, HostCode.EXCLUSIVE)


def filter_device_kinds(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts that could take the share of the request if none of their GPUs were used."""
    gpu = shape.gpu
    if gpu is None or not _is_on_each_host(shape):
        return
    idle = facts.table.total
    groups = groups_by_devices(gpu._replace(match=gpu.kind), idle)
    have = gpu.kind.sum(axis=0)
    needed = gpu.wish.items(shape.least)
    wanted = shape.least if gpu.wish.per == "task" else 1
    name = render_kind(gpu.wish)
    sieve.keep(groups >= wanted, HostCode.NO_DEVICE, resource=name, needed=needed, have=have)


def filter_device_open(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts on which enough of the GPUs of that kind are open."""
    gpu = shape.gpu
    if gpu is not None and _is_on_each_host(shape):
        wanted = shape.least if gpu.wish.per == "task" else 1
        sieve.keep(groups_by_devices(gpu, facts.table.total) >= wanted, HostCode.DEVICE_CLOSED)


def render_kind(wish: GpuWish) -> str:
    """Return which GPUs are wanted, for people: ``H100`` of ``40960`` MiB."""
    words = [wish.model, "of AMD" if wish.vendor else ""]
    words += [f"of {wish.mem_mib} MiB"] if wish.mem_mib else []
    words += [f"instances of MIG {wish.mig}"] if wish.mig else []
    words += ["in one NVLink domain"] if wish.is_linked and wish.count > 1 else []
    words += [f"with {wish.tile} of each socket"] if wish.tile > 0 else []
    words += ["evenly of all sockets"] if wish.tile < 0 else []
    return " ".join(word for word in words if word)


def _is_on_each_host(shape: Shape) -> bool:
    """Return whether each host that is used must have GPUs."""
    return shape.gpu is not None and (shape.gpu.wish.per != "job" or shape.is_single)


def filter_devices(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts) -> None:
    """Keep the hosts on which the GPUs of the request's share are free."""
    gpu = shape.gpu
    if gpu is None or not _is_on_each_host(shape):
        return
    wanted = shape.least if gpu.wish.per == "task" else 1
    fits = groups_by_devices(gpu, ground.free) >= wanted
    if sieve.settle(fits):
        return
    needed = gpu.wish.items(shape.least)
    rows = np.where(gpu.match, ground.free[gpu.row : gpu.row + len(gpu.match)], 0).clip(min=0)
    if gpu.wish.is_whole:
        whole = (rows >= WHOLE).sum(axis=0)
        best = device_room(gpu, ground.free).largest if gpu.wish.is_linked else whole
        in_pieces = rows.sum(axis=0) >= needed * WHOLE
    else:
        needed *= gpu.wish.milli
        best = rows.max(axis=0, initial=0)
        in_pieces = rows.sum(axis=0) >= needed
    unit = "" if gpu.wish.is_whole else "milli"
    sieve.keep(fits | ~in_pieces, HostCode.DEVICES_SPLIT, resource=unit, needed=needed, have=best)
    sieve.keep(fits, HostCode.DEVICES_BUSY, resource=unit, needed=needed, have=best)


def filter_processor_kinds(sieve: Sieve, shape: Shape, facts: HostFacts) -> None:
    """Keep the hosts that could take the share of the request if no processor were used."""
    wanted = shape.processors
    if wanted is not None:
        sieve.keep(wanted.codes >= 0, HostCode.PROCESSORS_UNKNOWN)
        fits = tasks_by_processors(wanted, facts.table.total) >= shape.least
        sieve.keep(fits, HostCode.NO_PROCESSORS, resource=shape.request.affinity)


def filter_processors(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts) -> None:
    """Keep the hosts on which the processors of the request's share are free."""
    wanted = shape.processors
    if wanted is not None:
        fits = tasks_by_processors(wanted, ground.free) >= shape.least
        if sieve.settle(fits):
            return
        sieve.keep(
            fits,
            HostCode.PROCESSORS_BUSY,
            resource=shape.request.affinity,
            have=free_processors(wanted, ground.free),
        )


def filter_amounts(sieve: Sieve, shape: Shape, ground: Ground, facts: HostFacts) -> None:
    """Keep the hosts on which the share of the request is free."""
    for row in sieve.share.nonzero()[0].tolist():
        needed = int(sieve.share[row])
        sieve.keep(
            ground.free[row] >= needed,
            HostCode.AMOUNT_SHORT if row else HostCode.SLOTS_BUSY,
            resource=facts.table.resources[row] if row else "",
            needed=needed,
            have=ground.free[row],
        )
