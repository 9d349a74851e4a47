"""The allocator of devices: which GPUs of a host a role gets.

Whole NVLink domains are kept whole: what takes a domain up gets a free one; else the smallest that
has room; and only where none has, it is split over several, whole free ones first. Shares of a
device are packed onto the fullest that has room. All of it looks at one host at a time; how much
hosts can take is counted for all of them at once.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from xce.model.device import WHOLE, GpuWish
from xce.sched.gpu_sockets import most_by_sockets, shares_of_sockets
from xce.state.device_columns import DeviceColumns
from xce.state.hosts import Column

Grid = npt.NDArray[np.int64]
FlagGrid = npt.NDArray[np.bool_]
PLENTY: Final = 1 << 40
"""As many tasks as anybody may have."""


class GpuShape(NamedTuple):
    """What a simple request wants of GPUs, laid out along places and hosts."""

    wish: GpuWish
    kind: FlagGrid
    """Devices that it may be met with at all."""
    match: FlagGrid
    """Of these, the ones that take new work."""
    usable: FlagGrid
    """All devices that take new work."""
    link: Grid
    """The number of each device's NVLink domain on its host."""
    domains: int
    """Most NVLink domains of one host."""
    row: int
    """The row of the first device."""
    socket: Grid | None = None
    """The socket of each device, where ``gtile`` asks for it; -1: nobody said."""


class DeviceRoom(NamedTuple):
    """How many whole GPUs are free that match a wish, by host."""

    whole: Column
    largest: Column
    """The most of them in one NVLink domain."""
    domains: Grid
    """In each NVLink domain, along hosts and domains; 0 where a host has no such domain."""


def lay_out(
    wish: GpuWish | None, columns: DeviceColumns, row: int, sockets: Grid | None = None
) -> GpuShape | None:
    """Return the shape of a wish; None: no GPU is wanted.

    Args:
        wish: What is wanted.
        columns: The devices.
        row: The row of the first one.
        sockets: The socket of each, for a wish with ``gtile``.
    """
    if wish is None:
        return None
    kind = columns.match(wish)
    return GpuShape(
        wish, kind, kind & columns.usable, columns.usable, columns.link, columns.domains, row,
        sockets,
    )  # fmt: skip


def within(gpu: GpuShape, numbers: Column) -> GpuShape:
    """Return the shape along some hosts only."""
    return gpu._replace(
        kind=gpu.kind[:, numbers],
        match=gpu.match[:, numbers],
        usable=gpu.usable[:, numbers],
        link=gpu.link[:, numbers],
        socket=None if gpu.socket is None else gpu.socket[:, numbers],
    )


def device_room(gpu: GpuShape, free: Column) -> DeviceRoom:
    """Return how many whole GPUs are free; ``free`` is along all rows and the shape's hosts."""
    whole = _whole(gpu, free)
    domains = _by_domain(gpu, whole)
    largest = domains.max(axis=1, initial=0)
    return DeviceRoom(whole.sum(axis=0), largest, domains)


def _whole(gpu: GpuShape, free: Column) -> FlagGrid:
    found: FlagGrid = (free[gpu.row : gpu.row + len(gpu.match)] >= WHOLE) & gpu.match
    return found


def _by_domain(gpu: GpuShape, whole: FlagGrid) -> Grid:
    """Return how many of some devices are in each domain, along hosts and domains."""
    counts = np.zeros((whole.shape[1], gpu.domains), np.int64)
    for domain in range(gpu.domains):
        counts[:, domain] = (whole & (gpu.link == domain)).sum(axis=0)
    return counts


def tasks_by_devices(gpu: GpuShape, free: Column, *, is_first: bool) -> Column:
    """Return how many tasks of an attempt the devices of each host allow.

    Args:
        gpu: What is wanted.
        free: What is free, along all rows and the shape's hosts.
        is_first: Whether it is the attempt's first host.
    """
    if gpu.wish.per == "job" and not is_first:
        return np.full(free.shape[1], PLENTY)
    groups = groups_by_devices(gpu, free)
    return groups if gpu.wish.per == "task" else np.where(groups > 0, PLENTY, 0)


