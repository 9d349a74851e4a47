"""Which jobs may go on without a host that they have lost, and which must: judged by the records.

These books read the relations of each job; they share nothing with what decides.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from xce.model import host_record as h
from xce.model import record as r
from xce.model.entry import Entry
from xce.model.ids import HostNumber, Index, JobId
from xce.model.job import EndCause, JobSpec
from xce.model.record_modify import JobModified
from xce.model.relation import RelationKind
from xce.model.request import Request
from xce.sim.untrue import check

Element: TypeAlias = tuple[JobId, Index]
_LOST: Final = frozenset({EndCause.HOST_LOST, EndCause.HOST_RESTARTED})


class Placed(msgspec.Struct):
    """A live attempt."""

    spec: JobSpec
    rows: tuple[tuple[HostNumber, str], ...]
    """Host and role of each part of it; the first host runs the step."""
    is_running: bool = False
    is_ending: bool = False


class FateBooks:
    """The books of one world."""

    def __init__(self) -> None:
        self.survived = self.ended = 0
        """How often a job by roles went on without a host, and how often it ended for that."""
        self._specs: dict[int, JobSpec] = {}
        self._requests: dict[int, Request] = {}
        self._of_job: dict[JobId, int] = {}
        self._live: dict[Element, Placed] = {}
        self._losing: dict[Element, set[HostNumber]] = {}
        """Attempts that the present entry leaves without hosts, and without which."""
        self._gone: set[HostNumber] = set()
        """Hosts that the present entry gives up."""

    def note(self, entry: Entry) -> None:
        """Take an entry into the books.

        Raises:
            BooksError: It cannot be true.
        """
        for record in entry.records:
            self._take(record)
        for element, hosts in self._losing.items():
            placed = self._live.get(element)
            if placed is not None:
                self._judge(element, placed, hosts)
        for element, placed in self._live.items() if self._gone else ():
            kept = {host for host, _ in placed.rows} & self._gone
            check(not kept, f"{element} keeps hosts {kept}, which are given up")
        self._losing.clear()
        self._gone.clear()

    def _take(self, record: r.Record) -> None:
        match record:
            case r.SpecStored():
                self._specs[record.spec_id] = record.spec
            case r.ClassStored():
                self._requests[record.cls] = record.key.request
            case r.JobSubmitted() | JobModified():
                self._of_job[record.job] = record.spec_id
            case r.GangPlaced():
                self._place(record)
            case r.Started() | r.Ended() | r.Requeued() | r.LaunchFailed():
                self._take_live(record)
            case r.EndDecided():
                self._end(record)
            case h.HostsLost() | h.HostsLeftOut():
                self._lose(record)
            case _:
                pass

    def _take_live(self, record: r.Started | r.Ended | r.Requeued | r.LaunchFailed) -> None:
        for element in zip(record.jobs, record.indices, strict=True):
            if not isinstance(record, r.Started):
                self._live.pop(element, None)
            elif element in self._live:
                self._live[element].is_running = True

    def _lose(self, record: h.HostsLost | h.HostsLeftOut) -> None:
        if isinstance(record, h.HostsLost):
            self._gone.update(record.hosts)
            return
        for job, index, host in zip(record.jobs, record.indices, record.hosts, strict=True):
            self._losing.setdefault((job, index), set()).add(host)

    def _place(self, record: r.GangPlaced) -> None:
        spec = self._specs[self._of_job[record.job]]
        request = self._requests[record.cls]
        if request.alternatives:
            request = request.alternatives[record.alternative].request
        only = next((role.name for role in spec.roles if not role.attach), "")
        names = [request.parts[part].name for part in record.parts] or [only] * len(record.hosts)
        rows = tuple(zip(record.hosts, names, strict=True))
        self._live[record.job, record.index] = Placed(spec, rows)

    def _end(self, record: r.EndDecided) -> None:
        for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
            for (mine, index), placed in self._live.items():
                if mine != job or not first <= index <= last:
                    continue
                if record.cause in _LOST and not placed.is_ending:
                    lost = self._losing.get((mine, index), set())
                    check(lost, f"{mine}[{index}] ends for a host that it has not lost")
                    why = f"{mine}[{index}] ends for {lost}, though its fates bear that"
                    check(not self._bears(placed, lost), why)
                    self.ended += placed.spec.runs_by_roles
                placed.is_ending = True

    def _judge(self, element: Element, placed: Placed, lost: set[HostNumber]) -> None:
        """Look at an attempt that lives on without hosts."""
        if not placed.is_ending:
            check(self._bears(placed, lost), f"{element} goes on without {lost}: that is its end")
            self.survived += 1
        placed.rows = tuple(row for row in placed.rows if row[0] not in lost)

    def _bears(self, placed: Placed, lost: set[HostNumber]) -> bool:
        spec = placed.spec
        if not (spec.runs_by_roles and placed.is_running) or placed.rows[0][0] in lost:
            return False
        there = {name for host, name in placed.rows if host in lost}
        attached = {role.name for role in spec.roles if there & set(role.attach)}
        return all(_word(spec, name) == "tolerate" for name in there | attached)


def _word(spec: JobSpec, name: str) -> str:
    """Return the last word on what becomes of a job of which a task of this role is lost."""
    words = list(_words(spec, name))
    if words:
        return words[-1]
    is_beside = any(
        relation.kind is RelationKind.SIDECAR_OF and name in relation.source
        for relation in spec.relations
    )
    return "tolerate" if is_beside else "fail-together"


def _words(spec: JobSpec, name: str) -> Iterator[str]:
    for relation in spec.relations:
        if relation.kind is RelationKind.FATE and name in relation.subjects:
            yield relation.param("policy", "fail-together")
