"""Whether what hosts run that a restored journal lacks is named, kept, and alone with itself.

These books read records and what really runs; they share nothing with what decides.
"""

from collections import Counter
from collections.abc import Iterable

from xce.model import host_record as h
from xce.model import record as r
from xce.model.entry import Entry
from xce.model.ids import HostNumber
from xce.sim.oracles import Truth
from xce.sim.untrue import demand
from xce.worker.action import Key


class StrangerBooks:
    """The books of one world.

    Args:
        truth: Knows what runs, and what the journal has lost; it has taken entries before.
    """

    def __init__(self, truth: Truth) -> None:
        self.named = 0
        """How many strangers were told of."""
        self._truth = truth
        self._names: tuple[str, ...] = ()
        self._known: dict[HostNumber, set[Key]] = {}
        """Of each host: what was said to be strange when it came last."""
        self._doomed: set[Key] = set()
        """What was to be ended on somebody's word."""
        self._shut: dict[HostNumber, None] = {}
        """Hosts that are closed."""

    def go_back(self, entries: Iterable[Entry]) -> None:
        """Learn that the journal was restored, and ends with these entries."""
        self._known, self._shut = {}, {}
        for entry in entries:
            for record in entry.records:
                self._take(record)

    def note(self, entries: Iterable[Entry]) -> None:
        """Take entries into the books.

        Raises:
            UntrueError: Something of them must not be.
        """
        for entry in entries:
            before = {host: set(known) for host, known in self._known.items()}
            for record in entry.records:
                if isinstance(record, r.GangPlaced) and record.number:
                    self._judge_taken_up(record)
                elif isinstance(record, r.BulkPlaced | r.GangPlaced):
                    for host in record.hosts:
                        demand(host not in self._shut, f"something is placed on closed host {host}")
                self._take(record)
            for record in entry.records:
                if isinstance(record, h.HostUp):
                    self._judge(record, before.get(record.host, set()))

    def _take(self, record: r.Record) -> None:
        match record:
            case r.ConfigApplied(hosts=names):
                self._names = names
            case h.StrangersSeen(host=host):
                rows = zip(record.jobs, record.indices, record.attempts, strict=True)
                self._known[host] = set(rows)
                self.named += len(record.jobs)
            case h.StrangersGone():
                gone = zip(record.hosts, record.jobs, record.indices, record.attempts, strict=True)
                for host, *key in gone:
                    self._known.get(host, set()).discard((key[0], key[1], key[2]))
            case h.HostsOpened(hosts=hosts, is_open=True):
                for host in hosts:
                    self._shut.pop(host, None)
            case h.HostsOpened(hosts=hosts):
                self._shut.update(dict.fromkeys(hosts))
            case h.PartsLeft():
                self._doomed.update(zip(record.jobs, record.indices, record.attempts, strict=True))
            case _:
                pass

    def _judge_taken_up(self, record: r.GangPlaced) -> None:
        """What is taken up again lies as it runs."""
        key = (record.job, record.index, record.number)
        host, launch = self._truth.running.get(key, ("", None))
        if launch is None:
            return  # it has ended, and its host will tell
        tasks: Counter[str] = Counter()
        for number, count in zip(record.hosts, record.tasks, strict=True):
            tasks[self._names[number]] += count
        for name, count in launch.hosts:
            tasks[name] -= count
        # It may have lost hosts by entries that are lost, too.
        is_so = self._names[record.hosts[0]] == host and min(tasks.values()) >= 0
        demand(is_so, f"{key} runs on {host}: {launch.hosts}, and is taken up on {record.hosts}")

    def _judge(self, record: h.HostUp, before: set[Key]) -> None:
        """Who comes back is asked what runs there; of that nothing is ended but on a word."""
        name = self._names[record.host]
        lost = self._truth.forms.lost
        # Of what was given up with its host another attempt may have begun since.
        ended = {key for key in record.stale if key in lost} - self._doomed - self._truth.given_up
        demand(not ended, f"{ended} are ended on {name}, and nobody has said so")
        mine = {key for key, host in self._truth.strangers.items() if host == name}
        known = self._known.get(record.host, set())
        left = mine - known - set(record.stale)
        demand(not left, f"{left} run on {name}, and nobody is told")
        is_shut = record.host in self._shut or not known - before
        demand(is_shut, f"host {name} is open beside {known - before}, of which nobody knew")
