"""One job or element that a request is about, in the state or in the history."""

from collections.abc import Sequence

import msgspec

from xce.advice.advise import first_waiting
from xce.apiserver.backend import Backend, JobPlace, unknown_job
from xce.apiserver.call import ENCODER
from xce.apiserver.fields import RowWriter
from xce.apiserver.past_rows import past_elements
from xce.apiserver.problems import refused
from xce.apiserver.rows import ALL_STATES, Element, Listing, at_s, render_indices
from xce.apiserver.usage import Told
from xce.apiserver.veil import Sees
from xce.jobspec.render import Standing
from xce.journal.past import PastJob
from xce.model.ids import Index, JobId
from xce.model.job import JobSpec, Owner
from xce.model.ranges import EMPTY, contains, from_runs, intersect, subtract
from xce.model.refusal import RefusalCode
from xce.model.request import ClassKey
from xce.resreq.array import ID_MAX
from xce.state.cluster import RequestClass
from xce.state.job import Job
from xce.state.view import counts

WHOLE: Index = -1


class ArrayHead(msgspec.Struct, frozen=True):
    """An array as a whole; what all its elements have alike follows in the same object."""

    jobid: int
    submit_at: float
    begin_at: float | None
    array_limit: int
    size: int
    elements: dict[str, int]
    """How many are in which state."""


