"""Where requests went on the same ground before: placements that need no search again.

From one session to the next, and from one step of a session to the next, little changes. What will
be free at a later instant is the same for every session until something ends that was not
expected to. A search is a function of the request, of what is free and of little else, so what came
of it holds wherever all of that is equal, to the last unit.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

from xce.sched.columns import HostFacts
from xce.sched.gpu_score import NO_MIX, Mix
from xce.sched.place.spot import Spot
from xce.sched.shape import Shape
from xce.sched.timeline import View
from xce.state.hosts import Flags

_SPOTS_MAX: Final = 4096
_GROUND_MAX: Final = 1 << 17
"""In bytes: what is free on more hosts hardly ever comes again, and takes long to recognise."""
_BYTES_MAX: Final = 1 << 26
"""What is remembered takes about so many bytes at most; with more it begins anew."""
_BASE_BYTES: Final = 1 << 11
_ITEM_BYTES: Final = 1 << 6
"""So much, at most, a number takes that stands in a list by itself."""


class _Question(NamedTuple):
    """All that a search depends on."""

    shape: Shape
    ground: bytes
    """A hash of what is free, and of which hosts are empty."""
    pools: tuple[tuple[str, int], ...]
    among: bytes
    load: int
    """Number of what hosts measured, where that has a say."""
    mix: Mix
    """What the cluster asks of GPUs, where that has a say."""


class Recall:
    """What came of searches; for shapes and facts that stay as they are."""

    def __init__(self) -> None:
        self._spots: dict[_Question, Spot | None] = {}
        self._bytes = 0

    def clear(self) -> None:
        """Forget everything, as shapes or facts have changed."""
        self._spots.clear()
        self._bytes = 0

    def find(
        self,
        shape: Shape,
        view: View,
        among: Flags | None,
        facts: HostFacts,
        search: Callable[[Shape, View, Flags | None], Spot | None],
    ) -> Spot | None:
        """Return where one attempt goes on a view, if asked for among some hosts only."""
        if shape.looks_outside or view.ground.free.nbytes > _GROUND_MAX:
            return search(shape, view, among)
        question = _question(shape, view, among, facts)
        try:
            return self._spots[question]
        except KeyError:
            return self._keep(question, search(shape, view, among))

    def _keep(self, question: _Question, spot: Spot | None) -> Spot | None:
        size = _size(question, spot)
        if len(self._spots) >= _SPOTS_MAX or self._bytes + size > _BYTES_MAX:
            self.clear()
        self._spots[question] = spot
        self._bytes += size
        return spot


def _size(question: _Question, spot: Spot | None) -> int:
    """Return about how many bytes an answer takes with its question; rather too many."""
    items = len(question.pools)
    size = _BASE_BYTES + len(question.among)
    if spot is not None:
        columns = (spot.hosts, spot.sizes, spot.parts, spot.numbers, spot.amounts)
        # Of a slice the whole stays, too.
        size += sum(max(one.nbytes, getattr(one.base, "nbytes", 0)) for one in columns)
        lists = (spot.devices, spot.processors)
        items += len(spot.pools) + len(spot.alone)
        items += sum(len(inner) + 2 for outer in lists for inner in outer)
    return size + items * _ITEM_BYTES


def _question(shape: Shape, view: View, among: Flags | None, facts: HostFacts) -> _Question:
    ground = view.ground
    return _Question(
        shape,
        blake2b(ground.free.tobytes() + ground.empty.tobytes(), digest_size=16).digest(),
        tuple(view.pools.items()),
        b"" if among is None else among.tobytes(),
        facts.table.load_change if shape.reads_load else 0,
        facts.mix if shape.wants_gpus else NO_MIX,
    )
