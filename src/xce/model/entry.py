"""An entry: all that one command caused. Applied whole or not at all."""

import msgspec

from xce.model.ids import Micros, Seq
from xce.model.record import Record


class Cause(msgspec.Struct, frozen=True, array_like=True):
    """Who asked, with what, and on what basis it was allowed."""

    kind: str
    """The tag of the command or observation."""
    by: str = ""
    """A user, ``host NAME`` or ``scheduler``; empty: the controller itself."""
    basis: str = ""
    """On what ground it was allowed: ``owner``, ``admin``, ``everyone``, ``role NAME``, several of
    these with commas; ``component``, ``direct``."""
    origin: str = ""
    """Where a user's command came from: ``local``, or an address; empty: from a component."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One step of the cluster's history."""

    seq: Seq
    at_us: Micros
    cause: Cause
    records: tuple[Record, ...]
