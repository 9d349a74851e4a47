"""``GET /trace``, its rules, and switching it on and off: what sessions tell of their decisions."""

from collections.abc import Callable
from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from xce.apiserver.backend import Backend, check_job, unknown_job
from xce.apiserver.call import ENCODER, Call, answer, decode, raw_answer
from xce.apiserver.copies import CopyError
from xce.apiserver.identity import Caller
from xce.apiserver.job_results import ActionError
from xce.apiserver.listing import parse_flag, parse_number
from xce.apiserver.problems import ProblemError, make_problem, refused
from xce.apiserver.routes.plan import BUSY
from xce.journal.trace_rows import LIMIT_MAX, TraceAnswer, Wanted, find_traces, session_row
from xce.model.command import StartTrace, StopTrace
from xce.model.ids import SECOND_US, JobId
from xce.model.permission import Permission
from xce.model.refusal import Refusal, RefusalCode
from xce.model.trace import SESSIONS_MAX, SPAN_US_MAX, TraceKind, TraceRule
from xce.sched.session import run_session
from xce.sched.traced import Trace

LIMIT: Final = 10
_ID_MAX: Final = (1 << 63) - 1
Name = Annotated[str, Meta(min_length=1, max_length=4096)]


class TraceRuleRow(msgspec.Struct, frozen=True):
    """A rule: sessions tell of this until then."""

    rule: int
    kind: str
    job: int
    name: str
    """Of a user or queue."""
    sessions: int
    until: float
    by: str


class TraceRules(msgspec.Struct, frozen=True):
    """The rules that are in effect: a user's own, an administrator's all."""

    rules: list[TraceRuleRow]


