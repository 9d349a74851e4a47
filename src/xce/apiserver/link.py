"""The connection to the controller: commands go there, entries come back.

While it is away, who wants to write waits a little and is then told to come again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from logging import Logger
from typing import Final, Protocol

from xce.apiserver.problems import (
    CONTROLLER_AWAY,
    INTERNAL,
    OUTCOME_UNKNOWN,
    UNDECIDED,
    ProblemError,
    make_problem,
    refused,
)
from xce.apiserver.replica import Replica
from xce.journal.codec import decode_batch
from xce.model.command import Command
from xce.model.errors import XceError
from xce.model.refusal import RefusalCode
from xce.net.ask import ConnectionLostError, Requests
from xce.net.destination import Destination
from xce.net.follow import AskAgain, Began, Came, Follower, IsLive, Step
from xce.net.frame import WireError
from xce.net.leader import LeaderClient, tell_changes
from xce.net.message import (
    Answer,
    Ask,
    Batch,
    Blobs,
    CaughtUp,
    FetchBlobs,
    Hello,
    HostUsage,
    JournalTrouble,
    Message,
    OutputChunk,
    Ping,
    Pong,
    ReadOutput,
    ReadUsage,
    SnapshotPart,
    TerminalAsk,
    TerminalPiece,
    Welcome,
)
from xce.net.peer import Peer
from xce.state.cluster import ClusterState

AWAY_S: Final = 10.0
"""How long a write waits for the controller."""
ANSWER_S: Final = 60.0
RETRY_AFTER_S: Final = 1
_USAGE_SINCE: Final = 2
"""The protocol whose controllers pass on what running jobs use."""
UNDECIDED_S: Final = 2.0
"""So long a write waits for a journal that cannot be written, before it is told so."""


class _UndecidedError(XceError):
    """The journal cannot be written, and this may have been decided."""


class Link(Protocol):
    """What routes need of the controller."""

    trouble: str
    """Why the journal cannot be written; empty: it can."""

    @property
    def is_connected(self) -> bool:
        """Whether the controller is there now."""
        ...

    async def ask(
        self, command: Command, *, by: str, basis: str, repeatable: bool = True, origin: str = ""
    ) -> Answer:
        """Have a command decided; return its answer when that is durable."""
        ...

    async def read_output(self, make: Callable[[int], ReadOutput]) -> OutputChunk:
        """Read a piece of a job's output from its host."""
        ...

    async def read_usage(self, make: Callable[[int], ReadUsage]) -> HostUsage:
        """Have a host say what runs there uses."""
        ...

    async def ask_terminal(self, make: Callable[[int], TerminalAsk]) -> TerminalPiece:
        """Read from a job's terminal, or type at it."""
        ...

    async def fetch_blob(self, digest: str) -> bytes | None:
        """Return the content of a blob."""
        ...


