"""What must be true of a world: judged by what it did, and by what its disk has.

Nothing here asks the controller what it believes.
"""

from collections import Counter
from collections.abc import Callable

import msgspec

from xce.journal.recover import recover
from xce.model.dependency import EACH, And, Condition, Dependency, Test
from xce.model.effect import Launch
from xce.model.entry import Entry
from xce.model.host_record import HostsLeftOut, HostsLost, HostUp
from xce.model.ids import Index, JobId, Micros
from xce.model.job import EndCause, Outcome
from xce.model.record import (
    EndDecided,
    Ended,
    JobSubmitted,
    LaunchFailed,
    Record,
    Reopened,
    Requeued,
    SpecStored,
    Withdrawn,
)
from xce.model.record_modify import JobModified
from xce.sim.device_oracle import overfull_devices, shared_processors
from xce.sim.disk import Disk
from xce.sim.forms import Forms
from xce.sim.room_oracle import check_room
from xce.sim.untrue import UntrueError, demand
from xce.state.apply import apply, apply_records, begin_entry
from xce.state.check import check_not_over_committed, check_state, what_is_given_out
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.snapshot import digest, load
from xce.worker.action import Key

NO_SCRIPT = "0" * 32
"""What a job has in place of its script that was taken up again on a host's word."""
CHECK_EVERY = 25
"""Stored batches between two looks at the whole state."""


class Mark(msgspec.Struct):
    """What was known of the jobs in a journal when a backup of it was taken."""

    jobs: dict[JobId, JobSubmitted]
    ends: Counter[JobId]
    sizes: dict[JobId, int]
    rerunnable: dict[int, bool]
    final: dict[tuple[JobId, Index], int | None]
    done: set[tuple[JobId, Index]]


