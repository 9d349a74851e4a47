"""A job as the history tells it: all that can still be asked about one that left the state."""

import msgspec

from xce.model.ids import Index, JobId, Micros
from xce.model.job import ArraySpec, JobSpec, Outcome, Owner
from xce.model.ranges import Ranges, contains
from xce.model.request import ClassKey
from xce.state.ineligible import Spans
from xce.state.job import Ended


class PastElement(msgspec.Struct, frozen=True):
    """How one element ended after it had been placed."""

    index: Index
    ended: Ended
    hosts: tuple[tuple[str, int], ...] = ()
    """In rank order, each with its slots."""
    by: str = ""
    """On whose word it ended; empty: by itself."""
    detail: str = ""
    requeue: tuple[int, Micros, str] | None = None
    """``(cause, at, detail)`` of the last time that it was requeued; None: it never was."""


class PastWithdrawal(msgspec.Struct, frozen=True):
    """Elements ``first..last`` that ended before they started."""

    first: Index
    last: Index
    cause: int
    by: str
    at_us: Micros


class PastAttempt(msgspec.Struct, frozen=True):
    """One attempt of an element."""

    index: Index
    ended: Ended
    """Outcome NONE: it is not over, or the element went on with another one."""
    placed_at_us: Micros
    hosts: tuple[tuple[str, int], ...] = ()
    """In rank order, each with its slots."""
    pid: int = 0
    """While it is not over."""
    is_live: bool = False
    is_reopened: bool = False
    """The element pended again after this had ended it."""

    @property
    def is_measured(self) -> bool:
        """Whether it is known what it used: of one that was given up nothing is."""
        return bool(self.ended.outcome or self.ended.cpu_us or self.ended.max_mem_kib)


class PastEvent(msgspec.Struct, frozen=True):
    """Something that happened to elements ``first..last``."""

    first: Index
    last: Index
    at_us: Micros
    kind: int
    amount: int
    by: str
    text: str


class PastForm(msgspec.Struct, frozen=True):
    """What elements of an array are that were changed apart from the rest of it."""

    runs: Ranges
    """Of their indices."""
    spec: JobSpec
    key: ClassKey
    resreq: str


class PastJob(msgspec.Struct, frozen=True):
    """A job of the history."""

    job: JobId
    owner: Owner
    spec: JobSpec
    key: ClassKey
    resreq: str
    submit_at_us: Micros
    size: int
    array: ArraySpec | None
    done: int
    exited: int
    elements: tuple[PastElement, ...] = ()
    """Those that were asked for, by index."""
    withdrawn: tuple[PastWithdrawal, ...] = ()
    hold: bool = False
    """Whether it was submitted held."""
    attempts: tuple[PastAttempt, ...] = ()
    """Where its course was asked for: all attempts, by index and number."""
    events: tuple[PastEvent, ...] = ()
    """Likewise: what else happened, in order."""
    apart: tuple[PastForm, ...] = ()
    """What of it is not as the rest."""
    ineligible: Spans | None = None
    """Where elements were asked for: for how long those of which indices pended while no session
    would try them; others never did. None: nobody knows."""

    def at(self, index: Index) -> "PastJob":
        """Return the job as its element of an index is."""
        place = self.place_of(index)
        if place < 0:
            return self
        form = self.apart[place]
        return msgspec.structs.replace(self, spec=form.spec, key=form.key, resreq=form.resreq)

    def place_of(self, index: Index) -> int:
        """Return which of ``apart`` an element of an index is; -1: none, it is as the rest."""
        for place, form in enumerate(self.apart):
            if contains(form.runs, index, index):
                return place
        return -1

    @property
    def is_finished(self) -> bool:
        """Whether every element has ended."""
        return self.done + self.exited >= self.size

    @property
    def outcome(self) -> Outcome:
        """How the whole job ended: DONE when every element did."""
        return Outcome.EXIT if self.exited else Outcome.DONE
