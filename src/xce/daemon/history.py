"""``python -m xce.daemon.history --dir D``: writes what was submitted and how it ended.

A follower with a cursor beside its rows: it tells the controller how far it came, and only then may
ended jobs leave the state and entries the journal. In a database it stands by while the one of
another machine writes.
"""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from logging import ERROR, INFO, Logger
from pathlib import Path
from typing import Final

import uvloop

from xce.client.version import VERSION
from xce.daemon.dialling import find_ways
from xce.daemon.journals import find_history
from xce.daemon.logs import open_log
from xce.daemon.mail_sender import Mailer
from xce.daemon.paths import Layout, open_layout
from xce.daemon.priority import give_way
from xce.daemon.settings import load_settings
from xce.daemon.signals import stop_event
from xce.journal.codec import decode_batch
from xce.journal.history import HistoryWriter
from xce.journal.history_place import HistoryPlace, place_text
from xce.journal.history_reader import HistoryReader
from xce.journal.history_store import (
    HistoryAwayError,
    HistoryError,
    HistoryHeldError,
    HistoryTakenError,
)
from xce.journal.history_transfer import open_mail
from xce.journal.lock import DirectoryLock
from xce.journal.mail_spool import MailSpool
from xce.model.errors import XceError
from xce.net.follow import AskAgain, Began, Came, Follower, IsLive
from xce.net.handshake import make_hello
from xce.net.leader import LeaderClient, tell_changes
from xce.net.message import (
    Batch,
    CaughtUp,
    FollowedTo,
    Message,
    Ping,
    Pong,
    SnapshotPart,
    Welcome,
)
from xce.net.peer import Peer
from xce.state.snapshot import load

GATHER_S: Final = 0.25
"""From the first row that waits to its commit."""
ROWS_MAX: Final = 20_000
"""With so many rows it is committed at once."""
RETRY_S: Final = 2.0
NICE: Final = 10
"""Nobody waits for what it writes, and after a command about a million jobs it has much to do."""


