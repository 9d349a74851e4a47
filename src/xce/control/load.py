"""Load of hosts: what workers measure at their beats, and what of it is worth a record. Pure.

A host is recorded again when an index has moved by more than a step of its own or by a tenth, at
most once in `load_interval_s`; of the whole cluster at most `ROWS_A_SECOND` hosts are, so that the
journal grows no faster however many hosts there are. Who has waited longest comes first.
"""

from typing import Final

import numpy as np

from xce.control.load_stop import decide_load_stops, needs_look
from xce.model.host_record import LoadChanged
from xce.model.ids import SECOND_US, Micros
from xce.model.load import INDICES, UNKNOWN, Sample
from xce.model.observation import LoadSeen
from xce.model.record import Record
from xce.state.cluster import ClusterState
from xce.state.hosts import Column, Flags

ROWS_A_SECOND: Final = 100
LOOK_US: Final = 15 * SECOND_US
"""Where no load is measured any more, jobs that it has suspended are looked at so often."""
_STEPS: Final = {
    "r15s": 300, "r1m": 200, "r15m": 100, "ut": 50, "pg": 10_000, "io": 100_000, "ls": 0,
    "it": 1_000, "tmp": 64_000, "swp": 64_000, "mem": 64_000,
}  # fmt: skip
"""In thousandths; a change of no more than this, or than a tenth, is none."""
_STEP: Final = np.array([_STEPS[name] for name in INDICES], np.int64)
_PART: Final = 10


class LoadGather:
    """What was measured and is not recorded yet."""

    def __init__(self) -> None:
        self._heard: dict[str, Sample] = {}
        self._last_us: Micros = 0

    def hear(self, host: str, sample: Sample) -> None:
        """Note what a host measured; it keeps its place among those who wait."""
        self._heard[host] = sample

    def forget(self, host: str) -> None:
        """Note that a host's worker is gone."""
        self._heard.pop(host, None)

    def take(self, state: ClusterState, now_us: Micros) -> LoadSeen | None:
        """Return what is to be recorded or looked at now, or None."""
        interval_us = state.config.load_interval_us
        if not interval_us:
            self._heard.clear()
        since_us = now_us - self._last_us
        if since_us < (interval_us or LOOK_US):
            return None
        is_looked_at = needs_look(state)
        if not self._heard and not is_looked_at:
            return None
        self._last_us = now_us
        names = [name for name in self._heard if name in state.hosts.number]
        numbers = [state.hosts.number[name] for name in names]
        samples = np.array([self._heard[name] for name in names], np.int64).reshape(
            -1, len(INDICES)
        )
        is_news = has_moved(state.hosts.load[:, numbers].T, samples).tolist()
        most = max(1, ROWS_A_SECOND * min(since_us, 60 * SECOND_US) // SECOND_US)
        news = [name for name, moved in zip(names, is_news, strict=True) if moved]
        told = {name: self._heard[name] for name in news[:most]}
        self._heard = {name: self._heard[name] for name in news[most:]}
        return LoadSeen(tuple(told), tuple(told.values())) if told or is_looked_at else None


def has_moved(known: Column, seen: Column) -> Flags:
    """Return which rows of ``seen`` differ by enough from what is known."""
    distance = np.abs(seen - known)
    is_new = (known == UNKNOWN) != (seen == UNKNOWN)
    moved: Flags = (is_new | (distance > np.maximum(_STEP, known // _PART))).any(axis=1)
    return moved


def decide_load(state: ClusterState, seen: LoadSeen) -> list[Record]:
    """Return what hosts that are there measured, and whom it suspends or lets go on."""
    table = state.hosts
    rows = {
        table.number[name]: sample
        for name, sample in zip(seen.hosts, seen.samples, strict=True)
        if name in table.number and table.is_up[table.number[name]]
    }
    records: list[Record] = []
    load = table.load
    if rows:
        columns = [list(column) for column in zip(*rows.values(), strict=True)]
        records.append(LoadChanged(list(rows), columns))
        load = load.copy()
        load[:, list(rows)] = columns
    return [*records, *decide_load_stops(state, load)]
