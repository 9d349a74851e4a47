"""Traced sessions as answers give them: the wanted steps of each, with all about them in one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from xce.journal.trace_store import read_traces
from xce.model.ids import Index, JobId
from xce.model.reason import Reason, render_plain
from xce.model.trace import Candidate, SessionTrace, Sifted, Step, Table

LIMIT_MAX: Final = 1_000
SCAN_MAX: Final = 20_000
"""Sessions that are looked at for one answer."""
_LEFT: Final = "left"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which steps; what is empty or 0 does not matter."""

    job: JobId = 0
    cls: int = 0
    """With ``job``: its class, if it is known: a class may have more jobs than a trace lists."""
    user: str = ""
    queue: str = ""
    session: int = 0
    viewer: str = ""
    """Only what is this user's."""


class FilterRow(msgspec.Struct, frozen=True):
    """How many hosts a filter took out, and why."""

    code: str
    hosts: int
    resource: str
    needed: int
    best: int


class HostRow(msgspec.Struct, frozen=True):
    """A host that no filter took out."""

    host: str
    place: int
    """From 1, the best one first; 0: the order was not asked for."""
    scores: list[float]
    free_slots: int
    fits: int
    """Tasks."""
    gets: int
    """Tasks."""


class FormRow(msgspec.Struct, frozen=True):
    """What a request, or a part or alternative of it, found."""

    form: str
    filters: list[FilterRow]
    left: int
    """Hosts that no filter took out."""
    ordered_by: list[str]
    hosts: list[HostRow]


class WhyRow(msgspec.Struct, frozen=True):
    """Why it waits."""

    code: str
    text: str
    unsatisfiable: bool
    needed: int
    available: int


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a session did with a class in one turn."""

    turn: int
    cls: int = msgspec.field(name="class")
    outcome: str
    user: str
    queue: str
    queue_priority: int
    rank: list[int]
    job: JobId
    index: Index
    waiting: int
    jobs: list[tuple[JobId, JobId]]
    array_limit: int
    may_start: int
    rule: str
    elements: int
    tasks: int
    starts: list[tuple[JobId, Index, Index]]
    reason: WhyRow | None
    source: str
    proved_by: JobId
    at: float | None
    victims: list[tuple[JobId, Index, str]]
    forms: list[FormRow]


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A traced session."""

    session: int
    seq: int
    at: float
    classes: int
    hosts: int
    turns: int
    steps_left_out: int
    steps: list[StepRow]


class TraceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Traced sessions, the oldest first."""

    sessions: list[SessionRow]
    damaged: list[str]
    """What of the files could not be read."""
    is_cut: bool
    """Older sessions were not looked at."""


def find_traces(directory: Path, wanted: Wanted, limit: int) -> TraceAnswer:
    """Return the newest sessions of a directory in which there is something of what is wanted."""
    damaged: list[str] = []
    found: list[SessionRow] = []
    is_cut = False
    for place, session in enumerate(read_traces(directory, damaged)):
        if len(found) >= limit or place >= SCAN_MAX:
            is_cut = True
            break
        if wanted.session and session.number != wanted.session:
            continue
        try:
            row = session_row(session, wanted)
        except (msgspec.ValidationError, ValueError):
            damaged.append(f"{directory}: session {session.number} cannot be read")
            continue
        if row is not None:
            found.append(row)
        if wanted.session:
            break
    return TraceAnswer(sessions=found[::-1], damaged=damaged, is_cut=is_cut)


def session_row(session: SessionTrace, wanted: Wanted) -> SessionRow | None:
    """Return what is wanted of a session, or None: there is nothing.

    Raises:
        msgspec.ValidationError: Its tables hold something else.
        ValueError: They are of different lengths.
    """
    steps = list(Table(Step, session.steps).rows())
    chosen = {place for place, step in enumerate(steps) if _is_wanted(step, wanted)}
    is_all = wanted == Wanted(session=wanted.session)
    if not chosen and not is_all:
        return None
    forms: dict[int, dict[str, FormRow]] = {place: {} for place in chosen}
    for sifted in Table(Sifted, session.sifted).rows():
        if sifted.step in chosen:
            _add_sifted(forms[sifted.step], sifted)
    for item in Table(Candidate, session.candidates).rows():
        if item.step in chosen:
            _form(forms[item.step], item.form).hosts.append(_host_row(item))
    rows = [
        _step_row(steps[place], list(forms[place].values()), session.now_us)
        for place in sorted(chosen)
    ]
    return SessionRow(
        session=session.number,
        seq=session.seq,
        at=session.now_us / 1_000_000,
        classes=session.classes,
        hosts=session.hosts,
        turns=session.turns,
        steps_left_out=session.left_out,
        steps=rows,
    )


def _is_wanted(step: Step, wanted: Wanted) -> bool:
    if wanted.viewer and step.user != wanted.viewer:
        return False
    if wanted.user and step.user != wanted.user:
        return False
    if wanted.queue and step.queue != wanted.queue:
        return False
    job = wanted.job
    return not job or job in _named(step) or any(lo <= job <= hi for lo, hi in step.jobs) or (
        bool(wanted.cls) and step.cls == wanted.cls
    )  # fmt: skip


def _named(step: Step) -> Iterator[JobId]:
    yield step.job
    yield from step.traced
    for job, _, _ in step.starts:
        yield job
    for job, _, _ in step.victims:
        yield job


def _form(forms: dict[str, FormRow], label: str, left: int = 0) -> FormRow:
    return forms.setdefault(label, FormRow(label, [], left, [], []))


def _add_sifted(forms: dict[str, FormRow], item: Sifted) -> None:
    form = _form(forms, item.form)
    if item.code == _LEFT:
        found = msgspec.structs.replace(form, left=item.hosts, ordered_by=list(item.keys))
        forms[item.form] = found
        return
    form.filters.append(FilterRow(item.code, item.hosts, item.resource, item.needed, item.best))


def _host_row(item: Candidate) -> HostRow:
    scores = [milli / 1000 for milli in item.scores]
    return HostRow(item.host, item.place, scores, item.free, item.fits, item.gets)


def _step_row(step: Step, forms: list[FormRow], now_us: int) -> StepRow:
    return StepRow(
        turn=step.order,
        cls=step.cls,
        outcome=step.outcome,
        user=step.user,
        queue=step.queue,
        queue_priority=step.priority,
        rank=list(step.rank),
        job=step.job,
        index=step.index,
        waiting=step.waiting,
        jobs=list(step.jobs),
        array_limit=step.array_limit,
        may_start=step.may_start,
        rule=step.rule,
        elements=step.elements,
        tasks=step.tasks,
        starts=list(step.starts),
        reason=_why_row(step.reason, now_us),
        source=step.source,
        proved_by=step.proved_by,
        at=step.at_us / 1_000_000 if step.at_us else None,
        victims=list(step.victims),
        forms=forms,
    )


def _why_row(reason: Reason | None, now_us: int) -> WhyRow | None:
    if reason is None:
        return None
    text = render_plain(reason, now_us=now_us)
    return WhyRow(reason.code, text, reason.unsatisfiable, reason.needed, reason.available)
