"""A second opinion on the journal: what its records say of jobs and hosts, kept in plain books.

It shares nothing with the state that the deciders use (`xce.state`): no ranges, no columns, no
indexes, one row for each element. What it refuses must never be written.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from xce.model import host_record as h
from xce.model import record as r
from xce.model.config import ClusterConfig
from xce.model.entry import Entry
from xce.model.group import GroupsDeleted, GroupsSet
from xce.model.ids import HostNumber, Index, JobId, Micros
from xce.model.job import Stop
from xce.model.record_elements import ElementsReleased
from xce.model.record_modify import JobModified
from xce.model.request import Request
from xce.sim.conditions import condition_of
from xce.sim.ledger_rows import ENDED, HELD, LIVE, PENDING, Element, Kept, Runs
from xce.sim.untrue import check

Usage = Counter[tuple[str, str]]
"""By ``(host, resource)``; host empty: a pool."""


class Ledger:
    """The books of one journal."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Kept] = {}
        self.used: Usage = Counter()
        self.ends: Counter[tuple[JobId, Index]] = Counter()
        """How often each element has ended, and was not opened again."""
        self._last_job = 0
        self._seq = 0
        self._now_us: Micros = 0
        self._config = ClusterConfig()
        self._names: tuple[str, ...] = ()
        self._room: dict[tuple[str, str], int] = {}
        self._requests: dict[int, Request] = {}
        self._groups: dict[int, str] = {}
        """The job group of each class."""
        self._limits: dict[str, int] = {}
        """Of job groups that have one."""
        self._up: set[HostNumber] = set()
        self._lost: set[HostNumber] = set()
        self._stale: dict[HostNumber, set[tuple[JobId, Index, int]]] = {}
        self._guests: dict[HostNumber, set[tuple[JobId, Index]]] = {}
        self._forgotten: dict[JobId, int] = {}
        """The highest attempt of each job that was forgotten."""
        self._moved: dict[tuple[str, str], None] = {}
        """What the present entry has changed the use of."""
        self._touched: dict[HostNumber, None] = {}
        self._keys: dict[tuple[str, str, int], JobId] = {}
        self._skipped: tuple[JobId, int] = (0, 0)
        """Attempts of jobs below that one that are made now have numbers above that."""
        self._left_out: list[tuple[JobId, JobId]] = []
        """Ids that are given to no new job."""

    def note(self, entries: Iterable[Entry]) -> None:
        """Take entries into the books.

        Raises:
            BooksError: One cannot be true.
        """
        for entry in entries:
            check(entry.seq == self._seq + 1, f"entry {entry.seq} comes behind {self._seq}")
            check(entry.at_us >= self._now_us, f"entry {entry.seq} is from before the last one")
            self._seq, self._now_us = entry.seq, entry.at_us
            for record in entry.records:
                self._take(record)
            self._check_room(entry)

    def last_attempt(self, job: JobId, index: Index) -> int:
        """Return which attempt of an element was made last; 0: none."""
        kept = self.jobs.get(job)
        return kept.elements[index].attempt if kept is not None else self._forgotten.get(job, 0)

    def _take(self, record: r.Record) -> None:
        match record:
            case r.ConfigApplied():
                self._configure(record)
            case r.ClassStored():
                self._requests[record.cls] = record.key.request
                self._groups[record.cls] = record.key.group
            case GroupsSet() | GroupsDeleted():
                self._regroup(record)
            case (
                r.JobSubmitted() | r.JobsReleased() | r.JobsForgotten() | r.KeyUsed()
                | h.JournalRestored()
            ):  # fmt: skip
                self._take_job(record)
            case JobModified():
                self._modify(record)
            case r.Held() | r.Unheld() | r.Withdrawn() | ElementsReleased():
                self._take_waiting(record)
            case r.BulkPlaced() | r.GangPlaced():
                self._place(record)
            case r.Ended() | r.Requeued() | r.LaunchFailed() | r.Reopened():
                self._take_end(record)
            case r.StopsChanged() | r.EndDecided():
                self._take_wish(record)
            case r.SuspensionDone() | r.AmountsReturned() | r.Started():
                self._take_live(record)
            case (
                h.HostUp() | h.HostDown() | h.HostsLost() | h.StaleGone() | h.ReignBegun()
                | h.PartsLeft() | h.HostsLeftOut()
            ):  # fmt: skip
                self._take_host(record)
            case _:
                pass

    # The cluster.

    def _configure(self, record: r.ConfigApplied) -> None:
        self._config, self._names = record.config, record.hosts
        self._room = {("", pool.name): pool.total for pool in record.config.pools}
        for host in record.config.hosts:
            if host.slots is not None:
                self._room[host.name, "slots"] = host.slots
            if host.mem_mib is not None:
                self._room[host.name, "mem"] = host.mem_mib
            for name, total in host.counters.items():
                self._room[host.name, name] = total

    def _regroup(self, record: GroupsSet | GroupsDeleted) -> None:
        for name in record.names:
            self._limits.pop(name, None)
        if isinstance(record, GroupsDeleted):
            for name in record.names:
                self._check_empty(name)
        else:
            named = zip(record.names, record.groups, strict=True)
            self._limits.update({name: group.limit for name, group in named if group.limit >= 0})

    def _check_empty(self, name: str) -> None:
        """A group is deleted only when nothing in it, or below it, has yet to end."""
        for job, kept in self.jobs.items():
            if f"{self._groups[kept.cls]}/".startswith(f"{name}/"):
                over = all(one.place == ENDED for one in kept.elements.values())
                check(over, f"job group {name} is deleted, and job {job} is in it")

    def _check_groups(self, job: JobId) -> None:
        """No more elements live in a group than may."""
        mine = self._groups[self.jobs[job].cls]
        for name, limit in self._limits.items():
            if not f"{mine}/".startswith(f"{name}/"):
                continue
            live = sum(
                kept.live()
                for kept in self.jobs.values()
                if f"{self._groups[kept.cls]}/".startswith(f"{name}/")
            )
            check(live <= limit, f"{live} elements live in job group {name}, of {limit}")

    def _take_host(
        self,
        record: h.HostRecord,
    ) -> None:
        match record:
            case h.HostUp(host=host):
                self._up.add(host)
                self._lost.discard(host)
                self._stale[host] = set(record.stale)
            case h.HostDown(host=host):
                self._up.discard(host)
            case h.ReignBegun(hosts=hosts):
                self._up.difference_update(hosts)
            case h.HostsLost(hosts=hosts):
                for host in hosts:
                    check(host not in self._up, f"host {host} is up and given up")
                self._lost.update(hosts)
                self._touched.update(dict.fromkeys(hosts))
            case h.StaleGone(host=host):
                gone = zip(record.jobs, record.indices, record.attempts, strict=True)
                self._stale[host].difference_update(gone)
            case h.PartsLeft():
                rows = zip(record.hosts, record.jobs, record.indices, record.attempts, strict=True)
                for host, *key in rows:
                    self._stale.setdefault(host, set()).add((key[0], key[1], key[2]))
            case h.HostsLeftOut():
                left = zip(record.hosts, record.jobs, record.indices, record.attempts, strict=True)
                for host, job, index, attempt in left:
                    self._leave_out(self.jobs[job].elements[index], host, attempt)

    def _leave_out(self, one: Element, host: HostNumber, attempt: int) -> None:
        """Let an element have a host no more."""
        name = f"{one.job}[{one.index}]"
        is_live = one.place == LIVE and one.attempt == attempt
        check(is_live, f"attempt {attempt} of {name} leaves host {host}, and does not live")
        is_other = host in dict(one.hosts[1:]) and one.hosts[0][0] != host
        check(is_other, f"{name} is left without host {host}, which is none of its others")
        self._use(one, -1)
        one.hosts = tuple(pair for pair in one.hosts if pair[0] != host)
        self._use(one, 1)
        self._guests[host].discard((one.job, one.index))

    def _leave_ids_out(self, record: h.JournalRestored) -> None:
        """Nothing that may have been given out before a restore is given out again."""
        check(record.next_job > self._last_job, "a restore goes back to earlier jobs")
        if record.attempts_above > self._skipped[1]:
            self._skipped = (record.next_job, record.attempts_above)
        self._left_out.append((self._last_job + 1, record.next_job - 1))
        self._last_job = record.next_job - 1

    # Jobs.

    def _take_job(
        self,
        record: r.JobSubmitted | r.JobsReleased | r.JobsForgotten | r.KeyUsed | h.JournalRestored,
    ) -> None:
        match record:
            case h.JournalRestored():
                self._leave_ids_out(record)
            case r.JobSubmitted(job=job, array=array):
                is_back = any(first <= job <= last for first, last in self._left_out)
                is_new = job > self._last_job or (is_back and job not in self.jobs)
                check(is_new, f"job {job} comes behind {self._last_job}")
                self._last_job = max(job, self._last_job)
                count = array.count if array is not None else 1
                indices = [array.index_of(at) if array is not None else 0 for at in range(count)]
                place = HELD if record.hold else PENDING
                has_own, by_element = condition_of(record)
                waits = (record.begin_at_us > 0) + has_own
                elements = {
                    index: Element(job, index, place, awaits=by_element) for index in indices
                }
                limit = array.limit if array is not None else 0
                self.jobs[job] = Kept(record.cls, limit, waits, elements, record.submit_at_us)
            case r.JobsReleased(jobs=jobs):
                for job in jobs:
                    check(self.jobs[job].waits > 0, f"job {job} waits for nothing")
                    self.jobs[job].waits -= 1
            case r.JobsForgotten(jobs=jobs):
                for job in jobs:
                    kept = self.jobs.pop(job)
                    is_over = all(one.place == ENDED for one in kept.elements.values())
                    check(is_over, f"job {job} is forgotten and has not ended")
                    made = (one.attempt for one in kept.elements.values())
                    self._forgotten[job] = max(made)
            case r.KeyUsed(user=user, key=key):
                for line, job in enumerate(record.jobs, record.line):
                    before = self._keys.setdefault((user, key, line), job)
                    check(before == job, f"line {line} of key {key} made jobs {before} and {job}")

    def _modify(self, record: JobModified) -> None:
        kept = self.jobs[record.job]
        is_over = all(one.place == ENDED for one in kept.elements.values())
        check(not is_over, f"job {record.job} is modified and is over")
        moves = dict(zip(record.before, record.after, strict=True))
        for one in kept.elements.values():
            runs = zip(record.firsts, record.lasts, strict=True)
            is_meant = not record.firsts or any(lo <= one.index <= hi for lo, hi in runs)
            if one.place == LIVE and is_meant and one.cls in moves:
                self._use(one, -1)
                one.cls = moves[one.cls]
                self._use(one, 1)
        if record.firsts:
            return
        kept.cls, kept.limit = record.cls, record.array_limit
        has_own, by_element = condition_of(record)
        kept.waits = (record.begin_at_us > self._now_us) + has_own
        if not record.keeps_elements:
            for one in kept.elements.values():
                one.awaits = by_element and one.place in (PENDING, HELD)

    def _each(self, record: Runs) -> Iterator[Element]:
        for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
            for index, element in self.jobs[job].elements.items():
                if first <= index <= last:
                    yield element

    def _take_waiting(self, record: r.Held | r.Unheld | r.Withdrawn | ElementsReleased) -> None:
        for one in self._each(record):
            name = f"{one.job}[{one.index}]"
            match record:
                case r.Held():
                    check(one.place == PENDING, f"{name} is held and was {one.place}")
                    one.place = HELD
                case r.Unheld():
                    check(one.place == HELD, f"{name} is let go and was {one.place}")
                    one.place = PENDING
                case r.Withdrawn():
                    check(one.place in (PENDING, HELD), f"{name} is withdrawn and was {one.place}")
                    self._end(one)
                case ElementsReleased():
                    check(one.awaits, f"{name} waits for no other element")
                    one.awaits = False

    def _end(self, one: Element) -> None:
        one.place = ENDED
        self.ends[one.job, one.index] += 1
        check(self.ends[one.job, one.index] == 1, f"{one.job}[{one.index}] ends twice")

    # Attempts.

    def _place(self, record: r.BulkPlaced | r.GangPlaced) -> None:
        request = self._requests[record.cls]
        if isinstance(record, r.GangPlaced):
            hosts = tuple(zip(record.hosts, record.tasks, strict=True))
            kept = self.jobs[record.job]
            one = kept.elements[record.index]
            one.cls, one.alternative = record.cls, record.alternative
            if request.alternatives:
                early_us = request.alternatives[one.alternative].delay_us
                early_us -= self._now_us - kept.submit_at_us
                check(early_us <= 0, f"{one.job}[{one.index}] makes do {early_us} us too early")
            self._begin(one, request, hosts, taken_up=record.number)
            if not record.number:
                self._check_groups(one.job)
            return
        found = list(self._each(record))
        counted = zip(record.hosts, record.counts, strict=True)
        given = [host for host, count in counted for _ in range(count)]
        check(len(found) == len(given), f"{len(found)} elements are given {len(given)} places")
        for one, host in zip(found, given, strict=True):
            one.cls, one.alternative = record.cls, 0
            self._begin(one, request, ((host, request.tasks_max),))
        for job in dict.fromkeys(record.jobs):
            self._check_groups(job)

    def _begin(
        self,
        one: Element,
        request: Request,
        hosts: tuple[tuple[HostNumber, int], ...],
        *,
        taken_up: int = 0,
    ) -> None:
        name = f"{one.job}[{one.index}]"
        kept = self.jobs[one.job]
        check(one.place == PENDING, f"{name} is placed and was {one.place}")
        # What is taken up again had what it waits for before the journal was restored.
        check(not kept.waits or taken_up, f"{name} is placed and waits for something")
        check(not one.awaits, f"{name} is placed and waits for another element")
        tasks = sum(count for _, count in hosts)
        is_asked = request.tasks_min <= tasks <= request.tasks_max
        check(is_asked, f"{name} has {tasks} tasks on {hosts}")
        for host, _ in hosts:
            check(host in self._up, f"{name} is placed on host {host}, which is not there")
            is_alone = taken_up or not self._stale.get(host)
            check(is_alone, f"{name} is placed beside {self._stale.get(host)}")
            guests = self._guests.setdefault(host, set())
            guests.add((one.job, one.index))
            self._touched[host] = None
        one.place, one.hosts = LIVE, hosts
        below, above = self._skipped
        check(not taken_up or taken_up > one.attempt, f"attempt {taken_up} of {name} comes late")
        is_old = one.job < below or any(lo <= one.job <= hi for lo, hi in self._left_out)
        one.attempt = taken_up or max(one.attempt, above if is_old else 0) + 1
        one.stops = one.returned = 0
        one.gave_slots = one.hold = False
        self._use(one, 1)
        live = kept.live() if kept.limit and not taken_up else 0
        check(live <= kept.limit, f"{live} elements of job {one.job} are live")

    def _amounts(self, one: Element) -> Iterator[tuple[str, str, int]]:
        """Yield what a live attempt holds: host (empty: a pool), resource, value."""
        request = self._requests[one.cls]
        if request.alternatives:
            request = request.alternatives[one.alternative].request
        spans = sorted({0, *(amount.duration_us for amount in request.amounts)})
        gone = set(spans[1 : one.returned + 1])
        amounts = [amount for amount in request.amounts if amount.duration_us not in gone]
        for place, (host, count) in enumerate(one.hosts):
            name = self._names[host]
            if not one.gave_slots:
                yield name, "slots", count
            for amount in amounts:
                if ("", amount.resource) in self._room:
                    continue
                if amount.per == "task":
                    yield name, amount.resource, amount.value * count
                elif amount.per == "host" or place == 0:
                    yield name, amount.resource, amount.value
        tasks = sum(count for _, count in one.hosts)
        for amount in amounts:
            if ("", amount.resource) in self._room:
                yield "", amount.resource, amount.value * (tasks if amount.per == "task" else 1)

    def _use(self, one: Element, sign: int) -> None:
        for host, resource, value in self._amounts(one):
            self.used[host, resource] += sign * value
            self._moved[host, resource] = None

    def _free(self, one: Element, place: str, what: str) -> None:
        check(one.place == LIVE, f"{one.job}[{one.index}] {what} and was {one.place}")
        self._use(one, -1)
        for host, _ in one.hosts:
            self._guests[host].discard((one.job, one.index))
        one.place, one.hosts = place, ()

    def _take_end(self, record: r.Ended | r.Requeued | r.LaunchFailed | r.Reopened) -> None:
        for at, (job, index) in enumerate(zip(record.jobs, record.indices, strict=True)):
            one = self.jobs[job].elements[index]
            name = f"{job}[{index}]"
            match record:
                case r.Ended():
                    number = record.attempts[at]
                    check(number == one.attempt, f"attempt {number} of {name} ends, not the last")
                    self._free(one, ENDED, "ends")
                    self._end(one)
                case r.Requeued():
                    is_held = one.hold or at in record.held
                    self._free(one, HELD if is_held else PENDING, "is requeued")
                case r.LaunchFailed():
                    self._free(one, PENDING, "failed to start")
                case r.Reopened():
                    check(one.place == ENDED, f"{name} is opened again and was {one.place}")
                    one.place = HELD if record.hold else PENDING
                    self.ends[job, index] -= 1

    def _take_live(self, record: r.SuspensionDone | r.AmountsReturned | r.Started) -> None:
        for at, (job, index) in enumerate(zip(record.jobs, record.indices, strict=True)):
            one = self.jobs[job].elements[index]
            check(one.place == LIVE, f"{job}[{index}] is said to run and was {one.place}")
            self._use(one, -1)
            if isinstance(record, r.AmountsReturned):
                one.returned = record.stages[at]
            elif isinstance(record, r.SuspensionDone) and record.suspended:
                one.gave_slots = one.gave_slots or bool(one.stops & Stop.PREEMPTED)
            self._use(one, 1)

    def _take_wish(self, record: r.StopsChanged | r.EndDecided) -> None:
        for one in self._each(record):
            if one.place != LIVE:
                continue
            if isinstance(record, r.EndDecided):
                one.hold = record.hold
                continue
            self._use(one, -1)
            one.stops = one.stops | record.stop if record.is_on else one.stops & ~record.stop
            if record.stop is Stop.PREEMPTED and not record.is_on:
                one.gave_slots = False
            self._use(one, 1)

    def _check_room(self, entry: Entry) -> None:
        """Nothing is given out twice, and who wants to be alone is."""
        for place in self._moved:
            value, room = self.used[place], self._room.get(place)
            fits = value >= 0 and (room is None or value <= room)
            if not fits:
                check(False, f"entry {entry.seq}: {value} of {place} are given out, of {room}")
        for host in self._touched:
            self._check_guests(host, self._guests.get(host, set()))
        self._moved.clear()
        self._touched.clear()

    def _check_guests(self, host: HostNumber, guests: set[tuple[JobId, Index]]) -> None:
        for job, index in guests:
            kept = self.jobs[job]
            one = kept.elements[index]
            is_alone = len(guests) == 1 or not self._requests[one.cls].exclusive
            check(is_alone, f"{job}[{index}] shares host {host}")
            # Parts of one whose first host is another are ended there before.
            is_lost = host in self._lost and one.hosts[0][0] == host
            check(not is_lost, f"{job}[{index}] lives on lost host {host}")
