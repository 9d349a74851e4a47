"""Connections to PostgreSQL for code that is not asynchronous: a thread with a loop of its own.

A call that takes too long ends its connection; it is never cancelled. A cancelled commit that waits
for its synchronous standby is visible without being safe, and somebody would take it for stored.
"""

import asyncio
import contextlib
import importlib
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from xce.journal.interface import JournalRefusedError, JournalTroubleError

CONNECT_S: Final = 3.0
QUIET_S: Final = 0.5
"""So long after a failure a reader is not tried again: nobody shall wait for what is away."""
GONE_S: Final = 15
"""So long after its last sign of life a machine is taken for gone, whatever it was asked for."""
VERSION_MIN: Final = 15
_DURABLE: Final = frozenset({"on", "remote_apply"})
"""Settings of ``synchronous_commit`` that wait for the disk, and for standbys where there are."""
_PASSING: Final = frozenset({"", "08", "25", "40", "53", "55", "57", "58"})
"""Classes of errors that may pass: connection, read-only, conflict, resources, operator, system."""

T = TypeVar("T")
Connection: TypeAlias = Any
"""``asyncpg.Connection``; the package has no types and need not be installed."""
Package: TypeAlias = Any
"""``asyncpg`` itself."""


class PostgresTarget(NamedTuple):
    """Which database, and as whom."""

    dsn: str
    """``postgresql://user@host1,host2/database``; without a password."""
    password_file: str = ""
    """A file whose first line is the password; read at each connection, so that it may change."""
    password_env: str = ""
    """The environment variable that holds the password."""
    section: str = "journal"
    """Where the configuration names it, for messages."""

    def password(self) -> str | None:
        """Return the password; None: the database's own ways (``~/.pgpass``) are tried.

        Raises:
            JournalRefusedError: The file cannot be read, or the variable is not set.
        """
        if self.password_file:
            try:
                return Path(self.password_file).read_text("utf-8").split("\n", 1)[0]
            except (OSError, UnicodeDecodeError) as error:
                raise JournalRefusedError(
                    f"{self.section}.password_file: {self.password_file} cannot be read: {error}"
                ) from error
        if self.password_env:
            found = os.environ.get(self.password_env)
            if found is None:
                raise JournalRefusedError(
                    f"{self.section}.password_env: the variable {self.password_env} is not set"
                )
            return found
        return None