class TraceBody(msgspec.Struct, forbid_unknown_fields=True):
    """Switch tracing on for one thing, or rules off."""

    action: Literal["on", "off"]
    job: Annotated[int, Meta(ge=1, le=_ID_MAX)] | None = None
    user: Name | None = None
    queue: Name | None = None
    sessions: Annotated[int, Meta(ge=1, le=SESSIONS_MAX)] | None = None
    """Everything, in so many sessions."""
    for_s: Annotated[int, Meta(ge=1, le=SPAN_US_MAX // SECOND_US)] = 600
    """With ``on``: for so long."""
    rules: Annotated[list[Annotated[int, Meta(ge=1)]], Meta(max_length=1_000)] = []
    """With ``off``: which; none: all that are the caller's, or an administrator's all."""


class TraceResult(msgspec.Struct, frozen=True):
    """What became of a rule."""

    rule: int
    text: str | UnsetType = UNSET
    until: float | UnsetType = UNSET
    error: ActionError | UnsetType = UNSET


class TraceActions(msgspec.Struct, frozen=True):
    """What became of each rule."""

    seq: int
    results: list[TraceResult]


_BODY: Final = msgspec.json.Decoder(TraceBody)


async def show_trace(backend: Backend, call: Call) -> web.StreamResponse:
    """Show what traced sessions decided, the newest ones."""
    query = call.query
    job = parse_number(query, "job", 0, low=1, high=_ID_MAX)
    limit = parse_number(query, "limit", LIMIT, low=1, high=LIMIT_MAX)
    wanted = Wanted(
        job=job,
        cls=_class_of(backend, call.caller, job),
        user=query.get("user", ""),
        queue=query.get("queue", ""),
        session=parse_number(query, "session", 0, low=1, high=_ID_MAX),
        viewer="" if job or _traces_all(backend, call.caller) else call.caller.user,
    )
    if parse_flag(query, "now"):
        if not job or wanted.session:
            raise refused(RefusalCode.BAD_REQUEST, "now=1 goes with a job, and no session")
        must_pend(backend, job)
        found = await _think(backend, lambda: run_dry(backend, wanted))
    else:
        directory = backend.site.traces
        found = await _think(backend, lambda: find_traces(directory, wanted, limit))
    return raw_answer(backend.replica.seq, found)


async def _think(backend: Backend, work: Callable[[], TraceAnswer]) -> bytes:
    """Return what some work gives, as JSON; it may take long, so that a copy does it.

    Raises:
        ProblemError: It took too long, or could not be done.
    """
    try:
        parts = await backend.copies.ask(lambda: iter((ENCODER.encode(work()),)))
    except CopyError as error:
        backend.log.warning("trace-failed", extra={"why": str(error)})
        text = (str(error).strip().splitlines() or [""])[-1]
        raise ProblemError(
            make_problem(BUSY, f"nothing could be looked at: {text}", status=503), retry_after_s=1
        ) from error
    if not parts:
        raise ProblemError(make_problem(BUSY, "it takes too long: ask for less", status=503))
    return parts[0]


def _class_of(backend: Backend, caller: Caller, job_id: JobId) -> int:
    """Return the class of a job that the caller may look at; 0: it has left the state."""
    job = backend.replica.state.jobs.get(job_id) if job_id else None
    if job is None:
        return 0
    key = backend.replica.state.key(job)
    place = job.owner.user, key.queue, key.project
    check_job(backend, caller, Permission.JOB_TRACE, job_id, place)
    return job.cls


def _traces_all(backend: Backend, caller: Caller) -> bool:
    """Return whether a caller may have everybody's jobs traced."""
    return bool(backend.rights.basis(caller.actor, Permission.JOB_TRACE))


def must_pend(backend: Backend, job_id: JobId) -> None:
    """Check that there is something to decide about a job.

    Raises:
        ProblemError: There is none.
    """
    job = backend.replica.state.jobs.get(job_id)
    if job is None:
        raise unknown_job(str(job_id))
    if job.is_finished or not (job.pending or job.held):
        raise refused(RefusalCode.WRONG_STATE, f"job {job_id} does not pend: nothing is decided")


def run_dry(backend: Backend, wanted: Wanted) -> TraceAnswer:
    """Run a session on the present state for its trace only."""
    state = backend.replica.state
    now_us = max(state.now_us, backend.now_us)
    trace = Trace([TraceRule(0, TraceKind.JOB, now_us + 1, "", job=wanted.job)])
    run_session(state, now_us=now_us, trace=trace)
    row = session_row(trace.session, wanted) if trace.session is not None else None
    return TraceAnswer(sessions=[row] if row is not None else [], damaged=[], is_cut=False)


async def list_trace_rules(backend: Backend, call: Call) -> web.StreamResponse:
    """List the rules of what sessions tell."""
    caller = call.caller
    sees_all = _traces_all(backend, caller)
    rules = [
        TraceRuleRow(
            rule.number,
            rule.kind,
            rule.job,
            rule.name,
            rule.sessions,
            rule.until_us / SECOND_US,
            rule.by,
        )
        for _, rule in sorted(backend.replica.state.traces.items())
        if (sees_all or rule.by == caller.user) and rule.until_us > backend.now_us
    ]
    return answer(backend.replica.seq, TraceRules(rules))


async def act_on_trace(backend: Backend, call: Call) -> web.StreamResponse:
    """Have sessions tell of something for a while, or no more."""
    body: TraceBody = decode(_BODY, await call.body())
    command = _command(backend, body, call.caller)
    reply = await backend.write(command, call.caller)
    results: list[TraceResult] = []
    numbers = iter(body.rules)
    for item in reply.results:
        number = next(numbers, 0)
        if isinstance(item, Refusal):
            if body.action == "on":
                raise refused(item.code, item.text, lsf=item.lsf)
            error = ActionError(item.code, item.text, item.lsf)
            results.append(TraceResult(number, error=error))
        else:
            until = item.at_us / SECOND_US if item.at_us else UNSET
            results.append(TraceResult(item.number, item.text, until))
    return answer(backend.replica.seq, TraceActions(reply.seq, results))


def _command(backend: Backend, body: TraceBody, caller: Caller) -> StartTrace | StopTrace:
    kinds = {
        TraceKind.JOB: body.job,
        TraceKind.USER: body.user,
        TraceKind.QUEUE: body.queue,
        TraceKind.SESSION: body.sessions,
    }
    given = [kind for kind, value in kinds.items() if value is not None]
    if body.action == "off":
        if given:
            raise refused(RefusalCode.BAD_REQUEST, f"{given[0]} belongs to on; off takes rules")
        body.rules = list(dict.fromkeys(body.rules))
        return StopTrace(caller.user, _traces_all(backend, caller), tuple(body.rules))
    if len(given) != 1 or body.rules:
        text = "name one of job, user, queue, sessions" if not body.rules else "rules belong to off"
        raise refused(RefusalCode.BAD_REQUEST, text)
    may = bool(_class_of(backend, caller, body.job or 0)) or _traces_all(backend, caller)
    return StartTrace(
        caller.user,
        may,
        given[0],
        body.for_s * SECOND_US,
        body.job or 0,
        body.user or body.queue or "",
        body.sessions or 0,
    )
