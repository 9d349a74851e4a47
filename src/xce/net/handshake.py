"""The first words on a connection, whatever it runs over: who is there, and is he wanted?

The side that dialled says `Hello` in the newest protocol that it speaks and names the oldest that
it still understands; the other side answers with the newest that both speak, or refuses.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from xce.net.allowlist import ALLOWED
from xce.net.frame import WireError
from xce.net.message import (
    PROTOCOL,
    PROTOCOL_OLDEST,
    ROLES,
    Enrol,
    Hello,
    Message,
    Refused,
    Welcome,
)
from xce.net.peer import OnLost, OnMessages, Peer

HANDSHAKE_S: Final = 10.0
"""After so long whoever has not said who he is, is cut off."""
HELLO_MAX_BYTES: Final = 64 * 1024
"""Longest frame before the other side is known."""

SHOWN_MAX: Final = 40
"""So much of what a stranger says is told back to him."""

_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,255}")
_VERSION: Final = re.compile(r"[A-Za-z0-9.+_-]{1,64}")

Accept: TypeAlias = Callable[[Peer, Hello], Welcome | Refused]
"""Judges who dials. It sets ``peer.on_messages`` and ``peer.on_lost`` when it welcomes."""
OnEnrol: TypeAlias = Callable[[Peer, Enrol], object]
"""Takes a host that is not known yet; answers, and closes, in its own time."""


class DialError(WireError):
    """The other side cannot be reached, or does not answer."""


class ClosedUnansweredError(DialError):
    """The other side has ended the connection without a word."""


class ConnectionRefusedByPeerError(WireError):
    """The other side does not want the connection; the text is its own."""


class EndedEarlyError(WireError):
    """The connection ended before the handshake did."""


def make_hello(role: str, name: str, version: str) -> Hello:
    """Return what to say first."""
    return Hello(PROTOCOL, role, name, version, PROTOCOL_OLDEST)


def choose_protocol(hello: Hello) -> int:
    """Return the newest protocol that both sides speak; 0: there is none."""
    chosen = min(hello.protocol, PROTOCOL)
    oldest = max(hello.oldest or hello.protocol, PROTOCOL_OLDEST)
    return chosen if chosen >= oldest else 0


class Dialing:
    """A client's connection until its owner is ready: keeps the answer and what follows it."""

    def __init__(self, on_messages: OnMessages, on_lost: OnLost) -> None:
        self.peer = Peer(self._take, self._lose)
        self.answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._early: list[Message] = []
        self._early_end = ""

    def hand_over(self) -> None:
        """Give what came early to the owner, and from now on everything."""
        if self._early_end:
            if self._early:
                self._on_messages(self._early)
            self._on_lost(self._early_end)
            return
        self.peer.on_messages = self._on_messages
        self.peer.on_lost = self._on_lost
        if self._early:
            try:
                self._on_messages(self._early)
            except WireError as error:
                self.peer.abort(str(error))

    def _take(self, messages: list[Message]) -> None:
        if not self.answered.done():
            self.answered.set_result(messages[0])
            messages = messages[1:]
        self._early.extend(messages)

    def _lose(self, reason: str) -> None:
        self._early_end = reason
        if not self.answered.done():
            self.answered.set_exception(EndedEarlyError(reason))
            # Nobody may be waiting any more, and then nobody shall hear of it.
            self.answered.exception()


async def dial(
    connect: Callable[[Peer], Awaitable[object]],
    hello: Hello,
    *,
    to: object,
    on_messages: OnMessages,
    on_lost: OnLost,
    timeout_s: float = HANDSHAKE_S,
) -> tuple[Peer, Welcome]:
    """Connect, say ``hello`` and return the peer with the welcome it gave.

    ``on_lost`` is called only after a welcome. Messages that follow the welcome go to
    ``on_messages`` in the turns of the loop after this has returned.

    Args:
        connect: Connects the peer it is given, and finds out who is at the other end.
        hello: What to say.
        to: What was dialled, for messages.
        on_messages: What comes in.
        on_lost: Called at the end of the connection.
        timeout_s: For all of it.

    Raises:
        DialError: Nobody answers there.
        ConnectionRefusedByPeerError: The other side refuses.
    """
    dialing = Dialing(on_messages, on_lost)
    answer = await ask_first(connect, dialing, hello, to=to, timeout_s=timeout_s)
    if not isinstance(answer, Welcome):
        dialing.peer.abort("not a welcome")
        raise DialError(f"{to}: answered with {type(answer).__name__} instead of a welcome")
    dialing.peer.protocol = answer.protocol
    asyncio.get_running_loop().call_soon(dialing.hand_over)
    return dialing.peer, answer


