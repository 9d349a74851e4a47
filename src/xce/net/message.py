"""What peers say to each other: tagged, array-like structs in MessagePack, one a frame.

A frame is a 4-byte big-endian length and one of these. New fields only at the end, with defaults.
The peer that dials speaks first (`Hello`) and is answered by `Welcome` or `Refused`. Everything
else may then go both ways in any order; requests carry an id that their answer repeats.

A kind of message that is new in a protocol is sent to nobody who speaks an older one.
"""

from typing import Final, TypeAlias

import msgspec

from xce.model.command import Accepted, Command
from xce.model.effect import Effect, Launch
from xce.model.ids import Epoch, Micros, Seq
from xce.model.load import Sample
from xce.model.observation import Observation
from xce.model.refusal import Refusal
from xce.model.task import FileOrder, FileSeen, PartSeen, TaskFault, TaskOrder, TaskSeen
from xce.model.trust import PEER_ROLES, TEST, HostToken, RevokedKey, TrustedKey
from xce.model.usage import AttemptUse

PROTOCOL: Final = 2
"""What is spoken here."""
PROTOCOL_OLDEST: Final = 1
"""What is still understood: that of one release before."""
FRAME_MAX: Final = 64 * 1024 * 1024
"""Largest frame in bytes; a longer one ends the connection."""
ROLES: Final = (*PEER_ROLES, TEST)


