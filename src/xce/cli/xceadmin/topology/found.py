"""What an importer finds: in which domains hosts lie, or which GPUs a machine has."""

from typing import NamedTuple


class FoundError(Exception):
    """A file cannot be read, or says nothing that can be used."""


class GpusFound(NamedTuple):
    """The GPUs of one machine."""

    size: int
    """How many there are."""
    model: str = ""
    mem_mib: int = 0
    nvlink: tuple[tuple[int, ...], ...] = ()
    """Domains of more than one GPU."""
    numa: tuple[int, ...] = ()


class Found(NamedTuple):
    """What a file says."""

    domains: dict[str, tuple[str, ...]]
    """By host: its domains, the narrowest first; empty where one is not known."""
    gpus: GpusFound | None = None
    """Of the one machine that the file is about."""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""
    levels: tuple[str, ...] = ()
    """Names of the levels, where the file says them."""

    @property
    def depth(self) -> int:
        """How many levels there are."""
        return max((len(chain) for chain in self.domains.values()), default=0)


def linked_domains(count: int, pairs: set[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return domains in which each GPU is linked to each other one, of more than one GPU.

    The largest first, of those the one with the lowest numbers; each GPU is in one at most.

    Args:
        count: Number of GPUs.
        pairs: Which are linked, both ways round.
    """
    left = set(range(count))
    found: list[tuple[int, ...]] = []
    while left:
        best: tuple[int, ...] = ()
        for first in sorted(left):
            clique = [first]
            for other in sorted(left - {first}):
                if all((one, other) in pairs for one in clique):
                    clique.append(other)
            if len(clique) > len(best):
                best = tuple(sorted(clique))
        if len(best) < 2:
            break
        found.append(best)
        left -= set(best)
    return tuple(sorted(found))
