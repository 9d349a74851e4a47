"""What was found about a job that waits, as REST shows it, and having it found."""

from collections.abc import Iterator
from typing import Final

import msgspec

from xce.advice.advise import Advice, Suggestion
from xce.advice.blockers import Blocker
from xce.advice.relax import Change
from xce.advice.study import Judged, Outlook, foresee, judge, study
from xce.advice.trials import Element
from xce.apiserver.backend import Backend
from xce.apiserver.copies import CopyError
from xce.apiserver.reason_rows import (
    HostReasonRow,
    ReasonRow,
    each_host_reason,
    render_reason,
)
from xce.apiserver.rows import HostSlots, at_s
from xce.model.command import SubmitJobs
from xce.model.ids import JobId, Micros
from xce.model.reason import Reason, is_candidate, render_host_reason, render_lsf_host
from xce.resreq.compile import render_request
from xce.state.cluster import ClusterState

_ENCODER: Final = msgspec.msgpack.Encoder()
_ADVICE: Final = msgspec.msgpack.Decoder(Advice)
_OUTLOOK: Final = msgspec.msgpack.Decoder(Outlook)
_CUT: Final = "not all was tried: there is too much to try"
_SLOW: Final = "it was not found in the time given"


class TableRow(HostReasonRow, frozen=True):
    """One line of the table "why not these hosts"."""

    text: str = ""


class SuggestionRow(msgspec.Struct, frozen=True):
    """Changes with which it would start at once."""

    text: str
    changes: list[Change]
    resreq: str
    """The whole requirement with them."""
    hosts: HostSlots
    """Where it would run, in rank order."""


class BlockerRow(msgspec.Struct, frozen=True):
    """A running job or element that must end first."""

    jobid: int
    index: int
    user: str
    queue: str
    hosts: tuple[str, ...]
    ends_at: float | None
    """When its run limit or estimate is over; null: nobody knows."""


class AdviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """What would let a job start, who is in its way, and when it is expected to start."""

    index: int = 0
    """Of an array: the element that all this is about."""
    reason: ReasonRow | None = None
    """Why it waits, as a session finds now; null: the next one starts it."""
    table: list[TableRow] = []
    suggestions: list[SuggestionRow] = []
    blockers: list[BlockerRow] = []
    ahead: int = 0
    """How many jobs in front of it take what comes free; 0: it is not they who are in the way."""
    waits_for: list[int] = []
    """Unfinished jobs that its dependency names."""
    expected_start: float | None = None
    not_before: float | None = None
    """Where the start is not known: up to when it surely does not start."""
    expected_hosts: HostSlots = ()
    assumption: str = ""
    """Of what ``expected_start`` is true, or why there is none."""
    trials: int = 0
    note: str = ""
    """What is missing here, and why."""


def _host_slots(hosts: tuple[str, ...], tasks: tuple[int, ...]) -> HostSlots:
    return tuple(zip(hosts, tasks, strict=True))


def table_rows(reason: Reason) -> list[TableRow]:
    """Return how many hosts each filter excludes, for all parts and alternatives."""
    return [
        TableRow(
            item.code, item.hosts, item.resource, item.needed, item.best, render_lsf_host(item),
            is_candidate(item), role, text=render_host_reason(item),
        )
        for item, role in each_host_reason(reason)
    ]  # fmt: skip


def _suggestion_row(suggestion: Suggestion) -> SuggestionRow:
    return SuggestionRow(
        " and ".join(change.text for change in suggestion.changes),
        list(suggestion.changes),
        render_request(suggestion.wish.request),
        _host_slots(suggestion.hosts, suggestion.tasks),
    )


def _blocker_row(state: ClusterState, blocker: Blocker) -> BlockerRow | None:
    job = state.jobs.get(blocker.job)
    if job is None:
        return None
    key = state.key(job)
    return BlockerRow(
        blocker.job, blocker.index, key.user, key.queue, blocker.hosts, at_s(blocker.ends_at_us)
    )


def advice_row(
    state: ClusterState, element: Element, advice: Advice, outlook: Outlook | None, now_us: Micros
) -> AdviceRow:
    """Return what was found; without an outlook the time was too short for it."""
    is_starting = advice.start is not None
    found = outlook.forecast if outlook is not None else None
    start = found.start if found is not None else None
    rows = [_blocker_row(state, one) for one in advice.blockage.blockers]
    is_cut = advice.is_cut or advice.blockage.is_cut
    return AdviceRow(
        index=element[1],
        reason=None if is_starting else render_reason(advice.reason, now_us),
        table=[] if is_starting else table_rows(advice.reason),
        suggestions=[_suggestion_row(one) for one in advice.suggestions],
        blockers=[row for row in rows if row is not None],
        ahead=advice.blockage.ahead,
        waits_for=list(advice.waits_for),
        expected_start=at_s(found.at_us) if found is not None else None,
        not_before=at_s(found.until_us) if found is not None and found.is_cut else None,
        expected_hosts=_host_slots(start.hosts, start.tasks) if start is not None else (),
        assumption=outlook.assumption if outlook is not None else _SLOW,
        trials=advice.trials,
        note=_CUT if is_cut else "",
    )


async def find_advice(backend: Backend, element: Element) -> AdviceRow:
    """Have it found what would let an element start, and when it is expected to."""
    state, now_us = backend.replica.state, backend.now_us

    def work() -> Iterator[bytes]:
        advice = study(state, element, now_us)
        yield _ENCODER.encode(advice)
        yield _ENCODER.encode(foresee(state, element, advice, now_us))

    try:
        parts = await backend.copies.ask(work)
    except CopyError as error:
        backend.log.warning("advice-failed", extra={"why": str(error)})
        return AdviceRow(index=element[1], note=f"nothing could be tried: {_last_line(error)}")
    if not parts:
        return AdviceRow(index=element[1], note=_SLOW)
    outlook = _OUTLOOK.decode(parts[1]) if len(parts) > 1 else None
    return advice_row(
        backend.replica.state, element, _ADVICE.decode(parts[0]), outlook, backend.now_us
    )


async def find_plan(backend: Backend, command: SubmitJobs) -> tuple[Judged, AdviceRow | None]:
    """Have it found what would become of a submission.

    Raises:
        CopyError: It could not be found out.
    """
    state, now_us = backend.replica.state, backend.now_us

    def work() -> Iterator[bytes]:
        judged, element = judge(state, command, now_us)
        yield _ENCODER.encode((judged, element))
        if judged.accepted is not None:
            advice = study(state, element, now_us)
            yield _ENCODER.encode(advice)
            yield _ENCODER.encode(foresee(state, element, advice, now_us))

    parts = await backend.copies.ask(work)
    if not parts:
        raise CopyError(_SLOW)
    judged, element = _PLANNED.decode(parts[0])
    if judged.accepted is None:
        return judged, None
    if len(parts) == 1:
        return judged, AdviceRow(index=element[1], note=_SLOW)
    outlook = _OUTLOOK.decode(parts[2]) if len(parts) > 2 else None
    advice = _ADVICE.decode(parts[1])
    return judged, advice_row(backend.replica.state, element, advice, outlook, backend.now_us)


_PLANNED: Final = msgspec.msgpack.Decoder(tuple[Judged, tuple[JobId, int]])


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["?"])[-1]
