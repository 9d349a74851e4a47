"""``POST /jobs``: one submission, several in one body, or one a line."""

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, TypedDict

import msgspec
from aiohttp import web
from msgspec import UNSET, UnsetType

from xce.apiserver.backend import PASSES_S, REPLICA_S, Backend
from xce.apiserver.call import BODY_MAX, ENCODER, NDJSON, Call, decode, raw_answer
from xce.apiserver.notices import warn_of_mail
from xce.apiserver.problems import (
    Problem,
    ProblemError,
    from_refusal,
    make_problem,
    refused,
)
from xce.apiserver.submission import Compiled
from xce.apiserver.submission_body import SubmissionBody
from xce.control.submit import refuse_submit
from xce.journal.history_reader import HistoryReader
from xce.model.command import Accepted, SubmitJobs
from xce.model.config import ClusterConfig
from xce.model.dependency import WHOLE, And, Condition, Dependency, Not, Or, Subject
from xce.model.errors import TextError
from xce.model.ids import Index, JobId
from xce.model.permission import Permission
from xce.model.refusal import Refusal, RefusalCode
from xce.net.message import Answer
from xce.resreq.dependency import parse_dependency
from xce.state.rights import Sight

LINES: Final = 2_000
"""Most jobs in one command."""
COMMAND_BYTES: Final = 8 * 1024 * 1024
"""With so many bytes of blobs and specs a command is sent, however few its jobs are."""
IN_FLIGHT: Final = 2
"""So many commands wait for their answers while the next is made ready."""
OVERLOAD_S: Final = 30.0
"""So long a bulk waits for a controller that has too much to do; then lines are refused."""
OVERLOAD_PAUSE_S: Final = 0.5
LINE_MAX: Final = BODY_MAX
KEY_MAX: Final = 128


class Submissions(msgspec.Struct, forbid_unknown_fields=True):
    """Several submissions in one body."""

    jobs: list[SubmissionBody]


class SubmitResult(msgspec.Struct, frozen=True):
    """A job that was taken, or why it was not."""

    jobid: int | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    default_queue: bool | UnsetType = UNSET
    """Whether the queue was chosen for lack of a named one."""
    warning: str | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class SubmitAnswer(msgspec.Struct, frozen=True):
    """What became of the submissions, in their order."""

    seq: int
    results: list[SubmitResult]


_ONE: Final = msgspec.json.Decoder(SubmissionBody)
_SEVERAL: Final = msgspec.json.Decoder(Submissions)


async def submit_jobs(backend: Backend, call: Call) -> web.StreamResponse:
    """Submit jobs."""
    check_may_run(backend, call)
    key = parse_key(call.header("Idempotency-Key"))
    if call.request.content_type == NDJSON:
        bulk = _Bulk(backend, call, key or _make_key())
        try:
            async for line in read_lines(call.request.content.iter_any(), charge=call.charge):
                await bulk.add_line(line)
            return await bulk.answer()
        finally:
            bulk.cancel()
    content = await call.body()
    if b'"jobs"' in content[:64]:
        bodies = decode(_SEVERAL, content).jobs
        bulk = _Bulk(backend, call, key or (_make_key() if len(bodies) > 1 else ""))
        try:
            for body in bodies:
                await bulk.add(body)
            return await bulk.answer()
        finally:
            bulk.cancel()
    return await _submit_one(backend, call, decode(_ONE, content), key)


def check_may_run(backend: Backend, call: Call) -> None:
    """Check that the cluster can run jobs of the caller.

    Raises:
        ProblemError: It cannot.
    """
    if not call.caller.may_run:
        raise refused(
            RefusalCode.DENIED,
            f"this cluster is run by user id {backend.identities.own_uid}, not by root, so it can "
            f"run no jobs of {call.caller.user}",
        )


async def _submit_one(
    backend: Backend, call: Call, body: SubmissionBody, key: str
) -> web.StreamResponse:
    replica = backend.replica
    check_queue(backend, call, body)
    compiled = backend.compiler.compile(body, call.caller, replica.state.config)
    command = SubmitJobs(
        owner=call.caller.owner,
        jobs=(compiled.submission,),
        blobs=backend.sent.unsent(compiled.blobs),
        key=key,
        **await past_outcomes(backend, call, [compiled.submission.spec.dependency]),
        wall_us=backend.now_us,
        is_admin=call.caller.is_admin,
        groups=call.caller.groups,
    )
    answer = await backend.write(command, call.caller, repeatable=bool(key))
    (result,) = answer.results
    if isinstance(result, Refusal):
        raise ProblemError(from_refusal(result))
    backend.sent.note(compiled.blobs)
    document = SubmitAnswer(answer.seq, [_submitted(result, compiled, replica.state.config)])
    return raw_answer(replica.seq, ENCODER.encode(document), status=201)


