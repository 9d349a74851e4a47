"""The apiserver's own copy of the state: kept by the entries of the journal, read by everybody.

It never decides and never writes; it is thrown away and made anew at any time.
"""

import asyncio
import heapq
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, Protocol, TypeAlias

from xce.model.entry import Entry
from xce.model.ids import HostNumber, JobId, Seq
from xce.model.record import Ended, JobsForgotten, LaunchFailed
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import load

Allocation: TypeAlias = tuple[list[HostNumber], list[int]]
"""Hosts in rank order with the tasks on each."""


class Listener(Protocol):
    """Who is told of what has just become true."""

    def began(self) -> None:
        """The state is another one now: what was read before counts no more."""
        ...

    def came(self, entries: Sequence[Entry]) -> None:
        """These entries were applied."""
        ...


class Replica:
    """The state, who waits for it to reach an entry, and who listens.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.state = ClusterState()
        self.gangs: dict[tuple[JobId, int], Allocation] = {}
        """Where elements ran on several hosts, by job and position; the state forgets at the end
        of an attempt all but its first host."""
        self.launch_faults: dict[HostNumber, str] = {}
        """Why a start failed last through a host's fault, as far as it was seen."""
        self.listeners: list[Listener] = []
        self.epoch = 0
        self._whole = asyncio.Event()
        """Set once everything that was durable when the state began is in it."""
        self._clock = clock
        self._away_since: float | None = clock()
        self._waiting: list[tuple[Seq, int, asyncio.Future[None]]] = []
        self._tickets: Final = count()

    @property
    def seq(self) -> Seq:
        """The last entry that was applied."""
        return self.state.seq

    @property
    def stale_s(self) -> float:
        """For how long what is here may have been overtaken unnoticed; 0: it is live."""
        return 0.0 if self._away_since is None else self._clock() - self._away_since

    @property
    def is_whole(self) -> bool:
        """Whether the state may be shown: not while it is still being built up."""
        return self._whole.is_set()

    async def wait_until_whole(self, timeout_s: float) -> bool:
        """Wait until the state may be shown; return whether it may."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._whole.wait()
        except TimeoutError:
            return False
        return True

    def note_live(self) -> None:
        """Note that everything durable is here, and what follows will come at once."""
        self._away_since = None
        self._whole.set()

    def note_away(self) -> None:
        """Note that nothing comes any more for now."""
        if self._away_since is None:
            self._away_since = self._clock()

    def begin(self, parts: Sequence[bytes]) -> None:
        """Throw the state away for that of a snapshot; no parts: the empty state."""
        self.begin_with(load(parts) if parts else ClusterState())

    def begin_with(self, state: ClusterState) -> None:
        """Throw the state away for another one."""
        self.state = state
        self.gangs.clear()
        self._whole.clear()
        self._wake()
        for listener in self.listeners:
            listener.began()

    def take(self, entries: Sequence[Entry]) -> None:
        """Apply entries that follow.

        Raises:
            IllegalTransitionError: They do not fit.
        """
        state = self.state
        for entry in entries:
            for record in entry.records:
                if isinstance(record, LaunchFailed):
                    self.launch_faults.update(dict.fromkeys(record.hosts, record.detail))
                elif isinstance(record, Ended):
                    self._keep_gangs(record)
                elif isinstance(record, JobsForgotten):
                    self._drop_gangs(record)
            apply(state, entry)
        self._wake()
        for listener in self.listeners:
            listener.came(entries)

    async def reach(self, seq: Seq, timeout_s: float) -> bool:
        """Wait until entry ``seq`` is applied; return whether it is."""
        if self.state.seq >= seq:
            return True
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (seq, next(self._tickets), waiting))
        try:
            async with asyncio.timeout(timeout_s):
                await waiting
        except TimeoutError:
            return self.state.seq >= seq
        return True

    def _wake(self) -> None:
        waiting = self._waiting
        while waiting and (waiting[0][0] <= self.state.seq or waiting[0][2].done()):
            future = heapq.heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    def _keep_gangs(self, record: Ended) -> None:
        jobs = self.state.jobs
        for job_id, index in zip(record.jobs, record.indices, strict=True):
            job = jobs.get(job_id)
            if job is None or not job.live:
                continue
            position = job.position(index)
            attempt = job.live.get(position) if position is not None else None
            if position is None or attempt is None:
                continue
            request = self.state.classes[attempt.cls].key.request
            if len(attempt.hosts) > 1 or not request.is_serial:
                self.gangs[job_id, position] = (attempt.hosts, attempt.tasks)

    def _drop_gangs(self, record: JobsForgotten) -> None:
        if not self.gangs:
            return
        gone = set(record.jobs)
        for place in [place for place in self.gangs if place[0] in gone]:
            del self.gangs[place]
