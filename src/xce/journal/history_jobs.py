"""The rows of the history store about jobs as such: what they are, and what happens to them."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from xce.journal.audit import rows_of
from xce.journal.history_live import Apart, JobFacts, LiveAttempts
from xce.journal.history_schema import INSERT, Happening
from xce.journal.history_store import HistoryStore
from xce.model import record as r
from xce.model.entry import Entry
from xce.model.ids import Micros
from xce.model.ranges import from_runs, subtract
from xce.model.record_modify import JobModified
from xce.model.request import ClassKey

_ENCODER: Final = msgspec.msgpack.Encoder()
_KEY: Final = msgspec.msgpack.Decoder(ClassKey)

_TIMED_FROM: Final = "SELECT max(amount) FROM events WHERE job = 0 AND kind = ?"


def timed_from(store: HistoryStore) -> int:
    """Return of which jobs on it is known how long they were ineligible; 0: of none."""
    ((found,),) = store.rows(_TIMED_FROM, (int(Happening.INELIGIBLE),))
    return int(found or 0)


class JobRows:
    """Gathers rows.

    Args:
        store: To read back what was stored before this process began.
    """

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        found = store.rows("SELECT name FROM hosts ORDER BY number")
        self._hosts: list[str] = [name for (name,) in found]
        self._names: dict[int, str] = {}
        self._keys: dict[int, tuple[str, str]] = {}
        """Job names of specs, queue and project of classes, as far as remembered."""
        self._live = LiveAttempts(store)
        self._at_us: Micros = 0
        self._by = ""
        """When and on whose word the entry came that is being taken."""
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in INSERT}
        self._timed_from: int | None = None
        """Of which jobs on it is known how long they were ineligible; None: not looked up."""

    def _modified(self, record: JobModified) -> None:
        """Note what a job is now; its attempts so far were what they were."""
        queue, _ = self._key(record.cls)
        facts = self._live.job(record.job)
        runs = list(zip(record.firsts, record.lasts, strict=True))
        if runs:
            new = Apart(from_runs(runs), record.cls, record.spec_id, queue)
            self._set_apart(record.job, facts, new, facts.form)
        else:
            self._modified_as_whole(record, facts)
        apart = from_runs(run for one in facts.apart for run in one.runs)
        for run in runs or subtract(((0, 1 << 62),), apart):
            if record.queue:
                self._event((record.job, *run), Happening.SWITCHED, text=record.queue)
            if record.changes:
                self._event((record.job, *run), Happening.MODIFIED, text=record.changes)

    def _modified_as_whole(self, record: JobModified, facts: JobFacts) -> None:
        queue, project = self._key(record.cls)
        array = facts.array
        if array is not None:
            array = msgspec.structs.replace(array, limit=record.array_limit)
        form = record.cls, record.spec_id
        facts = msgspec.structs.replace(facts, queue=queue, array=array, form=form)
        self._live.note_job(record.job, facts)
        if facts.apart:
            self._set_apart(record.job, facts, None, form)
        self._rows["modified"].append(
            (
                record.spec_id, record.cls, queue, self._name(record.spec_id), project,
                None if array is None else _ENCODER.encode(array), record.job,
            )
        )  # fmt: skip

    def _set_apart(
        self, job: int, facts: JobFacts, new: Apart | None, base: tuple[int, int]
    ) -> None:
        """Note which elements of a job are not as the rest."""
        facts = msgspec.structs.replace(facts, apart=facts.set_apart(new, base))
        self._live.note_job(job, facts)
        self._rows["apart"].append((job, _ENCODER.encode(facts.apart)))

    def _audit(self, entry: Entry) -> None:
        """Gather what an entry tells about users."""
        self._rows["audit"].extend(
            (
                row.seq, round(row.at * 1_000_000), row.user, row.action, row.about, row.basis,
                row.origin, row.result, row.count,
            )
            for row in rows_of(entry, self._hosts)
        )  # fmt: skip

    def _add_hosts(self, names: Iterable[str]) -> None:
        self._hosts = list(names)
        self._rows["hosts"].extend(enumerate(self._hosts))

    def _config(self, record: r.ConfigApplied) -> None:
        self._add_hosts(record.hosts)

    def _spec(self, record: r.SpecStored) -> None:
        self._rows["specs"].append((record.spec_id, _ENCODER.encode(record.spec)))
        self._names[record.spec_id] = record.spec.name

    def _class(self, record: r.ClassStored) -> None:
        self._rows["classes"].append((record.cls, _ENCODER.encode(record.key), record.resreq))
        self._keys[record.cls] = (record.key.queue, record.key.project)

    def _submitted(self, record: r.JobSubmitted, *, is_new: bool = True) -> None:
        owner, array = record.owner, record.array
        queue, project = self._key(record.cls)
        facts = JobFacts(
            owner.user, queue, record.submit_at_us, array, (record.cls, record.spec_id)
        )
        self._live.note_job(record.job, facts, is_new=is_new)
        self._rows["jobs"].append(
            (
                record.job, record.spec_id, record.cls, owner.user, owner.uid, owner.gid, queue,
                self._name(record.spec_id), record.submit_at_us,
                1 if array is None else array.count,
                None if array is None else _ENCODER.encode(array), project, record.hold,
            )
        )  # fmt: skip

    def _name(self, spec_id: int) -> str:
        """Return the job name of a spec; one stored before this process began is read back."""
        name = self._names.get(spec_id)
        if name is None:
            ((content,),) = self._store.rows("SELECT spec FROM specs WHERE spec_id = ?", (spec_id,))
            name = self._names[spec_id] = msgspec.msgpack.decode(content)[0]
        return name

    def _key(self, cls: int) -> tuple[str, str]:
        """Return queue and project of a class."""
        found = self._keys.get(cls)
        if found is None:
            ((content,),) = self._store.rows("SELECT key FROM classes WHERE cls = ?", (cls,))
            key = _KEY.decode(content)
            found = self._keys[cls] = (key.queue, key.project)
        return found

    def _add_withdrawn(
        self, job: int, first: int, last: int, cause: int, by: str, at_us: Micros
    ) -> None:
        facts = self._live.job(job)
        runs = facts.runs_in(first, last) if facts.apart else ((first, last, facts.queue),)
        self._rows["withdrawn"].extend(
            (
                job, low, high, cause, by, at_us, facts.size(low, high), facts.submit_at_us,
                facts.user, queue,
            )
            for low, high, queue in runs
        )  # fmt: skip

    def _forgotten(self, record: r.JobsForgotten) -> None:
        """Gather how long elements were ineligible, which only the state knew."""
        if record.timed_from and self._timed_from is None:
            self._timed_from = timed_from(self._store)
        if record.timed_from and record.timed_from != self._timed_from:
            self._timed_from = record.timed_from
            run = (0, 0, 0)
            self._event(run, Happening.INELIGIBLE, amount=record.timed_from, by="")
        for job, first, last, span_us in record.ineligible:
            self._event((job, first, last), Happening.INELIGIBLE, amount=span_us, by="")

    def _event(
        self,
        run: tuple[int, int, int],
        kind: int,
        *,
        amount: int = 0,
        by: str | None = None,
        text: str = "",
        at_us: Micros | None = None,
    ) -> None:
        """Gather an event of elements ``(job, first, last)``."""
        who = self._by if by is None else by
        when = self._at_us if at_us is None else at_us
        self._rows["events"].append((*run, when, int(kind), amount, who, text))
