"""What must be true of remote tasks: judged by the records of a journal and by what runs where.

These books share nothing with the state, the deciders or the hosts' machines: from the records they
know which attempt has which hosts, which hosts were given up, and what is said to be left there.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from xce.model import host_record as h
from xce.model import record as r
from xce.model.entry import Entry
from xce.model.ids import Index, JobId, Micros
from xce.model.job import EndCause
from xce.sim.ledger import Ledger
from xce.sim.untrue import check

Key: TypeAlias = tuple[JobId, Index, int]
Place: TypeAlias = tuple[str, Key]
"""A part: its host, and its attempt."""
_GIVEN_UP: Final = frozenset({EndCause.HOST_LOST, EndCause.HOST_RESTARTED, EndCause.STATUS_LOST})


class Allocation(msgspec.Struct):
    """What a live attempt has."""

    attempt: int
    hosts: tuple[str, ...]
    """The first one leads."""
    troubles: int
    """How much trouble its hosts had had when it was placed."""


class TaskBooks:
    """The books of one world.

    Args:
        ledger: Knows the number of each attempt; it has taken an entry before these books do.
        task_cpu_us: What each task uses.
        own_cpu_us: What the first host tells of what runs there.
    """

    def __init__(self, ledger: Ledger, *, task_cpu_us: Micros, own_cpu_us: Micros) -> None:
        self.started = 0
        self.late = 0
        """Tasks that were started for an attempt that was given up."""
        self.counted = 0
        """Ends whose tasks were counted one by one."""
        self.left_out = 0
        """Hosts that attempts have lost."""
        self._ledger = ledger
        self._task_cpu_us, self._own_cpu_us = task_cpu_us, own_cpu_us
        self._names: tuple[str, ...] = ()
        self._live: dict[tuple[JobId, Index], Allocation] = {}
        self._running: dict[Place, set[str]] = {}
        self._stale: set[Place] = set()
        """Parts with processes that were given up: nothing else may start beside them."""
        self._up: set[str] = set()
        self._boots: dict[str, str] = {}
        self._given_up: set[Place] = set()
        """Parts on hosts that were given up while the attempt had them."""
        self._left: set[Place] = set()
        """Parts that are said to be stale on hosts that are there."""
        self._ran: set[Key] = set()
        """Attempts whose process was started."""
        self._counts: Counter[Key] = Counter()
        self._ever: set[tuple[Place, str]] = set()
        self._troubles: Counter[str] = Counter()
        self._lost: set[Key] = set()
        """Attempts that a restored journal does not know."""
        self._over: dict[Key, tuple[Allocation, bool]] = {}
        """Attempts that the present entry ends; whether without their first host's word."""

    # The journal.

    def go_back(self, entries: Iterable[Entry], ledger: Ledger, lost: set[Key]) -> None:
        """Learn that the journal was restored: it ends with these entries.

        What hosts really did stays.

        Args:
            entries: All of them.
            ledger: Has taken none yet; takes them, too.
            lost: Attempts that were begun by others.
        """
        found = TaskBooks(ledger, task_cpu_us=self._task_cpu_us, own_cpu_us=self._own_cpu_us)
        found._counts = self._counts
        for entry in entries:
            ledger.note((entry,))
            found.note(entry)
        self._ledger, self._lost = ledger, lost
        self._names, self._live, self._up = found._names, found._live, found._up
        self._boots, self._given_up, self._left = found._boots, found._given_up, found._left
        self._stale = {
            (host, key) for host, key in self._stale
            if key not in lost and not self._is_mine(host, key)
        }  # fmt: skip
        for host in self._names:
            # What they have told, they told to entries that may be lost.
            self.note_trouble(host)

    def note(self, entry: Entry) -> None:
        """Take an entry into the books.

        Raises:
            BooksError: It cannot be true.
        """
        for record in entry.records:
            self._take(record)
        for key, (allocation, is_given_up) in self._over.items():
            self._check_over(key, allocation, is_given_up=is_given_up)
        self._over.clear()

    def _take(self, record: r.Record) -> None:
        match record:
            case r.ConfigApplied(hosts=names):
                self._names = names
            case r.GangPlaced(job=job, index=index):
                hosts = tuple(dict.fromkeys(self._names[host] for host in record.hosts))
                attempt = self._ledger.last_attempt(job, index)
                troubles = -1 if record.number else self._trouble_of(hosts)
                self._live[job, index] = Allocation(attempt, hosts, troubles)
            case r.Ended():
                rows = zip(record.jobs, record.indices, record.causes, record.cpu_us, strict=True)
                for job, index, cause, cpu_us in rows:
                    self._let_go(job, index, is_given_up=cause in _GIVEN_UP, cpu_us=cpu_us)
            case r.Requeued():
                self._take_requeued(record)
            case r.LaunchFailed():
                for job, index in zip(record.jobs, record.indices, strict=True):
                    self._let_go(job, index, is_given_up=True)
            case h.HostUp() | h.HostDown() | h.HostsLost() | h.ReignBegun():
                self._take_host(record)
            case h.HostsLeftOut() | h.PartsLeft() | h.StaleGone():
                self._take_stale(record)
            case _:
                pass

    def _take_requeued(self, record: r.Requeued) -> None:
        for at, (job, index) in enumerate(zip(record.jobs, record.indices, strict=True)):
            cpu_us = record.cpu_us[at] if record.cpu_us else 0
            is_told = bool(record.cpu_us) and record.causes[at] not in _GIVEN_UP
            self._let_go(job, index, is_given_up=not is_told, cpu_us=cpu_us)

    def _take_stale(self, record: h.HostsLeftOut | h.PartsLeft | h.StaleGone) -> None:
        match record:
            case h.HostsLeftOut():
                rows_out = zip(record.hosts, record.jobs, record.indices, strict=True)
                for host, job, index in rows_out:
                    self._leave_out(self._names[host], job, index)
            case h.PartsLeft():
                rows_left = zip(
                    record.hosts, record.jobs, record.indices, record.attempts, strict=True
                )
                for host, *key in rows_left:
                    self._left.add((self._names[host], (key[0], key[1], key[2])))
            case h.StaleGone(host=host):
                gone = zip(record.jobs, record.indices, record.attempts, strict=True)
                for one in gone:
                    place = (self._names[host], one)
                    check(place not in self._running, f"{place} is said to be gone, and runs")
                    self._left.discard(place)

    def _take_host(self, record: h.HostUp | h.HostDown | h.HostsLost | h.ReignBegun) -> None:
        match record:
            case h.HostUp(host=number, stale=stale, boot_id=boot):
                name = self._names[number]
                self._up.add(name)
                if self._boots.get(name, boot) != boot:
                    self._leave_leaderless(name)
                self._boots[name] = boot
                mine = {key for host, key in self._running if host == name} - self._lost
                strange = {key for key in mine - set(stale) if not self._is_mine(name, key)}
                check(not strange, f"{strange} runs on {name}, and nobody knows")
                self._left = {place for place in self._left if place[0] != name}
                self._left.update((name, key) for key in stale)
            case h.HostDown(host=number):
                self._up.discard(self._names[number])
            case h.ReignBegun(hosts=numbers):
                self._up.difference_update(self._names[number] for number in numbers)
            case h.HostsLost(hosts=numbers):
                for number in numbers:
                    self._give_up(self._names[number])

    def _leave_leaderless(self, name: str) -> None:
        """Learn of a restart: what was first here is over, and says nothing of its other hosts."""
        for element, allocation in self._live.items():
            if allocation.hosts[0] == name:
                self._given_up.add((name, (*element, allocation.attempt)))

    def _is_mine(self, host: str, key: Key) -> bool:
        found = self._live.get(key[:2])
        return found is not None and found.attempt == key[2] and host in found.hosts

    def _give_up(self, name: str) -> None:
        self._troubles[name] += 1
        for element, allocation in self._live.items():
            if name in allocation.hosts:
                place = (name, (*element, allocation.attempt))
                self._given_up.add(place)
                if place in self._running:
                    self._stale.add(place)

    def _leave_out(self, name: str, job: JobId, index: Index) -> None:
        """Let an attempt have a host no more: what it has there is stale."""
        allocation = self._live.get((job, index))
        if allocation is not None:
            allocation.hosts = tuple(host for host in allocation.hosts if host != name)
            allocation.troubles = -1  # never again as calm as it was
            self.left_out += 1
            place = (name, (job, index, allocation.attempt))
            self._given_up.add(place)
            if place in self._running:
                self._stale.add(place)

    def _let_go(self, job: JobId, index: Index, *, is_given_up: bool, cpu_us: Micros = 0) -> None:
        allocation = self._live.pop((job, index), None)
        if allocation is None:
            return
        key = (job, index, allocation.attempt)
        # Whatever was decided before, its first host can say nothing of it.
        is_given_up = is_given_up or (allocation.hosts[0], key) in self._given_up
        self._over[key] = (allocation, is_given_up)
        most_us = self._own_cpu_us + self._task_cpu_us * self._counts[key]
        check(cpu_us <= most_us, f"{key} has used {cpu_us} us, of {most_us} at most")
        is_calm = self._trouble_of(allocation.hosts) == allocation.troubles
        if is_calm and key in self._ran and not is_given_up:
            self.counted += self._counts[key] > 0
            check(cpu_us == most_us, f"{key} has used {cpu_us} us, and {most_us} are to be counted")

    def _check_over(self, key: Key, allocation: Allocation, *, is_given_up: bool) -> None:
        """No task outlives its attempt, but on hosts that were given up, where it is stale."""
        for host in allocation.hosts:
            place = (host, key)
            if place not in self._running or place in self._given_up:
                continue
            is_known = is_given_up and (place in self._left or host not in self._up)
            check(is_known, f"{key} is over, and {self._running[place]} run on {host}")
            self._stale.add(place)

    def _trouble_of(self, hosts: tuple[str, ...]) -> int:
        return sum(self._troubles[host] for host in hosts)

    # The hosts.

    def note_trouble(self, host: str) -> None:
        """Learn that something of a host died: what it has told may have to be told again."""
        self._troubles[host] += 1

    def note_process(self, host: str, key: Key) -> None:
        """Learn that the process of an attempt is started on its first host."""
        self._check_alone(host, key)
        self._ran.add(key)

    def _check_alone(self, host: str, key: Key) -> None:
        beside = [one for where, one in self._stale if where == host and one != key]
        is_late = not self._is_mine(host, key)
        check(is_late or not beside, f"{key} was started on {host}, where {beside} still run")

    def note_task(self, host: str, key: Key, name: str) -> None:
        """Learn that a task is started."""
        place = (host, key)
        allocation = self._live.get(key[:2])
        self._check_alone(host, key)
        if key in self._lost:
            self.late += 1
        elif not self._is_mine(host, key) or place in self._given_up:
            is_live = allocation is not None and allocation.attempt == key[2]
            is_stranger = is_live and place not in self._given_up
            check(not is_stranger, f"a task of {key} was started on {host}, which it has not got")
            is_known = place in self._left or place in self._given_up or host not in self._up
            check(is_known, f"a task was started on {host} for {key}, which is over")
            self._stale.add(place)
            self.late += 1
        elif allocation is not None:
            check(host != allocation.hosts[0], f"a task of {key} was started on its first host")
        check((place, name) not in self._ever, f"task {name} of {key} was started twice on {host}")
        self._ever.add((place, name))
        self._running.setdefault(place, set()).add(name)
        self._counts[key] += 1
        self.started += 1

    def note_task_gone(self, host: str, key: Key, name: str) -> None:
        """Learn that nothing is left of a task."""
        names = self._running[host, key]
        names.discard(name)
        if not names:
            del self._running[host, key]
            self._stale.discard((host, key))

    # The end.

    def check_quiet(self) -> None:
        """Nothing runs any more."""
        check(not self._running, f"still running: {self._running}")
