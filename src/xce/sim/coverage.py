"""Which kinds of events a world wrote while which kinds of faults were at work."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, get_args

import msgspec

from xce.model.entry import Entry
from xce.model.ids import SECOND_US, Micros
from xce.model.record import Record
from xce.sim.loop import Loop

RECENT_US: Final = 2 * SECOND_US
"""So long after it struck a fault is taken to be at work."""
CALM: Final = "calm"
"""The column of events with no fault at work."""
STEP_EVENTS: Final = (
    "step-after", "step-fail-together", "step-init-of", "step-ready-after", "step-restart",
    "step-sidecar-of", "step-told-to-end", "step-tolerate", "step-with", "task-lost", "task-over",
    "task-started",
)  # fmt: skip
"""What happens in jobs that run by roles, and to tasks on other hosts: in no record."""
EVENTS: Final = (
    *sorted(kind.__struct_config__.tag for kind in get_args(Record)),
    *STEP_EVENTS,
)
_TAGS: Final = {kind: kind.__struct_config__.tag for kind in get_args(Record)}


class Coverage(msgspec.Struct):
    """Counts of one world or of many."""

    pairs: Counter[tuple[str, str]]
    """Events by ``(event, fault at work)``."""
    strikes: Counter[str]
    """How often each kind of fault struck."""
    seams: Counter[str]
    """Deaths by ``process.seam``."""

    def add(self, other: "Coverage") -> None:
        """Count what was counted elsewhere."""
        self.pairs.update(other.pairs)
        self.strikes.update(other.strikes)
        self.seams.update(other.seams)


def no_coverage() -> Coverage:
    """Return counts of nothing."""
    return Coverage(Counter(), Counter(), Counter())


class Strikes:
    """Notes which faults strike, and what is written while they are at work."""

    def __init__(self, loop: Loop) -> None:
        self.found = no_coverage()
        self._loop = loop
        self._recent: dict[str, Micros] = {}

    def note(self, kind: str) -> None:
        """A fault strikes."""
        self.found.strikes[kind] += 1
        self._recent[kind] = self._loop.now_us

    def note_seam(self, process: str, seam: str) -> None:
        """A process dies at a seam."""
        self.found.seams[f"{process}.{seam}"] += 1

    def _at_work(self) -> list[str]:
        before_us = self._loop.now_us - RECENT_US
        return [kind for kind, at_us in self._recent.items() if at_us >= before_us] or [CALM]

    def note_event(self, event: str) -> None:
        """Something happens that is in no record, see `STEP_EVENTS`."""
        for kind in self._at_work():
            self.found.pairs[event, kind] += 1

    def note_entries(self, entries: Iterable[Entry]) -> None:
        """Entries are stored."""
        at_work = self._at_work()
        pairs = self.found.pairs
        for entry in entries:
            for record in entry.records:
                tag = _TAGS[type(record)]
                for kind in at_work:
                    pairs[tag, kind] += 1


def render_table(found: Coverage, faults: Iterable[str]) -> list[str]:
    """Return the lines of a table of events by faults; a point: never seen together."""
    columns = [CALM, *faults]
    heads = [
        chr(ord("a") + number) if number < 26 else f"{number}" for number in range(len(columns))
    ]
    width = max(map(len, EVENTS))
    lines = [
        f"  {head:>2}  {name} ({found.strikes[name]})"
        for head, name in zip(heads, columns, strict=True)
    ]
    lines[0] = f"  {heads[0]:>2}  no fault at work"
    lines.append(" " * width + "".join(f"{head:>7}" for head in heads))
    for event in EVENTS:
        cells = (found.pairs[event, column] for column in columns)
        lines.append(f"{event:<{width}}" + "".join(f"{_short(cell):>7}" for cell in cells))
    return lines


def _short(count: int) -> str:
    if count == 0:
        return "."
    if count < 100_000:
        return str(count)
    return f"{count // 1000}k"
