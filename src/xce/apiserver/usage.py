"""What running jobs use, as their hosts say when somebody asks.

It stands in no journal. However many ask, a host is asked once in `FRESH_S`; who does not answer in
`WAIT_S` is done without.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from xce.apiserver.problems import ProblemError
from xce.model.ids import SECOND_US, Index, JobId
from xce.model.usage import AttemptUse
from xce.net.message import HostUsage, ReadUsage

FRESH_S: Final = 2.0
"""What was told so long ago is told again without asking."""
KEPT_S: Final = 60.0
"""What was told before is forgotten, unless somebody asks for it."""
WAIT_S: Final = 2.0
AT_ONCE: Final = 512
"""So many hosts are asked at a time; the controller takes more."""

AttemptKey: TypeAlias = tuple[JobId, Index, int]


class Told(NamedTuple):
    """What a host said of what runs there."""

    at: float
    """When, in seconds since the epoch."""
    uses: Mapping[AttemptKey, AttemptUse]


class UsageRow(msgspec.Struct, frozen=True, gc=False):
    """What a running job uses on all its hosts that have said so."""

    at: float
    """Of the oldest word that is in it."""
    cpu_s: float
    mem_mib: float
    max_mem_mib: float
    avg_mem_mib: float
    swap_mib: float
    threads: int
    pids: tuple[int, ...] = ()
    """Its processes on its first host."""
    unknown: tuple[str, ...] = ()
    """Hosts of the job that have not said what it uses there."""


class UsageLink(Protocol):
    """The controller, as far as it passes such questions on."""

    async def read_usage(self, make: Callable[[int], ReadUsage]) -> HostUsage:
        """Have a host say what runs there uses."""
        ...


class UsageDesk:
    """Asks hosts, each once for all who want to know.

    Args:
        link: Passes the questions on.
        now: Seconds since the epoch.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        link: UsageLink,
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._now = now
        self._clock = clock
        self._told: dict[str, tuple[float, Told]] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def look(self, hosts: Iterable[str]) -> dict[str, Told]:
        """Return what hosts say, without those that say nothing in time."""
        wanted = dict.fromkeys(hosts)
        now = self._clock()
        self._told = {host: one for host, one in self._told.items() if now - one[0] < KEPT_S}
        for host in wanted:
            known = self._told.get(host)
            if host not in self._asked and (known is None or now - known[0] >= FRESH_S):
                self._asked[host] = asyncio.create_task(self._ask(host))
        tasks = [self._asked[host] for host in wanted if host in self._asked]
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT_S)
        since = self._clock() - WAIT_S - FRESH_S
        found = ((host, self._told.get(host)) for host in wanted)
        return {host: one[1] for host, one in found if one is not None and one[0] >= since}

    async def _ask(self, host: str) -> None:
        try:
            async with self._gate:
                answer = await self._link.read_usage(lambda number: ReadUsage(number, host))
        except ProblemError:
            return  # the controller is away: whoever asks again has it asked again
        finally:
            del self._asked[host]
        if not answer.error:
            uses = {(row.job, row.index, row.attempt): row for row in answer.rows}
            self._told[host] = (self._clock(), Told(self._now(), uses))


def usage_row(hosts: Iterable[str], key: AttemptKey, told: Mapping[str, Told]) -> UsageRow | None:
    """Return what an attempt uses; None: its first host has not said.

    A host that has a part of it only while tasks run there adds nothing in between.

    Args:
        hosts: Of the attempt, in rank order.
        key: Which attempt.
        told: What hosts have said.
    """
    names = list(dict.fromkeys(hosts))
    first = told.get(names[0]) if names else None
    own = first.uses.get(key) if first is not None else None
    if own is None:
        return None
    heard = [told[name] for name in names if name in told]
    uses = [one.uses[key] for one in heard if key in one.uses]
    return UsageRow(
        at=min(one.at for one in heard),
        cpu_s=sum(use.cpu_us for use in uses) / SECOND_US,
        mem_mib=_mib(use.mem_kib for use in uses),
        max_mem_mib=_mib(use.max_mem_kib for use in uses),
        avg_mem_mib=_mib(use.avg_mem_kib for use in uses),
        swap_mib=_mib(use.swap_kib for use in uses),
        threads=sum(use.threads for use in uses),
        pids=own.pids,
        unknown=tuple(name for name in names if name not in told),
    )


def _mib(kib: Iterable[int]) -> float:
    return round(sum(kib) / 1024, 2)
