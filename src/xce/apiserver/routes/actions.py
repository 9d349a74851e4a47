"""``POST /jobs/actions /queues/actions``: what is done to these."""

from collections import deque
from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from xce.apiserver.access import permission_for
from xce.apiserver.action_body import ActionBody, SelectBody, Text, check_members
from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer, decode
from xce.apiserver.identity import Caller
from xce.apiserver.job_results import (
    RUNS,
    ActionError,
    JobResult,
    each_of,
    job_label,
    label_of,
    tell_done,
    tell_problem,
)
from xce.apiserver.modification import ChangeBody, Composer, render_changes
from xce.apiserver.problems import ProblemError, denied, refused
from xce.apiserver.routes.submit import PastOutcomes, past_outcomes
from xce.control.queues import refuse_queue
from xce.control.selection import refuse_denied, refuse_unknown
from xce.journal.history_reader import HistoryReader
from xce.model.checkpoint import request_number
from xce.model.command import (
    Accepted,
    KillJobs,
    ModifyJobs,
    MoveJobs,
    RequeueJobs,
    ResumeJobs,
    Selection,
    SetQueues,
    SignalJobs,
    StopJobs,
    SwitchJobs,
)
from xce.model.ids import Index, JobId
from xce.model.permission import Permission
from xce.model.refusal import Refusal, RefusalCode
from xce.resreq.array import parse_job_ref
from xce.resreq.errors import JobRefError
from xce.state.rights import Sight

TRIES: Final = 20
"""So often a job is made out again that others are changing, too."""


class JobActions(msgspec.Struct, frozen=True):
    """What became of each job."""

    seq: int
    results: list[JobResult]


class QueuesBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to do to which queues."""

    action: Literal["open", "close", "activate", "inactivate"]
    queues: Annotated[list[Text], Meta(min_length=1)]
    comment: Text = ""


class QueueResult(msgspec.Struct, frozen=True):
    """What was done to a queue, or why nothing was."""

    queue: str
    text: str | UnsetType = UNSET
    error: ActionError | UnsetType = UNSET


class QueueActions(msgspec.Struct, frozen=True):
    """What became of each queue."""

    seq: int
    results: list[QueueResult]


_JOBS: Final = msgspec.json.Decoder(ActionBody)
_QUEUES: Final = msgspec.json.Decoder(QueuesBody)


async def act_on_jobs(backend: Backend, call: Call) -> web.StreamResponse:
    """Kill, stop, resume, signal, requeue, move, switch or modify jobs."""
    body: ActionBody = decode(_JOBS, await call.body())
    caller = call.caller
    permission = permission_for("/jobs/actions", body.action)
    items = _named(backend, caller, permission, body.select)
    selection = _selection(body.select, caller, items)
    if body.action == "modify":
        return await _modify(backend, call, body, items)
    command = _command(body, selection, caller)
    if items and not selection.jobs:
        results = [item for item in items if isinstance(item, JobResult)]
        return answer(backend.replica.seq, JobActions(backend.replica.seq, results))
    is_same_twice = body.action in ("kill", "stop", "resume", "switch")
    reply = await backend.write(command, caller, repeatable=is_same_twice)
    decided = deque(reply.results)
    past = await _past_among(backend, caller, reply.results)
    results = []
    for item in items:
        if isinstance(item, JobResult):
            results.append(item)
        else:
            results += [
                _result(backend, caller, one, past) for one in _next_results(decided, *item)
            ]
    if call.header(RUNS) == "1":
        results += [_result(backend, caller, one, past) for one in decided]
    else:
        results += [_result(backend, caller, one, past) for run in decided for one in each_of(run)]
    return answer(backend.replica.seq, JobActions(reply.seq, results))


def _next_results(
    decided: deque[Accepted | Refusal], job: JobId, runs: Sequence[tuple[Index, Index]]
) -> list[Accepted | Refusal]:
    """Return what was decided about the job named next: once as a whole, or for each run."""
    found = [decided.popleft()] if decided and decided[0].job == job else []
    while found and found[0].first >= 0 and len(found) < len(runs) and decided:
        found.append(decided.popleft())
    return found


def _command(
    body: ActionBody, selection: Selection, caller: Caller
) -> KillJobs | StopJobs | ResumeJobs | SignalJobs | RequeueJobs | MoveJobs | SwitchJobs:
    user, is_admin, groups = caller.user, caller.is_admin, caller.groups
    check_members(body)
    match body.action:
        case "requeue":
            states = tuple(body.states) or ("RUN", "USUSP", "SSUSP")
            return RequeueJobs(user, is_admin, selection, states, body.hold, groups)
        case "top" | "bottom":
            to_top = body.action == "top"
            return MoveJobs(user, is_admin, selection, to_top, body.position or 1, groups)
        case "kill":
            return KillJobs(user, is_admin, selection, body.force, groups, body.as_done)
        case "stop":
            return StopJobs(user, is_admin, selection, groups)
        case "resume":
            return ResumeJobs(user, is_admin, selection, groups)
        case "switch":
            return SwitchJobs(user, is_admin, selection, body.to_queue, groups)
        case "checkpoint":
            number = request_number(ends=body.end, forced=body.force)
            return SignalJobs(user, is_admin, selection, number, groups)
        case "signal":
            return SignalJobs(user, is_admin, selection, body.signal, groups)
        case _:
            raise AssertionError(body.action)


async def _modify(
    backend: Backend, call: Call, body: ActionBody, items: "Sequence[_Named | JobResult]"
) -> web.StreamResponse:
    """Change the jobs that are named, one after the other."""
    check_members(body)
    if body.change is None or not items:
        raise refused(RefusalCode.BAD_REQUEST, "modify needs a change, and jobs by their ids")
    results: list[JobResult] = []
    seq = backend.replica.seq
    for item in items:
        if isinstance(item, JobResult):
            results.append(item)
            continue
        try:
            seq, result = await _modify_one(backend, call, body.change, *item)
        except ProblemError as error:
            # Of several jobs others may have been changed already.
            if len(items) == 1 or error.problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            results.append(tell_problem(label_of(*item), error.problem))
        else:
            past = await _past_among(backend, call.caller, [result])
            found = _result(backend, call.caller, result, past)
            if isinstance(result, Accepted) or result.first < 0:
                found = replace(found, job=label_of(*item))
            results.append(found)
    return answer(backend.replica.seq, JobActions(seq, results))


async def _modify_one(
    backend: Backend,
    call: Call,
    change: ChangeBody,
    job_id: JobId,
    runs: tuple[tuple[Index, Index], ...],
) -> tuple[int, Accepted | Refusal]:
    """Change one job; make it out again where somebody else changed it meanwhile."""
    caller, seq = call.caller, backend.replica.seq
    result: Accepted | Refusal = refuse_unknown(job_id)
    for _ in range(TRIES):
        job = backend.replica.state.jobs.get(job_id)
        if job is None:
            break
        composer = Composer(change, backend.compiler, backend.replica.state)
        items = composer.compose(job, runs)
        known: PastOutcomes = {}
        if "dependency" in composer.changed:
            known = await past_outcomes(backend, call, [items[0].submission.spec.dependency])
        command = ModifyJobs(
            caller.user,
            caller.is_admin,
            items,
            composer.changed,
            render_changes(change),
            blobs=backend.sent.unsent(composer.blobs),
            groups=caller.groups,
            **known,
        )
        reply = await backend.write(command, caller, repeatable=False)
        seq, result = reply.seq, _worst(reply.results)
        if not isinstance(result, Refusal):
            backend.sent.note(composer.blobs)
            break
        if result.code is not RefusalCode.STALE:
            break
    return seq, result


def _worst(results: Sequence[Accepted | Refusal]) -> Accepted | Refusal:
    """Return what came of a job whose elements were changed by several items."""
    refused = [one for one in results if isinstance(one, Refusal)]
    stale = [one for one in refused if one.code is RefusalCode.STALE]
    return next(iter((*stale, *refused, *results)))


_Named = tuple[JobId, tuple[tuple[Index, Index], ...]]


def _named(
    backend: Backend, caller: Caller, permission: Permission, select: SelectBody
) -> list[_Named | JobResult]:
    """Return the jobs that are named, and results in place of those about which nothing is asked:
    because they are none, or because the caller may not.
    """
    items: list[_Named | JobResult] = []
    for text in dict.fromkeys(select.jobs):
        try:
            job_id, runs = parse_job_ref(text)
        except JobRefError as error:
            code = RefusalCode.BAD_REQUEST
            items.append(JobResult(text, error=ActionError(code, error.message, error.lsf)))
            continue
        state = backend.replica.state
        job = state.jobs.get(job_id)
        refusal = refuse_denied(state, job, caller.actor, permission) if job is not None else None
        if refusal is None:
            items.append((job_id, runs))
        else:
            backend.denials.note(caller, permission, f"job {job_id}")
            items.append(_not_done(refusal))
    return items


def _selection(
    select: SelectBody, caller: Caller, items: Sequence[_Named | JobResult]
) -> Selection:
    """Return what the controller is asked about."""
    if not items:
        if not (select.all or select.newest):
            raise refused(
                RefusalCode.BAD_REQUEST,
                "select names no job: give jobs, or all or newest with the filters",
            )
        user = caller.user if select.user is None else select.user
        return Selection(
            user="" if user == "all" else user,
            queue=select.queue,
            name=select.name,
            host=select.host,
            group=select.group,
            app=select.app,
            state=select.state,
            newest=select.newest,
            all=select.all,
            in_runs=True,
        )
    filters = (
        select.user, select.queue, select.name, select.host, select.group, select.app, select.state,
    )  # fmt: skip
    if select.all or select.newest or any(filters):
        raise refused(RefusalCode.BAD_REQUEST, "select: jobs stand alone, without filters")
    return Selection(jobs=tuple(item for item in items if not isinstance(item, JobResult)))


def _result(
    backend: Backend, caller: Caller, item: Accepted | Refusal, past: Collection[JobId]
) -> JobResult:
    if isinstance(item, Accepted):
        return tell_done(item)
    if item.permission:
        backend.denials.note(caller, item.permission, f"job {item.job}")
    return _not_done(item, past)


def _not_done(item: Refusal, past: Collection[JobId] = ()) -> JobResult:
    if not item.job:
        return JobResult("", error=ActionError(item.code, item.text, item.lsf))
    code, text, lsf = item.code, item.text, item.lsf
    if item.job in past:
        # The state has forgotten it, the history has not (decision X-8).
        code, lsf = RefusalCode.ALREADY_FINISHED, "Job has already finished"
        text = f"job {item.job} has already finished"
    label = job_label(item.job, item.first, item.last)
    return JobResult(label, error=ActionError(code, text, lsf, item.permission or UNSET))


async def _past_among(
    backend: Backend, caller: Caller, results: Sequence[Accepted | Refusal]
) -> frozenset[JobId]:
    """Return which jobs that are unknown the history has, of those the caller may know of."""
    jobs, sees = backend.replica.state.jobs, backend.sees(caller)
    gone = {
        item.job
        for item in results
        if isinstance(item, Refusal)
        and item.code is RefusalCode.UNKNOWN_JOB
        and item.job not in jobs
    }
    if not gone:
        return frozenset()
    try:
        return await backend.history.ask(
            lambda reader: frozenset(job for job in gone if _is_past(reader, sees, job))
        )
    except ProblemError:
        # What was asked for is done: without the history some are only not found.
        return frozenset()


def _is_past(reader: HistoryReader, sees: Sight | None, job: JobId) -> bool:
    past = reader.job(job, with_elements=False)
    return past is not None and (
        sees is None or sees(past.owner.user, past.key.queue, past.key.project)
    )


async def act_on_queues(backend: Backend, call: Call) -> web.StreamResponse:
    """Open or close queues for new jobs; let their jobs start, or not."""
    body: QueuesBody = decode(_QUEUES, await call.body())
    caller = call.caller
    permission = permission_for("/queues/actions", body.action)
    names = tuple(dict.fromkeys(body.queues))
    is_open = {"open": True, "close": False}.get(body.action)
    is_active = {"activate": True, "inactivate": False}.get(body.action)
    command = SetQueues(
        caller.user, names, is_open, is_active, body.comment, caller.is_admin, caller.groups
    )
    refusals = [refuse_queue(backend.replica.state, command, name, (permission,)) for name in names]
    if refusals[0] is not None and None not in refusals:
        raise denied(permission, refusals[0].text, about=names[0])
    reply = await backend.write(command, caller)
    results: list[QueueResult] = []
    for name, item in zip(names, reply.results, strict=True):
        if isinstance(item, Refusal):
            if item.permission:
                backend.denials.note(caller, item.permission, f"queue {name}")
            error = ActionError(item.code, item.text, item.lsf, item.permission or UNSET)
            results.append(QueueResult(name, error=error))
        else:
            results.append(QueueResult(name, item.text))
    return answer(backend.replica.seq, QueueActions(reply.seq, results))