def groups_by_devices(gpu: GpuShape, free: Column) -> Column:
    """Return how often what is wanted once (for a task, host or job) is free on each host."""
    wish = gpu.wish
    if not wish.is_whole:
        rows = free[gpu.row : gpu.row + len(gpu.match)]
        shares: Column = np.where(gpu.match, rows // wish.milli, 0).clip(min=0).sum(axis=0)
        return shares
    whole = _whole(gpu, free)
    if gpu.socket is not None:
        groups = most_by_sockets(wish.tile, gpu.socket, gpu.kind, whole) // wish.count
        return groups if wish.per == "task" else groups.clip(max=1)
    if wish.is_linked and wish.count > 1:
        linked: Column = (_by_domain(gpu, whole) // wish.count).sum(axis=1)
        return linked
    found: Column = whole.sum(axis=0) // wish.count
    return found


def attempts_by_devices(gpu: GpuShape, free: Column, tasks: int) -> Column:
    """Return how many attempts of so many tasks on one host the devices of each host allow; one
    at a time, where each wants so many of each socket.
    """
    groups = groups_by_devices(gpu, free)
    if gpu.socket is not None and gpu.wish.per == "task":
        return (groups // tasks).clip(max=1)
    return groups // tasks if gpu.wish.per == "task" else groups


class _Stock(NamedTuple):
    """The devices of one host that match, by NVLink domain."""

    free: dict[int, list[int]]
    """Places of the whole ones that are free, rising."""
    size: dict[int, int]
    """How many there are in all, free or not, of any kind."""


def pick_devices(
    gpu: GpuShape,
    number: int,
    tasks: int,
    left: list[int],
    *,
    is_first: bool = True,
    domain: int | None = None,
) -> list[int] | None:
    """Return the places of the devices for some tasks on a host, in the order of tasks.

    Args:
        gpu: What is wanted.
        number: The host, as a column of the shape.
        tasks: Tasks on it.
        left: What is free of each device of the host; what is picked is taken of it.
        is_first: Whether it is the attempt's first host.
        domain: Only in this NVLink domain; None: in any.

    Returns:
        As many places as `GpuWish.items` says; None: it does not fit.
    """
    wish = gpu.wish
    items = wish.items(tasks, is_first=is_first)
    if not items:
        return []
    usable = np.flatnonzero(gpu.match[:, number]).tolist()
    if domain is not None:
        usable = [place for place in usable if int(gpu.link[place, number]) == domain]
    if not wish.is_whole:
        return _pick_shares(usable, left, items, wish.milli)
    if gpu.socket is not None:
        return _pick_by_sockets(gpu, gpu.socket[:, number], number, usable, left, items)
    found = _pick_linked(gpu, number, usable, left, tasks if wish.per == "task" else 1, items)
    for place in found or ():
        left[place] -= WHOLE
    return found


def _pick_linked(
    gpu: GpuShape, number: int, usable: Sequence[int], left: list[int], groups: int, items: int
) -> list[int] | None:
    """Return the places of whole devices for groups, each in one NVLink domain if it may be."""
    stock = _Stock({}, {})
    for place in np.flatnonzero(gpu.link[:, number] >= 0).tolist():
        link = int(gpu.link[place, number])
        stock.size[link] = stock.size.get(link, 0) + 1
    for place in usable:
        if left[place] >= WHOLE:
            stock.free.setdefault(int(gpu.link[place, number]), []).append(place)
    return _pick_groups(stock, groups, items // groups, must_link=gpu.wish.is_linked)


def _pick_by_sockets(
    gpu: GpuShape,
    socket: Column,
    number: int,
    usable: Sequence[int],
    left: list[int],
    items: int,
) -> list[int] | None:
    """Return the places of so many whole devices, taken of sockets as ``gtile`` says."""
    free: dict[int, list[int]] = {}
    for place in usable:
        if left[place] >= WHOLE and socket[place] >= 0:
            free.setdefault(int(socket[place]), []).append(place)
    there = set(socket[gpu.kind[:, number] & (socket >= 0)].tolist())
    counts = {one: len(free.get(one, ())) for one in there}
    shares = shares_of_sockets(gpu.wish.tile, counts, items)
    if shares is None:
        return None
    found: list[int] = []
    for one, size in shares:
        picked = _pick_linked(gpu, number, free[one], left, 1, size)
        assert picked is not None, "a socket has fewer GPUs free than were counted"
        found += picked
    for place in found:
        left[place] -= WHOLE
    return found


def _pick_shares(
    usable: Sequence[int], left: list[int], items: int, milli: int
) -> list[int] | None:
    found: list[int] = []
    for _ in range(items):
        fitting = [(left[place], place) for place in usable if left[place] >= milli]
        if not fitting:
            for place in found:
                left[place] += milli
            return None
        place = min(fitting)[1]
        left[place] -= milli
        found.append(place)
    return found


def _pick_groups(stock: _Stock, groups: int, size: int, *, must_link: bool) -> list[int] | None:
    """Return devices for groups of equal size, one group behind the other."""
    if sum(map(len, stock.free.values())) < groups * size:
        return None
    found: list[int] = []
    while groups:
        link = _best_domain(stock, groups * size)
        if link is not None:
            return found + stock.free[link][: groups * size]
        link = _widest_domain(stock, size)
        if link is None:
            break
        some = min(groups, len(stock.free[link]) // size)
        found += _take(stock, link, some * size)
        groups -= some
    return (None if must_link and groups else found + _split(stock, groups * size)) or None


def _best_domain(stock: _Stock, wanted: int) -> int | None:
    """Return the domain that all of it takes up, else the smallest in which it has room."""
    fitting = [link for link, places in stock.free.items() if len(places) >= wanted]

    def rank(link: int) -> tuple[bool, int, int, int]:
        free = len(stock.free[link])
        return (not free == stock.size[link] == wanted, free, stock.size[link], link)

    return min(fitting, key=rank, default=None)


def _widest_domain(stock: _Stock, size: int) -> int | None:
    """Return the domain for the first groups of many: a whole free one, else the one with most."""
    fitting = [link for link, places in stock.free.items() if len(places) >= size]

    def rank(link: int) -> tuple[bool, int, int]:
        free = len(stock.free[link])
        return (free < stock.size[link], -free, link)

    return min(fitting, key=rank, default=None)


def _take(stock: _Stock, link: int, size: int) -> list[int]:
    places = stock.free[link]
    stock.free[link] = places[size:]
    return places[:size]


def _split(stock: _Stock, wanted: int) -> list[int]:
    """Return devices of several domains, as few as possible."""
    found: list[int] = []
    while wanted:
        link = _best_domain(stock, wanted)
        if link is None:
            link = _widest_domain(stock, 1)
        if link is None:
            return []
        some = min(wanted, len(stock.free[link]))
        found += _take(stock, link, some)
        wanted -= some
    return found


def amounts_of(gpu: GpuShape, devices: Sequence[int], rows: int) -> Column:
    """Return what some devices come to, along all rows."""
    amounts = np.zeros(rows, np.int64)
    for place in devices:
        amounts[gpu.row + place] += gpu.wish.milli
    return amounts


def pick_for_entries(
    gpus: Sequence[GpuShape | None],
    numbers: Sequence[int],
    sizes: Sequence[int],
    parts: Sequence[int],
    free: Column,
    domains: Mapping[int, int] | None = None,
) -> list[list[int]] | None:
    """Return the devices of each entry of a placement; None: they do not fit together.

    Args:
        gpus: What each role wants.
        numbers: Hosts, in rank order.
        sizes: Tasks of each entry.
        parts: The role of each entry; empty: there is one.
        free: What is free, along all rows and hosts; not changed.
        domains: By entry: the NVLink domain that it must keep to.
    """
    found: list[list[int]] = []
    left: dict[int, list[int]] = {}
    begun: set[int] = set()
    for place, (number, size) in enumerate(zip(numbers, sizes, strict=True)):
        part = parts[place] if len(parts) else 0
        gpu, is_first = gpus[part], part not in begun
        begun.add(part)
        if gpu is None:
            found.append([])
            continue
        if number not in left:
            left[number] = free[gpu.row : gpu.row + len(gpu.match), number].tolist()
        domain = domains.get(place) if domains else None
        picked = pick_devices(gpu, number, size, left[number], is_first=is_first, domain=domain)
        if picked is None:
            return None
        found.append(picked)
    return found


def choose_domains(free: Sequence[int], groups: Sequence[int], rest: int = 0) -> list[int] | None:
    """Return a NVLink domain of one host for each of some groups of whole GPUs; None: none fits.

    Exact: each group lies in one domain, several may share one, and ``rest`` more find room
    anywhere beside them.

    Args:
        free: Free GPUs of each domain, e.g. a row of `DeviceRoom.domains`.
        groups: How many GPUs each group has.
        rest: How many more are wanted.
    """
    if sum(free) < sum(groups) + rest:
        return None
    left = list(free)
    order = sorted(range(len(groups)), key=lambda group: -groups[group])
    found = [0] * len(groups)
    failed: set[tuple[int, tuple[int, ...]]] = set()

    def place(depth: int) -> bool:
        if depth == len(order):
            return True
        state = (depth, tuple(sorted(left)))
        if state in failed:
            return False
        size, tried = groups[order[depth]], set()
        # The tightest domain first; domains with as much left are alike.
        for domain in sorted(range(len(left)), key=lambda at: (left[at], at)):
            if left[domain] < size or left[domain] in tried:
                continue
            tried.add(left[domain])
            left[domain] -= size
            found[order[depth]] = domain
            if place(depth + 1):
                return True
            left[domain] += size
        failed.add(state)
        return False

    return found if place(0) else None


class DeviceNeed(NamedTuple):
    """What a part takes of the rows that stand for GPUs."""

    per_task: list[int]
    per_host: list[int]
    per_job: list[int]


def rows_of_devices(
    gpus: Sequence[GpuShape | None], free: Column
) -> tuple[list[DeviceNeed], Column]:
    """Return rows of amounts that stand for the GPUs that several parts want, and their needs.

    A placement must fit on them; whether one that does gets its devices, only picking them tells.
    There is a row for each kind that a part wants, and one for all of these together.
    """
    wanted = [gpu for gpu in gpus if gpu is not None]
    if not wanted:
        return [DeviceNeed([], [], []) for _ in gpus], free[:0]
    kinds: dict[bytes, FlagGrid] = {}
    for gpu in wanted:
        kinds.setdefault(gpu.match.tobytes(), gpu.match)
    union = np.logical_or.reduce(list(kinds.values()))
    masks = list(kinds.values()) if len(kinds) == 1 else [*kinds.values(), union]
    row, places = wanted[0].row, len(union)
    all_whole = all(gpu.wish.is_whole for gpu in wanted)
    devices = free[row : row + places]
    if all_whole:
        devices = devices // WHOLE * WHOLE
    column = np.stack([np.where(mask, devices, 0).clip(min=0).sum(axis=0) for mask in masks])
    needs = []
    for own in gpus:
        need = DeviceNeed([0] * len(masks), [0] * len(masks), [0] * len(masks))
        for place, mask in enumerate(masks):
            if own is not None and not (own.match & ~mask).any():
                amount = own.wish.count * own.wish.milli
                {"task": need.per_task, "host": need.per_host, "job": need.per_job}[own.wish.per][
                    place
                ] = amount
        needs.append(need)
    return needs, column
