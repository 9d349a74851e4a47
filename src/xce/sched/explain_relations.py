"""Which relation keeps the parts of a request from fitting, role by role, with its numbers."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from xce.model.constraint import Colocate, Exclusive, Near, Spread
from xce.model.device import GpuWish
from xce.model.reason import Reason, ReasonCode
from xce.sched.columns import HostFacts
from xce.sched.devices import device_room, groups_by_devices
from xce.sched.ground import Ground
from xce.sched.place.capacity import room_on
from xce.sched.place.compound import Candidates
from xce.sched.place.narrow import Demand, bounds_of, good_domains, sums_of
from xce.sched.prove import name_of
from xce.sched.shape import Shape
from xce.sched.ties import LINK_LEVEL, Bond, Quota, Tie, levels_of, wish_of
from xce.state.hosts import Column, Flags

NAMED_MAX: Final = 3
"""Most roles that a text names."""


def explain_relations(
    shape: Shape, ground: Ground, places: Candidates, facts: HostFacts
) -> Reason | None:
    """Return which required relation has no room, or None: each alone has some.

    Args:
        shape: What was tried.
        ground: What is free, and where other jobs are.
        places: Where the parts may go.
        facts: The hosts.
    """
    if shape.fabric is None:
        return None
    return _Search(shape, ground, places, facts).run()


class _Search:
    def __init__(self, shape: Shape, ground: Ground, places: Candidates, facts: HostFacts) -> None:
        self.shape, self.ground, self.facts = shape, ground, facts
        self.names = [part.name for part in shape.request.parts]
        self.caps: list[Column] = []
        for part, mask, ranked in zip(shape.inner, places.masks, places.ranked, strict=True):
            room = room_on(part, ground.free, mask, ranked)
            cap = np.zeros(facts.table.count, np.int64)
            cap[room.numbers] = room.most
            self.caps.append(cap)
        self.demands = [
            Demand(part.tasks_min, part.per_task, part.is_single) for part in shape.inner
        ]
        self.quotas: list[Quota] = []

    def run(self) -> Reason | None:
        """Return the first relation without room, the simplest kinds first."""
        fabric = self.shape.fabric
        assert fabric is not None
        ties = [
            tie
            for tie in fabric.ties
            if isinstance(tie.constraint, Exclusive) or tie.constraint.required
        ]
        kinds: tuple[type, ...] = (Exclusive, Near, Spread, Colocate)
        ties.sort(key=lambda tie: (kinds.index(type(tie.constraint)), -len(set(tie.codes[0]))))
        for tie in ties:
            reason = self._examine(tie)
            if reason is not None:
                return reason
        return None

    def _examine(self, tie: Tie) -> Reason | None:
        level = levels_of(tie.constraint)[0]
        match tie.constraint:
            case Colocate():
                return self._explain_bond(tie, level)
            case Spread(max_per_domain=most):
                return self._explain_quota(tie, level, most)
            case Near(subject=subject, is_apart=is_apart):
                kind = "apart" if is_apart else "near"
                return self._explain_mask(tie, level, kind, plain_subject(subject))
            case _:
                return self._explain_mask(tie, level, "exclusive", "")

    def _reason(self, part: int, kind: str, level: str, available: int) -> Reason:
        return Reason(
            ReasonCode.RELATION, resource=level, needed=self.demands[part].tasks,
            available=available, relation=kind, subject=self.names[part],
            each=describe_each(self.shape.inner[part]),
        )  # fmt: skip

    def _explain_mask(self, tie: Tie, level: str, kind: str, near: str) -> Reason | None:
        wish = wish_of(tie, 0, self.ground)
        for part, mask in wish.masks:
            self.caps[part] = np.where(mask, self.caps[part], 0)
        for part in tie.parts:
            left = int(self.caps[part].sum())
            if left < self.demands[part].tasks:
                reason = self._reason(part, kind, level, left)
                return msgspec.structs.replace(reason, near=near)
        return None

    def _explain_quota(self, tie: Tie, level: str, most: int) -> Reason | None:
        codes = tie.codes[0]
        quota = Quota(tie.parts, codes, most)
        self.quotas.append(quota)
        for part in tie.parts:
            self.caps[part] = np.where(codes >= 0, self.caps[part], 0)
        together = np.sum([self.caps[part] for part in tie.parts], axis=0)
        width = int(codes.max(initial=-1)) + 1
        domains = np.zeros(width, np.int64)
        np.add.at(domains, codes[codes >= 0], together[codes >= 0])
        fits = int(np.minimum(domains, most).sum())
        needed = sum(self.demands[part].tasks for part in tie.parts)
        if fits >= needed:
            return None
        reason = self._reason(tie.parts[0], "spread", level, fits)
        names = ", ".join(self.names[part] for part in tie.parts[:NAMED_MAX])
        return msgspec.structs.replace(
            reason, subject=names, needed=needed, near=str(most),
            domains=int(np.count_nonzero(domains)),
        )  # fmt: skip

    def _explain_bond(self, tie: Tie, level: str) -> Reason | None:
        codes = tie.codes[0]
        bond = Bond(tie.parts, codes, int(codes.max(initial=-1)) + 1)
        free = np.maximum(self.ground.free, 0)
        together = self._link(tie) if level == LINK_LEVEL else np.ones(bond.width, np.bool_)
        good = good_domains(bond, self.demands, self.caps, free, self.quotas) & together
        for parts, groups in self._rivals(tie.parts):
            needed = sum(self.demands[part].tasks for part in parts)
            good &= sums_of(codes, groups, bond.width) >= needed
        if good.any():
            keep = (codes >= 0) & good[codes]
            for part in tie.parts:
                self.caps[part] = np.where(keep, self.caps[part], 0)
            return None
        room = {
            part: bounds_of(part, bond, self.demands[part], self.caps[part], self.quotas)
            for part in tie.parts
        }
        enough = {part: room[part] >= self.demands[part].tasks for part in tie.parts}
        alone = [part for part in tie.parts if not enough[part].any()]
        if alone:
            return self._best_domain(alone[0], level, codes, room[alone[0]], ())
        # Each fits into some domain: name the one that is missing where most others fit.
        fitting = np.sum([enough[part] for part in tie.parts], axis=0)
        best = np.flatnonzero(fitting == fitting.max())
        lacking = [part for part in tie.parts if not enough[part][best].all()]
        part = lacking[-1] if lacking else tie.parts[-1]
        others = tuple(other for other in tie.parts if other != part)
        there = np.ones(bond.width, np.bool_)
        for other in others:
            there &= enough[other]
        room_there = np.minimum(
            np.where(there, room[part], 0) if there.any() else room[part],
            self._beside(part, others, bond),
        )
        return self._best_domain(part, level, codes, room_there, others)

    def _rivals(self, parts: Sequence[int]) -> Iterator[tuple[list[int], Column]]:
        """Yield parts whose tasks want the same of whole GPUs, and how often each host has that."""
        by_wish: dict[GpuWish, list[int]] = {}
        for part in parts:
            gpu = self.shape.inner[part].gpu
            if gpu is not None and gpu.wish.is_whole and gpu.wish.per == "task":
                by_wish.setdefault(gpu.wish, []).append(part)
        for same in by_wish.values():
            gpu = self.shape.inner[same[0]].gpu
            if len(same) > 1 and gpu is not None:
                usable = np.any([self.caps[part] > 0 for part in same], axis=0)
                yield same, np.where(usable, groups_by_devices(gpu, self.ground.free), 0)

    def _link(self, tie: Tie) -> Flags:
        """Count the GPUs of one NVLink domain only; return the hosts that have all in one."""
        good: Flags = np.ones(self.facts.table.count, np.bool_)
        total = 0
        for part in tie.parts:
            shape = self.shape.inner[part]
            if shape.gpu is None:
                continue
            wish, largest = shape.gpu.wish, device_room(shape.gpu, self.ground.free).largest
            if wish.per == "task":
                self.caps[part] = np.minimum(self.caps[part], largest // wish.count)
            total += wish.items(shape.tasks_min)
            good &= largest >= total
        return good

    def _beside(self, part: int, others: tuple[int, ...], bond: Bond) -> Column:
        """Return how many tasks of a part each domain could take beside all of the others."""
        demand = self.demands[part]
        usable = np.any([self.caps[one] > 0 for one in (part, *others)], axis=0)
        most = np.full(bond.width, demand.tasks - 1, np.int64)
        for row in np.flatnonzero(demand.per_task).tolist():
            values = np.where(usable, np.maximum(self.ground.free[row], 0), 0)
            taken = sum(
                int(self.demands[other].per_task[row]) * self.demands[other].tasks
                for other in others
            )
            left = sums_of(bond.codes, values, bond.width) - taken
            np.minimum(most, left // int(demand.per_task[row]), out=most)
        for parts, groups in self._rivals((part, *others)):
            if part in parts:
                taken = sum(self.demands[other].tasks for other in parts if other != part)
                np.minimum(most, sums_of(bond.codes, groups, bond.width) - taken, out=most)
        return most.clip(min=0)

    def _best_domain(
        self, part: int, level: str, codes: Column, room: Column, others: tuple[int, ...]
    ) -> Reason:
        """Return the reason of a part, with the domain that could take the most of it."""
        available = int(room.max(initial=0))
        reason = self._reason(part, "colocate", level, available)
        near = ", ".join(self.names[other] for other in others[:NAMED_MAX])
        if len(others) > NAMED_MAX:
            near += f" and {len(others) - NAMED_MAX} more"
        best = ""
        if available:
            number = int(np.flatnonzero(codes == int(np.argmax(room)))[0])
            best = name_of(number, level, self.facts)
        return msgspec.structs.replace(
            reason, near=near, detail=best, domains=int(np.count_nonzero(room))
        )


def plain_subject(subject: str) -> str:
    """Return a job or group as its user calls it."""
    kind, _, name = subject.partition(":")
    return f"{kind} {name.rpartition('/')[2]}"


def describe_each(part: Shape) -> str:
    """Return what each task of a part needs beside its slot."""
    request = part.request
    found = [f"{amount.value} {amount.resource}" for amount in request.amounts]
    if request.gpu is not None:
        found.append(f"{request.gpu.count} GPU{'s' if request.gpu.count > 1 else ''}")
    return ", ".join(found)