class HistoryKeeper:
    """Follows the journal and keeps the history store.

    Args:
        writer: The store.
        log: Where things are told.
        spool: What mail is wanted about, which is stored first.
        on_stored: Called when something was stored.
    """

    def __init__(
        self, writer: HistoryWriter, log: Logger, spool: MailSpool, on_stored: Callable[[], None]
    ) -> None:
        self.failed: asyncio.Future[XceError] = asyncio.get_running_loop().create_future()
        """Set when it cannot go on."""
        self._writer = writer
        self._log = log
        self._spool = spool
        self._on_stored = on_stored
        self._peer: Peer | None = None
        self._follower = self._new_follower()
        self._timer: asyncio.TimerHandle | None = None
        self._is_troubled = False
        self._storing: asyncio.Task[None] | None = None
        self._later: list[Message] = []
        """What came while something is stored."""

    def _new_follower(self) -> Follower:
        writer = self._writer
        return Follower(decode_batch, seq=writer.seq, crc=writer.crc, epoch=writer.epoch)

    def welcome(self, peer: Peer, welcome: Welcome) -> None:
        """Begin on a new connection, behind what is gathered already."""
        self._peer = peer
        peer.send(self._follower.follow(welcome.epoch))
        if self._is_troubled:
            peer.pause_reading()
        self._log.info("following", extra={"from": self._follower.seq, "epoch": welcome.epoch})

    def lose(self, reason: str) -> None:
        """Note that the connection ended."""
        self._peer = None
        self._later.clear()  # It comes again.
        self._log.info("controller-lost", extra={"why": reason})

    def take(self, messages: list[Message]) -> None:
        """Take what arrived together."""
        for message in messages:
            if isinstance(message, Ping) and self._peer is not None:
                self._peer.send(Pong(message.number))
        if self.failed.done():
            return
        if self._storing is not None:
            self._later += messages
            return
        try:
            for message in messages:
                if isinstance(message, SnapshotPart | Batch | CaughtUp):
                    for step in self._follower.take(message):
                        self._take_step(step)
        except XceError as error:
            self._fail(error)
            return
        self._plan_commit()

    def _take_step(self, step: Began | Came | IsLive | AskAgain) -> None:
        match step:
            case Began(seq, parts):
                state = load(parts) if parts else None
                if state is None and (self._writer.seq or self._writer.has_news):
                    raise HistoryError(
                        f"{self._writer.place}: has everything up to entry {self._writer.seq}, and "
                        "the journal begins anew: it is another one. Move the history away, with "
                        "its mail"
                    )
                if state is not None:
                    self._log.info("snapshot-taken", extra={"seq": seq})
                    self._writer.begin(state, epoch=self._follower.epoch)
                    self._spool.begin(state)
            case Came(entries):
                self._spool.take(entries)
                self._writer.take(entries, crc=self._follower.crc, epoch=self._follower.epoch)
            case AskAgain(_, why):
                # A new beginning is not for us: what is stored is the beginning.
                self._log.warning("stream-damaged", extra={"why": why})
                self.commit()
                self._follower = self._new_follower()
                if self._peer is not None:
                    self._peer.close(why)
            case IsLive(seq):
                self._log.debug("caught-up", extra={"seq": seq})

    def _fail(self, error: XceError) -> None:
        """End for good: what was taken may be half an entry, and is stored no more."""
        self._stop_timer()
        if not self.failed.done():
            self.failed.set_result(error)

    def _plan_commit(self) -> None:
        if not self._writer.has_news or self._is_troubled or self._storing is not None:
            return
        if self._writer.pending_rows >= ROWS_MAX:
            self._begin_commit()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(GATHER_S, self._begin_commit)

    def _begin_commit(self) -> None:
        """Store in another thread, so that the controller is answered meanwhile."""
        self._storing = asyncio.get_running_loop().create_task(self._commit_aside())
        self._storing.add_done_callback(self._note_fault)

    def _note_fault(self, storing: asyncio.Task[None]) -> None:
        """End when what was stored met a fault of ours, rather than wait for it for ever."""
        error = None if storing.cancelled() else storing.exception()
        if error is not None:
            self._log.error("history-fault", exc_info=error)
            self._fail(HistoryError(f"{self._writer.place}: {type(error).__name__}: {error}"))

    async def _commit_aside(self) -> None:
        self._stop_timer()
        peer = self._peer
        if peer is not None:
            peer.pause_reading()
        error = await asyncio.to_thread(self._store)
        self._storing = None
        if peer is not None and error is None:
            peer.resume_reading()
        self._note_stored(error)
        later, self._later = self._later, []
        if later:
            self.take(later)

    def commit(self) -> None:
        """Store what was gathered and tell the controller; on trouble stop reading and retry."""
        self._stop_timer()
        if self._writer.has_news:
            self._note_stored(self._store())

    async def settle(self) -> None:
        """Wait until nothing is being stored."""
        if self._storing is not None:
            await asyncio.gather(self._storing, return_exceptions=True)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _store(self) -> HistoryError | None:
        """Store what was gathered; return why it failed."""
        try:
            self._spool.commit()
            self._writer.commit()
        except HistoryError as error:
            return error
        return None

    def _note_stored(self, error: HistoryError | None) -> None:
        """Tell the controller how far it came, or try again later."""
        if isinstance(error, HistoryTakenError):
            self._fail(error)
        elif error is not None:
            if not self._is_troubled:
                self._log.error("history-not-stored", extra={"why": str(error)})
            self._is_troubled = True
            if self._peer is not None:
                self._peer.pause_reading()
            self._timer = asyncio.get_running_loop().call_later(RETRY_S, self._begin_commit)
        else:
            if self._is_troubled:
                self._is_troubled = False
                self._log.info("history-stored-again", extra={"seq": self._writer.seq})
                if self._peer is not None:
                    self._peer.resume_reading()
            if self._peer is not None:
                self._peer.send(FollowedTo(self._writer.seq))
            self._on_stored()


