"""Watchers: each has a queue of events; one that reads too slowly is told to begin anew."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from xce.apiserver.events import JobEvent, render_events
from xce.apiserver.replica import Replica
from xce.model.entry import Entry
from xce.model.ids import JobId, Seq
from xce.model.record import Record

QUEUE_MAX: Final = 10_000
"""With so many events unread a watcher is dropped back to `resync`."""
KEPT_RECORDS: Final = 50_000
"""So many records are kept for those who come back."""


class Watcher:
    """One who watches.

    Args:
        user: Only this user's jobs; empty: everybody's.
        jobs: Only these; None: all.
        sees: Whether an event may be shown.
    """

    def __init__(
        self,
        user: str = "",
        jobs: frozenset[JobId] | None = None,
        *,
        sees: Callable[[JobEvent], bool] = lambda _: True,
    ) -> None:
        self.must_resync = False
        """Events were lost: what was seen before counts no more."""
        self._user = user
        self._jobs = jobs
        self._sees = sees
        self._events: deque[JobEvent] = deque()
        self._news = asyncio.Event()

    def offer(self, events: Sequence[JobEvent]) -> None:
        """Take events that this watcher wants; too many: forget them and begin anew."""
        if self.must_resync:
            return
        for event in events:
            wanted = self._jobs is None or event.jobid in self._jobs
            if wanted and self._user in ("", event.user) and self._sees(event):
                self._events.append(event)
        if len(self._events) > QUEUE_MAX:
            self.resync()
        elif self._events:
            self._news.set()

    def resync(self) -> None:
        """Forget what is unread."""
        self._events.clear()
        self.must_resync = True
        self._news.set()

    async def next_events(self, timeout_s: float) -> list[JobEvent]:
        """Return what came since the last call; nothing in time: an empty list."""
        if not self._events and not self.must_resync:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return []
        self._news.clear()
        events = list(self._events)
        self._events.clear()
        return events


class Watchers:
    """All who watch, and the latest entries for those who come back.

    Args:
        replica: Whose entries are told.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._watchers: set[Watcher] = set()
        self._kept: deque[Entry] = deque()
        self._kept_records = 0
        replica.listeners.append(self)

    def __len__(self) -> int:
        """Return how many watch."""
        return len(self._watchers)

    def add(self, watcher: Watcher, from_seq: Seq) -> None:
        """Let one watch, beginning behind ``from_seq``; -1: with what comes now."""
        self._watchers.add(watcher)
        if from_seq < 0 or from_seq == self._replica.seq:
            return
        first = self._kept[0].seq if self._kept else self._replica.seq + 1
        if from_seq + 1 < first or from_seq > self._replica.seq:
            watcher.resync()
            return
        missed = [entry for entry in self._kept if entry.seq > from_seq]
        watcher.offer(render_events(self._replica.state, missed))

    def remove(self, watcher: Watcher) -> None:
        """Forget one."""
        self._watchers.discard(watcher)

    def began(self) -> None:
        """Tell all that what they saw counts no more."""
        self._kept.clear()
        self._kept_records = 0
        for watcher in self._watchers:
            watcher.resync()

    def came(self, entries: Sequence[Entry]) -> None:
        """Tell all what came."""
        for entry in entries:
            self._kept.append(entry)
            self._kept_records += _weight(entry.records)
        while self._kept_records > KEPT_RECORDS and self._kept:
            self._kept_records -= _weight(self._kept.popleft().records)
        if self._watchers:
            events = render_events(self._replica.state, entries)
            for watcher in self._watchers:
                watcher.offer(events)


def _weight(records: Sequence[Record]) -> int:
    """Return how much an entry weighs: its records, those in columns by their length."""
    return sum(1 + len(getattr(record, "jobs", ())) for record in records)
