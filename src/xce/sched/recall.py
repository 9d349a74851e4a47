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
_BYTES_MAX: Final = 1 << 17
"""What is free on very many hosts hardly ever comes again, and takes long to recognise."""


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

    def clear(self) -> None:
        """Forget everything, as shapes or facts have changed."""
        self._spots.clear()

    def find(
        self,
        shape: Shape,
        view: View,
        among: Flags | None,
        facts: HostFacts,
        search: Callable[[Shape, View, Flags | None], Spot | None],
    ) -> Spot | None:
        """Return where one attempt goes on a view, if asked for among some hosts only."""
        if shape.looks_outside or view.ground.free.nbytes > _BYTES_MAX:
            return search(shape, view, among)
        question = _question(shape, view, among, facts)
        if question not in self._spots:
            if len(self._spots) >= _SPOTS_MAX:
                self._spots.clear()
            self._spots[question] = search(shape, view, among)
        return self._spots[question]


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
