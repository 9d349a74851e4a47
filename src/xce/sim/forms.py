"""A second opinion on what jobs are changed to: what each element runs as, and in which queue.

It shares nothing with the state that the deciders use: one row for each element, and the records
of the journal. From them it judges that a change changes what was asked for and nothing else, that
whoever is told that it is done finds it done, and that an attempt runs with exactly what was valid
when it was placed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from xce.model import record as r
from xce.model.effect import Launch
from xce.model.entry import Entry
from xce.model.host_record import JournalRestored
from xce.model.ids import Index, JobId, Seq
from xce.model.job import JobSpec
from xce.model.record_modify import JobModified
from xce.model.request import ClassKey
from xce.sim.ledger import Ledger
from xce.sim.ledger_rows import HELD, LIVE, PENDING, Runs
from xce.sim.untrue import check
from xce.state.cluster import ClusterState

Attempt = tuple[JobId, Index, int]
Named = tuple[JobId, tuple[tuple[Index, Index], ...]]
"""A job, and runs of its elements; none: all."""
_KEY: Final = {
    "queue": {"queue", "run_limit_us"},
    "run_limit_s": {"run_limit_us"},
    "estimate_s": {"estimate_us"},
    "resreq": {"request"},
    "rerunnable": set[str](),
    "command": set[str](),
    "deadline_at": set[str](),
}
"""By what was asked for: what of a class may become another."""
_SPEC: Final = {
    "queue": {"rerunnable", "mem_limit_kib", "limits"},
    "run_limit_s": {"run_limit_asked_us"},
    "estimate_s": set[str](),
    "resreq": {"requested", "requests", "tasks_asked", "unit"},
    "rerunnable": {"rerunnable"},
    "command": {"command", "script", "args"},
    "deadline_at": {"deadline_us"},
}
"""And what of a spec."""
_OF_LIVE_SPEC: Final = frozenset(
    {"rerunnable", "mem_limit_kib", "limits", "run_limit_asked_us", "description"}
)
"""What of a spec may become another while an attempt lives."""
_OF_LIVE_KEY: Final = frozenset({"queue", "run_limit_us", "estimate_us"})


class Form(msgspec.Struct, frozen=True):
    """What an element is."""

    spec: int
    cls: int


class Change(msgspec.Struct, frozen=True):
    """One record that changed a job, or the job as it was submitted."""

    seq: Seq
    told: frozenset[str]
    """What was asked for."""
    forms: dict[Index, Form]
    """The elements that it was about, as they were then."""


class Made(msgspec.Struct):
    """An attempt."""

    spec: JobSpec
    key: ClassKey
    """As it was placed."""
    cls: int
    """Of what it holds now."""
    specs: list[JobSpec]
    keys: list[ClassKey]
    """All that it and its element were since; a limit may be an earlier one still."""


def differing(one: msgspec.Struct, other: msgspec.Struct) -> set[str]:
    """Return the members in which two structs of one kind differ."""
    if one == other:
        return set()
    names = type(one).__struct_fields__
    return {name for name in names if getattr(one, name) != getattr(other, name)}


class Forms:
    """What all elements of a journal are."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, dict[Index, Form]] = {}
        self.live: dict[tuple[JobId, Index], Made] = {}
        self.made: dict[Attempt, Made] = {}
        self._base: dict[JobId, Form] = {}
        """What a job is beside the elements that were set apart."""
        self._since: dict[tuple[JobId, Index], Seq] = {}
        """Since when elements live that have not ended."""
        self._numbers: Counter[tuple[JobId, Index]] = Counter()
        self._specs: dict[int, JobSpec] = {}
        self._keys: dict[int, ClassKey] = {}
        self._changes: dict[JobId, list[Change]] = {}
        self._submitted: set[JobId] = set()
        self._skipped: tuple[JobId, int] = (0, 0)
        """Attempts of jobs below that one that are made now have numbers above that."""
        self._raised: list[tuple[JobId, JobId]] = []
        """Ids that are left out since hosts knew of such."""
        self._taken_up: set[JobId] = set()
        """Jobs of which the present entry takes something up again."""
        self.lost: set[Attempt] = set()
        """Attempts that were made by entries which a restored journal lacks."""
        self.over: set[Attempt] = set()
        """Those that it has alive, and of whose end such an entry told."""
        self.before: set[Attempt] = set()
        """Those that it had alive when it was restored."""
        self._lost_jobs: set[JobId] = set()

    def restored(self, entries: Iterable[Entry]) -> "Forms":
        """Return the books of a journal that was restored, which ends with these entries."""
        found = Forms()
        found.note(entries)
        found.lost = (self.lost | self.made.keys()) - found.made.keys()
        found._lost_jobs = (self._lost_jobs | self._submitted) - found._submitted
        found.before = {(*element, found._numbers[element]) for element, _ in found.live.items()}
        found.over = self.over | {
            key for key in found.before if self.live.get(key[:2]) is not self.made.get(key)
        }
        for key, made in self.made.items():
            mine = found.made.setdefault(key, made)
            if mine is not made:
                # What its host was told of it may be from later.
                mine.specs += made.specs
                mine.keys += made.keys
        return found

    def note(self, entries: Iterable[Entry]) -> None:
        """Take entries.

        Raises:
            BooksError: One changes what was not asked for, or places what is something else.
        """
        for entry in entries:
            if self.lost:
                placed = (one for one in entry.records if isinstance(one, r.GangPlaced))
                self._taken_up = {one.job for one in placed if one.number}
            for record in entry.records:
                self._take(entry.seq, record)

    def _take(self, seq: Seq, record: r.Record) -> None:
        match record:
            case r.SpecStored():
                self._specs[record.spec_id] = record.spec
            case r.ClassStored():
                self._keys[record.cls] = record.key
            case JournalRestored():
                self._leave_out(record)
            case r.JobSubmitted():
                self._submit(seq, record)
            case JobModified():
                self._modify(seq, record)
            case r.GangPlaced():
                self._place(record.job, record.index, record.cls, record.number)
            case r.BulkPlaced():
                self._place_all(record)
            case r.Ended() | r.Requeued() | r.LaunchFailed() | r.Reopened() | r.Withdrawn():
                self._take_end(seq, record)
            case r.JobsForgotten():
                for job in record.jobs:
                    del self.jobs[job], self._changes[job], self._base[job]
            case _:
                pass

    def _leave_out(self, record: JournalRestored) -> None:
        if record.attempts_above > self._skipped[1]:
            self._skipped = (record.next_job, record.attempts_above)
        else:
            self._raised.append((max(self._submitted, default=0) + 1, record.next_job - 1))

    def _is_old(self, job: JobId) -> bool:
        """Return whether entries that are lost may have made attempts of a job."""
        return job < self._skipped[0] or any(lo <= job <= hi for lo, hi in self._raised)

    def _submit(self, seq: Seq, record: r.JobSubmitted) -> None:
        is_back = record.job in self._taken_up
        check(is_back or record.job not in self._lost_jobs, f"job {record.job} is given out again")
        self._submitted.add(record.job)
        array, form = record.array, Form(record.spec_id, record.cls)
        indices = [0] if array is None else [array.index_of(at) for at in range(array.count)]
        mine = self.jobs[record.job] = dict.fromkeys(indices, form)
        self._base[record.job] = form
        self._since.update(dict.fromkeys(((record.job, one) for one in indices), seq))
        self._changes[record.job] = [Change(seq, frozenset(), dict(mine))]

    def _take_end(
        self,
        seq: Seq,
        record: r.Ended | r.Requeued | r.LaunchFailed | r.Reopened | r.Withdrawn,
    ) -> None:
        if isinstance(record, r.Withdrawn):
            for place in self._each(record):
                del self._since[place]
            return
        for place in zip(record.jobs, record.indices, strict=True):
            if isinstance(record, r.Reopened):
                self._since[place] = seq
                continue
            del self.live[place]
            if isinstance(record, r.Ended):
                del self._since[place]

    def _each(self, record: Runs) -> Iterator[tuple[JobId, Index]]:
        for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
            for index in self.jobs[job]:
                if first <= index <= last:
                    yield job, index

    # Changes.

    def _modify(self, seq: Seq, record: JobModified) -> None:
        mine, form = self.jobs[record.job], Form(record.spec_id, record.cls)
        told = frozenset(record.changes.split(", ") if record.changes else ())
        told |= {"queue"} if record.queue else set()
        named = self._named(record)
        for index in named:
            self._check_change(f"{record.job}[{index}]", mine[index], form, told)
        moves = dict(zip(record.before, record.after, strict=True))
        for index in named:
            made = self.live.get((record.job, index))
            if made is not None:
                self._move(f"{record.job}[{index}]", made, moves, told)
                made.specs.append(self._specs[form.spec])
        mine.update(dict.fromkeys(named, form))
        if not record.firsts:
            self._base[record.job] = form
        self._changes[record.job].append(Change(seq, told, dict.fromkeys(named, form)))

    def _named(self, record: JobModified) -> list[Index]:
        """Return the elements that a change is about: without runs, those that are as the job."""
        mine = self.jobs[record.job]
        if not record.firsts:
            return [index for index, form in mine.items() if form == self._base[record.job]]
        runs = list(zip(record.firsts, record.lasts, strict=True))
        return [index for index in mine if any(lo <= index <= hi for lo, hi in runs)]

    def _check_change(self, name: str, before: Form, after: Form, told: frozenset[str]) -> None:
        """What an element is is another thing only in what was asked for."""
        allowed = {member for word in told for member in _KEY[word]}
        other = differing(self._keys[before.cls], self._keys[after.cls]) - allowed
        check(not other, f"{name} is changed in {told}, and its {other} became another")
        allowed = {member for word in told for member in _SPEC[word]}
        other = differing(self._specs[before.spec], self._specs[after.spec]) - allowed
        check(not other, f"{name} is changed in {told}, and its {other} became another")

    def _move(self, name: str, made: Made, moves: dict[int, int], told: frozenset[str]) -> None:
        """A live attempt holds what it was given, whatever its element is now."""
        cls = moves.get(made.cls, made.cls)
        allowed = _OF_LIVE_KEY & {member for word in told for member in _KEY[word]}
        other = differing(self._keys[made.cls], self._keys[cls]) - allowed
        check(not other, f"{name} lives, and its {other} became another")
        made.cls = cls
        made.keys.append(self._keys[cls])

    # Attempts.

    def _place_all(self, record: r.BulkPlaced) -> None:
        for job, index in self._each(record):
            self._place(job, index, record.cls)

    def _place(self, job: JobId, index: Index, cls: int, taken_up: int = 0) -> None:
        form = self.jobs[job][index]
        check(form.cls == cls, f"{job}[{index}] is placed as class {cls}, and is of {form.cls}")
        above = self._skipped[1] if self._is_old(job) else 0
        number = taken_up or max(self._numbers[job, index], above) + 1
        attempt = (job, index, number)
        if taken_up:
            self._take_up(attempt, self._keys[cls])
        check(attempt not in self.lost, f"{attempt} is given out again")
        self._numbers[job, index] = number
        spec, key = self._specs[form.spec], self._keys[cls]
        made = Made(spec, key, cls, [spec], [key])
        self.live[job, index] = self.made[attempt] = made

    def _take_up(self, attempt: Attempt, key: ClassKey) -> None:
        """What is taken up again was lost, and is what it was but for limits that were changed."""
        if not self.lost:
            return  # these are the entries of a journal that was restored once more since
        check(attempt in self.lost, f"{attempt} is taken up again, and is not lost")
        self.lost.discard(attempt)
        other = min((differing(key, one) for one in self.made[attempt].keys), key=len)
        check(other <= _OF_LIVE_KEY, f"{attempt} is taken up again, and its {other} is another")

    def check_start(self, attempt: Attempt, launch: Launch) -> None:
        """An attempt runs with exactly what was valid when it was placed.

        Raises:
            BooksError: It does not.
        """
        name = f"attempt {attempt}"
        check(attempt in self.made, f"{name} starts, and nobody has made it")
        made = self.made[attempt]
        other = differing(made.spec, launch.spec)
        check(other <= _OF_LIVE_SPEC, f"{name} was placed with another {other} than it starts with")
        for member in other:
            known = [getattr(spec, member) for spec in made.specs]
            is_known = getattr(launch.spec, member) in known
            check(is_known, f"{name} starts with a {member} that nobody asked for")
        told = (launch.queue, launch.run_limit_us)
        known_keys = [(key.queue, key.run_limit_us) for key in made.keys]
        check(told in known_keys, f"{name} starts in queue and with limit {told}: {known_keys}")
        given = (launch.project, launch.group, launch.tasks_max)
        wanted = (made.key.project, made.key.group, made.key.request.tasks_asked)
        check(given == wanted, f"{name} starts with {given}, and was placed with {wanted}")

    # Answers.

    def check_told(
        self, named: Named, told: frozenset[str], wanted: Mapping[str, object], asked: Seq, seq: Seq
    ) -> None:
        """A change that is told to be done at entry ``seq`` was done since entry ``asked``.

        It was done of each element that is meant and lived all that time.

        Raises:
            BooksError: It was not, or was undone by the next one.
        """
        job, runs = named
        for index in self.jobs.get(job, ()):
            is_meant = not runs or any(lo <= index <= hi for lo, hi in runs)
            if not is_meant or self._since.get((job, index), asked + 1) > asked:
                continue
            mine = [one for one in self._changes[job] if index in one.forms and one.seq <= seq]
            fresh = [one for one in mine if one.seq > asked and told <= one.told]
            if told == {"queue"}:
                # Who is in the queue already stays there, and nothing is written.
                fresh += [one for one in mine if one.seq <= asked][-1:]
            is_done = any(self._has(one.forms[index], wanted) for one in fresh)
            what = f"{job}[{index}]: {wanted} is told to be done at {seq}"
            check(is_done, f"{what}, and was not since {asked}")

    def _has(self, form: Form, wanted: Mapping[str, object]) -> bool:
        key, spec = self._keys[form.cls], self._specs[form.spec]
        return all(
            getattr(spec if name in JobSpec.__struct_fields__ else key, name) == value
            for name, value in wanted.items()
        )

    # Counts.

    def check_counts(self, ledger: Ledger, state: ClusterState) -> None:
        """Each element is of one class, so in one queue, and the state counts the same.

        Raises:
            BooksError: It does not.
        """
        counts: Counter[tuple[str, int]] = Counter()
        for job, mine in self.jobs.items():
            for index, form in mine.items():
                place = ledger.jobs[job].elements[index].place
                if place in (PENDING, HELD):
                    counts[place, form.cls] += 1
        for made in self.live.values():
            counts[LIVE, made.cls] += 1
        said = {
            (place, cls): count
            for cls, found in state.classes.items()
            for place, count in ((PENDING, found.pending), (HELD, found.held), (LIVE, found.live))
            if count
        }
        check(said == counts, f"the state counts {said}, the books {dict(counts)}")
