"""What is under way between those who ask something of a worker and the worker that answers.

Numbers are ours, so that nobody can answer, or take, what is another's. They begin anywhere: what a
worker still answers that an earlier controller had passed on is no answer to anything of ours.
"""

import os
from typing import Generic, NamedTuple, Protocol, TypeVar

from xce.net.frame import WireError
from xce.net.message import Message

Asked = TypeVar("Asked")


class Peered(Protocol):
    """A connection, as far as something is passed on between two of them."""

    @property
    def is_open(self) -> bool:
        """Whether it stands."""
        ...

    @property
    def protocol(self) -> int:
        """What its other side speaks."""
        ...

    def send(self, message: Message) -> None:
        """Send a message to its other side."""
        ...


class Relayed(NamedTuple, Generic[Asked]):
    """Something that was passed on."""

    asker: Peered
    worker: Peered
    asked: Asked


class RelayTable(Generic[Asked]):
    """What is under way, by number; a bounded part of it is one asker's.

    Args:
        most: So much of one asker may be under way.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way: dict[int, Relayed[Asked]] = {}
        self._count: dict[Peered, int] = {}
        self._last = int.from_bytes(os.urandom(6), "big")

    def is_full(self, asker: Peered) -> bool:
        """Return whether nothing more is taken of somebody now."""
        return self._count.get(asker, 0) >= self._most

    def add(self, asker: Peered, worker: Peered, asked: Asked) -> int:
        """Note that something is passed on; return the number under which it is."""
        self._last += 1
        self._under_way[self._last] = Relayed(asker, worker, asked)
        self._count[asker] = self._count.get(asker, 0) + 1
        return self._last

    def find(self, worker: Peered, number: int) -> Relayed[Asked] | None:
        """Return what a worker answers; None: whoever asked is gone.

        Raises:
            WireError: That worker was not asked.
        """
        found = self._under_way.get(number)
        if found is not None and found.worker is not worker:
            raise WireError("a worker answers only what it was asked")
        return found

    def end(self, number: int) -> None:
        """Note that something was answered."""
        asker = self._under_way.pop(number).asker
        self._count[asker] -= 1
        if not self._count[asker]:
            del self._count[asker]

    def drop(self, gone: Peered) -> list[Relayed[Asked]]:
        """Note that a connection has ended; return what will have no answer."""
        over = {
            number: item
            for number, item in self._under_way.items()
            if gone in (item.asker, item.worker)
        }
        for number in over:
            self.end(number)
        return [item for item in over.values() if item.asker is not gone]
