"""``POST /jobs``: one submission, several in one body, or one a line."""

import os
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec
from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import BODY_MAX, ENCODER, NDJSON, Call, decode, raw_answer
from xce.apiserver.problems import Problem, ProblemError, from_refusal, make_problem, refused
from xce.apiserver.submission import Compiled, SubmissionBody
from xce.journal.history import HistoryError
from xce.model.command import Accepted, SubmitJobs
from xce.model.dependency import And, Condition, Dependency, Not, Or
from xce.model.errors import TextError
from xce.model.ids import JobId
from xce.model.refusal import Refusal, RefusalCode
from xce.resreq.dependency import parse_dependency

LINES: Final = 2_000
"""Most jobs in one command."""
COMMAND_BYTES: Final = 8 * 1024 * 1024
"""With so many bytes of blobs and specs a command is sent, however few its jobs are."""
LINE_MAX: Final = BODY_MAX
KEY_MAX: Final = 128


class Submissions(msgspec.Struct, forbid_unknown_fields=True):
    """Several submissions in one body."""

    jobs: list[SubmissionBody]


class Submitted(msgspec.Struct, frozen=True):
    """A job that was taken."""

    jobid: int
    queue: str
    default_queue: bool
    """Whether the queue was chosen for lack of a named one."""
    warning: str = ""


class NotSubmitted(msgspec.Struct, frozen=True):
    """A submission that was refused, in a body of several."""

    error: Problem


class SubmitAnswer(msgspec.Struct, frozen=True):
    """What became of the submissions, in their order."""

    seq: int
    results: list[Submitted | NotSubmitted]


_ONE: Final = msgspec.json.Decoder(SubmissionBody)
_SEVERAL: Final = msgspec.json.Decoder(Submissions)


async def submit_jobs(backend: Backend, call: Call) -> web.StreamResponse:
    """Submit jobs."""
    if not call.caller.may_run:
        raise refused(
            RefusalCode.DENIED,
            f"this cluster is run by user id {backend.identities.own_uid}, not by root, so it can "
            f"run no jobs of {call.caller.user}",
        )
    key = parse_key(call.header("Idempotency-Key"))
    if call.request.content_type == NDJSON:
        batch = _Batch(backend, call, key or _make_key())
        async for line in read_lines(call.request.content.iter_any()):
            await batch.add_line(line)
        return await batch.answer()
    content = await call.body()
    if content.lstrip()[:8].startswith(b'{"jobs"') or b'"jobs"' in content[:64]:
        bodies = decode(_SEVERAL, content).jobs
        if not bodies:
            raise refused(RefusalCode.BAD_REQUEST, "jobs is empty")
        batch = _Batch(backend, call, key or (_make_key() if len(bodies) > 1 else ""))
        for body in bodies:
            await batch.add(body)
        return await batch.answer()
    return await _submit_one(backend, call, decode(_ONE, content), key)


async def _submit_one(
    backend: Backend, call: Call, body: SubmissionBody, key: str
) -> web.StreamResponse:
    replica = backend.replica
    compiled = backend.compiler.compile(body, call.caller, replica.state.config)
    command = SubmitJobs(
        owner=call.caller.owner,
        jobs=(compiled.submission,),
        blobs=backend.sent.unsent(compiled.blobs),
        key=key,
        past=past_outcomes(backend, (compiled,)) if body.dependency else (),
    )
    answer = await backend.write(command, call.caller, repeatable=bool(key))
    (result,) = answer.results
    if isinstance(result, Refusal):
        raise ProblemError(from_refusal(result))
    backend.sent.note(compiled.blobs)
    document = SubmitAnswer(answer.seq, [_submitted(result, compiled)])
    return raw_answer(replica.seq, ENCODER.encode(document), status=201)


def _submitted(result: Accepted, compiled: Compiled) -> Submitted:
    return Submitted(result.job, result.queue, not compiled.submission.queue, result.warning)


def parse_key(text: str) -> str:
    """Return an idempotency key that may be stored.

    Raises:
        ProblemError: It is too long or not printable.
    """
    if not text:
        return ""
    if len(text) > KEY_MAX or not text.isascii() or not text.isprintable():
        raise refused(
            RefusalCode.BAD_REQUEST,
            f"Idempotency-Key: expected at most {KEY_MAX} printable ASCII characters",
        )
    return text


def _make_key() -> str:
    """Return a key of our own, so that a command may be sent again when the controller was lost."""
    return f"{int(time.time())}-{os.urandom(8).hex()}"


