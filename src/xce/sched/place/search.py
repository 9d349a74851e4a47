"""Exact search for one placement of all parts of a compound request, within a bound.

Host by host, with plain integers, every way to give tasks of each part to it is tried, as many as
possible first; what led nowhere is remembered, and what the hosts behind cannot make good is not
begun. It is asked only when parts cannot be placed one after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

STEPS_MAX: Final = 30_000
"""Most ways to use a host that the searches for one placement look at."""
TWICE_MIN: Final = 1_000
"""With so many steps half of them are kept for another order of the hosts."""
ROWS_MAX: Final = 250
"""Most hosts that one search looks at."""


class Part(NamedTuple):
    """What one part wants."""

    tasks: int
    each: tuple[int, ...]
    once: tuple[int, ...]
    lead: tuple[int, ...]
    """Beside that, on its first host."""
    hosts_max: int
    """0: any number."""
    tiles: tuple[int, ...]
    """By candidate host: blocks of how many tasks; 1: any number."""
    ceilings: tuple[int, ...]
    """By candidate host: at most so many tasks; 0: it may not be used."""
    leads: tuple[bool, ...] = ()
    """By candidate host: whether it is the first one or not used; empty: any may be the first."""

    @property
    def has_lead(self) -> bool:
        """Whether it matters which of its hosts is the first."""
        return any(self.lead) or bool(self.leads)


class Share(NamedTuple):
    """What a part has on a host."""

    row: int
    part: int
    tasks: int
    leads: bool


class Cap(NamedTuple):
    """Some parts together have at most so many tasks in each domain."""

    parts: frozenset[int]
    domains: tuple[int, ...]
    """By candidate host; -1: it may not be used by them."""
    most: int


Fits: TypeAlias = Callable[[int, Sequence[Share]], bool]
"""Whether what parts have on a candidate host fits together in what no amounts tell."""
_Own: TypeAlias = tuple[int, int, bool, bool]
_Open: TypeAlias = tuple[tuple[tuple[int, int], int], ...]
"""Tasks by cap and domain, of domains with hosts that were not looked at yet."""
_Left: TypeAlias = tuple[_Own, ...]
"""Of each part: tasks left, hosts used, whether its remainder is laid, whether it has a lead."""


class CutError(Exception):
    """The bound was hit."""


class Steps:
    """How many steps are left to the searches for one placement."""

    def __init__(self, left: int = STEPS_MAX) -> None:
        self.left = left

    def take(self) -> None:
        """Take one.

        Raises:
            CutError: None is left.
        """
        self.left -= 1
        if self.left < 0:
            raise CutError


def search(
    parts: list[Part],
    free: list[tuple[int, ...]],
    hosts_max: int,
    steps: Steps,
    caps: Sequence[Cap] = (),
    fits: Fits | None = None,
) -> list[Share] | None:
    """Return what each part has on each host, or None: there is no placement.

    Args:
        parts: What is placed, the tightest first.
        free: By candidate host: what is free.
        hosts_max: How many hosts all parts may use together; 0: any number.
        steps: The bound.
        caps: How many tasks may lie in domains.
        fits: What else must hold on each host; None: nothing.

    Raises:
        CutError: The bound was hit before a placement was found.
    """
    if steps.left < TWICE_MIN:
        return _Search(parts, free, hosts_max, steps, caps, fits).run()
    half = Steps(steps.left // 2)
    steps.left -= half.left
    try:
        found = _Search(parts, free, hosts_max, half, caps, fits).run()
    except CutError:
        return _search_hardest_first(parts, free, hosts_max, steps, caps, fits)
    steps.left += half.left
    return found


def _search_hardest_first(
    parts: list[Part],
    free: list[tuple[int, ...]],
    hosts_max: int,
    steps: Steps,
    caps: Sequence[Cap],
    fits: Fits | None,
) -> list[Share] | None:
    """Search once more, beginning with the hosts that are of use to the fewest parts."""

    def use(row: int) -> tuple[int, int, int]:
        ceilings = [part.ceilings[row] for part in parts]
        return sum(ceiling > 0 for ceiling in ceilings), sum(ceilings), row

    order = sorted(range(len(free)), key=use)
    turned = [
        part._replace(
            tiles=tuple(part.tiles[row] for row in order),
            ceilings=tuple(part.ceilings[row] for row in order),
            leads=tuple(part.leads[row] for row in order) if part.leads else (),
        )
        for part in parts
    ]
    other_caps = [cap._replace(domains=tuple(cap.domains[row] for row in order)) for cap in caps]
    turned_fits: Fits | None = None
    if fits is not None:
        own = fits
        turned_fits = lambda row, shares: own(order[row], shares)  # noqa: E731 - one line of glue
    found = _Search(
        turned, [free[row] for row in order], hosts_max, steps, other_caps, turned_fits
    ).run()  # fmt: skip
    if found is None:
        return None
    return [share._replace(row=order[share.row]) for share in found]


class _Search:
    def __init__(
        self,
        parts: list[Part],
        free: list[tuple[int, ...]],
        hosts_max: int,
        steps: Steps,
        caps: Sequence[Cap],
        fits: Fits | None,
    ) -> None:
        self.fits = fits
        self.parts, self.free, self.hosts_max = parts, free, hosts_max
        self.steps, self.caps = steps, caps
        self.used: dict[tuple[int, int], int] = {}
        """Tasks by cap and domain."""
        self.ends = {
            (number, domain): row
            for number, cap in enumerate(caps)
            for row, domain in enumerate(cap.domains)
        }
        """The last host of each domain."""
        self.dead: set[tuple[int, int, _Left, _Open]] = set()
        self.behind = self._sums_behind()
        self.stock = self._stock_behind()
        self.found: list[Share] = []

    def _sums_behind(self) -> list[list[int]]:
        """Return how many tasks of each part the hosts from each one on could take at most."""
        sums = [[0] * len(self.parts)]
        for row in range(len(self.free) - 1, -1, -1):
            fits = [self._most(part, row) for part in self.parts]
            sums.append([sum(pair) for pair in zip(sums[-1], fits, strict=True)])
        return sums[::-1]

    def _stock_behind(self) -> list[list[int]]:
        """Return how much of each resource is free on the hosts from each one on."""
        sums = [[0] * len(self.free[0])] if self.free else [[]]
        for free in reversed(self.free):
            sums.append([have + max(more, 0) for have, more in zip(sums[-1], free, strict=True)])
        return sums[::-1]

    def _wants_too_much(self, row: int, left: _Left) -> bool:
        """Return whether all parts together want more than the hosts from ``row`` on have."""
        for place, have in enumerate(self.stock[row]):
            wanted = sum(
                part.each[place] * own[0] for part, own in zip(self.parts, left, strict=True)
            )
            if wanted > have:
                return True
        return False

    def _most(self, part: Part, row: int) -> int:
        return self._fits(part, self.free[row], part.ceilings[row], leads=False)

    def _fits(self, part: Part, free: tuple[int, ...], ceiling: int, *, leads: bool) -> int:
        """Return how many tasks of a part fit into what is free."""
        most = ceiling
        for have, each, once, extra in zip(free, part.each, part.once, part.lead, strict=True):
            left = have - once - (extra if leads else 0)
            if each:
                most = min(most, left // each)
            elif left < 0 and (once or (extra and leads)):
                return 0
        return max(most, 0)

    def run(self) -> list[Share] | None:
        start = tuple((part.tasks, 0, False, not part.has_lead) for part in self.parts)
        return self.found if self._visit(0, 0, start) else None

    def _visit(self, row: int, used: int, left: _Left) -> bool:
        """Try the hosts from ``row`` on; ``self.found`` has the shares when it is true."""
        if not any(item[0] for item in left):
            return all(item[3] for item in left)
        if any(item[0] > most for item, most in zip(left, self.behind[row], strict=True)):
            return False
        if self._wants_too_much(row, left):
            return False
        state = (row, used, left, self._open(row))
        if row == len(self.free) or state in self.dead:
            return False
        is_full = bool(self.hosts_max) and used == self.hosts_max
        for shares, following in self._ways(row, left, is_full=is_full):
            self.steps.take()
            if self.fits is not None and not self.fits(row, shares):
                continue
            before = len(self.found)
            self.found.extend(shares)
            self._count(shares, 1)
            if self._visit(row + 1, used + bool(shares), following):
                return True
            self._count(shares, -1)
            del self.found[before:]
        self.dead.add(state)
        return False

    def _open(self, row: int) -> _Open:
        return tuple(
            sorted(item for item in self.used.items() if item[1] and self.ends[item[0]] >= row)
        )

    def _count(self, shares: list[Share], sign: int) -> None:
        """Count shares against the caps, or no more."""
        for number, cap in enumerate(self.caps):
            for share in shares:
                if share.part in cap.parts:
                    key = (number, cap.domains[share.row])
                    self.used[key] = self.used.get(key, 0) + sign * share.tasks

    def _allowed(self, place: int, row: int, mine: list[Share]) -> int:
        """Return how many tasks of a part the caps let a host have, beside shares of others."""
        most = self.parts[place].tasks
        for number, cap in enumerate(self.caps):
            if place in cap.parts:
                domain = cap.domains[row]
                taken = sum(share.tasks for share in mine if share.part in cap.parts)
                left = cap.most - self.used.get((number, domain), 0) - taken
                most = min(most, left if domain >= 0 else 0)
        return max(most, 0)

    def _ways(self, row: int, left: _Left, *, is_full: bool) -> Iterator[tuple[list[Share], _Left]]:
        """Yield each way to use a host, and what is left of the parts then."""
        if is_full:
            yield [], left
        else:
            yield from self._ways_from(0, row, self.free[row], left, [])

    def _ways_from(
        self, place: int, row: int, free: tuple[int, ...], left: _Left, before: list[Share]
    ) -> Iterator[tuple[list[Share], _Left]]:
        if place == len(self.parts):
            yield [], ()
            return
        part = self.parts[place]
        ceiling = min(part.ceilings[row], self._allowed(place, row, before))
        for tasks, leads, after in self._choices(part, row, free, left[place], ceiling):
            rest = free
            if tasks:
                rest = tuple(
                    have - each * tasks - once - (extra if leads else 0)
                    for have, each, once, extra in zip(
                        free, part.each, part.once, part.lead, strict=True
                    )
                )
            mine = [Share(row, place, tasks, leads)] if tasks else []
            for shares, others in self._ways_from(place + 1, row, rest, left, before + mine):
                yield mine + shares, (after, *others)

    def _choices(
        self, part: Part, row: int, free: tuple[int, ...], left: _Own, ceiling: int
    ) -> Iterator[tuple[int, bool, _Own]]:
        """Yield how many tasks of a part a host may have, whether it leads, and what is left."""
        wanted, used, is_odd, has_lead = left
        if wanted and not (part.hosts_max and used == part.hosts_max):
            tile = part.tiles[row]
            most = min(wanted, self._fits(part, free, ceiling, leads=False))
            lead = most if has_lead else min(wanted, self._fits(part, free, most, leads=True))
            for tasks in range(most, 0, -1):
                breaks = tasks % tile != 0
                if breaks and is_odd:
                    continue
                # What does not matter is the same, so that fewer states are different.
                count = used + 1 if part.hosts_max else 0
                after = (wanted - tasks, count, is_odd or breaks, has_lead)
                is_lead = bool(part.leads) and part.leads[row]
                may_lead = not has_lead and (is_lead or not part.leads)
                if may_lead and tasks <= lead and (not breaks or tasks == part.tasks):
                    yield tasks, True, (*after[:3], True)
                if not is_lead:
                    yield tasks, False, after
        yield 0, False, left
