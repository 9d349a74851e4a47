"""``POST /jobs/{id}/run``: a pending job is started at once where an administrator says."""

from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer, decode
from xce.apiserver.problems import ProblemError, denied, from_refusal
from xce.apiserver.routes.jobs import INDEX_MAX, subject_of
from xce.control.force import HOSTS_MAX
from xce.model.command import ForceJob
from xce.model.refusal import Refusal


class ForceBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where a job or element is started."""

    hosts: Annotated[
        list[Annotated[str, Meta(max_length=255)]], Meta(min_length=1, max_length=HOSTS_MAX)
    ]
    """Only there; how its tasks lie is as it asked for."""
    firm: bool = False
    """Neither run windows nor other jobs suspend it."""
    index: Annotated[int, Meta(ge=0, le=INDEX_MAX)] | None = None
    """The element of an array."""


class ForceAnswer(msgspec.Struct, frozen=True):
    """What was started."""

    seq: int
    jobid: int
    index: int


_BODY: Final = msgspec.json.Decoder(ForceBody)


async def force_job(backend: Backend, call: Call) -> web.StreamResponse:
    """Start a job or element out of its turn."""
    body: ForceBody = decode(_BODY, await call.body())
    query = {} if body.index is None else {"index": str(body.index)}
    subject = await subject_of(backend, call, query)
    caller, index = call.caller, body.index or 0
    command = ForceJob(
        caller.user, caller.is_admin, subject.job_id, index, tuple(dict.fromkeys(body.hosts)),
        body.firm, caller.groups,
    )  # fmt: skip
    reply = await backend.write(command, caller, repeatable=False)
    (result,) = reply.results
    if isinstance(result, Refusal) and result.permission:
        raise denied(result.permission, result.text, about=f"job {subject.job_id}")
    if isinstance(result, Refusal):
        raise ProblemError(from_refusal(result))
    return answer(backend.replica.seq, ForceAnswer(reply.seq, subject.job_id, index))
