"""The journal in PostgreSQL 15 or later: several controllers, one of which leads.

The lead is a row with an epoch and an instant by the database's clock. The instant says when
another one may step in; the epoch is what fences: an append checks it in its own statement, so that
a leader that was deposed writes nothing, however late it wakes up.

A commit whose connection died is unknown. It is tried again and settled by reading, behind a
write: what a write of ours has followed is as safe as that write, also on synchronous standbys.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from xce.config.site import LEASE_S
from xce.journal.interface import (
    Append,
    Blob,
    EpochLostError,
    JournalHeldError,
    JournalOrderError,
    JournalRefusedError,
    JournalTroubleError,
    StoredBatch,
)
from xce.journal.postgres_line import Connection, Line, PostgresTarget, load_asyncpg
from xce.journal.postgres_reader import READ_S, PostgresReader, check_version
from xce.journal.postgres_tables import (
    APPEND,
    CREATION_LOCK,
    FILL,
    FILL_ARCHIVE,
    GIVE_UP,
    HAS_TABLES,
    IS_EMPTY,
    RENEW,
    SCHEMA_VERSION,
    TABLES,
    TAKE,
    TAKE_LOCK,
    TRIM,
    WHO_LEADS,
)
from xce.model.errors import XceError
from xce.model.ids import Epoch, Seq

GIVE_UP_LEASES: Final = 3
"""After so many spans without a renewal a leader that cannot reach the database ends."""
ANSWER_S: Final = 15.0
FILL_S: Final = 24 * 3600.0


class PostgresJournal(PostgresReader):
    """The write side, for the process that leads or stands by to lead.

    Args:
        target: The database.
        lease_s: How long the lead lasts that is not renewed.
    """

    def __init__(self, target: PostgresTarget, *, lease_s: float = LEASE_S) -> None:
        super().__init__(target, name="xce controller reading")
        self.last_seq: Seq = 0
        self.last_crc = 0
        self._lease_s = lease_s
        self._writing = Line(self._thread, target, "xce controller writing")
        self._keeping = Line(self._thread, target, "xce controller lease")
        self._epoch: Epoch = 0
        self._renewed_s = 0.0
        self._has_tables = False

    def make_tables(self) -> None:
        """Make the tables where there are none.

        Raises:
            CorruptJournalError: They are of a newer release.
        """

        async def make(connection: Connection) -> int:
            if not await connection.fetchval(HAS_TABLES):
                async with connection.transaction():
                    await connection.execute(CREATION_LOCK)
                    if not await connection.fetchval(HAS_TABLES):
                        await connection.execute(TABLES)
                        await connection.execute(
                            "INSERT INTO xce_schema VALUES ($1)", SCHEMA_VERSION
                        )
            return int(await connection.fetchval("SELECT max(version) FROM xce_schema") or 0)

        if not self._has_tables:
            check_version(self._writing.call(make, timeout_s=ANSWER_S), self.place())
            self._has_tables = True

    def lead(self, holder: str) -> Epoch:
        """Begin a reign when nobody leads.

        Raises:
            JournalHeldError: Another one leads; the message names it.
            JournalTroubleError: The database is away.
            JournalRefusedError: The database does not want us.
            CorruptJournalError: The journal is of a newer release.
        """
        self.make_tables()
        name = f"{holder} on {socket.gethostname()} pid {os.getpid()}"
        began_s = time.monotonic()

        async def take(connection: Connection) -> tuple[Epoch, str, float]:
            found = await connection.fetchrow(WHO_LEADS)
            if not found["holds"]:
                async with connection.transaction():
                    found = await connection.fetchrow(TAKE_LOCK)
                    if not found["holds"]:
                        epoch = await connection.fetchval(TAKE, name, self._lease_s)
                        return int(epoch), "", 0.0
            return 0, str(found["holder"]), float(found["left_s"])

        epoch, other, left_s = self._writing.call(take, timeout_s=ANSWER_S)
        if not epoch:
            raise JournalHeldError(
                f"{self.place()}: led by {other}, for {max(left_s, 0.0):.1f} s more at least"
            )
        self._epoch, self._renewed_s = epoch, began_s
        end = self._written_rows("SELECT last, crc FROM xce_batches ORDER BY last DESC LIMIT 1")
        self.last_seq, self.last_crc = (int(end[0][0]), int(end[0][1])) if end else (0, 0)
        return epoch

    def keep_lead(self, on_lost: Callable[[EpochLostError], object]) -> None:
        """Renew the lease until `close`.

        Args:
            on_lost: Called once, from another thread, when another one leads, or when for
                `GIVE_UP_LEASES` spans it could not be renewed.
        """
        self._thread.start(self._keep(on_lost))

    @property
    def leads_surely(self) -> bool:
        """Whether the lease, as of when it was last asked for, has not run out."""
        return bool(self._epoch) and time.monotonic() - self._renewed_s < self._lease_s

    async def _keep(self, on_lost: Callable[[EpochLostError], object]) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 3)
            began_s = time.monotonic()
            try:
                is_ours = await self._keeping.acall(self._renew, timeout_s=self._lease_s)
            except (JournalTroubleError, JournalRefusedError) as error:
                if time.monotonic() - self._renewed_s < GIVE_UP_LEASES * self._lease_s:
                    continue
                text = f"the lead could not be renewed: {error}"
                on_lost(EpochLostError(text))
                return
            if not is_ours:
                if self._epoch:  # else we have just given it up
                    on_lost(self._lost())
                return
            self._renewed_s = began_s

    async def _renew(self, connection: Connection) -> bool:
        return await connection.fetchval(RENEW, self._epoch, self._lease_s) is not None

    def append(self, epoch: Epoch, batch: StoredBatch, blobs: Sequence[Blob] = ()) -> None:
        """Make one batch durable; see `append_all`."""
        self.append_all(epoch, (Append(batch, blobs),))

    def append_all(self, epoch: Epoch, appends: Sequence[Append]) -> None:
        """Make batches durable in one commit; done when this returns.

        One that is stored already, with the same crc, counts as done.

        Raises:
            EpochLostError: ``epoch`` does not lead any more.
            JournalOrderError: A batch does not follow the last stored one.
            JournalTroubleError: Whether it was stored is not known; the same may be tried again.
        """
        if not self._epoch:
            raise XceError(f"{self.place()}: not open for writing: `lead` comes first")
        batches = [append.batch for append in appends]
        fresh = [batch for batch in batches if batch.last > self.last_seq]
        if fresh != batches or not _follow(batches, self.last_seq, self.last_crc):
            self._settle(epoch, batches)
            return
        digests = [digest for append in appends for digest, _ in append.blobs]
        contents = [content for append in appends for _, content in append.blobs]
        columns = [
            [getattr(batch, name) for batch in batches]
            for name in ("last", "first", "crc_before", "crc", "content")
        ]
        twice = load_asyncpg().UniqueViolationError

        async def write(connection: Connection) -> int:
            try:
                done = await connection.execute(
                    APPEND, epoch, batches[0].first, digests, contents, *columns
                )
            except twice:
                # An earlier try, whose answer was lost, has come through meanwhile.
                return 0
            return int(done.rpartition(" ")[2])

        if self._writing.call(write, timeout_s=ANSWER_S) != len(batches):
            self._settle(epoch, batches)
            return
        self.last_seq, self.last_crc = batches[-1].last, batches[-1].crc

    def _settle(self, epoch: Epoch, batches: Sequence[StoredBatch]) -> None:
        """Find out why nothing was written: another reign, a repetition, or a fault."""

        async def look(connection: Connection) -> list[Any] | None:
            # The write comes first: see the head of this file.
            if await connection.fetchval(RENEW, epoch, self._lease_s) is None:
                return None
            rows: list[Any] = await connection.fetch(
                "SELECT first, last, crc_before, crc FROM xce_batches"
                " WHERE last = ANY($1::bigint[]) ORDER BY last",
                [batch.last for batch in batches],
            )
            return rows

        stored = self._writing.call(look, timeout_s=ANSWER_S)
        if stored is None:
            raise self._lost()
        wanted = [(batch.first, batch.last, batch.crc_before, batch.crc) for batch in batches]
        if [tuple(row) for row in stored] != wanted:
            first = batches[0]
            raise JournalOrderError(
                f"{self.place()}: batch {first.first}..{first.last} (crc {first.crc_before:08x}) "
                f"does not follow entry {self.last_seq} (crc {self.last_crc:08x})"
            )
        if batches[-1].last > self.last_seq:
            self.last_seq, self.last_crc = batches[-1].last, batches[-1].crc

    def trim(self, before: Seq, *, limit: int = 256) -> bool:
        """Move batches that end before entry ``before`` to the archive; tell if there is more."""

        async def move(connection: Connection) -> str:
            done: str = await connection.execute(TRIM, before, limit)
            return done

        done = self._writing.call(move, timeout_s=ANSWER_S)
        return int(done.rpartition(" ")[2]) == limit

    def forget_blobs(self, digests: Sequence[str]) -> None:
        """Drop blobs that nothing names any more."""

        async def drop(connection: Connection) -> None:
            statement = "DELETE FROM xce_blobs WHERE hash = ANY($1::text[])"
            await connection.execute(statement, list(digests))

        self._writing.call(drop, timeout_s=ANSWER_S)

    def is_empty(self) -> bool:
        """Return whether there is no journal, or one without an entry, and nobody leads."""

        async def look(connection: Connection) -> bool:
            if not await connection.fetchval(HAS_TABLES):
                return True
            found = await connection.fetchrow(WHO_LEADS)
            return bool(await connection.fetchval(IS_EMPTY)) and not found["holds"]

        return self._writing.call(look, timeout_s=ANSWER_S)

    def fill(
        self,
        groups: Iterable[tuple[bool, list[StoredBatch]]],
        blobs: Iterable[Blob],
        epoch: Epoch,
    ) -> bool:
        """Take over a whole journal, all or nothing, unless there is one already.

        Args:
            groups: Batches in order, each group with whether it belongs into the archive.
            blobs: All blobs.
            epoch: What counts as the last reign.

        Returns:
            Whether it was done; False: there is a journal, or somebody leads.
        """

        async def take(connection: Connection) -> bool:
            async with connection.transaction():
                # Whoever wants to lead waits for this.
                found = await connection.fetchrow(TAKE_LOCK)
                if found["holds"] or not await connection.fetchval(IS_EMPTY):
                    return False
                for is_archived, group in groups:
                    columns = [
                        [getattr(batch, name) for batch in group]
                        for name in ("last", "first", "epoch", "crc_before", "crc", "content")
                    ]
                    await connection.execute(FILL_ARCHIVE if is_archived else FILL, *columns)
                for digest, content in blobs:
                    await connection.execute(
                        "INSERT INTO xce_blobs VALUES ($1, $2)", digest, content
                    )
                await connection.execute("UPDATE xce_lead SET epoch = $1", epoch)
            return True

        return self._writing.call(take, timeout_s=FILL_S)

    @property
    def is_untidy(self) -> bool:
        """Never: the database tidies itself."""
        return False

    def tidy(self) -> None:
        """Nothing is to be done."""

    def close(self) -> None:
        """Give up the lead, so that another one may step in at once, and end the connections."""
        if self._epoch:
            epoch, self._epoch = self._epoch, 0

            async def give_up(connection: Connection) -> None:
                await connection.execute(GIVE_UP, epoch)

            # In vain when the database is away: then it runs out.
            with contextlib.suppress(JournalTroubleError, JournalRefusedError):
                self._writing.call(give_up, timeout_s=1.0)
        self._writing.close()
        self._keeping.close()
        super().close()

    def _lost(self) -> EpochLostError:
        return EpochLostError(
            f"{self.place()}: epoch {self._epoch} is over: another controller took over"
        )

    def _written_rows(self, statement: str) -> list[Any]:
        async def fetch(connection: Connection) -> list[Any]:
            rows: list[Any] = await connection.fetch(statement)
            return rows

        return self._writing.call(fetch, timeout_s=READ_S)


def _follow(batches: Sequence[StoredBatch], seq: Seq, crc: int) -> bool:
    """Return whether batches follow an entry, each the one before."""
    for batch in batches:
        if batch.first != seq + 1 or batch.crc_before != crc or batch.last < batch.first:
            return False
        seq, crc = batch.last, batch.crc
    return True
