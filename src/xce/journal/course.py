"""The course of a job's elements: what happened when, and how long each was in which state."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from xce.journal.history_schema import TO_HOLD, Happening
from xce.journal.past import PastAttempt, PastEvent, PastJob, PastWithdrawal
from xce.model.ids import Index, Micros
from xce.model.job import ArraySpec, Outcome
from xce.state.job import Ended

WORDS: Final = ("pend", "psusp", "run", "ususp", "ssusp", "unkwn")
"""The states whose time is told."""
_LIVE: Final = ("run", "ususp", "ssusp")


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a course."""

    at_us: Micros
    what: str
    by: str = ""
    hosts: tuple[tuple[str, int], ...] = ()
    attempt: int = 0
    pid: int = 0
    amount: int = 0
    """A signal's number, the cause of an end, why the cluster suspends."""
    text: str = ""
    ended: Ended | None = None
    """Where an attempt is over: how it ended, and what it used."""


class Course(msgspec.Struct, frozen=True):
    """The course of one element, or of ``count`` that are alike."""

    index: Index
    count: int
    step: int
    stat: str
    spans_us: dict[str, Micros]
    steps: tuple[Step, ...]
    last: PastAttempt | None = None
    """The last attempt."""
    gone: PastWithdrawal | None = None
    """How it ended before it started."""


_WORD_OF: Final = {
    Happening.HELD: "held",
    Happening.UNHELD: "released",
    Happening.MOVED: "moved",
    Happening.END_DECIDED: "end-decided",
    Happening.SIGNALED: "signaled",
    Happening.STOP_ASKED: "stop-asked",
    Happening.RESUME_ASKED: "resume-asked",
    Happening.SUSPENDED: "suspended",
    Happening.RESUMED: "resumed",
    Happening.SYSTEM_STOPPED: "system-stopped",
    Happening.SYSTEM_RESUMED: "system-resumed",
    Happening.START_FAILED: "start-failed",
    Happening.REQUEUED: "requeued",
    Happening.REOPENED: "reopened",
    Happening.UNKNOWN: "unknown",
    Happening.KNOWN: "known",
    Happening.MODIFIED: "modified",
    Happening.SWITCHED: "switched",
    Happening.CHECKPOINT_ASKED: "checkpoint-asked",
    Happening.CHECKPOINTED: "checkpointed",
    Happening.CHECKPOINT_FAILED: "checkpoint-failed",
    Happening.HOST_LEFT_OUT: "host-left-out",
}


_ENDS: Final = ("done", "exited", "withdrawn")
_CHANGES: Final = ("modified", "switched")
IndexRuns = Sequence[tuple[Index, Index]]


def tell_courses(past: PastJob, runs: IndexRuns, now_us: Micros) -> Iterator[Course]:
    """Yield the courses of the elements in ``runs`` of indices, those alike together.

    Args:
        past: The job, with its attempts and events.
        runs: Runs of indices.
        now_us: The time now.
    """
    attempts: dict[Index, list[PastAttempt]] = {}
    for item in past.attempts:
        attempts.setdefault(item.index, []).append(item)
    for first, last, step in _segments(past, runs, sorted(attempts)):
        count = (last - first) // step + 1
        yield _tell(past, (first, count, step), attempts.get(first, []), now_us)


def _segments(
    past: PastJob, runs: IndexRuns, single: list[Index]
) -> Iterator[tuple[int, int, int]]:
    """Yield runs ``(first, last, step)`` of indices whose elements are alike."""
    if past.array is None:
        if any(first <= 0 <= last for first, last in runs):
            yield 0, 0, 1
        return
    cuts = {index for one in single for index in (one, one + 1)}
    for event in past.events:
        cuts.update((event.first, event.last + 1))
    for gone in past.withdrawn:
        cuts.update((gone.first, gone.last + 1))
    for form in past.apart:
        cuts.update(edge for first, last in form.runs for edge in (first, last + 1))
    ordered = sorted(cuts)
    for low, high in sorted(runs):
        edges = [low, *(cut for cut in ordered if low < cut <= high), high + 1]
        for begin, end in pairwise(edges):
            yield from _elements(past.array, begin, end - 1)


