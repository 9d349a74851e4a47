"""Who waits for the end of a job."""

import asyncio
from collections.abc import Sequence
from typing import Final

from xce.model.entry import Entry
from xce.model.ids import JobId
from xce.model.record import Ended, Withdrawn

ANY: Final[JobId] = 0
"""In place of a job: whatever happens."""


class JobWaits:
    """Wakes those who wait when something of their job has ended."""

    def __init__(self) -> None:
        self._waiting: dict[JobId, list[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        """Return for how many jobs somebody waits."""
        return len(self._waiting)

    async def wait(self, job: JobId, timeout_s: float) -> bool:
        """Wait until something of a job has ended; return False when nothing did in time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job, []).append(future)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            rest = self._waiting.get(job)
            if rest is not None and future in rest:
                rest.remove(future)
                if not rest:
                    del self._waiting[job]
        return True

    async def wait_for_any(self, timeout_s: float) -> bool:
        """Wait until anything has happened; return False when nothing did in time."""
        return await self.wait(ANY, timeout_s)

    def began(self) -> None:
        """Wake all: the state is another one."""
        for job in list(self._waiting):
            self._wake(job)

    def came(self, entries: Sequence[Entry]) -> None:
        """Wake those whose jobs ended, in whole or in part."""
        if not self._waiting:
            return
        if entries:
            self._wake(ANY)
        for entry in entries:
            for record in entry.records:
                if isinstance(record, Ended | Withdrawn):
                    for job in self._waiting.keys() & set(record.jobs):
                        self._wake(job)

    def _wake(self, job: JobId) -> None:
        for future in self._waiting.pop(job, ()):
            if not future.done():
                future.set_result(None)