def _submitted(result: Accepted, compiled: Compiled, config: ClusterConfig) -> SubmitResult:
    warnings = (result.warning, warn_of_mail(compiled.submission.spec, config))
    is_default = not compiled.submission.queue
    return SubmitResult(result.job, result.queue, is_default, "; ".join(filter(None, warnings)))


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


class PastOutcomes(TypedDict, total=False):
    """Fields of `SubmitJobs`: how jobs ended that only the history knows."""

    past: tuple[tuple[JobId, int, int], ...]
    past_elements: tuple[tuple[JobId, Index, int, int], ...]


async def past_outcomes(backend: Backend, call: Call, texts: Sequence[str]) -> PastOutcomes:
    """Return how jobs and elements ended that dependencies name and that left the state (X-34).

    Raises:
        ProblemError: The history cannot be read.
    """
    if not any(texts):
        return {}
    sees = backend.sees(call.caller)
    found: PastOutcomes = {}
    told: set[JobId] = set()
    # While the history is asked others may leave the state.
    while True:
        wanted, elements = _gone(backend, texts)
        if wanted.keys() <= told:
            return found
        told |= wanted.keys()

        def ask(reader: HistoryReader) -> PastOutcomes:
            jobs = [job for job in wanted if sees is None or _is_seen(reader, sees, job)]  # noqa: B023
            named = [key for key in elements if key[0] in jobs]  # noqa: B023 - at once
            return {
                "past": tuple(reader.outcomes(jobs)),
                "past_elements": tuple(reader.element_outcomes(named)),
            }

        found = await backend.history.ask(ask)


def _gone(
    backend: Backend, texts: Sequence[str]
) -> tuple[dict[JobId, None], dict[tuple[JobId, Index], None]]:
    """Return which jobs and elements dependencies name that are not in the state any more."""
    state = backend.replica.state
    wanted: dict[JobId, None] = {}
    elements: dict[tuple[JobId, Index], None] = {}
    for text in filter(None, texts):
        try:
            tree = parse_dependency(text)
        except TextError:
            continue  # The controller refuses it in its own words.
        for subject in _named(tree):
            if 0 < subject.job < state.next_job and subject.job not in state.jobs:
                wanted[subject.job] = None
                if subject.index != WHOLE:
                    elements[subject.job, subject.index] = None
    return wanted, elements


def _is_seen(reader: HistoryReader, sees: Sight, job: JobId) -> bool:
    past = reader.job(job, with_elements=False)
    return past is not None and sees(past.owner.user, past.key.queue, past.key.project)


def check_queue(backend: Backend, call: Call, body: SubmissionBody) -> None:
    """Check that the caller may submit to one of the queues that a submission names.

    Raises:
        ProblemError: He may not; a queue that does not exist is refused by the controller.
    """
    state, rights = backend.replica.state, backend.rights
    names = body.queue.split() or [state.default_queue]
    project = body.project or state.config.default_project
    first: Permission | None = None
    for name in names:
        if name not in state.queues:
            return
        _, missing = rights.basis_to_submit(call.caller.actor, queue=name, project=project)
        if missing is None:
            return
        first = first or missing
    assert first is not None, "a submission names a queue, or the default one counts"
    refusal = refuse_submit(call.caller.user, names[0], project, first)
    about = project if first is Permission.PROJECT_SUBMIT else names[0]
    raise ProblemError(from_refusal(refusal), about=f"{first.partition(':')[0]} {about}")


def _named(tree: Dependency) -> list[Subject]:
    """Return the jobs and elements that a condition names by id."""
    found: list[Subject] = []
    rest = [tree]
    while rest:
        match rest.pop():
            case Condition(_, subjects):
                found.extend(subject for subject in subjects if not subject.name)
            case Not(part):
                rest.append(part)
            case And(parts) | Or(parts):
                rest.extend(parts)
    return found


