"""``GET /jobs`` and what can be asked about one job."""

import asyncio
import time
from typing import Final

import msgspec
from aiohttp import web

from xce.apiserver.advice_rows import find_advice
from xce.apiserver.backend import Backend, check_job
from xce.apiserver.call import ENCODER, Call, answer, raw_answer
from xce.apiserver.listing import JobLister, parse_flag, parse_number, parse_query
from xce.apiserver.problems import GONE, refused
from xce.apiserver.subject import WHOLE, Subject, find_subject
from xce.apiserver.why import explain
from xce.jobspec.render import render_spec
from xce.model.refusal import RefusalCode

WAIT_S_MAX: Final = 60
INDEX_MAX: Final = (1 << 31) - 1


async def list_jobs(backend: Backend, call: Call) -> web.StreamResponse:
    """List jobs: the caller's unfinished ones, or those that match."""
    query = parse_query(call.query, caller=call.caller.user)
    lister = JobLister(
        backend.replica, backend.history, query, backend.now_us, sees=backend.sees(call.caller),
        desk=backend.usage,
    )  # fmt: skip
    rows: list[bytes] = []
    async for part in lister.slices():
        rows += part
        await asyncio.sleep(0)
    body = b'{"seq":%d,"now":%s,"jobs":[%s],"missing":%s,"next":%s}' % (
        lister.seq,
        ENCODER.encode(backend.now()),
        b",".join(rows),
        ENCODER.encode(lister.missing),
        ENCODER.encode(lister.next or None),
    )
    return raw_answer(lister.seq, body)


async def subject_of(backend: Backend, call: Call, query: dict[str, str]) -> Subject:
    """Return the job, and perhaps element, that a path and its parameters name.

    Raises:
        ProblemError: There is none, or the caller may not do to it what the route does.
    """
    text = call.words["id"]
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise refused(
            RefusalCode.BAD_REQUEST, f"{text!r} is no job id", lsf=f"{text}: Illegal job ID"
        )
    index = WHOLE
    if query.get("index"):
        index = parse_number(query, "index", 0, low=0, high=INDEX_MAX)
    subject = await find_subject(backend, int(text), WHOLE)
    check_job(backend, call.caller, call.permission, subject.job_id, subject.place)
    if index != WHOLE:
        subject = await find_subject(backend, int(text), index)
    subject.sees = backend.sees(call.caller)
    if index == 0 and subject.is_array:
        subject.index = WHOLE
    return subject


async def show_job(backend: Backend, call: Call) -> web.StreamResponse:
    """Show one job, element or array, whatever its state and owner."""
    subject = await subject_of(backend, call, call.query)
    if parse_flag(call.query, "usage"):
        await subject.measure()
    return raw_answer(backend.replica.seq, subject.render())


async def show_why(backend: Backend, call: Call) -> web.StreamResponse:
    """Tell why a job is where it is, and what would let it start."""
    subject = await subject_of(backend, call, call.query)
    found, seq = explain(subject), backend.replica.seq
    index = subject.waiting_index()
    if index is not None and call.query.get("advice") != "0":
        advice = await find_advice(backend, (subject.job_id, index))
        found = msgspec.structs.replace(found, advice=advice)
    return answer(seq, found)


async def show_script(backend: Backend, call: Call) -> web.StreamResponse:
    """Show the text that a job runs."""
    subject = await subject_of(backend, call, call.query)
    content = await backend.link.fetch_blob(subject.spec.script)
    if content is None:
        raise refused(GONE, f"the script of job {subject.job_id} is not kept any more", status=410)
    return raw_answer(backend.replica.seq, content, content_type="text/plain; charset=utf-8")


async def show_environment(backend: Backend, call: Call) -> web.StreamResponse:
    """Show the variables that a job was submitted with: ``NAME=value``, a NUL behind each but the
    last.
    """
    subject = await subject_of(backend, call, call.query)
    content: bytes | None = b""
    if subject.spec.env:
        content = await backend.link.fetch_blob(subject.spec.env)
    if content is None:
        text = f"the environment of job {subject.job_id} is not kept any more"
        raise refused(GONE, text, status=410)
    return raw_answer(backend.replica.seq, content, content_type="text/plain; charset=utf-8")


async def show_spec(backend: Backend, call: Call) -> web.StreamResponse:
    """Show a job as a jobspec, whichever way it was submitted."""
    subject = await subject_of(backend, call, call.query)
    content = await backend.link.fetch_blob(subject.spec.script)
    script = (content or b"").decode("utf-8", "replace")
    found = render_spec(subject.spec, subject.key, script=script, standing=subject.standing)
    return answer(backend.replica.seq, found)


async def wait_for_job(backend: Backend, call: Call) -> web.StreamResponse:
    """Wait for the end of a job or element; 204 when it has not come in time."""
    query = call.query
    timeout_s = parse_number(query, "timeout", WAIT_S_MAX, low=0, high=86_400)
    deadline = time.monotonic() + min(timeout_s, WAIT_S_MAX)
    subject = await subject_of(backend, call, query)
    while not subject.is_over:
        left = deadline - time.monotonic()
        if left <= 0 or not await backend.waits.wait(subject.job_id, left):
            return web.Response(status=204, headers={"XCE-Seq": str(backend.replica.seq)})
        subject = await subject_of(backend, call, query)
    return raw_answer(backend.replica.seq, subject.render())
