"""The history store: what was submitted and how it ended, for ever, in a database of its own.

It is made from records only and knows how far it came: the cursor is written in the transaction of
the rows, so an entry is stored once, whenever the writer dies.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from xce.journal.audit import OF_USERS
from xce.journal.history_jobs import JobRows
from xce.journal.history_live import Apart
from xce.journal.history_place import HistoryPlace, open_for_writing, place_text
from xce.journal.history_schema import COUNTED, INSERT, LIVE_COME, LIVE_GONE, TO_HOLD, Happening
from xce.journal.history_store import HistoryError, HistoryTakenError, Step
from xce.model import record as r
from xce.model.checkpoint import is_checkpoint
from xce.model.entry import Entry
from xce.model.host_record import (
    CheckpointsSeen,
    HostDown,
    HostsLeftOut,
    HostsSilent,
    HostUp,
)
from xce.model.ids import Epoch, HostNumber, Micros, Seq
from xce.model.job import EndCause, Outcome
from xce.model.ranges import Ranges, from_sorted
from xce.model.record_modify import JobModified
from xce.model.request import ClassKey
from xce.state.cluster import ClusterState
from xce.state.job import CHUNK, Job

_REMEMBERED: Final = 50_000
"""Most names and queues that are kept in memory between commits."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_KEY: Final = msgspec.msgpack.Decoder(ClassKey)
_Used: TypeAlias = tuple[int, int, Micros, Micros, Micros, int]
"""Exit code, signal, start, end, CPU time, memory."""


