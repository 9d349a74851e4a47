"""``/jobs/{id}/terminal``: who submitted an interactive job reads from it and types at it.

``GET`` streams frames until the job writes no more: a kind of one byte, the place of the first byte
of the content in all that the job writes (8 bytes), the length of the content (4 bytes), the
content. Kinds: ``S``: it was started, the content is JSON; ``O``: what it wrote; ``K``: nothing
new; ``E``: that was all. Who was cut off asks again from where he is. When he is gone instead, the
job is hung up, or, before it has started, ended.
"""

import asyncio
import struct
from typing import Final

import msgspec
from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import ENCODER, Call, answer
from xce.apiserver.listing import parse_flag, parse_number
from xce.apiserver.problems import ProblemError, refused
from xce.apiserver.routes.jobs import subject_of
from xce.apiserver.rows import Element
from xce.apiserver.subject import Subject
from xce.model.command import KillJobs, Selection
from xce.model.refusal import RefusalCode
from xce.net.message import TerminalAsk, TerminalPiece

FRAMES: Final = "application/x-xce-terminal"
HEAD: Final = struct.Struct(">cQI")
PIECE: Final = 64 * 1024
WAIT_US: Final = 8_000_000
"""So long a host waits for something to tell; then a ``K`` is sent."""
PLACE_MAX: Final = (1 << 62) - 1
SIZE_MAX: Final = 65_535
_POLL_FIRST_S: Final = 0.02
_POLL_MAX_S: Final = 0.5
_BEAT_S: Final = 8.0
_AWAY: Final = ("not connected", "is gone", "try again", "no terminal")
"""Words in what a host says that may pass. One that just starts a job has no terminal yet, and one
where it is over has none any more: which it is the state says.
"""


class TerminalAnswer(msgspec.Struct, frozen=True):
    """What became of what was typed."""

    taken: int
    """Place behind what the job's terminal has taken; the rest is to be sent again."""
    is_over: bool
    """Nothing is taken any more."""


class _Hosted(msgspec.Struct, frozen=True):
    """Where an attempt runs."""

    job: int
    index: int
    attempt: int
    host: str

    def ask(self, number: int, **fields: object) -> TerminalAsk:
        ask = TerminalAsk(number, self.host, self.job, self.index, self.attempt)
        return msgspec.structs.replace(ask, **fields)


async def _interactive(backend: Backend, call: Call) -> Subject:
    """Return the job.

    Raises:
        ProblemError: It is none of the caller's, or not interactive.
    """
    subject = await subject_of(backend, call, call.query)
    subject.must_be_one()
    if subject.spec.terminal is None:
        raise refused(
            RefusalCode.WRONG_STATE,
            f"job {subject.job_id} has no terminal: it was not submitted with -I, -Ip or -Is",
        )
    return subject


def _hosted(subject: Subject) -> _Hosted | None:
    """Return where a job runs, or ran; None: it has not started."""
    (element, *_) = subject.elements()
    if element.start_at is None or not element.hosts or not element.attempt:
        return None
    return _place(subject, element)


def _place(subject: Subject, element: Element) -> _Hosted:
    return _Hosted(subject.job_id, element.index, element.attempt, element.hosts[0][0])


def frame(kind: bytes, place: int = 0, content: bytes = b"") -> bytes:
    """Return one frame."""
    return HEAD.pack(kind, place, len(content)) + content


async def attach_terminal(backend: Backend, call: Call) -> web.StreamResponse:
    """Stream what an interactive job writes."""
    offset = parse_number(call.query, "offset", 0, low=0, high=PLACE_MAX)
    await _interactive(backend, call)
    response = web.StreamResponse(
        headers={"Content-Type": FRAMES, "XCE-Seq": str(backend.replica.seq)}
    )
    await response.prepare(call.request)
    try:
        await _stream(backend, call, response, offset)
        await response.write_eof()
    except (asyncio.CancelledError, ConnectionError):
        if not backend.is_stopping:
            task = asyncio.get_running_loop().create_task(_leave(backend, call))
            backend.tasks.add(task)
            task.add_done_callback(backend.tasks.discard)
        raise
    return response