class LoopThread:
    """A thread that runs a loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="xce-postgres", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` there and wait for what it gives."""
        if self._loop.is_closed():
            work.close()
            raise JournalTroubleError("the connection to the database was closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` there beside everything else."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def is_alive(self) -> bool:
        """Whether `close` has not been called yet."""
        return not self._loop.is_closed()

    def close(self) -> None:
        """End what runs there, and the thread."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


class Line:
    """One connection, made anew when it was lost. Calls wait for each other.

    Args:
        thread: Where it lives.
        target: The database.
        name: What the database shows as the application's name.
        quiet_s: So long after a failure calls fail at once.
        settings: Statements with which each connection begins.
    """

    def __init__(
        self,
        thread: LoopThread,
        target: PostgresTarget,
        name: str,
        *,
        quiet_s: float = 0.0,
        settings: Sequence[str] = (),
    ) -> None:
        self._thread = thread
        self._target = target
        self._name = name
        self._quiet_s = quiet_s
        self._settings = settings
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._failed_at_s = -quiet_s
        self._failure = ""

    def call(self, work: Callable[[Connection], Awaitable[T]], *, timeout_s: float) -> T:
        """Do ``work`` with the connection, from any other thread.

        Raises:
            JournalTroubleError: The database is away or busy; ``work`` may have been done.
            JournalRefusedError: The database does not want us as we are.
        """
        return self._thread.call(self.acall(work, timeout_s=timeout_s))

    async def acall(self, work: Callable[[Connection], Awaitable[T]], *, timeout_s: float) -> T:
        """Do ``work`` with the connection, from the thread of the loop; see `call`."""
        async with self._lock:
            if time.monotonic() - self._failed_at_s < self._quiet_s:
                raise JournalTroubleError(self._failure)
            try:
                return await self._do(work, timeout_s)
            except JournalTroubleError as error:
                self._failed_at_s, self._failure = time.monotonic(), str(error)
                self.drop()
                raise

    async def _do(self, work: Callable[[Connection], Awaitable[T]], timeout_s: float) -> T:
        asyncpg = load_asyncpg()
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect(asyncpg)
            task = asyncio.ensure_future(_await(work(self._connection)))
            done, _ = await asyncio.wait({task}, timeout=timeout_s)
            if not done:
                self.drop()
                with contextlib.suppress(Exception):
                    await task
                raise JournalTroubleError(f"{self.place}: no answer within {timeout_s:g} s")
            return task.result()
        except _errors(asyncpg) as error:
            raise self._named(error) from error

    async def _connect(self, asyncpg: Package) -> Connection:
        connection = await asyncpg.connect(
            self._target.dsn,
            password=self._target.password(),
            timeout=CONNECT_S,
            target_session_attrs="read-write",
            server_settings={"application_name": self._name},
        )
        _notice_silence(connection)
        try:
            self._check_version(connection.get_server_version()[0])
            if await connection.fetchval("SHOW synchronous_commit") not in _DURABLE:
                await connection.execute("SET synchronous_commit = on")
            for statement in self._settings:
                await connection.execute(statement)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _check_version(self, major: int) -> None:
        if major < VERSION_MIN:
            raise JournalRefusedError(
                f"{self.place}: PostgreSQL {major}: {VERSION_MIN} or later is needed"
            )

    @property
    def place(self) -> str:
        """The database's name for messages; there is no password in it."""
        return self._target.dsn

    def drop(self) -> None:
        """End the connection at once, without a word."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def close(self) -> None:
        """End the connection."""
        if self._thread.is_alive:
            self._thread.call(self._close())

    async def _close(self) -> None:
        self.drop()

    def _named(self, error: Exception) -> Exception:
        """Return our name for a failure: what may pass, or what never will."""
        state = str(getattr(error, "sqlstate", "") or "")
        text = " ".join(str(error).split()) or type(error).__name__
        if state[:2] in _PASSING and not isinstance(error, ValueError | OverflowError):
            return JournalTroubleError(f"{self.place}: {text}")
        return JournalRefusedError(f"{self.place}: {text}")


def _errors(asyncpg: Package) -> tuple[type[Exception], ...]:
    """Return what a failing connection raises, and what values that cannot be encoded raise."""
    inner = asyncpg.exceptions.InternalClientError
    theirs = (asyncpg.PostgresError, asyncpg.InterfaceError, inner)
    return (*theirs, OSError, TimeoutError, UnicodeError, OverflowError)


def _notice_silence(connection: Connection) -> None:
    """Let the kernel end a connection whose machine is gone without a word: a long answer may be
    waited for, and the system's own patience is a quarter of an hour.
    """
    transport = getattr(connection, "_transport", None)  # The package does not give it out.
    line = transport.get_extra_info("socket") if transport is not None else None
    if line is None or line.family == socket.AF_UNIX:
        return
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, GONE_S // 3),
        (socket.TCP_KEEPINTVL, GONE_S // 3),
        (socket.TCP_KEEPCNT, 2),
        (socket.TCP_USER_TIMEOUT, GONE_S * 1000),
    ):
        line.setsockopt(socket.IPPROTO_TCP, option, value)


async def _await(work: Awaitable[T]) -> T:
    return await work


def load_asyncpg() -> Package:
    """Return the package.

    Raises:
        JournalRefusedError: It is not installed.
    """
    try:
        return importlib.import_module("asyncpg")
    except ModuleNotFoundError as error:
        raise JournalRefusedError(
            "a database needs the package asyncpg: pip install 'xce[postgres]'"
        ) from error