class Hello(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    """Who dials: ``role`` is one of ``ROLES``, ``name`` tells instances apart (a worker's host)."""

    protocol: int
    role: str
    name: str
    version: str
    oldest: int = 0
    """The oldest protocol that the peer understands; 0: only ``protocol``."""


class Welcome(msgspec.Struct, frozen=True, tag="welcome", array_like=True):
    """The controller's answer to `Hello`."""

    protocol: int
    """What both speak on this connection."""
    epoch: Epoch
    cluster: str
    version: str
    seq: Seq
    beat_us: Micros = 0
    """How often a worker shall send a `Ping`; 0: never."""


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The connection is not wanted; the text says why. It is closed behind this."""

    text: str


class Ask(msgspec.Struct, frozen=True, tag="ask", array_like=True):
    """A command, with who asked on what basis."""

    id: int
    command: Command
    by: str = ""
    basis: str = ""
    origin: str = ""
    """Where a user's command came from, see `xce.model.entry.Cause`."""


class Answer(msgspec.Struct, frozen=True, tag="answer", array_like=True):
    """What came of an `Ask`; sent only when it is durable. ``seq``: the last entry it caused, or
    the last there was.
    """

    id: int
    seq: Seq
    results: tuple[Accepted | Refusal, ...] = ()


class Follow(msgspec.Struct, frozen=True, tag="follow", array_like=True):
    """Send me every entry behind ``seq``; 0: begin with a snapshot where there is one."""

    epoch: Epoch
    seq: Seq
    crc: int = -1
    """Of entry ``seq``; -1: not known."""


class SnapshotPart(msgspec.Struct, frozen=True, tag="snapshot-part", array_like=True):
    """Part ``number`` (from 0) of ``count`` of the snapshot taken at ``seq``."""

    seq: Seq
    number: int
    count: int
    content: bytes
    crc: int = 0
    """The crc of entry ``seq``, which the next batch's chain begins with."""


class Batch(msgspec.Struct, frozen=True, tag="batch", array_like=True):
    """Entries ``first`` to ``last`` as the very bytes of the journal."""

    first: Seq
    last: Seq
    content: bytes


class CaughtUp(msgspec.Struct, frozen=True, tag="caught-up", array_like=True):
    """The follower has everything that is durable now; what follows is live."""

    seq: Seq


class FollowedTo(msgspec.Struct, frozen=True, tag="followed-to", array_like=True):
    """A follower with a durable cursor (history) has stored everything up to ``seq``."""

    seq: Seq


class Observe(msgspec.Struct, frozen=True, tag="observe", array_like=True):
    """A worker reports."""

    observation: Observation


class ReportsTaken(msgspec.Struct, frozen=True, tag="reports-taken", array_like=True):
    """All report batches up to ``number`` of this connection are durable."""

    number: int


class JournalTrouble(msgspec.Struct, frozen=True, tag="journal-trouble", array_like=True):
    """The journal cannot be written, or can again; told to apiservers."""

    text: str
    """Why it cannot; empty: it can."""


class Effects(msgspec.Struct, frozen=True, tag="effects", array_like=True):
    """What the worker must do, under the controller's epoch."""

    epoch: Epoch
    effects: tuple[Effect, ...]


class FetchBlobs(msgspec.Struct, frozen=True, tag="fetch-blobs", array_like=True):
    """Give me the blobs of these hashes."""

    id: int
    hashes: tuple[str, ...]


class Blobs(msgspec.Struct, frozen=True, tag="blobs", array_like=True):
    """Answer to `FetchBlobs`; one that is not there is left out."""

    id: int
    blobs: tuple[tuple[str, bytes], ...]
    damaged: tuple[str, ...] = ()
    """Hashes of those that are there, but whose content is not what it was."""


class ReadOutput(msgspec.Struct, frozen=True, tag="read-output", array_like=True):
    """Read a piece of a job's output on ``host``; relayed by the controller (decision X-29).

    ``path`` is the file as the spec names it (patterns not yet expanded, relative to ``cwd``), or
    empty for output that is kept by the cluster on the host.
    """

    id: int
    host: str
    job: int
    index: int
    attempt: int
    stream: str
    """``stdout`` or ``stderr``; ``roles``: how the tasks of its roles are, as its step has written
    it, and no path then."""
    path: str
    cwd: str
    user: str
    uid: int
    gid: int
    offset: int
    limit: int


class OutputChunk(msgspec.Struct, frozen=True, tag="output-chunk", array_like=True):
    """Answer to `ReadOutput`: bytes from the offset on, and the file's size now."""

    id: int
    content: bytes
    size: int
    error: str = ""
    """Not empty: why there is nothing to read (no such file, host not connected, ...)."""


class ReadUsage(msgspec.Struct, frozen=True, tag="read-usage", array_like=True):
    """Tell what the attempts that run on ``host`` use; relayed by the controller.

    Since protocol 2.
    """

    id: int
    host: str


class HostUsage(msgspec.Struct, frozen=True, tag="host-usage", array_like=True):
    """Answer to `ReadUsage`. Since protocol 2."""

    id: int
    rows: tuple[AttemptUse, ...] = ()
    error: str = ""
    """Not empty: why nobody knows."""


class TerminalAsk(msgspec.Struct, frozen=True, tag="terminal-ask", array_like=True):
    """Read from, type at, resize or hang up the terminal of an interactive job on ``host``; relayed
    by the controller. Since protocol 2.
    """

    id: int
    host: str
    job: int
    index: int
    attempt: int
    offset: int = 0
    """Everything before was read."""
    limit: int = 0
    """0: nothing is read."""
    wait_us: Micros = 0
    """Wait so long for something to read."""
    place: int = 0
    """Of the first byte of ``typed`` in all that is typed; a repeat changes nothing."""
    typed: bytes = b""
    is_end: bool = False
    """Nothing will be typed behind it."""
    rows: int = 0
    """Of the window; 0: as it is."""
    columns: int = 0
    hangs_up: bool = False


class TerminalPiece(msgspec.Struct, frozen=True, tag="terminal-piece", array_like=True):
    """Answer to `TerminalAsk`. Since protocol 2."""

    id: int
    offset: int
    content: bytes
    taken: int = 0
    """Place behind what was typed and taken; the rest must be sent again."""
    is_over: bool = False
    """Nothing comes behind ``content``."""
    error: str = ""


class TaskAsk(msgspec.Struct, frozen=True, tag="task-ask", array_like=True):
    """The worker of an attempt's first host has something done on another of its hosts, or where
    its job was submitted; relayed by the controller, which checks that they are such hosts. Since
    protocol 2.
    """

    id: int
    host: str
    """Empty with an order about a file: the controller knows where the job was submitted."""
    job: int
    index: int
    attempt: int
    order: TaskOrder | FileOrder
    launch: Launch | None = None
    """The attempt, in the controller's words; with an order that begins something only."""


class TaskPiece(msgspec.Struct, frozen=True, tag="task-piece", array_like=True):
    """Answer to `TaskAsk`. Since protocol 2."""

    id: int
    fault: TaskFault = TaskFault.NONE
    text: str = ""
    """What is wrong, for people."""
    task: TaskSeen | None = None
    part: PartSeen | None = None
    file: FileSeen | None = None


class Ping(msgspec.Struct, frozen=True, tag="ping", array_like=True):
    """Are you there? Answered by `Pong` with the same number."""

    number: int
    load: Sample = ()
    """Of a worker: what it has measured of its host since the last one; empty: nothing."""


class Pong(msgspec.Struct, frozen=True, tag="pong", array_like=True):
    """I am."""

    number: int
    beat_us: Micros = 0
    """To a worker: how often it shall send a `Ping` from now on; 0: as before."""


class Enrol(msgspec.Struct, frozen=True, tag="enrol", array_like=True):
    """The first and only message of a worker whose key is not trusted yet. Since protocol 2.

    It is sent over TLS only, after the controller's key was found to be the one in the token.
    """

    protocol: int
    host: str
    token: str
    secret: bytes
    certificate: bytes
    """Of the worker's own key, in DER; the private key stays where it was made."""
    version: str = ""


class Enrolled(msgspec.Struct, frozen=True, tag="enrolled", array_like=True):
    """Answer to `Enrol`: the key is trusted; the connection is closed behind this."""

    cluster: str
    controllers: tuple[bytes, ...]
    """Certificates of the controllers, in DER."""


class ControllerKeys(msgspec.Struct, frozen=True, tag="controller-keys", array_like=True):
    """Which keys the controllers of this cluster have, to be kept. Since protocol 2."""

    controllers: tuple[bytes, ...]
    """Certificates in DER."""


class ListKeys(msgspec.Struct, frozen=True, tag="list-keys", array_like=True):
    """Which keys are trusted, which are revoked, which hosts may enrol? Since protocol 2."""

    id: int


class KeyList(msgspec.Struct, frozen=True, tag="key-list", array_like=True):
    """Answer to `ListKeys`."""

    id: int
    now_us: Micros
    keys: tuple[TrustedKey, ...]
    revoked: tuple[RevokedKey, ...]
    tokens: tuple[HostToken, ...]
    """Without their digests."""


class PeerSeen(msgspec.Struct, frozen=True, array_like=True):
    """A connection to the controller."""

    role: str
    name: str
    version: str
    protocol: int
    how: str
    """``key``, ``local`` (a unix socket) or ``plain`` (``mode: test``)."""
    key: str
    """Fingerprint; empty: it has none."""
    address: str
    since_us: Micros


class ListPeers(msgspec.Struct, frozen=True, tag="list-peers", array_like=True):
    """Who is connected, and what was refused? Since protocol 2."""

    id: int


class PeerList(msgspec.Struct, frozen=True, tag="peer-list", array_like=True):
    """Answer to `ListPeers`."""

    id: int
    peers: tuple[PeerSeen, ...]
    refused: tuple[tuple[str, int], ...]
    """What was refused since the controller's start, and how often."""
    half_open: int = 0
    """Connections that have not said yet who they are."""


Message: TypeAlias = (
    Hello
    | Welcome
    | Refused
    | Ask
    | Answer
    | Follow
    | SnapshotPart
    | Batch
    | CaughtUp
    | FollowedTo
    | Observe
    | ReportsTaken
    | JournalTrouble
    | Effects
    | FetchBlobs
    | Blobs
    | ReadOutput
    | OutputChunk
    | ReadUsage
    | HostUsage
    | TerminalAsk
    | TerminalPiece
    | TaskAsk
    | TaskPiece
    | Ping
    | Pong
    | Enrol
    | Enrolled
    | ControllerKeys
    | ListKeys
    | KeyList
    | ListPeers
    | PeerList
)
