"""``GET /jobs/{id}/output``: what a job wrote, read on the host that ran it (decision X-29)."""

import asyncio
import posixpath
from typing import Final

from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call
from xce.apiserver.listing import parse_flag, parse_number
from xce.apiserver.problems import NO_OUTPUT, ProblemError, refused
from xce.apiserver.routes.jobs import subject_of
from xce.apiserver.subject import Subject
from xce.model.path_pattern import directory_values, expand_patterns
from xce.model.refusal import RefusalCode
from xce.net.message import OutputChunk, ReadOutput

CHUNK: Final = 1024 * 1024
"""Most bytes read at once."""
POLL_S: Final = 0.2
POLL_MAX_S: Final = 1.0
OFFSET_MAX: Final = (1 << 62) - 1
BYTES: Final = "application/octet-stream"
ROLES: Final = "roles"
_AWAY: Final = ("not connected", "is gone", "try again")


class Output:
    """The file of one stream of one attempt.

    Args:
        backend: Where to ask.
        subject: The job or element.
        stream: ``stdout``, ``stderr``, or ``roles``: how the tasks of roles are now.

    Raises:
        ProblemError: There is no such file.
    """

    def __init__(self, backend: Backend, subject: Subject, stream: str) -> None:
        self._backend = backend
        self._subject = subject
        self._stream = stream
        subject.must_be_one()
        (element, *_) = subject.elements()
        if not element.hosts or not element.attempt:
            raise _not_started(subject, is_over=element.end_at is not None)
        self._host = element.hosts[0][0]
        self._index = element.index
        self._attempt = element.attempt
        files = subject.spec.files
        self._path = "" if stream == ROLES else files.output
        if stream == ROLES and not subject.spec.runs_by_roles:
            raise refused(NO_OUTPUT, f"job {subject.job_id} does not run by roles", status=404)
        if stream == "stderr":
            self._path = files.error
            if not files.error or files.error == files.output:
                raise refused(
                    NO_OUTPUT,
                    f"job {subject.job_id} has no error file of its own: what it wrote to stderr "
                    "stands in its output",
                    status=404,
                )
        what = "error" if stream == "stderr" else "output"
        if f"cannot open the {what} file" in element.detail:
            self._path = ""  # whatever lies there, this job has not written it

    async def read(self, offset: int, limit: int) -> OutputChunk:
        """Return a piece of it.

        Raises:
            ProblemError: The controller or the host is away, or there is nothing to read.
        """
        subject = self._subject
        owner = subject.owner

        def make(number: int) -> ReadOutput:
            return ReadOutput(
                id=number,
                host=self._host,
                job=subject.job_id,
                index=self._index,
                attempt=self._attempt,
                stream=self._stream,
                path=self._path,
                cwd=self._directory(),
                user=owner.user,
                uid=owner.uid,
                gid=owner.gid,
                offset=offset,
                limit=limit,
            )

        chunk = await self._backend.link.read_output(make)
        if chunk.error and self._path and not is_away(chunk):
            # A file that could not be opened: then the cluster has kept the output.
            named, self._path = self._path, ""
            kept = await self._backend.link.read_output(make)
            if not kept.error:
                return kept
            self._path = named
        return chunk

    def _directory(self) -> str:
        """Return the directory in which relative paths of output and error lie."""
        subject, spec = self._subject, self._subject.spec
        user, _, project = subject.place
        values = directory_values(
            subject.job_id, self._index, user=user, project=project, group=subject.key.group,
            user_group=spec.user_group, host=self._host,
        )  # fmt: skip
        asked = (expand_patterns(path, values) for path in (spec.cwd_asked, spec.output_dir))
        return posixpath.join(spec.cwd, *filter(None, asked))


def is_away(chunk: OutputChunk) -> bool:
    """Return whether the host, rather than the file, is the trouble."""
    return any(words in chunk.error for words in _AWAY)


def check_chunk(chunk: OutputChunk) -> None:
    """Check that a piece could be read.

    Raises:
        ProblemError: It could not.
    """
    if not chunk.error:
        return
    if is_away(chunk):
        raise refused(RefusalCode.UNREACHABLE_HOST, chunk.error)
    raise refused(NO_OUTPUT, chunk.error, status=404)


def _not_started(subject: Subject, *, is_over: bool) -> ProblemError:
    label = str(subject.job_id) if subject.index < 1 else f"{subject.job_id}[{subject.index}]"
    if is_over:
        return refused(
            NO_OUTPUT, f"job {label} ended before it started, so it wrote nothing", status=404
        )
    return refused(
        RefusalCode.WRONG_STATE,
        f"job {label} has not started yet",
        lsf=f"Job <{label}> : Not yet started",
    )


async def read_output(backend: Backend, call: Call) -> web.StreamResponse:
    """Read what a job wrote, or follow it until the job is over."""
    query = call.query
    subject = await subject_of(backend, call, query)
    stream = query.get("stream") or "stdout"
    if stream not in ("stdout", "stderr", ROLES):
        raise refused(RefusalCode.BAD_REQUEST, f"stream={stream}: expected stdout, stderr or roles")
    offset = parse_number(query, "offset", 0, low=0, high=OFFSET_MAX)
    output = Output(backend, subject, stream)
    if parse_flag(query, "follow"):
        return await _follow(backend, call, output, offset)
    limit = parse_number(query, "limit", CHUNK, low=0, high=CHUNK)
    # Looked at before reading: what is written after that is read by the next request.
    is_over = subject.is_over
    chunk = await output.read(offset, limit)
    check_chunk(chunk)
    end = offset + len(chunk.content)
    headers = {
        "Content-Type": BYTES,
        "XCE-Seq": str(backend.replica.seq),
        "XCE-Size": str(chunk.size),
        "XCE-Offset": str(end),
    }
    if is_over and end >= chunk.size:
        headers["XCE-Final"] = "1"
    return web.Response(body=chunk.content, headers=headers)


async def _follow(backend: Backend, call: Call, output: Output, offset: int) -> web.StreamResponse:
    """Send what there is, then what comes, until the job is over and all was sent."""
    headers = {"Content-Type": BYTES, "XCE-Seq": str(backend.replica.seq)}
    query = call.query
    subject = await subject_of(backend, call, query)
    is_over = subject.is_over
    chunk = await output.read(offset, CHUNK)
    if is_over:
        check_chunk(chunk)
    response = web.StreamResponse(headers=headers)
    await response.prepare(call.request)
    pause_s = POLL_S
    while True:
        if chunk.content:
            await response.write(chunk.content)
            offset += len(chunk.content)
            pause_s = POLL_S
        elif is_over:
            break
        if not backend.is_logged_in(call.caller):
            raise ConnectionResetError  # cut off, so that nobody takes it for all
        if offset >= chunk.size and not is_over:
            await backend.waits.wait(subject.job_id, pause_s)
            pause_s = min(pause_s * 1.5, POLL_MAX_S)
        subject = await subject_of(backend, call, query)
        is_over = subject.is_over
        try:
            chunk = await output.read(offset, CHUNK)
        except ProblemError:
            # The head is sent, so there is no other way to say it than to go on.
            if is_over:
                break
            await asyncio.sleep(POLL_MAX_S)
            chunk = OutputChunk(0, b"", offset)
        if chunk.error and is_over:
            break
    await response.write_eof()
    return response
