"""The rows of the books of `xce.sim.ledger`."""

from typing import Final, Protocol

import msgspec

from xce.model.ids import HostNumber, Index, JobId, Micros

PENDING: Final = "pending"
HELD: Final = "held"
LIVE: Final = "live"
ENDED: Final = "ended"


class Runs(Protocol):
    """A record that names runs of elements."""

    @property
    def jobs(self) -> list[JobId]: ...  # noqa: D102
    @property
    def firsts(self) -> list[Index]: ...  # noqa: D102
    @property
    def lasts(self) -> list[Index]: ...  # noqa: D102


class Element(msgspec.Struct):
    """One element of a job."""

    job: JobId
    index: Index
    place: str
    attempt: int = 0
    """The last one that was made."""
    cls: int = 0
    """Of the live attempt: what it holds, which may be other than what its job asks for now."""
    alternative: int = 0
    """Of the live attempt: which of the request's alternatives it has."""
    hosts: tuple[tuple[HostNumber, int], ...] = ()
    """Of the live attempt, with the tasks on each."""
    stops: int = 0
    gave_slots: bool = False
    hold: bool = False
    """It is to be held when the live attempt is gone."""
    returned: int = 0
    """How many times something of what it holds came back before its end."""
    awaits: bool = False
    """It waits for an element of another array."""


class Kept(msgspec.Struct):
    """One job."""

    cls: int
    limit: int
    waits: int
    """For how many things: its begin time, its dependency."""
    elements: dict[Index, Element]
    submit_at_us: Micros

    def live(self) -> int:
        """Return how many elements are live."""
        return sum(one.place == LIVE for one in self.elements.values())
