"""Where questions about the past go: processes that each hold the state of one instant.

One that is asked no more ends after a while; the pages of one listing find the same one.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from logging import Logger
from typing import Final

import msgspec
from aiohttp import web

from xce.apiserver.call import Call
from xce.apiserver.listing import parse_flag
from xce.apiserver.problems import Problem, ProblemError, make_problem, refused
from xce.model.config import ClusterConfig
from xce.model.ids import Micros
from xce.model.refusal import RefusalCode

KEPT: Final = 2
"""So many instants are kept ready."""
IDLE_S: Final = 60.0
ANSWER_S: Final = 300.0
_LINE_MAX: Final = 4 * 1024 * 1024


class PastRequest(msgspec.Struct, frozen=True):
    """A read, as it is sent to the process that answers it; a line of JSON."""

    path: str
    """Of the route: ``/jobs/{id}``."""
    words: dict[str, str]
    query: dict[str, str]
    user: str
    uid: int
    gid: int
    is_admin: bool
    groups: tuple[str, ...] = ()
    rules: ClusterConfig = ClusterConfig()
    """Only who may do what, and as it is now: what was open once may be closed today."""


class PastAnswer(msgspec.Struct, frozen=True):
    """The head of an answer, a line of JSON; the body follows it."""

    status: int
    seq: int
    size: int
    content_type: str
    denied: str = ""
    """The permission for lack of which it is refused."""
    about: str = ""


_HEAD: Final = msgspec.json.Decoder(PastAnswer)


class _Instant:
    """The process of one instant."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lock = asyncio.Lock()
        self.timer: asyncio.TimerHandle | None = None

    async def ask(self, given: PastRequest) -> tuple[PastAnswer, bytes]:
        """Return the process's answer."""
        reader, writer = self.process.stdout, self.process.stdin
        assert reader is not None
        assert writer is not None
        async with self.lock, asyncio.timeout(ANSWER_S):
            writer.write(msgspec.json.encode(given) + b"\n")
            await writer.drain()
            head = _HEAD.decode(await reader.readline())
            return head, await reader.readexactly(head.size)

    def end(self) -> None:
        """End the process."""
        if self.timer is not None:
            self.timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()


class PastDesk:
    """Asks about instants that have gone by.

    Args:
        command: Gives the command line of the process for an instant; None: this apiserver cannot
            look into the past.
        log: Where things are told.
    """

    def __init__(self, command: Callable[[Micros], Sequence[str]] | None, log: Logger) -> None:
        self._command = command
        self._log = log
        self._instants: dict[Micros, _Instant] = {}
        self._starting = asyncio.Lock()

    async def answer(
        self, path: str, call: Call, text: str, *, now_us: Micros, config: ClusterConfig
    ) -> web.Response:
        """Return the answer to a read as it was at an instant.

        Args:
            path: Of the route.
            call: The request.
            text: The instant as it was sent.
            now_us: The present instant.
            config: It says who may see what.

        Raises:
            ProblemError: There is no such instant, it cannot be looked at, or the caller may not.
        """
        at_us = parse_instant(text)
        if at_us > now_us:
            raise refused(RefusalCode.BAD_REQUEST, f"at={text}: is yet to come")
        query = {name: value for name, value in call.query.items() if name != "at"}
        if parse_flag(query, "usage"):
            text = "usage=1: what running jobs use is known of the present only: leave out at="
            raise refused(RefusalCode.BAD_REQUEST, text)
        caller = call.caller
        owner = caller.owner
        given = PastRequest(
            path,
            call.words,
            query,
            owner.user,
            owner.uid,
            owner.gid,
            caller.is_admin,
            caller.groups,
            ClusterConfig(
                admins=config.admins,
                everyone=config.everyone,
                roles=config.roles,
                grants=config.grants,
            ),
        )
        try:
            instant = await self._reach(at_us)
            head, body = await instant.ask(given)
        except (OSError, EOFError, TimeoutError, msgspec.DecodeError) as error:
            self._drop(at_us)
            self._log.error("past-not-read", extra={"at_us": at_us, "why": repr(error)})
            raise ProblemError(
                make_problem("internal", "times past cannot be looked at now", status=500)
            ) from error
        if head.denied:
            problem = msgspec.json.decode(body, type=Problem)
            raise ProblemError(problem, denied=head.denied, about=head.about)
        headers = {"Content-Type": head.content_type, "XCE-Seq": str(head.seq)}
        return web.Response(body=body, status=head.status, headers=headers)

    def close(self) -> None:
        """End all processes."""
        for at_us in list(self._instants):
            self._drop(at_us)

    async def _reach(self, at_us: Micros) -> _Instant:
        """Return the process of an instant, started now if need be."""
        async with self._starting:
            instant = self._instants.pop(at_us, None)
            if instant is None or instant.process.returncode is not None:
                while len(self._instants) >= KEPT:
                    self._drop(next(iter(self._instants)))
                instant = await self._start(at_us)
            self._instants[at_us] = instant
            if instant.timer is not None:
                instant.timer.cancel()
            loop = asyncio.get_running_loop()
            instant.timer = loop.call_later(IDLE_S, self._drop, at_us)
            return instant

    async def _start(self, at_us: Micros) -> _Instant:
        if self._command is None:
            raise refused(
                RefusalCode.BAD_REQUEST, "this apiserver has no journal to look into", status=501
            )
        return _Instant(
            await asyncio.create_subprocess_exec(
                *self._command(at_us),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LINE_MAX,
            )
        )

    def _drop(self, at_us: Micros) -> None:
        instant = self._instants.pop(at_us, None)
        if instant is not None:
            instant.end()


def parse_instant(text: str) -> Micros:
    """Return the microseconds since the epoch that a number of seconds names.

    Raises:
        ProblemError: It is no such number.
    """
    whole, _, part = text.partition(".")
    is_number = whole.isascii() and whole.isdigit() and (part == "" or part.isascii())
    if not is_number or (part and not part.isdigit()) or len(whole) > 11 or len(part) > 6:
        raise refused(
            RefusalCode.BAD_REQUEST,
            f"at={text[:40]}: expected seconds since the epoch, with up to 6 decimals",
        )
    return int(whole) * 1_000_000 + int(part.ljust(6, "0") or 0)
