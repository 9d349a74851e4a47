"""What running attempts use, relayed between apiservers and the workers' own connections."""

from typing import Final

from msgspec.structs import replace

from xce.net import message as m
from xce.net.bounds import refuse_usage
from xce.net.frame import WireError
from xce.net.peer import Peer
from xce.net.relay_table import RelayTable

ASKS_MAX: Final = 1_024
"""So many hosts may be asked by one asker at a time."""
SINCE: Final = 2
"""The protocol that has this."""


class UsageRelays:
    """Hosts that were asked and have not answered yet."""

    def __init__(self) -> None:
        self._asks: RelayTable[m.ReadUsage] = RelayTable(ASKS_MAX)

    def ask(self, asker: Peer, ask: m.ReadUsage, worker: Peer | None) -> None:
        """Pass the question on to the worker of its host."""
        if worker is None or not worker.is_open:
            asker.send(m.HostUsage(ask.id, error=f"host {ask.host} is not connected"))
        elif worker.protocol < SINCE:
            text = f"the worker of host {ask.host} is of an earlier release"
            asker.send(m.HostUsage(ask.id, error=text))
        elif self._asks.is_full(asker):
            asker.send(m.HostUsage(ask.id, error="too many hosts at once; try again"))
        else:
            worker.send(replace(ask, id=self._asks.add(asker, worker, ask)))

    def answer(self, worker: Peer, told: m.HostUsage) -> None:
        """Pass the answer back to who asked for it.

        Raises:
            WireError: The worker was not asked for that, or cannot mean it.
        """
        found = self._asks.find(worker, told.id)
        if found is None:
            return
        if refusal := refuse_usage(told.rows):
            raise WireError(refusal)
        self._asks.end(told.id)
        found.asker.send(replace(told, id=found.asked.id))

    def drop(self, gone: Peer) -> None:
        """Note that a connection has ended."""
        for found in self._asks.drop(gone):
            found.asker.send(m.HostUsage(found.asked.id, error="the host's worker is gone"))
