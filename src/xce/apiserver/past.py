"""Answers as they were: the state at an instant, made again from a snapshot and the entries behind.

It runs in a process of its own, so that those who ask about the present do not wait.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Final

from aiohttp import web

from xce.apiserver.access import route_access
from xce.apiserver.backend import Backend, Site
from xce.apiserver.call import ENCODER, PROBLEM, Call
from xce.apiserver.identity import Caller, Identities
from xce.apiserver.link import Link
from xce.apiserver.past_desk import PastAnswer, PastRequest
from xce.apiserver.problems import GONE, ProblemError, refused
from xce.apiserver.replica import Replica
from xce.apiserver.routes.table import ROUTES
from xce.journal.codec import FIRST_CRC
from xce.journal.history_place import HistoryPlace
from xce.journal.history_reader import HistoryReader, IndexRuns
from xce.journal.interface import JournalReader
from xce.journal.past import PastJob
from xce.journal.whole import TooEarlyError, find_seq, find_snapshot, read_whole_entries
from xce.model.command import Command
from xce.model.entry import Entry
from xce.model.ids import JobId, Micros
from xce.model.job import Owner
from xce.net.message import (
    Answer,
    HostUsage,
    OutputChunk,
    ReadOutput,
    ReadUsage,
    TerminalAsk,
    TerminalPiece,
)
from xce.state.rights import Rights

_SLICE: Final = 1_000
"""So many entries are applied at once."""


class _PastCall(Call):
    """A call without a connection behind it."""

    __slots__ = ("_query",)

    def __init__(self, given: PastRequest) -> None:
        owner = Owner(given.user, given.uid, given.gid)
        self.caller = Caller(owner, given.is_admin, groups=given.groups)
        self.words = given.words
        self.access = route_access("GET", given.path)
        self._query = given.query

    @property
    def query(self) -> dict[str, str]:
        """The parameters."""
        return dict(self._query)


class _PastHistory(HistoryReader):
    """The history without the jobs that were not submitted yet."""

    def __init__(self, place: HistoryPlace, next_job: JobId) -> None:
        super().__init__(place)
        self._next_job = next_job

    def job(
        self, job: JobId, runs: IndexRuns = ((0, 1 << 62),), *, with_elements: bool = True
    ) -> PastJob | None:
        """Return a job that had left the state by then."""
        if job >= self._next_job:
            return None
        return super().job(job, runs, with_elements=with_elements)


class _NoLink(Link):
    """The controller of back then cannot be asked."""

    trouble = ""

    @property
    def is_connected(self) -> bool:
        """Never."""
        return False

    async def ask(
        self, command: Command, *, by: str, basis: str, repeatable: bool = True, origin: str = ""
    ) -> Answer:
        """Refuse."""
        raise _unanswerable()

    async def read_output(self, make: Callable[[int], ReadOutput]) -> OutputChunk:
        """Refuse."""
        raise _unanswerable()

    async def read_usage(self, make: Callable[[int], ReadUsage]) -> HostUsage:
        """Refuse."""
        raise _unanswerable()

    async def ask_terminal(self, make: Callable[[int], TerminalAsk]) -> TerminalPiece:
        """Refuse."""
        raise _unanswerable()

    async def fetch_blob(self, digest: str) -> bytes | None:
        """Refuse."""
        raise _unanswerable()


def _unanswerable() -> ProblemError:
    return refused(GONE, "that is not kept for times past", status=410)


class Past:
    """The cluster at an instant.

    Args:
        reader: The journal with its archive.
        history: The store of what left the state.
        at_us: The instant.

    Raises:
        ProblemError: Nothing is kept from which that state could be made.
    """

    def __init__(self, reader: JournalReader, history: HistoryPlace, at_us: Micros) -> None:
        replica = Replica()
        seq = find_seq(reader, at_us)
        try:
            snapshot = find_snapshot(reader, seq) if seq else None
        except TooEarlyError as error:
            raise refused(GONE, str(error), status=410) from error
        if not seq:
            raise refused(GONE, "nothing is kept of that time", status=410)
        replica.begin(list(snapshot.parts()) if snapshot is not None else ())
        crc = snapshot.crc if snapshot is not None else FIRST_CRC
        entries = _until(read_whole_entries(reader, replica.seq, crc), seq)
        while some := list(islice(entries, _SLICE)):
            replica.take(some)
        replica.note_live()
        self._backend = Backend(
            replica,
            _NoLink(),
            _PastHistory(history, replica.state.next_job),
            Identities(),
            logging.getLogger("past"),
            site=Site(),
            now=lambda: at_us / 1_000_000,
        )

    def answer(self, given: PastRequest) -> tuple[PastAnswer, bytes]:
        """Return the answer to a read.

        Costs: as the same read of the present.
        """
        handlers = {route.path: route.handler for route in ROUTES if route.method == "GET"}
        seq = self._backend.replica.seq
        self._backend.replica.state.rights = Rights(given.rules)
        try:
            response = asyncio.run(_respond(handlers[given.path](self._backend, _PastCall(given))))
        except ProblemError as error:
            return problem_body(error, seq)
        body = response.body
        assert isinstance(body, bytes)
        return PastAnswer(response.status, seq, len(body), response.content_type), body


async def _respond(answering: Awaitable[web.StreamResponse]) -> web.Response:
    response = await answering
    assert isinstance(response, web.Response)
    return response


def problem_body(error: ProblemError, seq: int) -> tuple[PastAnswer, bytes]:
    """Return a problem as an answer."""
    body = ENCODER.encode(error.problem)
    head = PastAnswer(error.problem.status, seq, len(body), PROBLEM, error.denied, error.about)
    return head, body


def _until(entries: Iterator[Entry], last: int) -> Iterator[Entry]:
    for entry in entries:
        if entry.seq > last:
            return
        yield entry