class HistoryWriter(JobRows):
    """Gathers rows from entries and commits them with the cursor.

    Args:
        place: The database; made where there is none.

    Raises:
        HistoryHeldError: Another process writes it.
        HistoryError: It cannot be opened, or is of another release.
    """

    def __init__(self, place: HistoryPlace) -> None:
        self.place = place_text(place)
        self.store = open_for_writing(place)
        try:
            ((seq, crc, epoch),) = self.store.rows("SELECT seq, crc, epoch FROM cursor")
            super().__init__(self.store)
        except BaseException:
            self.store.close()
            raise
        self.seq: Seq = seq
        """The last entry of which everything is stored."""
        self.crc: int | None = crc
        self.epoch: Epoch = epoch
        self._next = (self.seq, self.crc, self.epoch)
        self._done: Counter[int] = Counter()
        self._exited: Counter[int] = Counter()
        self._in_runs = 0
        """How many rows the runs of withdrawn jobs come to."""

    @property
    def pending_rows(self) -> int:
        """How many rows wait for the next commit."""
        runs = len(self._rows["withdrawn_runs"])
        return sum(map(len, self._rows.values())) - runs + self._in_runs

    @property
    def has_news(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._next[0] != self.seq)

    def take(self, entries: Sequence[Entry], *, crc: int | None, epoch: Epoch) -> None:
        """Gather the rows of entries that follow.

        Args:
            entries: In order, behind the last ones taken.
            crc: The checksum of the last one.
            epoch: The reign under which they came.
        """
        self._look_ahead(entries)
        for entry in entries:
            self._at_us, self._by = entry.at_us, entry.cause.by
            for record in entry.records:
                take = _TAKE.get(type(record))
                if take is not None:
                    take(self, record)
            if entry.cause.kind in OF_USERS:
                self._audit(entry)
        self._next = (entries[-1].seq, crc, epoch)

    def _look_ahead(self, entries: Sequence[Entry]) -> None:
        """Read what rows will repeat of what was stored before: all at once, since the store may be
        far away.
        """
        live, records = self._live, [record for entry in entries for record in entry.records]
        jobs: set[int] = set()
        for record in records:
            if isinstance(record, r.BulkPlaced | r.Ended | r.Requeued | r.LaunchFailed):
                jobs.update(record.jobs)
        live.load_jobs(jobs)
        places: list[tuple[int, int]] = []
        for record in records:
            if isinstance(record, r.BulkPlaced):
                for run in zip(record.jobs, record.firsts, record.lasts, strict=True):
                    places += live.runs_of(*run)
            elif isinstance(record, r.GangPlaced):
                places.append((record.job, record.index))
        live.load_numbers(places)

    def commit(self) -> None:
        """Store what was gathered, and how far it reaches.

        Raises:
            HistoryTakenError: Another process writes the history now.
            HistoryError: It may be tried again: what has come through already is not stored twice.
        """
        before = "UPDATE cursor SET seq = ?, crc = ?, epoch = ? WHERE seq = ?"
        is_done = self.store.commit(self._steps(), claim=(before, (*self._next, self.seq)))
        if not is_done and self.store.rows("SELECT seq, crc, epoch FROM cursor") != [self._next]:
            # Else an earlier try has come through whose answer was lost.
            raise HistoryTakenError(f"{self.place}: another process writes the history, too")
        self.seq, self.crc, self.epoch = self._next
        self._live.note_stored()
        for rows in self._rows.values():
            rows.clear()
        self._done.clear()
        self._exited.clear()
        self._in_runs = 0
        for known in (self._names, self._keys):
            if len(known) > _REMEMBERED:
                known.clear()

    def _steps(self) -> list[Step]:
        gone, come = self._live.rows()
        counted = [
            (self._done.get(job, 0), self._exited.get(job, 0), job)
            for job in {**self._done, **self._exited}
        ]
        return [
            *((statement, self._rows[name]) for name, statement in INSERT.items()),
            (LIVE_GONE, gone),
            (LIVE_COME, come),
            (COUNTED, counted),
        ]

    def begin(self, state: ClusterState, *, epoch: Epoch) -> None:
        """Gather the rows of a whole state: the beginning of a history that begins late.

        Raises:
            HistoryError: There is history already: entries between it and this state are lost.
        """
        if self.seq or self.has_news:
            raise HistoryError(
                f"{self.place}: has everything up to entry {self._next[0]}, and was given the "
                f"state at entry {state.seq} to go on from: what happened between is lost, or the "
                "journal is another one. Move the history away, with its mail, to begin a new one"
            )
        self._add_hosts(state.hosts.names)
        for spec_id, spec in state.specs.items():
            self._rows["specs"].append((spec_id, _ENCODER.encode(spec)))
            self._names[spec_id] = spec.name
        for cls, found in state.classes.items():
            self._rows["classes"].append((cls, _ENCODER.encode(found.key), found.resreq))
            self._keys[cls] = (found.key.queue, found.key.project)
        for job in state.jobs.values():
            self._add_present(job)
        for host, is_silent in enumerate(state.hosts.is_silent):
            for job_id, index in self._live.lose_sight(host) if is_silent else ():
                run = (job_id, index, index)
                self._event(run, Happening.UNKNOWN, by="", at_us=state.now_us)
        self._next = (state.seq, None, epoch)

    def close(self) -> None:
        """Close the store; what was not committed comes again from the journal."""
        self.store.close()

    # Each of these gathers the rows of one kind of record.

    def _bulk_placed(self, record: r.BulkPlaced) -> None:
        shares = zip(record.hosts, record.counts, strict=True)
        hosts = (host for host, count in shares for _ in range(count))
        for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
            for index in self._live.job(job).indices(first, last):
                self._live.place((job, index), next(hosts), record.at_us)

    def _placed(self, record: r.GangPlaced) -> None:
        place = (record.job, record.index)
        number = self._live.place(place, record.hosts[0], record.at_us, number=record.number)
        hosts, tasks = _ENCODER.encode(record.hosts), _ENCODER.encode(record.tasks)
        self._rows["placements"].append((*place, number, hosts, tasks))

    def _started(self, record: r.Started) -> None:
        rows = zip(record.jobs, record.indices, record.pids, record.at_us, strict=True)
        for job, index, pid, at_us in rows:
            self._live.start((job, index), pid, at_us)

    def _ended(self, record: r.Ended) -> None:
        rows, live = self._rows["attempts"], self._live
        columns = zip(
            record.jobs, record.indices, record.attempts, record.outcomes, record.exit_codes,
            record.signals, record.causes, record.hosts, record.started_at_us, record.ended_at_us,
            record.cpu_us, record.max_mem_kib, strict=True,
        )  # fmt: skip
        for job, index, number, outcome, *codes, host, started, ended, cpu, mem in columns:
            known, facts = live.end((job, index), number), live.job(job)
            placed = known.placed_at_us if known is not None else started
            rows.append(
                (
                    job, index, number, outcome, *codes, host, placed, started, ended, cpu, mem,
                    facts.submit_at_us, facts.user, facts.queue_of(index), 0,
                )
            )  # fmt: skip
            (self._done if outcome == Outcome.DONE else self._exited)[job] += 1
        for place, detail in record.details:
            self._rows["details"].append((record.jobs[place], record.indices[place], detail))

    def _went_on(
        self,
        place: tuple[int, int],
        kind: Happening,
        cause: int = 0,
        text: str = "",
        used: _Used | None = None,
    ) -> None:
        """Gather the rows of an attempt that is over while its element goes on.

        Args:
            place: The element.
            kind: What happened.
            cause: Why it is requeued.
            text: What more there is to say.
            used: How it ended and what it used; None: no host has told.
        """
        known, facts = self._live.end(place), self._live.job(place[0])
        self._event((*place, place[1]), kind, amount=cause, text=text)
        if known is None:
            return
        code, signal, started, ended, cpu, mem = used or (
            0, 0, known.started_at_us, self._at_us, 0, 0
        )  # fmt: skip
        self._rows["attempts"].append(
            (
                *place, known.number, 0, code, signal, cause, known.host, known.placed_at_us,
                started, ended, cpu, mem, facts.submit_at_us, facts.user,
                facts.queue_of(place[1]), 0,
            )
        )  # fmt: skip

    def _requeued(self, record: r.Requeued) -> None:
        details = dict(record.details)
        causes = record.causes or [int(EndCause.PREEMPT)] * len(record.jobs)
        used = list(
            zip(
                record.exit_codes, record.signals, record.started_at_us, record.ended_at_us,
                record.cpu_us, record.max_mem_kib, strict=True,
            )
        )  # fmt: skip
        for row, place in enumerate(zip(record.jobs, record.indices, strict=True)):
            text, told = details.get(row, ""), used[row] if used else None
            self._went_on(place, Happening.REQUEUED, causes[row], text, told)
            if row in record.held:
                self._event((*place, place[1]), Happening.HELD, by="")

    def _launch_failed(self, record: r.LaunchFailed) -> None:
        for place in zip(record.jobs, record.indices, strict=True):
            self._went_on(place, Happening.START_FAILED, text=record.detail)

    def _reopened(self, record: r.Reopened) -> None:
        """Note that elements are not over: their attempts still count, their ends do not."""
        places = list(zip(record.jobs, record.indices, strict=True))
        gone = set(places)
        rows = self._rows
        rows["details"] = [row for row in rows["details"] if row[:2] not in gone]
        rows["attempts"] = [(*row[:-1], 1) if row[:2] in gone else row for row in rows["attempts"]]
        rows["reopened"].extend(places)
        rows["details_gone"].extend(places)
        for place, outcome in zip(places, record.outcomes, strict=True):
            (self._done if outcome == Outcome.DONE else self._exited)[place[0]] -= 1
            run = (*place, place[1])
            self._event(run, Happening.REOPENED, amount=int(record.cause), by=record.by)
            if record.hold:
                self._event(run, Happening.HELD, by=record.by)

    def _host_silent(self, host: HostNumber) -> None:
        for job, index in self._live.lose_sight(host):
            self._event((job, index, index), Happening.UNKNOWN, by="")

    def _hosts_silent(self, record: HostsSilent) -> None:
        for host in record.hosts:
            self._host_silent(host)

    def _host_down(self, record: HostDown) -> None:
        if record.silent:
            self._host_silent(record.host)

    def _host_up(self, record: HostUp) -> None:
        for job, index in self._live.see_again(record.host):
            self._event((job, index, index), Happening.KNOWN, by="")

    def _hosts_left_out(self, record: HostsLeftOut) -> None:
        for host, job, index in zip(record.hosts, record.jobs, record.indices, strict=True):
            self._event((job, index, index), Happening.HOST_LEFT_OUT, amount=host, by="")

    def _withdrawn(self, record: r.Withdrawn) -> None:
        cause, by, at_us = int(record.cause), record.by, record.at_us
        if not any(record.firsts) and not any(record.lasts):
            # None is an array, whose indices begin at 1. There may be a million of them: the store
            # itself makes their rows, a run of jobs at a time.
            for first, last in from_sorted(sorted(record.jobs)):
                self._rows["withdrawn_runs"].append((cause, by, at_us, first, last))
            self._in_runs += len(record.jobs)
            return
        # How many elements of the state a run has depends on the array.
        for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
            self._add_withdrawn(job, first, last, cause, by, at_us)

    def _decided(self, record: r.EndDecided) -> None:
        for run in zip(record.jobs, record.firsts, record.lasts, strict=True):
            self._event(
                run, Happening.END_DECIDED, amount=int(record.cause), by=record.by,
                text=TO_HOLD if record.requeue and record.hold else "",
            )  # fmt: skip

    def _signaled(self, record: r.SignalAsked) -> None:
        asks = is_checkpoint(record.signal)
        kind = Happening.CHECKPOINT_ASKED if asks else Happening.SIGNALED
        for run in zip(record.jobs, record.firsts, record.lasts, strict=True):
            self._event(run, kind, amount=record.signal, by=record.by)

    def _checkpoints(self, record: CheckpointsSeen) -> None:
        for job, index, fault in zip(record.jobs, record.indices, record.faults, strict=True):
            kind = Happening.CHECKPOINT_FAILED if fault else Happening.CHECKPOINTED
            self._event((job, index, index), kind, by="", text=fault)

    def _held(self, record: r.Held) -> None:
        for run in zip(record.jobs, record.firsts, record.lasts, strict=True):
            self._event(run, Happening.HELD)

    def _unheld(self, record: r.Unheld) -> None:
        for run in zip(record.jobs, record.firsts, record.lasts, strict=True):
            self._event(run, Happening.UNHELD)

    def _suspension_asked(self, record: r.SuspensionAsked) -> None:
        kind = Happening.STOP_ASKED if record.suspended else Happening.RESUME_ASKED
        for run in zip(record.jobs, record.firsts, record.lasts, strict=True):
            self._event(run, kind, by=record.by)

    def _suspension_done(self, record: r.SuspensionDone) -> None:
        kind = Happening.SUSPENDED if record.suspended else Happening.RESUMED
        for job, index in zip(record.jobs, record.indices, strict=True):
            self._event((job, index, index), kind, by="")

    def _stops_changed(self, record: r.StopsChanged) -> None:
        kind = Happening.SYSTEM_STOPPED if record.is_on else Happening.SYSTEM_RESUMED
        for run in zip(record.jobs, record.firsts, record.lasts, strict=True):
            self._event(run, kind, amount=int(record.stop), by="")

    def _moved(self, record: r.JobsMoved) -> None:
        for job in record.jobs:
            self._event((job, 0, 1 << 62), Happening.MOVED)

    def _add_present(self, job: Job) -> None:
        """Gather the rows of a job of the state."""
        self._submitted(
            r.JobSubmitted(
                job.id, job.spec_id, job.cls, job.owner, job.submit_at_us, array=job.array
            ),
            is_new=False,
        )
        for one in job.variants:
            queue, _ = self._key(one.cls)
            new = Apart(tuple(_index_ranges(job, one.ranges)), one.cls, one.spec_id, queue)
            self._set_apart(job.id, self._live.job(job.id), new, (job.cls, job.spec_id))
        self._add_live(job)
        for first, last in _index_ranges(job, job.held):
            self._event((job.id, first, last), Happening.HELD, by="")
        for position, detail in (job.details or {}).items():
            self._rows["details"].append((job.id, job.index(position), detail))
        for position, requeue in (job.requeues or {}).items():
            index = job.index(position)
            self._event(
                (job.id, index, index), Happening.REQUEUED, amount=requeue.cause, by=requeue.by,
                text=requeue.detail, at_us=requeue.at_us,
            )  # fmt: skip
        causes = self._add_ended(job)
        for position, by in (job.ended_by or {}).items():
            self._add_decision(job.id, job.index(position), causes.get(position, 0), by)
        for item in job.withdrawn:
            for first, last in _index_ranges(job, item.ranges):
                self._add_withdrawn(job.id, first, last, int(item.cause), item.by, item.at_us)

    def _add_live(self, job: Job) -> None:
        """Gather the attempts of a job that are not over."""
        for position, attempt in (job.live or {}).items():
            index = job.index(position)
            place = (job.id, index)
            self._live.place(place, attempt.hosts[0], attempt.placed_at_us, number=attempt.number)
            if attempt.started_at_us:
                self._live.start(place, attempt.pid, attempt.started_at_us)
            if len(attempt.hosts) > 1 or attempt.tasks[0] > 1:
                hosts, tasks = _ENCODER.encode(attempt.hosts), _ENCODER.encode(attempt.tasks)
                self._rows["placements"].append((*place, attempt.number, hosts, tasks))
            for host in attempt.left_out:
                self._event((job.id, index, index), Happening.HOST_LEFT_OUT, amount=host, by="")
            if attempt.end_cause:
                self._add_decision(job.id, index, int(attempt.end_cause), attempt.end_by)
            if attempt.suspended:
                by_system = attempt.is_stopped_by_system
                asked = Happening.SYSTEM_STOPPED if by_system else Happening.STOP_ASKED
                for kind in (asked, Happening.SUSPENDED):
                    self._event((job.id, index, index), kind, by="")

    def _add_decision(self, job: int, index: int, cause: int, by: str) -> None:
        self._event((job, index, index), Happening.END_DECIDED, amount=cause, by=by)

    def _add_ended(self, job: Job) -> dict[int, int]:
        """Gather the ended elements of a job; return the cause of each that has one."""
        ended = [(0, job.ended)] if job.ended is not None else []
        for number, chunk in (job.chunks or {}).items():
            for place in np.flatnonzero(chunk.rows["outcome"]).tolist():
                found = chunk.load(place)
                if found is not None:
                    ended.append((number * CHUNK + place, found))
        for position, item in ended:
            facts = self._live.job(job.id)
            self._rows["attempts"].append(
                (
                    job.id, job.index(position), item.attempt, item.outcome, item.exit_code,
                    item.signal, item.cause, item.host, item.started_at_us, item.started_at_us,
                    item.ended_at_us, item.cpu_us, item.max_mem_kib, facts.submit_at_us,
                    facts.user, facts.queue_of(job.index(position)), 0,
                )
            )  # fmt: skip
            (self._done if item.outcome == Outcome.DONE else self._exited)[job.id] += 1
        return {position: item.cause for position, item in ended if item.cause}