async def open_writer(
    place: HistoryPlace, log: Logger, stop: asyncio.Event
) -> HistoryWriter | None:
    """Return the writer when nobody else writes and the store answers; None: told to stop.

    Raises:
        HistoryError: The store cannot be used.
    """
    told = ""
    while not stop.is_set():
        try:
            return await asyncio.to_thread(HistoryWriter, place)
        except (HistoryHeldError, HistoryAwayError) as error:
            is_held = isinstance(error, HistoryHeldError)
            event = "standing-by" if is_held else "history-away"
            if told != event:
                log.log(INFO if is_held else ERROR, event, extra={"why": str(error)})
            told = event
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S):
                await stop.wait()
    return None


async def run(layout: Layout, log: Logger) -> int:
    """Keep the history until told to stop; return the exit status."""
    stop = stop_event()
    place = find_history(layout)
    give_way(NICE)
    while True:
        writer = await open_writer(place, log, stop)
        if writer is None:
            return 0
        try:
            failure = await _keep(layout, place, writer, log, stop)
        except (HistoryAwayError, HistoryTakenError) as error:
            failure = error
        finally:
            await asyncio.to_thread(writer.close)
        if failure is None:
            log.info("history-closed", extra={"seq": writer.seq})
            return 0
        if not isinstance(failure, HistoryAwayError | HistoryTakenError):
            log.error("history-ended", extra={"why": str(failure)})
            return 1
        # It goes on behind what is stored, when it is its turn again.
        log.warning("history-left", extra={"why": str(failure)})


async def _keep(
    layout: Layout, place: HistoryPlace, writer: HistoryWriter, log: Logger, stop: asyncio.Event
) -> XceError | None:
    """Follow and store until told to stop; return why it could not go on."""
    mail = await asyncio.to_thread(open_mail, writer.store, layout.mail_file)
    spool = await asyncio.to_thread(MailSpool, mail)
    reader = HistoryReader(place)
    mailer = Mailer(spool, reader, log)
    keeper = HistoryKeeper(writer, log, spool, mailer.wake)
    told = {"seq": writer.seq, "pid": os.getpid(), "place": place_text(place)}
    log.info("history-opened", extra=told)

    ways = find_ways(layout, "history", log)
    client = asyncio.create_task(
        LeaderClient(
            ways.destinations,
            make_hello("history", ways.name or "history", VERSION),
            keeper.welcome,
            keeper.take,
            keeper.lose,
            on_refused=tell_changes(log, "connection-refused"),
            on_failed=tell_changes(log, "controller-not-reached"),
            on_controllers=ways.learn,
        ).run()
    )
    mailing = asyncio.create_task(mailer.run())
    stopping = asyncio.create_task(stop.wait())
    ends = (stopping, keeper.failed, client)
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in (stopping, client, mailing):
        task.cancel()
    await asyncio.gather(client, stopping, mailing, return_exceptions=True)
    await keeper.settle()
    if not keeper.failed.done():
        keeper.commit()
    for one in (reader, spool):
        await asyncio.to_thread(one.close)
    return keeper.failed.result() if keeper.failed.done() else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the history writer; return its exit status."""
    parser = argparse.ArgumentParser(prog="xce.daemon.history")
    parser.add_argument("--dir")
    given = parser.parse_args(arguments)
    log = open_log("history")
    try:
        layout = open_layout(Path(load_settings(given.dir).state_dir))
        lock = DirectoryLock(layout.history / "lock", holder="history writer")
        try:
            return uvloop.run(run(layout, log))
        finally:
            lock.release()
    except (XceError, OSError) as error:
        log.error("history-not-started", extra={"why": str(error)})  # noqa: TRY400 - for people
        return 1


if __name__ == "__main__":
    sys.exit(main())
