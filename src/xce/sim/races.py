"""Commands about a job that come at the very instant at which something of it changes.

When a scheduler proposes to start something, when an attempt is durable, when its process starts
and when it ends: now and then its user changes it, moves it to another queue or requeues it just
then, a little later, or twice at once.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from xce.model.command import RequeueJobs, Selection
from xce.model.config import ClusterConfig
from xce.model.ids import Index, JobId, Micros
from xce.model.plan import Plan
from xce.sim import workload
from xce.sim.client import Client
from xce.sim.loop import Loop

_DELAYS_US: Final = (0, 0, 200, 1_000, 5_000, 30_000)
"""Between what changes and the command; messages need some time themselves."""
_CHANCE: Final = 0.25


class Races:
    """Users who are at it just then.

    Args:
        loop: Has the clock.
        rng: The dice.
        most: So many commands at most.
        until_us: None later than this.
        client_of: The user of a job, if he knows of it.
    """

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        *,
        most: int,
        until_us: Micros,
        client_of: Callable[[JobId], Client | None],
    ) -> None:
        self.left = most
        self._loop = loop
        self._rng = rng
        self._until_us = until_us
        self._client_of = client_of

    def note_plan(self, plan: Plan, config: ClusterConfig) -> None:
        """Somebody proposes to start these."""
        for gang in plan.gangs:
            self.note(gang.job, gang.index, config)
        for bulk in plan.bulk:
            for job, first in zip(bulk.jobs, bulk.firsts, strict=True):
                self.note(job, first, config)

    def note(self, job: JobId, index: Index, config: ClusterConfig) -> None:
        """Something of a job changes."""
        if self.left <= 0 or self._loop.now_us > self._until_us or self._rng.random() > _CHANCE:
            return
        client = self._client_of(job)
        if client is None:
            return
        for _ in range(self._rng.choice((1, 1, 1, 2))):
            self.left -= 1
            delay_us = self._rng.choice(_DELAYS_US)
            dice = Random(self._rng.getrandbits(48))
            self._loop.after(delay_us, act, dice, config, client, job, index)


def act(rng: Random, config: ClusterConfig, client: Client, job: JobId, index: Index) -> None:
    """Let the user of a job change it, switch it or requeue it."""
    runs = ((index, index),) if rng.random() < 0.6 else ()
    if rng.random() < 0.35:
        client.control(RequeueJobs, Selection(jobs=((job, runs),)), signal=rng.choice((10, 10, 15)))
        return
    workload.change(rng, config, client, (job, runs))
