"""Who is next by shares: dynamic priority as integers (decision X-33).

The *load* of a user in a queue is his decayed use plus what he uses now, as LSF weighs it with its
defaults: 0.7 for each slot-hour and 3 for each slot in use, and 3 once. A user's key is his load
divided by his shares, a group's the load of all its members divided by its own; the smaller key
goes first, groups before what is in them. Keys are computed when a session opens and again after
every ``fairshare_chunk`` placements, with what these hold.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from xce.model.config import QueueConfig, ShareConfig
from xce.model.ids import HOUR_US, Micros
from xce.state.account import Account
from xce.state.cluster import ClusterState, RequestClass

Path: TypeAlias = tuple[int, ...]
"""Key and place of each group from the top, then of the user."""

_RUN_TIME: Final = 7
_SLOT: Final = 30 * HOUR_US
"""Of one slot in use, against 7 for each slot-microsecond of use."""
_LAST: Final = 1 << 80
"""The key of who has no shares."""
_EVERYBODY: Final = (ShareConfig(name="default"),)
OTHERS: Final = "default"


class Shares:
    """The keys of all users of a session's fairshare queues."""

    def __init__(self, state: ClusterState, now_us: Micros) -> None:
        self._state = state
        self._now_us = now_us
        self._extra: dict[tuple[str, str], int] = {}
        self._paths: dict[str, dict[str, Path]] = {}
        self._left = state.config.fairshare_chunk

    @property
    def is_due(self) -> bool:
        """Whether so much was placed that the keys must be computed again."""
        return self._left <= 0

    @property
    def left(self) -> int:
        """How many more placements the keys hold for."""
        return max(self._left, 0)

    def path(self, found: RequestClass) -> Path:
        """Return where the user of a class stands in its queue."""
        name = found.key.queue
        if name not in self._paths:
            self._paths[name] = self._rank(self._state.queues[name])
        return self._paths[name][found.key.user]

    def note(self, found: RequestClass, attempts: int, slots: int) -> None:
        """Count placements of a class."""
        account = found.key.queue, found.key.user
        self._extra[account] = self._extra.get(account, 0) + slots
        self._left -= attempts

    def renew(self) -> None:
        """Have the keys computed again."""
        self._paths.clear()
        self._left = self._state.config.fairshare_chunk

    def _rank(self, queue: QueueConfig) -> dict[str, Path]:
        accounts = {user for name, user in self._state.shares if name == queue.name}
        keys = (found.key for found in self._state.waiting.values())
        waiting = {key.user for key in keys if key.queue == queue.name}
        loads = {user: self._load(queue.name, user) for user in sorted(accounts | waiting)}
        tree = queue.fairshare or _EVERYBODY
        named = set(_users(tree))
        others = [user for user in loads if user not in named]
        paths: dict[str, Path] = {}
        _walk(tree, (), loads, others, paths)
        for place, user in enumerate(others):
            paths.setdefault(user, (_LAST, place))
        return paths

    def _load(self, queue: str, user: str) -> int:
        account = self._state.shares.get((queue, user), Account())
        half_life_us = self._state.config.fairshare_half_life_us
        used = account.past(self._now_us, half_life_us) + account.present(self._now_us)
        slots = account.slots + self._extra.get((queue, user), 0)
        return _RUN_TIME * used + _SLOT * slots


def _users(tree: tuple[ShareConfig, ...]) -> Iterator[str]:
    """Yield the users that are named."""
    for node in tree:
        if node.members:
            yield from _users(node.members)
        elif node.name != OTHERS:
            yield node.name


def _walk(
    tree: tuple[ShareConfig, ...],
    above: Path,
    loads: Mapping[str, int],
    others: list[str],
    paths: dict[str, Path],
) -> None:
    """Give each user below a group his path."""
    for place, node in enumerate(tree):
        if node.members:
            own = (*above, _key(_sum(node.members, loads, others), node.shares), place)
            _walk(node.members, own, loads, others, paths)
        elif node.name != OTHERS:
            paths[node.name] = (*above, _key(loads.get(node.name, 0), node.shares), place)
        else:
            for number, user in enumerate(others):
                key = _key(loads[user], node.shares)
                paths[user] = (*above, key, len(tree) + number)


def _sum(tree: tuple[ShareConfig, ...], loads: Mapping[str, int], others: list[str]) -> int:
    total = 0
    for node in tree:
        if node.members:
            total += _sum(node.members, loads, others)
        elif node.name != OTHERS:
            total += loads.get(node.name, 0)
        else:
            total += sum(loads[user] for user in others)
    return total


def _key(load: int, shares: int) -> int:
    return (load + _SLOT) // shares