async def read_lines(
    parts: AsyncIterator[bytes], *, charge: Callable[[int], None] = lambda _: None
) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, blank ones too, without their ends.

    Args:
        parts: As they come.
        charge: Is told by how much more memory the longest line needs than those before.

    Raises:
        ProblemError: One is too long.
    """
    rest: list[bytes] = []
    size = longest = 0
    async for part in parts:
        first, *others = part.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > LINE_MAX:
            raise refused(RefusalCode.TOO_LARGE, f"a line has more than {LINE_MAX} bytes")
        if size > longest:
            charge(size - longest)
            longest = size
        if others:
            *lines, last = others
            yield b"".join(rest)
            for line in lines:
                yield line
            rest, size = [last], len(last)
    whole = b"".join(rest)
    if whole.strip():
        yield whole


def _refuse_whole(results: list[SubmitResult]) -> None:
    """Refuse a bulk as a whole where nothing of it was taken, for what passes by itself.

    Raises:
        ProblemError: That is so; it says when to come again.
    """
    problem = results[0].error
    if problem is UNSET or problem.code not in PASSES_S:
        return
    if all(one.error is not UNSET and one.error.code == problem.code for one in results):
        raise ProblemError(problem, retry_after_s=PASSES_S[RefusalCode(problem.code)])


class _Bulk:
    """A bulk submit: gathers jobs into commands, numbered under one key, and their results.

    While the controller decides one command the next is made ready.
    """

    def __init__(self, backend: Backend, call: Call, key: str) -> None:
        self._backend = backend
        self._call = call
        self._key = key
        self._parts: list[asyncio.Task[list[SubmitResult]] | list[SubmitResult]] = []
        """Results, in the order of the lines: of commands, and of lines that never got there."""
        self._running: deque[asyncio.Task[list[SubmitResult]]] = deque()
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
            check_queue(backend, self._call, body)
            compiled = backend.compiler.compile(
                body, self._call.caller, backend.replica.state.config
            )
        except ProblemError as error:
            if error.denied:
                backend.denials.note(self._call.caller, error.denied, f"POST /jobs {error.about}")
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
        detail = f"job {self._first + 1} of the request: {problem.detail}"
        refusal = SubmitResult(error=msgspec.structs.replace(problem, detail=detail))
        if self._parts and isinstance(self._parts[-1], list):
            self._parts[-1].append(refusal)
        else:
            self._parts.append([refusal])
        self._first += 1

    async def _send(self) -> None:
        if not self._jobs:
            return
        task = asyncio.create_task(
            self._submit(self._jobs, self._first, self._blobs, has_dependency=self._has_dependency)
        )
        self._parts.append(task)
        self._running.append(task)
        self._first += len(self._jobs)
        self._jobs, self._blobs, self._bytes, self._has_dependency = [], {}, 0, False
        # The task must have sent its command before the next one is made.
        await asyncio.sleep(0)
        while len(self._running) > IN_FLIGHT:
            await self._running.popleft()

    async def _submit(
        self,
        jobs: list[Compiled],
        first: int,
        named: dict[str, bytes],
        *,
        has_dependency: bool,
    ) -> list[SubmitResult]:
        """Have jobs submitted; return their results."""
        backend, caller, blobs = self._backend, self._call.caller, tuple(named.items())
        texts = (item.submission.spec.dependency for item in jobs)
        conditions = [text for text in texts if text] if has_dependency else []
        command = SubmitJobs(
            owner=caller.owner,
            jobs=tuple(item.submission for item in jobs),
            blobs=backend.sent.unsent(blobs),
            key=self._key,
            line=first,
            **await past_outcomes(backend, self._call, conditions),
            wall_us=backend.now_us,
            is_admin=caller.is_admin,
            groups=caller.groups,
        )
        answer = await self._decided(command)
        self._seq = max(self._seq, answer.seq)
        decided = answer.results
        if len(decided) < len(jobs):
            # The command was refused as a whole.
            decided = decided[:1] * len(jobs)
        results = [
            SubmitResult(error=from_refusal(result))
            if isinstance(result, Refusal)
            else _submitted(result, compiled, backend.replica.state.config)
            for compiled, result in zip(jobs, decided, strict=True)
        ]
        refusals = [result for result in answer.results if isinstance(result, Refusal)]
        for refusal in refusals:
            if refusal.permission:
                backend.denials.note(caller, refusal.permission, "POST /jobs")
        if not refusals:
            backend.sent.note(blobs)
        return results

    async def _decided(self, command: SubmitJobs) -> Answer:
        """Return the controller's answer; while it has too much to do, wait with the rest."""
        backend, caller = self._backend, self._call.caller
        deadline = time.monotonic() + OVERLOAD_S
        while True:
            answer = await backend.link.ask(
                command,
                by=caller.user,
                basis=backend.basis(caller),
                repeatable=bool(self._key),
                origin=caller.origin,
            )
            result = answer.results[0]
            is_overloaded = isinstance(result, Refusal) and result.code is RefusalCode.OVERLOADED
            if not is_overloaded or time.monotonic() >= deadline:
                return answer
            await asyncio.sleep(OVERLOAD_PAUSE_S)

    def cancel(self) -> None:
        """Forget about what runs: whoever asked is gone, or hears of a trouble."""
        for task in self._running:
            task.cancel()

    async def answer(self) -> web.StreamResponse:
        """Send what is left and return the answer to all."""
        await self._send()
        results: list[SubmitResult] = []
        for part in self._parts:
            results += part if isinstance(part, list) else await part
        if not results:
            raise ProblemError(make_problem(RefusalCode.BAD_REQUEST, "there is no job in the body"))
        _refuse_whole(results)
        replica = self._backend.replica
        await replica.reach(self._seq, REPLICA_S)
        document = SubmitAnswer(self._seq or replica.seq, results)
        return raw_answer(replica.seq, ENCODER.encode(document), status=201)