async def ask_first(
    connect: Callable[[Peer], Awaitable[object]],
    dialing: Dialing,
    first: Message,
    *,
    to: object,
    timeout_s: float,
) -> Message:
    """Connect, say ``first`` and return what is answered.

    Raises:
        DialError: Nobody answers there.
        ConnectionRefusedByPeerError: The other side refuses.
    """
    peer = dialing.peer
    try:
        async with asyncio.timeout(timeout_s):
            await connect(peer)
            peer.send(first)
            answer = await dialing.answered
    except TimeoutError as error:
        peer.abort("no answer")
        raise DialError(f"{to}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        peer.abort("no connection")
        raise DialError(f"{to}: {error.strerror or error}") from error
    except EndedEarlyError as error:
        raise ClosedUnansweredError(f"{to}: {error}") from error
    except BaseException:
        peer.abort("given up")
        raise
    if isinstance(answer, Refused):
        peer.close("refused")
        raise ConnectionRefusedByPeerError(answer.text)
    return answer


class Greeting:
    """A server's connection until its `Hello` is judged.

    Args:
        accept: Judges it.
        identify: Called when the connection stands: finds out who is there by other means than his
            word, and returns why he is not wanted at all, or nothing.
        on_enrol: Takes a host that is not known yet; None: there is no enrolling here.
        on_settled: Called once: it was accepted, refused or lost, and why in the latter cases.
        timeout_s: How long the other side has; 0: `HANDSHAKE_S`.
    """

    def __init__(
        self,
        accept: Accept,
        identify: Callable[[Peer], str],
        *,
        on_enrol: OnEnrol | None = None,
        on_settled: Callable[[str], object] | None = None,
        timeout_s: float = 0.0,
    ) -> None:
        self.peer = Peer(self._take, self._lose, on_open=self._open, frame_max=HELLO_MAX_BYTES)
        self._accept = accept
        self._identify = identify
        self._on_enrol = on_enrol
        self._on_settled = on_settled
        self._timeout_s = timeout_s or HANDSHAKE_S
        self._patience: asyncio.TimerHandle | None = None
        self._enrols = False

    def _open(self, peer: Peer) -> None:
        refusal = self._identify(peer)
        if refusal:
            self._refuse(refusal)
            return
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(
            self._timeout_s, peer.abort, "it did not say who it is in time"
        )

    def _take(self, messages: list[Message]) -> None:
        peer = self.peer
        hello = messages[0]
        self._stop_waiting()
        if isinstance(hello, Enrol) and self._on_enrol is not None and not peer.identity.key:
            peer.on_messages = _ignore
            self._enrols = True
            self._on_enrol(peer, hello)
            return
        if not isinstance(hello, Hello):
            self._refuse(f"a {type(hello).__name__} came where a Hello belongs")
            return
        kind, refusal = self._check(hello)
        if refusal:
            self._refuse(refusal, kind=kind)
            return
        answer = self._accept(peer, hello)
        if isinstance(answer, Refused):
            self._refuse(answer.text)
            return
        assert not peer.buffered_bytes, "the welcome must be the first that is sent"
        peer.set_frame_max(ALLOWED[hello.role].frame_max)
        peer.send(answer)
        self._settle("")
        if messages[1:]:
            peer.on_messages(messages[1:])

    def _check(self, hello: Hello) -> tuple[str, str]:
        """Return why nobody can talk with who says this; empty: it can be judged.

        First as it is counted: with nothing in it that somebody unknown can choose, so that he
        can neither fill the counts nor write to the log what he likes.
        """
        if hello.role not in ROLES:
            text = f"no role is called {hello.role[:SHOWN_MAX]!r}; known are: {', '.join(ROLES)}"
            return "its role is none", text
        if not (_NAME.fullmatch(hello.name) and _VERSION.fullmatch(hello.version)):
            text = "its name or version is none: letters, digits and . _ @ - are"
            return text, text
        self.peer.protocol = choose_protocol(hello)
        if not self.peer.protocol:
            text = (
                f"protocol {hello.protocol} of version {hello.version} is not spoken here: "
                f"protocols {PROTOCOL_OLDEST} to {PROTOCOL} are"
            )
            return "its protocol is not spoken here", text
        return "", ""

    def _refuse(self, text: str, *, kind: str = "") -> None:
        peer = self.peer
        peer.on_messages = _ignore
        peer.on_lost = _ignore
        peer.send(Refused(text))
        peer.close(text)
        self._settle(kind or text)

    def _lose(self, reason: str) -> None:
        self._stop_waiting()
        self._settle("" if self._enrols else reason)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _settle(self, why: str) -> None:
        if self._on_settled is not None:
            on_settled, self._on_settled = self._on_settled, None
            on_settled(why)


def _ignore(_: object) -> None:
    """Take what comes over a connection that is not wanted."""