def past_outcomes(
    backend: Backend, compiled: Sequence[Compiled]
) -> tuple[tuple[JobId, int, int], ...]:
    """Return how jobs ended that dependencies name and that have left the state (X-34)."""
    state = backend.replica.state
    wanted: dict[JobId, None] = {}
    for item in compiled:
        text = item.submission.spec.dependency
        if not text:
            continue
        try:
            tree = parse_dependency(text)
        except TextError:
            continue  # The controller refuses it in its own words.
        for job in _named_jobs(tree):
            if 0 < job < state.next_job and job not in state.jobs:
                wanted[job] = None
    if not wanted:
        return ()
    try:
        return tuple(backend.history.outcomes(wanted))
    except HistoryError:
        backend.log.exception("history-not-read")
        return ()


def _named_jobs(tree: Dependency) -> list[JobId]:
    found: list[JobId] = []
    rest = [tree]
    while rest:
        match rest.pop():
            case Condition(_, subjects):
                found.extend(subject.job for subject in subjects if not subject.name)
            case Not(part):
                rest.append(part)
            case And(parts) | Or(parts):
                rest.extend(parts)
    return found


async def read_lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, blank ones too, without their ends.

    Raises:
        ProblemError: One is too long.
    """
    rest = b""
    async for part in parts:
        lines = (rest + part).split(b"\n") if rest else part.split(b"\n")
        rest = lines.pop()
        if len(rest) > LINE_MAX:
            raise refused(RefusalCode.TOO_LARGE, f"a line has more than {LINE_MAX} bytes")
        for line in lines:
            yield line
    if rest.strip():
        yield rest


class _Batch:
    """A bulk submit: gathers jobs into commands, numbered under one key, and their results."""

    def __init__(self, backend: Backend, call: Call, key: str) -> None:
        self._backend = backend
        self._call = call
        self._key = key
        self._results: list[Submitted | NotSubmitted] = []
        self._seq = 0
        self._jobs: list[Compiled] = []
        self._blobs: dict[str, bytes] = {}
        self._bytes = 0
        self._has_dependency = False
        self._first = 0
        """Number of the first of the gathered lines."""

    async def add_line(self, line: bytes) -> None:
        """Take one line; blank ones mean nothing."""
        if not line or line.isspace():
            return
        try:
            body = decode(_ONE, line)
        except ProblemError as error:
            await self._refuse(error.problem)
            return
        self._bytes += len(line)
        await self.add(body)

    async def add(self, body: SubmissionBody) -> None:
        """Take one submission."""
        backend = self._backend
        try:
            compiled = backend.compiler.compile(
                body, self._call.caller, backend.replica.state.config
            )
        except ProblemError as error:
            await self._refuse(error.problem)
            return
        self._jobs.append(compiled)
        self._has_dependency = self._has_dependency or bool(body.dependency)
        for digest, content in compiled.blobs:
            if digest not in self._blobs:
                self._blobs[digest] = content
                self._bytes += len(content)
        if len(self._jobs) >= LINES or self._bytes >= COMMAND_BYTES:
            await self._send()

    async def _refuse(self, problem: Problem) -> None:
        """Note a submission that the controller need not see.

        The lines of a command follow one another, so those before it are sent first.
        """
        await self._send()
        line = self._first + 1
        detail = f"job {line} of the request: {problem.detail}"
        self._results.append(NotSubmitted(msgspec.structs.replace(problem, detail=detail)))
        self._first += 1

    async def _send(self) -> None:
        if not self._jobs:
            return
        backend = self._backend
        jobs, blobs = self._jobs, tuple(self._blobs.items())
        command = SubmitJobs(
            owner=self._call.caller.owner,
            jobs=tuple(item.submission for item in jobs),
            blobs=backend.sent.unsent(blobs),
            key=self._key,
            line=self._first,
            past=past_outcomes(backend, jobs) if self._has_dependency else (),
        )
        self._jobs, self._blobs, self._bytes, self._has_dependency = [], {}, 0, False
        self._first += len(jobs)
        basis = "admin" if self._call.caller.is_admin else "owner"
        answer = await backend.link.ask(
            command, by=self._call.caller.user, basis=basis, repeatable=bool(self._key)
        )
        self._seq = max(self._seq, answer.seq)
        taken = False
        for compiled, result in zip(jobs, answer.results, strict=True):
            if isinstance(result, Refusal):
                self._results.append(NotSubmitted(from_refusal(result)))
            else:
                taken = True
                self._results.append(_submitted(result, compiled))
        if taken and not any(isinstance(r, NotSubmitted) for r in self._results[-len(jobs) :]):
            backend.sent.note(blobs)

    async def answer(self) -> web.StreamResponse:
        """Send what is left and return the answer to all."""
        await self._send()
        if not self._results:
            raise ProblemError(make_problem(RefusalCode.BAD_REQUEST, "there is no job in the body"))
        replica = self._backend.replica
        await replica.reach(self._seq, 10.0)
        document = SubmitAnswer(self._seq or replica.seq, self._results)
        return raw_answer(replica.seq, ENCODER.encode(document), status=201)
