"""``POST /plan``: what would become of a submission. Nothing is submitted."""

from typing import Final

import msgspec
from aiohttp import web

from xce.apiserver.advice_rows import AdviceRow, find_plan
from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer, decode
from xce.apiserver.copies import CopyError
from xce.apiserver.problems import Problem, ProblemError, from_refusal, make_problem
from xce.apiserver.routes.submit import check_may_run, check_queue, past_outcomes
from xce.apiserver.rows import HostSlots
from xce.apiserver.submission_body import SubmissionBody
from xce.model.command import SubmitJobs

BUSY: Final = "too-busy"
_BODY: Final = msgspec.json.Decoder(SubmissionBody)


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of a submission."""

    accepted: bool
    error: Problem | None = None
    """Why it would be refused."""
    queue: str = ""
    default_queue: bool = False
    warning: str = ""
    starts_now: bool = False
    """The next session would start it."""
    hosts: HostSlots = ()
    """Where it would run, as things are expected to be then; hosts in rank order."""
    advice: AdviceRow | None = None
    """When it would start, and why not now."""


async def plan_job(backend: Backend, call: Call) -> web.StreamResponse:
    """Tell what would become of a submission."""
    body = decode(_BODY, await call.body())
    seq = backend.replica.seq
    try:
        check_may_run(backend, call)
        check_queue(backend, call, body)
        compiled = backend.compiler.compile(body, call.caller, backend.replica.state.config)
    except ProblemError as error:
        return answer(seq, PlanAnswer(accepted=False, error=error.problem))
    command = SubmitJobs(
        owner=call.caller.owner,
        jobs=(compiled.submission,),
        **await past_outcomes(backend, call, [compiled.submission.spec.dependency]),
        is_admin=call.caller.is_admin,
        groups=call.caller.groups,
    )
    try:
        judged, advice = await find_plan(backend, command)
    except CopyError as error:
        backend.log.warning("plan-failed", extra={"why": str(error)})
        text = (str(error).strip().splitlines() or [""])[-1]
        raise ProblemError(
            make_problem(BUSY, f"nothing could be tried: {text}", status=503), retry_after_s=1
        ) from error
    if judged.accepted is None:
        assert judged.refusal is not None, "it is taken or refused"
        return answer(seq, PlanAnswer(accepted=False, error=from_refusal(judged.refusal)))
    assert advice is not None, "what is taken is looked at"
    return answer(
        seq,
        PlanAnswer(
            accepted=True,
            queue=judged.accepted.queue,
            default_queue=not compiled.submission.queue,
            warning=judged.accepted.warning,
            starts_now=advice.reason is None and advice.expected_start is not None,
            hosts=advice.expected_hosts,
            advice=advice,
        ),
    )
