"""GPUs of each socket of a host: how many ``gtile`` allows, and which socket gives how many."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from xce.state.hosts import Column

Grid = npt.NDArray[np.int64]
FlagGrid = npt.NDArray[np.bool_]


def most_by_sockets(tile: int, socket: Grid, kind: FlagGrid, free: FlagGrid) -> Column:
    """Return how many GPUs each host can give; any smaller number can be laid so, too.

    Args:
        tile: As `xce.model.device.GpuWish.tile` says it.
        socket: The socket of each, along places and hosts; -1: nobody said.
        kind: Those with which the wish may be met at all.
        free: Of these, the whole ones that are free.
    """
    sockets = range(int(socket.max(initial=-1)) + 1)
    if not sockets:
        return np.zeros(socket.shape[1], np.int64)
    counts = np.stack([(free & (socket == one)).sum(axis=0) for one in sockets])
    if tile > 0:
        full = counts >= tile
        most: Column = full.sum(axis=0) * tile + np.where(full, 0, counts).max(axis=0)
        return most
    there = np.stack([(kind & (socket == one)).any(axis=0) for one in sockets])
    least = np.where(there, counts, len(socket)).min(axis=0)
    evenly: Column = least * there.sum(axis=0) + (there & (counts > least)).sum(axis=0)
    return evenly


def shares_of_sockets(
    tile: int, counts: Mapping[int, int], items: int
) -> list[tuple[int, int]] | None:
    """Return how many devices each socket gives, those that give any; None: it does not fit.

    Args:
        tile: As `GpuWish.tile` says it.
        counts: What is free, by socket.
        items: How many are wanted.
    """
    order = sorted(counts, key=lambda one: (counts[one], one))
    if tile > 0:
        full, rest = divmod(items, tile)
        chosen = [one for one in order if counts[one] >= tile][:full]
        shares = [(one, tile) for one in chosen]
        if rest:
            others = [one for one in order if one not in chosen and counts[one] >= rest]
            shares += [(one, rest) for one in others[:1]]
    else:
        each, more = divmod(items, max(1, len(order)))
        # Who has most gives one more.
        sizes = [each] * (len(order) - more) + [each + 1] * more
        shares = [
            (one, size) for one, size in zip(order, sizes, strict=True) if 0 < size <= counts[one]
        ]
    return shares if sum(size for _, size in shares) == items else None
