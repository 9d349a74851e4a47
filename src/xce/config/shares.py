"""``fairshare`` of a queue: who has which shares, as a tree of groups and users."""

from collections.abc import Iterator
from typing import Any, Final

from xce.config.document import Key, Place, Table, each_item, read_mapping
from xce.config.names import USER_NAME
from xce.config.values import read_count, read_name


def _read_members(place: Place) -> list[dict[str, Any]]:
    return _read_tree(place)


_SHARES_MAX: Final = 1_000_000
SHARE: Final = Table(
    noun="a share",
    keys={
        "name": Key("name", read_name(USER_NAME, "a user or group", ())),
        "shares": Key("shares", read_count(1, _SHARES_MAX)),
        "members": Key("members", _read_members),
    },
    required=("name",),
)


def read_shares(place: Place) -> list[dict[str, Any]]:
    """Read the tree; a name may stand in it once."""
    tree = _read_tree(place)
    seen: set[str] = set()
    for name in _names(tree):
        if name in seen:
            place.problem(f"{name!r} stands twice in the shares")
        seen.add(name)
    return tree


def _read_tree(place: Place) -> list[dict[str, Any]]:
    nodes = [read_mapping(item, SHARE) for item in each_item(place, "users and groups")]
    return [node for node in nodes if "name" in node]


def _names(tree: list[dict[str, Any]]) -> Iterator[str]:
    for node in tree:
        yield node["name"]
        yield from _names(node.get("members", []))
