"""Job groups: names like ``/a/b`` under which jobs are gathered, and records about them."""

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from xce.model.reason import Wake

GROUP_MAX: Final = 512
LIMIT_MAX: Final = (1 << 31) - 1
NO_LIMIT: Final = -1


def is_group_name(name: str) -> bool:
    """Return whether a text is the name of a group other than the root, in its one form."""
    parts = name.split("/")
    return (
        len(name) <= GROUP_MAX
        and len(parts) > 1
        and not parts[0]
        and all(part and part.isprintable() and " " not in part for part in parts[1:])
    )


def above(name: str) -> Iterator[str]:
    """Yield a group and those that it lies in, the root left out."""
    while name:
        yield name
        name = name.rpartition("/")[0]


class JobGroup(msgspec.Struct, frozen=True, array_like=True):
    """A group that somebody has made."""

    owner: str
    limit: int = NO_LIMIT
    """So many elements in it and below run at once; -1: any number."""


class GroupsSet(msgspec.Struct, frozen=True, tag="groups-set", array_like=True):
    """Groups are there, with this owner and limit. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    names: list[str]
    groups: list[JobGroup]


class GroupsDeleted(msgspec.Struct, frozen=True, tag="groups-deleted", array_like=True):
    """Groups are there no more, but where jobs name them."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    names: list[str]