def _index_ranges(job: Job, ranges: Ranges) -> list[tuple[int, int]]:
    return [(job.index(first), job.index(last)) for first, last in ranges]


_TAKE: Final[dict[type, Callable[[HistoryWriter, Any], None]]] = {
    r.ConfigApplied: HistoryWriter._config,  # noqa: SLF001 - a table of this class's own methods
    r.SpecStored: HistoryWriter._spec,  # noqa: SLF001
    r.ClassStored: HistoryWriter._class,  # noqa: SLF001
    r.JobSubmitted: HistoryWriter._submitted,  # noqa: SLF001
    JobModified: HistoryWriter._modified,  # noqa: SLF001
    r.BulkPlaced: HistoryWriter._bulk_placed,  # noqa: SLF001
    r.GangPlaced: HistoryWriter._placed,  # noqa: SLF001
    r.Started: HistoryWriter._started,  # noqa: SLF001
    r.EndDecided: HistoryWriter._decided,  # noqa: SLF001
    r.SignalAsked: HistoryWriter._signaled,  # noqa: SLF001
    CheckpointsSeen: HistoryWriter._checkpoints,  # noqa: SLF001
    r.Held: HistoryWriter._held,  # noqa: SLF001
    r.Unheld: HistoryWriter._unheld,  # noqa: SLF001
    r.JobsMoved: HistoryWriter._moved,  # noqa: SLF001
    r.SuspensionAsked: HistoryWriter._suspension_asked,  # noqa: SLF001
    r.SuspensionDone: HistoryWriter._suspension_done,  # noqa: SLF001
    r.StopsChanged: HistoryWriter._stops_changed,  # noqa: SLF001
    r.Requeued: HistoryWriter._requeued,  # noqa: SLF001
    r.Reopened: HistoryWriter._reopened,  # noqa: SLF001
    r.LaunchFailed: HistoryWriter._launch_failed,  # noqa: SLF001
    HostUp: HistoryWriter._host_up,  # noqa: SLF001
    HostDown: HistoryWriter._host_down,  # noqa: SLF001
    HostsSilent: HistoryWriter._hosts_silent,  # noqa: SLF001
    HostsLeftOut: HistoryWriter._hosts_left_out,  # noqa: SLF001
    r.Ended: HistoryWriter._ended,  # noqa: SLF001
    r.Withdrawn: HistoryWriter._withdrawn,  # noqa: SLF001
    r.JobsForgotten: HistoryWriter._forgotten,  # noqa: SLF001
}