class Truth:
    """What really happened: entries on the disk, processes on the hosts."""

    def __init__(self) -> None:
        self.state = ClusterState()
        """What the entries on the disk make of nothing."""
        self.running: dict[Key, tuple[str, Launch]] = {}
        self.stopped: set[Key] = set()
        """Processes that are suspended."""
        self.frozen: set[Key] = set()
        """Those that stand still for their leases."""
        self.stale: set[Key] = set()
        """Of what runs: on hosts that were given up under it. It may run beside another attempt,
        and nothing else may start on its host."""
        self.fencing_is_sure = True
        """Whether whoever ends jobs that have lost the controller always lives."""
        self.forms = Forms()
        self.on_start: Callable[[Key, Launch], object] = lambda *_: None
        """Is told of each process that starts."""
        self.on_end: Callable[[Key], object] = lambda _: None
        """Is told of each that is gone."""
        self.jobs: dict[JobId, JobSubmitted] = {}
        self.ends: Counter[JobId] = Counter()
        """Ended elements of each job."""
        self.started = 0
        self._sizes: dict[JobId, int] = {}
        self._started: set[tuple[str, int, Key]] = set()
        self._ever: set[Key] = set()
        self._codes: dict[Key, tuple[int, bool]] = {}
        self._rebooted: set[Key] = set()
        self._reboots: set[str] = set()
        """Hosts that were restarted."""
        self._unsure: set[Key] = set()
        """Given up by an administrator, who does not wait until they are fenced."""
        self.given_up: set[Key] = set()
        """Of what a restored journal lacks: what runs on hosts that were given up since."""
        self._losses: set[str] = set()
        """Hosts that were given up."""
        self._rerunnable: dict[int, bool] = {}
        """By spec."""
        self._fenced: set[JobId] = set()
        """Jobs that were rerunnable once: their hosts may have ended them for their leases,
        whatever they were changed to meanwhile."""
        self._final: dict[tuple[JobId, Index], int | None] = {}
        """Exit status of elements that ended; None: unknown, or never ran."""
        self._done: set[tuple[JobId, Index]] = set()
        """Elements that were done once, though they may have been opened again since."""
        self._batches = 0
        self._given_out: tuple[object, ...] = ()
        """What was given out of what when that was looked at last."""

    # The disk.

    def mark(self) -> Mark:
        """Return what is known now of the jobs in the journal."""
        return Mark(
            dict(self.jobs), self.ends.copy(), dict(self._sizes), dict(self._rerunnable),
            dict(self._final), set(self._done),
        )  # fmt: skip

    def go_back(self, mark: Mark, entries: list[Entry]) -> None:
        """Learn that the journal was restored: it ends with these entries, the last of then.

        What hosts really did stays; it may be of attempts that the journal lacks now.
        """
        self.forms = self.forms.restored(entries)
        self.state = ClusterState()
        for entry in entries:
            apply(self.state, entry)
        self.jobs, self.ends, self._sizes = mark.jobs, mark.ends, mark.sizes
        self._rerunnable, self._final, self._done = mark.rerunnable, mark.final, mark.done
        self.stale -= self.forms.lost | self.forms.before
        self._given_out = ()

    @property
    def strangers(self) -> dict[Key, str]:
        """What runs that the journal has lost, and where."""
        lost = self.forms.lost
        return {key: host for key, (host, _) in self.running.items() if key in lost} if lost else {}

    @property
    def ignored(self) -> set[Key]:
        """What runs beside what the journal knows."""
        return self.stale | self.strangers.keys() if self.forms.lost else self.stale

    def _strange_twins(self, key: Key) -> list[Key]:
        """Return what runs of the element of an attempt, is lost, and is on no host given up."""
        if key in self.forms.before:
            return []  # it was placed before they were
        return [one for one in self.strangers if one[:2] == key[:2] and one not in self.given_up]

    def note_stored(self, entries: list[Entry]) -> None:
        """Learn that entries are durable."""
        self.forms.note(entries)
        for entry in entries:
            begin_entry(self.state, seq=entry.seq, at_us=entry.at_us)
            for record in entry.records:
                self._judge(record)
                apply_records(self.state, (record,))
                if isinstance(record, JobModified) and not record.firsts:
                    self.jobs[record.job] = msgspec.structs.replace(
                        self.jobs[record.job],
                        spec_id=record.spec_id,
                        cls=record.cls,
                        dependency=record.dependency,
                    )
                if isinstance(record, JobSubmitted):
                    self.jobs[record.job] = record
                    self._sizes[record.job] = self.state.jobs[record.job].size
                if isinstance(record, JobSubmitted | JobModified):
                    self._fenced.update({record.job} if self._rerunnable[record.spec_id] else ())
        given_out = what_is_given_out(self.state)
        if given_out != self._given_out:
            check_not_over_committed(self.state)
            self._given_out = given_out
        self._batches += 1
        if self._batches % CHECK_EVERY == 0:
            check_state(self.state)

    def _judge(self, record: Record) -> None:
        match record:
            case SpecStored():
                self._rerunnable[record.spec_id] = record.spec.rerunnable
            case HostsLost() | HostUp():
                self._judge_host(record)
            case HostsLeftOut():
                self._leave_out(record)
            case Reopened():
                for element in zip(record.jobs, record.indices, strict=True):
                    demand(element in self._final, f"{element} is opened again, and never ended")
                    del self._final[element]
                    self.ends[element[0]] -= 1
            case _:
                self._judge_element(record)

    def _judge_element(self, record: Record) -> None:
        match record:
            case Requeued():
                self._judge_requeued(record)
            case Ended():
                self._judge_ends(record)
            case Withdrawn():
                for job_id, first, last in zip(
                    record.jobs, record.firsts, record.lasts, strict=True
                ):
                    job = self.state.jobs[job_id]
                    for lo, hi in job.positions(first, last):
                        for position in range(lo, hi + 1):
                            self._judge_withdrawn(job, position)
                            if record.cause is EndCause.DEADLINE:
                                self._judge_deadline(job, position, record.at_us, is_live=False)
            case EndDecided() if record.cause is EndCause.DEADLINE:
                self._judge_overdue(record)
            case LaunchFailed():
                for job_id, index in zip(record.jobs, record.indices, strict=True):
                    key = (job_id, index, self._attempt(job_id, index))
                    # What a restarted host has no trace of may be started there once more.
                    ran = key in self._ever and key not in self._rebooted
                    demand(not ran, f"{key} ran, and is said to have failed to start")
            case _:
                pass

    def _judge_host(self, record: HostsLost | HostUp) -> None:
        """What runs on a host that is given up is stale; who comes back says what is."""
        names = self.state.hosts.names
        if isinstance(record, HostsLost):
            lost = {names[number] for number in record.hosts}
            for name in lost:
                is_up = self.state.hosts.is_up[self.state.hosts.number[name]]
                demand(not is_up, f"host {name} is given up and is connected")
            self._losses |= lost
            found = {key for key, (host, _) in self.running.items() if host in lost}
            self.given_up |= found & self.forms.lost
            found -= self.forms.lost
            self.stale |= found
            if record.by:
                self._unsure |= found
            return
        mine = {key for key in self.stale if self.running[key][0] == names[record.host]}
        demand(mine <= set(record.stale), f"{mine - set(record.stale)} are stale, and nobody knows")

    def _leave_out(self, record: HostsLeftOut) -> None:
        """What runs has hosts no more."""
        rows = zip(record.hosts, record.jobs, record.indices, record.attempts, strict=True)
        for number, *element in rows:
            key = (element[0], element[1], element[2])
            if key in self.running:
                host, launch = self.running[key]
                name = self.state.hosts.names[number]
                left = tuple(pair for pair in launch.hosts if pair[0] != name)
                self.running[key] = (host, msgspec.structs.replace(launch, hosts=left))

    def _attempt(self, job_id: JobId, index: Index) -> int:
        job = self.state.jobs[job_id]
        position = job.position(index)
        attempt = self.state.attempt(job_id, position) if position is not None else None
        return attempt.number if attempt is not None else 0

    def _judge_withdrawn(self, job: Job, position: int) -> None:
        element = (job.id, job.index(position))
        demand(not self._runs(element), f"{element} is withdrawn while it runs")
        self._note_end(element, None)

    def _judge_overdue(self, record: EndDecided) -> None:
        for job_id, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
            job = self.state.jobs[job_id]
            for lo, hi in job.positions(first, last):
                for position in range(lo, hi + 1):
                    self._judge_deadline(job, position, record.at_us, is_live=True)

    def _judge_deadline(self, job: Job, position: int, at_us: Micros, *, is_live: bool) -> None:
        """What ends for its deadline has reached it, or would run beyond it."""
        deadline_us = self.state.spec_at(job, position).deadline_us
        limit_us = 0 if is_live else self.state.class_at(job, position).key.run_limit_us
        is_over = 0 < deadline_us <= at_us + limit_us
        demand(is_over, f"({job.id}, {job.index(position)}) is ended before its deadline")

    def _judge_requeued(self, record: Requeued) -> None:
        """What a host knows of an attempt is told with the record, and as it was."""
        away = self._losses | self._reboots
        for at, element in enumerate(zip(record.jobs, record.indices, strict=True)):
            demand(not self._runs(element), f"{element} is requeued while it runs")
            key = (*element, self._attempt(*element))
            real, is_known = self._codes.get(key, (0, False))
            is_told = is_known and not self._hosts_of(key) & away
            is_told = is_told and key not in self.forms.over
            demand(not is_told or bool(record.cpu_us), f"nobody knows what {key} used")
            # A host that was started anew in between knows nothing of it, and ends it as it can.
            if is_told:
                code, cpu_us = record.exit_codes[at], record.cpu_us[at]
                demand(code == real, f"{key}: exit {code}, its process said {real}")
                demand(cpu_us > 0, f"{key} ran, and is said to have used nothing")

    def _runs(self, element: tuple[JobId, Index]) -> bool:
        """Return whether an attempt of an element runs on a host that was not given up under it."""
        beside = self.ignored
        return any(key[:2] == element and key not in beside for key in self.running)

    def _note_end(self, element: tuple[JobId, Index], code: int | None) -> None:
        demand(element not in self._final, f"{element} ends twice")
        self._final[element] = code
        if code == 0:
            self._done.add(element)
        self.ends[element[0]] += 1

    def _judge_ends(self, record: Ended) -> None:
        rows = zip(
            record.jobs, record.indices, record.attempts, record.outcomes, record.exit_codes,
            record.causes, record.started_at_us, record.ended_at_us, strict=True,
        )  # fmt: skip
        for job, index, attempt, outcome, code, cause, started_us, ended_us in rows:
            key = (job, index, attempt)
            demand(not self._runs((job, index)), f"{key} is said to have ended while it runs")
            real, is_known = self._codes.get(key, (None, False))
            if outcome == Outcome.DONE:
                demand(real == 0 and is_known, f"{key} is DONE, its process said {real}")
            elif cause == EndCause.NONE:
                demand(is_known and real == code, f"{key}: exit {code}, its process said {real}")
            elif cause in {EndCause.STATUS_LOST, EndCause.HOST_RESTARTED}:
                is_excused = not is_known or key in self._rebooted or key in self.forms.over
                is_excused = is_excused or bool(self._hosts_of(key) & self._reboots)
                demand(is_excused, f"{key}: cause {cause}, its process said {real}")
            elif cause == EndCause.HOST_LOST:
                is_excused = bool(self._hosts_of(key) & self._losses) or job in self._fenced
                demand(is_excused, f"{key}: cause {cause}, and none of its hosts was lost")
            if cause in {EndCause.HOST_LOST, EndCause.HOST_RESTARTED}:
                spec = self.forms.made[key].specs[-1]
                # What was taken up again without its script cannot be.
                is_rerunnable = spec.rerunnable and spec.script != NO_SCRIPT
                demand(not is_rerunnable, f"{key} is rerunnable, and ended for {cause}")
            demand(ended_us >= started_us, f"{key} ended before it began")
            self._note_end((job, index), real if is_known else None)

    def _hosts_of(self, key: Key) -> set[str]:
        """Return the hosts that a live attempt has or has lost."""
        job = self.state.jobs[key[0]]
        position = job.position(key[1])
        attempt = self.state.attempt(job.id, position) if position is not None else None
        if attempt is None or attempt.number != key[2]:
            return set()
        names = self.state.hosts.names
        return {names[number] for number in (*attempt.hosts, *attempt.left_out)}

    # The hosts.

    def note_process(self, host: str, boot: int, key: Key, launch: Launch) -> None:
        """Learn that a process was started."""
        demand((host, boot, key) not in self._started, f"{key} was started twice")
        self.on_start(key, launch)
        is_strange = key in self.forms.lost
        if is_strange or self._is_late(host, key):
            # It was launched before its host was given up, and nobody could tell the host.
            self.running[key] = (host, launch)
            self.stale.update(() if is_strange else (key,))
            self._started.add((host, boot, key))
            self._ever.add(key)
            return
        beside = [other for other in self.stale if self.running[other][0] == host]
        demand(not beside, f"{key} was started on {host}, where {beside} still run")
        for other in self.stale:
            is_twin = other[:2] == key[:2] and self._is_surely_fenced(other)
            demand(not is_twin, f"{key} was started while {other} runs, which was to be fenced")
        demand(not self._runs(key[:2]), f"{key} was started beside another attempt")
        twins = self._strange_twins(key)
        demand(not twins, f"{key} was started, and {twins} run, which the journal has lost")
        job = self.state.jobs.get(key[0])
        demand(job is not None, f"{key} was started before its job was durable")
        assert job is not None
        position = job.position(key[1])
        live = self.state.attempt(job.id, position) if position is not None else None
        demand(
            live is not None and live.number == key[2],
            f"{key} was started, and the journal has no such attempt that lives",
        )
        assert position is not None
        is_met = self._is_met(self.jobs[job.id].dependency, position)
        demand(is_met, f"{key} started before its dependency")
        self.running[key] = (host, launch)
        self._started.add((host, boot, key))
        self._ever.add(key)
        self.started += 1
        self._check_array_limit(job)
        ignored = self.ignored
        check_room(self.state, self.running, ignored, self.stopped)
        twice = overfull_devices(host, self.running, ignored)
        twice += shared_processors(host, self.running, ignored)
        demand(not twice, f"{key} was started, and {twice} are in use")

    def note_gone(self, host: str, key: Key, exit_code: int, *, is_known: bool) -> None:
        """Learn that nothing of an attempt is left, and its exit status."""
        self.running.pop(key, None)
        self.stale.discard(key)
        self.stopped.discard(key)
        self.frozen.discard(key)
        self._codes[key] = (exit_code, is_known)
        self.on_end(key)

    def _is_late(self, host: str, key: Key) -> bool:
        """Whether a host was given up and does what it was told before that."""
        number = self.state.hosts.number[host]
        job = self.state.jobs.get(key[0])
        position = job.position(key[1]) if job is not None else None
        live = self.state.attempt(key[0], position) if position is not None else None
        is_over = live is None or live.number != key[2]
        return is_over and host in self._losses and not self.state.hosts.is_up[number]

    def note_stopped(self, key: Key, *, suspended: bool) -> None:
        """Learn that a process is to be suspended, or is not any more."""
        (self.stopped.add if suspended else self.stopped.discard)(key)

    def note_frozen(self, key: Key, *, frozen: bool) -> None:
        """Learn that a process is to stand still for its lease, or is not any more."""
        (self.frozen.add if frozen else self.frozen.discard)(key)

    def note_going(self, key: Key) -> None:
        """Learn that a process that stood still goes on."""
        demand(key not in self.stopped, f"{key} goes on, and is to be suspended")
        demand(key not in self.frozen, f"{key} goes on, and is to be frozen")
        if key in self.stale and self._is_surely_fenced(key):
            raise UntrueError(f"{key} goes on, which may be started elsewhere")

    def _is_surely_fenced(self, key: Key) -> bool:
        """Whether an attempt may not outlive its lost host's grace."""
        is_sure = self.fencing_is_sure and key not in self._unsure
        return is_sure and self.running[key][1].fence_us > 0

    def note_reboot(self, host: str) -> None:
        """Learn that a host was restarted: ends that it had not told may be unknown for ever."""
        self._reboots.add(host)
        for place, _, key in self._started:
            if place == host:
                self._rebooted.add(key)

    def _is_met(self, tree: Dependency | None, position: int) -> bool:
        """Judge what is easy to judge: that all of some jobs are done, for one element."""
        match tree:
            case Condition(Test.DONE, subjects):
                return all(
                    (subject.job, index) in self._done
                    for subject in subjects
                    for index in self._indices(subject.job, subject.index, position)
                )
            case And(parts):
                return all(self._is_met(part, position) for part in parts)
            case _:
                return True

    def _indices(self, job: JobId, index: Index, position: int) -> list[Index]:
        if index >= 0:
            return [index]
        array = self.jobs[job].array
        if index == EACH and array is not None:
            return [array.index_of(position)]
        return [0] if array is None else [array.index_of(place) for place in range(array.count)]

    def _check_array_limit(self, job: Job) -> None:
        if job.array is not None and job.array.limit:
            beside = self.ignored
            running = sum(key[0] == job.id and key not in beside for key in self.running)
            demand(running <= job.array.limit, f"{running} elements of job {job.id} run")

    # The end.

    def unended(self) -> list[JobId]:
        """Return the jobs that have elements which have not ended."""
        return [job for job, size in self._sizes.items() if self.ends[job] < size]

    def check_recovery(self, disk: Disk) -> None:
        """What the disk has makes the state that its entries made."""
        state, seq, _ = recover(disk, restore=load, empty=ClusterState, apply_entry=apply)
        demand(seq == self.state.seq, f"recovered {seq}, stored {self.state.seq}")
        check_state(state)
        demand(digest(state) == digest(self.state), "snapshot and entries give another state")

    def check_quiet(self) -> None:
        """Nothing runs and nothing is given out."""
        demand(not self.running, f"still running: {list(self.running)}")
        check_state(self.state)
        demand(not self.state.hosts.used.any(), "amounts are still given out")
        demand(not any(self.state.pools.used.values()), "pools are still in use")