def _elements(array: ArraySpec, low: Index, high: Index) -> Iterator[tuple[int, int, int]]:
    for first, last, step in array.runs:
        begin = max(first, first + -(-(low - first) // step) * step)
        end = min(last, first + (high - first) // step * step)
        if begin <= end:
            yield begin, end, step


def _tell(
    past: PastJob, run: tuple[int, int, int], attempts: list[PastAttempt], now_us: Micros
) -> Course:
    index = run[0]
    steps = list(_steps(past, index, attempts))
    steps.sort(key=_at)
    steps = list(_of_lives(steps))
    clock = _Clock("psusp" if past.hold else "pend", past.submit_at_us)
    for step in steps:
        clock.take(step)
    spans = clock.close(now_us)
    gone = next((w for w in past.withdrawn if w.first <= index <= w.last), None)
    last = attempts[-1] if attempts else None
    stat = clock.word.upper()
    if gone is not None:
        stat = "EXIT"
    elif last is not None and last.ended.outcome and not last.is_reopened:
        stat = "DONE" if last.ended.outcome == Outcome.DONE else "EXIT"
    return Course(*run, stat, spans, tuple(steps), last, gone)


def _of_lives(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps without what was changed of an element that was over and stayed so."""
    later: list[Step] = []
    is_over = False
    for step in steps:
        if step.what in _ENDS:
            is_over = True
        elif step.what == "reopened":
            yield from later
            later, is_over = [], False
        if is_over and step.what in _CHANGES:
            later.append(step)
        else:
            yield step


def _at(step: Step) -> Micros:
    return step.at_us


def _steps(past: PastJob, index: Index, attempts: list[PastAttempt]) -> Iterator[Step]:
    yield Step(past.submit_at_us, "submitted", past.owner.user)
    for item in attempts:
        ended, number = item.ended, item.ended.attempt
        yield Step(item.placed_at_us, "dispatched", hosts=item.hosts, attempt=number)
        if ended.started_at_us:
            yield Step(
                max(ended.started_at_us, item.placed_at_us), "started", hosts=item.hosts,
                attempt=number, pid=item.pid,
            )  # fmt: skip
        if not item.is_live and ended.outcome:
            word = "done" if ended.outcome == Outcome.DONE else "exited"
            yield _over(item, word)
        elif not item.is_live and item.is_measured:
            yield _over(item, "over")
    for event in past.events:
        if event.first <= index <= event.last:
            yield _step_of(event)
    for gone in past.withdrawn:
        if gone.first <= index <= gone.last:
            yield Step(gone.at_us, "withdrawn", gone.by, amount=gone.cause)


def _over(item: PastAttempt, word: str) -> Step:
    ended = item.ended
    return Step(
        ended.ended_at_us, word, hosts=item.hosts, attempt=ended.attempt, amount=ended.cause,
        ended=ended,
    )  # fmt: skip


def _step_of(event: PastEvent) -> Step:
    return Step(
        event.at_us,
        _WORD_OF[Happening(event.kind)],
        event.by,
        amount=event.amount,
        text=event.text,
    )


class _Clock:
    """Adds up how long an element is in which state."""

    def __init__(self, word: str, at_us: Micros) -> None:
        self.word = word
        self._since_us = at_us
        self._spans: dict[str, Micros] = dict.fromkeys(WORDS, 0)
        self._by_user = self._by_system = self._is_suspended = False
        self._is_over = self._is_to_hold = False

    def take(self, step: Step) -> None:
        """Note what happened."""
        match step.what:
            case "held" if self.word == "pend":
                self._turn("psusp", step.at_us)
            case "released" if self.word == "psusp":
                self._turn("pend", step.at_us)
            case "dispatched":
                self._by_user = self._by_system = self._is_suspended = self._is_to_hold = False
                self._turn("run", step.at_us)
            case "stop-asked" | "resume-asked":
                self._by_user = step.what == "stop-asked"
                self._settle(step.at_us)
            case "system-stopped" | "system-resumed":
                self._by_system = step.what == "system-stopped"
                self._settle(step.at_us)
            case "suspended" | "resumed":
                self._is_suspended = step.what == "suspended"
                self._settle(step.at_us)
            case "end-decided":
                self._is_to_hold = step.text == TO_HOLD
            case "requeued" | "reopened" | "start-failed":
                is_held = step.what == "requeued" and self._is_to_hold
                self._turn("psusp" if is_held else "pend", step.at_us)
            case "unknown" | "known":
                self._see(step)
            case "done" | "exited" | "withdrawn":
                self._turn(self.word, step.at_us)
                self._is_over = True

    def _see(self, step: Step) -> None:
        """Note that nothing is heard of the host, or that it is back."""
        if step.what == "unknown" and self.word in _LIVE:
            self._turn("unkwn", step.at_us)
        elif step.what == "known" and self.word == "unkwn":
            self._turn("run", step.at_us)
            self._settle(step.at_us)

    def _settle(self, at_us: Micros) -> None:
        if self.word not in _LIVE:
            return
        if not self._is_suspended:
            self._turn("run", at_us)
        else:
            by_system = self._by_system and not self._by_user
            self._turn("ssusp" if by_system else "ususp", at_us)

    def _turn(self, word: str, at_us: Micros) -> None:
        if not self._is_over:
            self._spans[self.word] += max(0, at_us - self._since_us)
            self._since_us = max(at_us, self._since_us)
        # What comes after an end is a new life: time between does not count.
        self._is_over = False
        self._since_us = max(at_us, self._since_us)
        self.word = word

    def close(self, now_us: Micros) -> dict[str, Micros]:
        """Return how long it was in which state."""
        if not self._is_over:
            self._spans[self.word] += max(0, now_us - self._since_us)
        return self._spans