async def _stream(backend: Backend, call: Call, response: web.StreamResponse, offset: int) -> None:
    told: _Hosted | None = None
    pause_s = _POLL_FIRST_S
    loop = asyncio.get_running_loop()
    beat_at = loop.time() + _BEAT_S
    while True:
        if not backend.is_logged_in(call.caller):
            raise ConnectionResetError  # cut off, so that nobody takes it for all
        subject = await _interactive(backend, call)
        hosted = _hosted(subject)
        piece = TerminalPiece(0, offset, b"", error="not connected")
        if hosted is not None:
            if hosted != told:
                told = hosted
                start = {"host": hosted.host, "attempt": hosted.attempt}
                await response.write(frame(b"S", offset, ENCODER.encode(start)))
            piece = await _read(backend, hosted, offset)
        if piece.content:
            await response.write(frame(b"O", piece.offset, piece.content))
            offset = piece.offset + len(piece.content)
            pause_s = _POLL_FIRST_S
        if piece.is_over or (piece.error and subject.is_over):
            await response.write(frame(b"E", offset))
            return
        if loop.time() >= beat_at or not (piece.content or piece.error):
            await response.write(frame(b"K", offset))
            beat_at = loop.time() + _BEAT_S
        if piece.error:
            # Not started yet, or out of reach for now.
            await backend.waits.wait(subject.job_id, pause_s)
            pause_s = min(pause_s * 1.5, _POLL_MAX_S)


async def _read(backend: Backend, hosted: _Hosted, offset: int) -> TerminalPiece:
    """Return what a job wrote behind ``offset``, as soon as there is something."""
    try:
        piece = await backend.link.ask_terminal(
            lambda number: hosted.ask(number, offset=offset, limit=PIECE, wait_us=WAIT_US)
        )
    except ProblemError as error:
        return TerminalPiece(0, offset, b"", error=f"{error}; try again")
    if not piece.error:
        return piece
    return msgspec.structs.replace(piece, is_over=not _may_pass(piece.error))


def _may_pass(error: str) -> bool:
    return any(words in error for words in _AWAY)


async def _leave(backend: Backend, call: Call) -> None:
    """End the job of who is gone: hang it up, or kill it where it has not started."""
    try:
        subject = await _interactive(backend, call)
        hosted = _hosted(subject)
        if subject.is_over:
            return
        if hosted is not None:
            await backend.link.ask_terminal(lambda number: hosted.ask(number, hangs_up=True))
            return
        caller = call.caller
        selection = Selection(jobs=((subject.job_id, ()),))
        command = KillJobs(caller.user, caller.is_admin, selection, groups=caller.groups)
        await backend.write(command, caller)
    except ProblemError as error:
        # The host finds out by itself that nobody asks any more.
        backend.log.warning("terminal-not-closed", extra={"why": str(error)})


async def write_terminal(backend: Backend, call: Call) -> web.StreamResponse:
    """Type at an interactive job, set the size of its window, or hang up."""
    query = call.query
    place = parse_number(query, "place", 0, low=0, high=PLACE_MAX)
    rows = parse_number(query, "rows", 0, low=0, high=SIZE_MAX)
    columns = parse_number(query, "columns", 0, low=0, high=SIZE_MAX)
    is_end, hangs_up = parse_flag(query, "end"), parse_flag(query, "hang_up")
    typed = await call.body(PIECE)
    subject = await _interactive(backend, call)
    hosted = _hosted(subject)
    if hosted is None:
        if subject.is_over:
            return answer(backend.replica.seq, TerminalAnswer(place, is_over=True))
        raise refused(RefusalCode.WRONG_STATE, f"job {subject.job_id} has not started yet")
    piece = await backend.link.ask_terminal(
        lambda number: hosted.ask(
            number, place=place, typed=typed, is_end=is_end, rows=rows, columns=columns,
            hangs_up=hangs_up,
        )
    )  # fmt: skip
    if _may_pass(piece.error) and not subject.is_over:
        raise refused(RefusalCode.UNREACHABLE_HOST, piece.error)
    is_over = bool(piece.error) or piece.is_over
    return answer(backend.replica.seq, TerminalAnswer(piece.taken, is_over=is_over))
