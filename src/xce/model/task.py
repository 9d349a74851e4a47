"""Remote tasks: what the first host of an attempt asks of the others, and what they answer.

On each of its other hosts an attempt has a *part*: a place for tasks, which is reached, stopped and
ended as one, and which has no job shell of its own. The worker of the first host leads the parts.
"""

import enum
from typing import Final, TypeAlias

import msgspec

from xce.model.ids import Micros
from xce.model.job import EndCause

PIECE_MAX: Final = 64 * 1024
"""Bytes of a stream or a file that one order or answer carries."""


class TaskFault(enum.IntEnum):
    """Why an order could not be carried out. Numbers are on the wire; they never change."""

    NONE = 0
    AWAY = 1
    """The host cannot be reached now: the same order again may succeed."""
    OVER = 2
    """Nothing of the attempt is on the host, or what is there is ended by others."""
    REFUSED = 3
    """It cannot be done; the text says why."""
    BUSY = 4
    """Too much is under way: the same order again succeeds when there is room."""


class StartTask(msgspec.Struct, frozen=True, tag="start", array_like=True):
    """Start a task; one of the same name is not started twice."""

    name: str
    argv: tuple[bytes, ...]
    env: tuple[bytes, ...]
    """``NAME=value``."""
    cwd: bytes
    umask: int
    has_input: bool


class ReadTask(msgspec.Struct, frozen=True, tag="read", array_like=True):
    """Return what a task wrote behind these places, as soon as there is something, and its end."""

    name: str
    out_from: int
    err_from: int
    limit: int
    wait_us: Micros


class FeedTask(msgspec.Struct, frozen=True, tag="feed", array_like=True):
    """Write to a task's standard input; what comes again changes nothing."""

    name: str
    place: int
    """Of the first byte of ``content`` in the whole."""
    content: bytes
    is_end: bool


class SignalTask(msgspec.Struct, frozen=True, tag="signal", array_like=True):
    """Send a signal to a task's process group."""

    name: str
    signal: int


class EndTask(msgspec.Struct, frozen=True, tag="end", array_like=True):
    """Forget a task that is over; kill one that is not."""

    name: str


class HoldPart(msgspec.Struct, frozen=True, tag="hold", array_like=True):
    """How a part shall be. Answered when something is to be told, or after ``wait_us``."""

    suspended: bool
    number: int
    """Of the last of the user's signals."""
    signal: int
    cause: EndCause
    step: int
    """How far its ending is, see `xce.worker.ending`."""
    mem_limit_kib: int
    """0: none."""
    wait_us: Micros
    cpu_limit_us: Micros = 0
    """Of the whole job: its hosts tell what they used of it; 0: none."""


TaskOrder: TypeAlias = StartTask | ReadTask | FeedTask | SignalTask | EndTask | HoldPart


class ReadFile(msgspec.Struct, frozen=True, tag="read-file", array_like=True):
    """Return a piece of a local file of the job's transfers, from where the job was submitted."""

    name: str
    """Of the copy."""
    transfer: int
    """Which of the job's transfers."""
    place: int
    limit: int


class WriteFile(msgspec.Struct, frozen=True, tag="write-file", array_like=True):
    """Take a piece for a local file of the job's transfers; a repeat changes nothing.

    With the last piece the file becomes what was given, or has it added.
    """

    name: str
    transfer: int
    place: int
    """Of the first byte of ``content`` in the whole."""
    content: bytes
    mode: int
    """Permissions of a file that is not there yet."""
    is_end: bool


class EndFile(msgspec.Struct, frozen=True, tag="end-file", array_like=True):
    """Forget a copy; one that is not over never happened."""

    name: str
    transfer: int


FileOrder: TypeAlias = ReadFile | WriteFile | EndFile
"""What the first host of an attempt asks of the host where its job was submitted."""


class TaskSeen(msgspec.Struct, frozen=True, array_like=True):
    """A task as it is."""

    pid: int = 0
    out_from: int = 0
    """Where ``out`` begins."""
    out: bytes = b""
    err_from: int = 0
    err: bytes = b""
    taken: int = 0
    """So much of what was fed is taken."""
    is_over: bool = False
    """It has ended, and nothing comes behind ``out`` and ``err``."""
    code: int = 0
    """Its exit code; 128 + n when it died of signal n."""


class PartSeen(msgspec.Struct, frozen=True, array_like=True):
    """A part as it is."""

    is_gone: bool = False
    """Nothing of it is left."""
    cause: EndCause = EndCause.NONE
    """Why the whole attempt has to end, as its host found."""
    user_us: int = 0
    """What it used is known when it is gone; before that CPU time, where that is limited."""
    system_us: int = 0
    max_mem_kib: int = 0
    max_processes: int = 0
    max_threads: int = 0


class FileSeen(msgspec.Struct, frozen=True, array_like=True):
    """How a copy is."""

    code: int = 0
    """Why it failed, see `xce.step.file_codes`; 0: it goes on."""
    content: bytes = b""
    is_over: bool = False
    """The file ends with ``content``, or is written."""
    mode: int = 0
