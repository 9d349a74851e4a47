"""Makes a failing world smaller: which of the things that happen in it are needed for the failure?

Whole parts of the schedule are left out, then smaller parts, then single items, then dials, as long
as the same demand fails at the same place of the code.
"""

import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from xce.sim.faults import DIALS
from xce.sim.parts import USERS
from xce.sim.schedule import WISH, Item
from xce.sim.world import World

RUNS_MAX: Final = 250
SECONDS_MAX: Final = 90.0
_MESSENGERS: Final = ("demand", "check")
"""Functions that only complain for who calls them."""


class Failure(msgspec.Struct, frozen=True):
    """How a life failed."""

    where: str
    """The demand that did not hold: ``file:function:kind of error``."""
    text: str
    """What it said."""
    trace: str = ""


class Shrunk(msgspec.Struct, frozen=True):
    """A failing world with little left in it."""

    seed: int
    items: dict[int, Item]
    without: tuple[str, ...]
    failure: Failure
    runs: int
    items_before: int

    @property
    def again(self) -> str:
        """The command that lives it again."""
        keep = ",".join(map(str, self.items)) or "none"
        without = f" --without {','.join(self.without)}" if self.without else ""
        return f"python -m xce.sim.swarm --seeds {self.seed} --keep {keep}{without}"


def live(
    seed: int,
    *,
    keep: frozenset[int] | None = None,
    without: Iterable[str] = (),
    kind: type[World] = World,
) -> tuple[World | None, Failure | None]:
    """Live a world; return it and how it failed, if it did."""
    world = None
    try:
        world = kind(seed, keep=keep, without=without)
        world.live()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this life's failure
        return world, _failure(error)
    return world, None


def _failure(error: Exception) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    while len(frames) > 1 and frames[-1].name in _MESSENGERS:
        frames.pop()
    last = frames[-1]
    where = f"{Path(last.filename).stem}:{last.name}:{type(error).__name__}"
    return Failure(where, str(error), "".join(traceback.format_exception(error)))


def shrink(seed: int, *, kind: type[World] = World, say: Callable[[str], object] = str) -> Shrunk:
    """Return a smaller world of a seed that fails in the same way.

    Args:
        seed: It must fail.
        kind: Of world.
        say: Is told now and then how far it is.
    """
    world, failure = live(seed, kind=kind)
    if failure is None or world is None:
        raise ValueError(f"seed {seed} does not fail")
    return _Shrinker(world, failure, kind, say).shrink()


class _Shrinker:
    def __init__(
        self, world: World, failure: Failure, kind: type[World], say: Callable[[str], object]
    ) -> None:
        self._seed = world.seed
        self._all = dict(world.schedule)
        self._failure = failure
        self._kind = kind
        self._say = say
        self._runs = 0
        self._until_s = time.monotonic() + SECONDS_MAX

    def shrink(self) -> Shrunk:
        kept = self._fewer_items(list(self._all))
        without = self._fewer_dials(kept)
        items = sorted(
            ((number, self._all[number]) for number in kept), key=lambda one: one[1].at_us
        )
        _, last = live(self._seed, keep=frozenset(kept), without=without, kind=self._kind)
        return Shrunk(
            self._seed, dict(items), without, last or self._failure, self._runs, len(self._all)
        )

    @property
    def _may_go_on(self) -> bool:
        return self._runs < RUNS_MAX and time.monotonic() < self._until_s

    def _fails(self, kept: Iterable[int], without: Iterable[str] = ()) -> bool:
        self._runs += 1
        _, found = live(self._seed, keep=frozenset(kept), without=without, kind=self._kind)
        return found is not None and found.where == self._failure.where

    def _fewer_items(self, kept: list[int]) -> list[int]:
        """Leave out parts of what is kept, half of it first, in the end one by one."""
        size = max(1, len(kept) // 2)
        while self._may_go_on:
            at, was = 0, len(kept)
            while at < len(kept) and self._may_go_on:
                fewer = kept[:at] + kept[at + size :]
                if self._fails(fewer):
                    kept = fewer
                else:
                    at += size
            self._say(f"seed {self._seed}: {len(kept)} of {len(self._all)} items are left")
            if size == 1 and len(kept) == was:
                break
            size = max(1, size // 2)
        return kept

    def _fewer_dials(self, kept: list[int]) -> tuple[str, ...]:
        without: tuple[str, ...] = ()
        for dial in DIALS:
            if self._may_go_on and self._fails(kept, (*without, dial)):
                without = (*without, dial)
        return without


def render_shrunk(found: Shrunk) -> list[str]:
    """Return the lines that tell of it."""
    lines = [
        f"seed {found.seed}: {found.failure.text}",
        f"  at {found.failure.where}",
        f"  {len(found.items)} of {found.items_before} items are needed ({found.runs} lives):",
    ]
    for number, item in found.items.items():
        who = f" of {USERS[item.user].user}" if item.kind == WISH else ""
        lines.append(f"  {item.at_us / 1_000_000:10.6f} s  #{number} {item.kind}{who}")
    lines.append(f"  again: {found.again}")
    return lines