class Subject:
    """A job with the element that is meant, if one is.

    Attributes:
        job: Of the state; None: it has left it.
        past: Of the history; None: it is in the state.
        index: The element; -1: the whole job.
        sees: Which jobs reasons may name.
    """

    def __init__(
        self, backend: Backend, job_id: JobId, index: Index, past: PastJob | None = None
    ) -> None:
        self.job_id = job_id
        self.index = index
        self.sees: Sees = None
        self._usage: dict[str, Told] = {}
        self._backend = backend
        self.job: Job | None = None if past is not None else backend.replica.state.jobs.get(job_id)
        self.past = past
        if self.job is None and past is None:
            raise unknown_job(str(job_id))
        array = self.job.array if self.job is not None else self._past.array
        if index != WHOLE and not (index == 0 if array is None else array.has(index)):
            raise unknown_job(f"{job_id}[{index}]")

    @property
    def _past(self) -> PastJob:
        assert self.past is not None
        return self.past

    @property
    def owner(self) -> Owner:
        """Whose it is."""
        return self.job.owner if self.job is not None else self._past.owner

    @property
    def place(self) -> JobPlace:
        """Owner, queue and project."""
        if self.job is not None:
            return self._backend.place_of(self.job)
        past = self._past
        return past.owner.user, past.key.queue, past.key.project

    @property
    def spec(self) -> JobSpec:
        """What it runs; of an array that is meant as a whole, what all run that are alike."""
        if self.job is None:
            return self._past.spec
        position, state = self._position, self._backend.replica.state
        return state.spec(self.job) if position is None else state.spec_at(self.job, position)

    @property
    def key(self) -> ClassKey:
        """What decides where and when it may run."""
        return self._class(self.job).key if self.job is not None else self._past.key

    @property
    def _position(self) -> int | None:
        """Of the element that is meant; None: all are."""
        return None if self.job is None else self.job.position(max(self.index, 0))

    def _class(self, job: Job) -> RequestClass:
        position, state = self._position, self._backend.replica.state
        return state.classes[job.cls] if position is None else state.class_at(job, position)

    @property
    def standing(self) -> Standing:
        """What its jobspec says beside what it runs and its class.

        Of an array that is meant as a whole it is about the elements that are as most are.
        """
        job, position = self.job, self._position
        queue = self._backend.replica.state.queues.get(self.key.queue)
        array = job.array if job is not None else self._past.array
        held = job.held if job is not None else EMPTY
        if position is not None:
            held = intersect(held, ((position, position),))
        return Standing(
            array=self._meant(),
            array_limit=array.limit if array is not None and self.index == WHOLE else 0,
            hold=bool(held) if job is not None else self._past.hold,
            begin_at_us=self.job.begin_at_us if self.job is not None else 0,
            queue_reruns=queue is not None and queue.rerunnable,
        )

    def _meant(self) -> str | None:
        """Return which elements of an array are meant; None: all that it was submitted with.

        Raises:
            ProblemError: All are, and each was changed apart from the others.
        """
        array = self.job.array if self.job is not None else self._past.array
        if array is None:
            return None
        if self.index != WHOLE:
            return str(self.index)
        if self.job is not None:
            apart = from_runs(run for one in self.job.variants for run in one.ranges)
        else:
            runs = [run for form in self._past.apart for run in form.runs]
            apart = from_runs(
                (array.position_from(first), array.position_from(last + 1) - 1)
                for first, last in runs
            )
        if not apart:
            return None
        rest = subtract(((0, array.count - 1),), apart)
        if not rest:
            text = f"every element of job {self.job_id} was changed apart: name one (index=)"
            raise refused(RefusalCode.BAD_REQUEST, text)
        return render_indices(array, rest)

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        array = self.job.array if self.job is not None else self._past.array
        return array is not None

    @property
    def is_over(self) -> bool:
        """Whether the job, or the element that is meant, has ended."""
        if self.job is None:
            return True
        if self.index == WHOLE or self.job.is_finished:
            return self.job.is_finished
        position = self.job.position(self.index)
        job = self.job
        waiting = (*job.pending, *job.held)
        return position not in (job.live or {}) and not any(
            first <= position <= last for first, last in waiting if position is not None
        )

    def waiting_index(self) -> Index | None:
        """Return the index of the element that is meant if it waits, or of the first that does."""
        job = self.job
        if job is None:
            return None
        if self.index == WHOLE:
            return first_waiting(job)
        position = job.position(self.index)
        assert position is not None, "the element exists"
        waits = contains(job.pending, position, position) or contains(job.held, position, position)
        return self.index if waits else None

    def elements(self) -> Sequence[Element]:
        """Return the rows of the element that is meant, or of all."""
        if self.past is not None:
            return past_elements(self.past, ALL_STATES, self._backend.replica.state.queues)
        assert self.job is not None
        among = None
        if self.index != WHOLE and self.job.array is not None:
            among = self.job.positions(self.index, self.index)
        replica = self._backend.replica
        listing = Listing(replica.state, replica.gangs, now_us=self._backend.now_us, sees=self.sees)
        listing.usage = self._usage
        return listing.elements(self.job, among)

    async def measure(self) -> None:
        """Have its hosts say what it uses, where one element is meant that runs."""
        attempt = (self.job.live or {}).get(self._position or 0) if self.job is not None else None
        if attempt is None or (self.is_array and self.index == WHOLE):
            return
        names = self._backend.replica.state.hosts.names
        self._usage = await self._backend.usage.look([names[host] for host in attempt.hosts])

    def launch_faults(self) -> list[str]:
        """Return a sentence for each host that the job avoids: why a start failed there."""
        replica = self._backend.replica
        avoided = self.job.avoid if self.job is not None else ()
        names = replica.state.hosts.names
        return [
            f"A start on {names[host]} failed: {replica.launch_faults[host]}."
            for host in avoided
            if host in replica.launch_faults
        ]

    def must_be_one(self) -> None:
        """Check that one element is meant.

        Raises:
            ProblemError: It is a whole array.
        """
        if self.is_array and self.index == WHOLE:
            raise refused(
                RefusalCode.BAD_REQUEST, f"job {self.job_id} is an array: name an element (index=)"
            )

    def render(self) -> bytes:
        """Return the row as JSON: the element's, or the array's with its counts."""
        if self.is_array and self.index == WHOLE:
            return self._render_array()
        elements = self.elements()
        if not elements:
            raise unknown_job(f"{self.job_id}[{self.index}]")
        return RowWriter().render(elements[:1], self._shared())[0]

    def _shared(self) -> bytes:
        writer = RowWriter()
        if self.past is not None:
            return writer.shared(self.past.spec, self.past.key, self.past.resreq)
        assert self.job is not None
        cls = self._class(self.job)
        return writer.shared(self.spec, cls.key, cls.resreq)

    def _render_array(self) -> bytes:
        if self.job is not None:
            job = self.job
            limit = job.array.limit if job.array is not None else 0
            head = ArrayHead(
                job.id,
                job.submit_at_us / 1_000_000,
                at_s(job.begin_at_us),
                limit,
                job.size,
                counts(job),
            )
        else:
            past = self._past
            states = dict.fromkeys(("pend", "psusp", "run", "ususp", "ssusp"), 0)
            limit = past.array.limit if past.array is not None else 0
            head = ArrayHead(
                past.job,
                past.submit_at_us / 1_000_000,
                None,
                limit,
                past.size,
                {**states, "done": past.done, "exit": past.exited},
            )
        return ENCODER.encode(head)[:-1] + self._shared()


async def find_subject(backend: Backend, job_id: JobId, index: Index) -> Subject:
    """Return a job, or an element of it, wherever it is.

    Raises:
        ProblemError: There is none, or the history cannot be read.
    """
    if job_id in backend.replica.state.jobs or job_id > ID_MAX:
        return Subject(backend, job_id, index)
    runs = ((0, 1 << 62),) if index == WHOLE else ((index, index),)
    past = await backend.past(job_id, runs, with_elements=index != WHOLE)
    if past is not None and past.array is None and index == WHOLE:
        past = await backend.past(job_id)
    elif past is not None and index != WHOLE:
        past = past.at(index)
    return Subject(backend, job_id, index, past)