class ControllerLink:
    """Dials the controller again and again, keeps the replica and carries requests.

    Args:
        destinations: Where controllers listen, one of which leads.
        hello: Who we are.
        replica: What to keep.
        log: Where things are told.
        away_s: How long a write waits for the controller.
        on_controllers: Told of the certificates that controllers have now.
    """

    def __init__(
        self,
        destinations: Sequence[Destination],
        hello: Hello,
        replica: Replica,
        log: Logger,
        *,
        away_s: float = AWAY_S,
        on_controllers: Callable[[tuple[bytes, ...]], object] | None = None,
    ) -> None:
        self.failed: asyncio.Future[XceError] = asyncio.get_running_loop().create_future()
        """Set when the replica cannot be kept any more."""
        self._destinations = destinations
        self._hello = hello
        self._replica = replica
        self._log = log
        self._away_s = away_s
        self._on_controllers = on_controllers
        self._requests = Requests()
        self._follower = Follower(decode_batch)
        self._peer: Peer | None = None
        self._connected = asyncio.Event()
        self.trouble = ""
        """Why the journal cannot be written; empty: it can, as far as is known."""
        self._asking: set[asyncio.Future[Message]] = set()

    @property
    def is_connected(self) -> bool:
        """Whether the controller is there now."""
        return self._connected.is_set()

    def begin_warm(self, state: ClusterState, follower: Follower) -> None:
        """Begin with a state from elsewhere; before `run`."""
        self._replica.begin_with(state)
        self._follower = follower

    async def run(self) -> None:
        """Stay connected until cancelled."""
        client = LeaderClient(
            self._destinations,
            self._hello,
            self._welcome,
            self._take,
            self._lose,
            on_refused=tell_changes(self._log, "connection-refused"),
            on_failed=tell_changes(self._log, "controller-not-reached"),
            on_controllers=self._on_controllers,
        )
        await client.run()

    def _welcome(self, peer: Peer, welcome: Welcome) -> None:
        self._peer = peer
        self._replica.epoch = welcome.epoch
        peer.send(self._follower.follow(welcome.epoch))
        self._connected.set()
        self._log.info(
            "controller-connected", extra={"epoch": welcome.epoch, "seq": self._replica.seq}
        )

    def _lose(self, reason: str) -> None:
        self._peer = None
        self.trouble = ""
        self._connected.clear()
        self._replica.note_away()
        self._requests.fail_all(reason)
        self._log.warning("controller-lost", extra={"why": reason})

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            if self._requests.settle(message):
                continue
            match message:
                case SnapshotPart() | Batch() | CaughtUp():
                    self._follow(message)
                case JournalTrouble(text):
                    self._note_trouble(text)
                case Ping(number):
                    self._send(Pong(number))
                case _:
                    raise WireError(f"{type(message).__name__} is not for an apiserver")

    def _note_trouble(self, text: str) -> None:
        if text and not self.trouble:
            for asked in self._asking:
                self._tell_later(asked)
        self.trouble = text

    def _tell_later(self, asked: asyncio.Future[Message]) -> None:
        """Tell who waits for an answer that it may take long, if it does."""

        def tell() -> None:
            if not asked.done() and self.trouble:
                asked.set_exception(_UndecidedError(self.trouble))

        asyncio.get_running_loop().call_later(UNDECIDED_S, tell)

    async def _decided(self, peer: Peer, make: Callable[[int], Message]) -> Message:
        """Return the answer to a command.

        Raises:
            _UndecidedError: There is none, since the journal cannot be written.
            TimeoutError: There is none yet.
        """
        asked = self._requests.start(peer, make)
        peer.flush()
        self._asking.add(asked)
        if self.trouble:
            self._tell_later(asked)

        def end() -> None:
            if not asked.done():
                asked.set_exception(TimeoutError())

        # A bare timer: `asyncio.timeout` costs several times as much, at each submit.
        timer = asyncio.get_running_loop().call_later(ANSWER_S, end)
        try:
            return await asked
        finally:
            timer.cancel()
            self._asking.discard(asked)

    def _send(self, message: Message) -> None:
        if self._peer is not None:
            self._peer.send(message)

    def _follow(self, message: SnapshotPart | Batch | CaughtUp) -> None:
        try:
            for step in self._follower.take(message):
                self._take_step(step)
        except XceError as error:
            if not self.failed.done():
                self.failed.set_result(error)
            raise WireError(str(error)) from error

    def _take_step(self, step: Step) -> None:
        match step:
            case Began(seq, parts):
                self._log.info("replica-began", extra={"seq": seq})
                self._replica.begin(parts)
            case Came(entries):
                self._replica.take(entries)
            case IsLive():
                self._replica.note_live()
            case AskAgain(follow, why):
                self._log.warning("stream-damaged", extra={"why": why})
                self._replica.note_away()
                self._send(follow)

    async def ask(
        self, command: Command, *, by: str, basis: str, repeatable: bool = True, origin: str = ""
    ) -> Answer:
        """Have a command decided; return its answer when that is durable.

        Args:
            command: The command.
            by: Who asks.
            basis: On what ground it is allowed.
            repeatable: Whether it may be sent again when the connection was lost before its answer.
            origin: Where it came from.

        Raises:
            ProblemError: The controller is away, or what became of the command is not known.
        """
        deadline = time.monotonic() + self._away_s
        while True:
            peer = await self._reach(deadline)
            try:
                answer = await self._decided(
                    peer, lambda number: Ask(number, command, by, basis, origin)
                )
            except ConnectionLostError as error:
                if not repeatable:
                    raise _unknown("the controller was lost before it answered") from error
            except _UndecidedError as error:
                raise _undecided(str(error), is_repeatable=repeatable) from error
            except TimeoutError as error:
                why = f"the controller has not answered for {ANSWER_S:.0f} s"
                raise (_away if repeatable else _unknown)(why) from error
            except WireError as error:
                raise refused(RefusalCode.TOO_LARGE, f"too large at once: {error}") from error
            else:
                assert isinstance(answer, Answer)
                return answer

    async def read_output(self, make: Callable[[int], ReadOutput]) -> OutputChunk:
        """Read a piece of a job's output from its host.

        Raises:
            ProblemError: The controller is away.
        """
        answer = await self._request(make)
        assert isinstance(answer, OutputChunk)
        return answer

    async def read_usage(self, make: Callable[[int], ReadUsage]) -> HostUsage:
        """Have a host say what runs there uses.

        Raises:
            ProblemError: The controller is away, or of an earlier release.
        """
        answer = await self._request(make, since=_USAGE_SINCE)
        assert isinstance(answer, HostUsage)
        return answer

    async def ask_terminal(self, make: Callable[[int], TerminalAsk]) -> TerminalPiece:
        """Read from a job's terminal, or type at it; a repeat changes nothing.

        Raises:
            ProblemError: The controller is away.
        """
        answer = await self._request(make)
        assert isinstance(answer, TerminalPiece)
        return answer

    async def fetch_blob(self, digest: str) -> bytes | None:
        """Return the content of a blob; None: it is not there.

        Raises:
            ProblemError: The controller is away, or the blob is damaged.
        """
        answer = await self._request(lambda number: FetchBlobs(number, (digest,)))
        assert isinstance(answer, Blobs)
        if digest in answer.damaged:
            text = f"the stored text is damaged (blob {digest}); see `xceadmin journal verify`"
            raise ProblemError(make_problem(INTERNAL, text, status=500))
        return dict(answer.blobs).get(digest)

    async def _request(self, make: Callable[[int], Message], *, since: int = 1) -> Message:
        """Return the answer to a question that controllers know since a protocol."""
        deadline = time.monotonic() + self._away_s
        while True:
            peer = await self._reach(deadline)
            if peer.protocol < since:
                raise _away("the controller is of an earlier release")
            try:
                return await self._requests.request(peer, make, timeout_s=ANSWER_S)
            except ConnectionLostError:
                continue
            except TimeoutError as error:
                raise _away("the host has not answered in time") from error

    async def _reach(self, deadline: float) -> Peer:
        """Return the connection; wait for one until ``deadline``."""
        while self._peer is None or not self._peer.is_open:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _away("the controller is away; it may be starting again")
            # A connection that is closing is still there for a moment.
            self._connected.clear()
            try:
                async with asyncio.timeout(left):
                    await self._connected.wait()
            except TimeoutError:
                continue
        return self._peer


def _undecided(why: str, *, is_repeatable: bool) -> ProblemError:
    again = "repeat it under the same key" if is_repeatable else "look before you send it again"
    text = (
        f"the journal cannot be written: {why}; whether this is carried out is undecided until it "
        f"can: {again}"
    )
    return ProblemError(make_problem(UNDECIDED, text, status=503), retry_after_s=RETRY_AFTER_S)


def _unknown(why: str) -> ProblemError:
    text = f"{why}: whether this was done is not known; look before you send it again"
    return refused(OUTCOME_UNKNOWN, text, status=500)


def _away(text: str) -> ProblemError:
    return ProblemError(
        make_problem(CONTROLLER_AWAY, text, status=503), retry_after_s=RETRY_AFTER_S
    )
