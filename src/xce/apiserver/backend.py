"""What routes draw on: the replica, the controller, the history, and what was sent already."""

import time
from collections.abc import Callable, Iterable, Sequence
from logging import Logger
from typing import Final

import msgspec

from xce.apiserver.identity import Caller, Identities
from xce.apiserver.link import Link
from xce.apiserver.past_desk import PastDesk
from xce.apiserver.problems import ProblemError, from_refusal, make_problem, refused
from xce.apiserver.replica import Replica
from xce.apiserver.submission import SubmissionCompiler
from xce.apiserver.waits import JobWaits
from xce.apiserver.watch import Watchers
from xce.journal.history import HistoryError
from xce.journal.history_reader import HistoryReader
from xce.journal.past import PastJob
from xce.model.command import Command
from xce.model.entry import Entry
from xce.model.ids import Index, JobId, Micros
from xce.model.refusal import Refusal, RefusalCode
from xce.net.message import Answer

REPLICA_S: Final = 10.0
"""How long a write waits until the replica has what it caused."""
BLOBS_REMEMBERED: Final = 20_000
BLOB_S: Final = 600.0
"""How long a blob counts as known to the controller."""


class SentBlobs:
    """Which blobs the journal has, as far as we know, so that they are not sent again.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, float] = {}

    def unsent(self, blobs: Iterable[tuple[str, bytes]]) -> tuple[tuple[str, bytes], ...]:
        """Return those that must be sent."""
        since = self._clock() - BLOB_S
        known = self._known
        return tuple(blob for blob in blobs if known.get(blob[0], since) <= since)

    def note(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        """Note that the journal has these."""
        if len(self._known) > BLOBS_REMEMBERED:
            self._known.clear()
        now = self._clock()
        for digest, _ in blobs:
            self._known[digest] = now

    def forget_all(self) -> None:
        """Note that it is not known any more what the journal has."""
        self._known.clear()


class Site(msgspec.Struct, frozen=True):
    """Where this apiserver runs."""

    host: str = ""
    """The name of this machine."""
    version: str = ""
    home_of: Callable[[int], str] = lambda _: ""
    """Gives the home directory of a user id."""


class Backend:
    """What routes draw on.

    Args:
        replica: The state.
        link: The controller.
        history: What left the state.
        identities: Who is who.
        log: Where things are told.
        site: Where this runs.
        past_command: Gives the command line of a process that answers about an instant.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        replica: Replica,
        link: Link,
        history: HistoryReader,
        identities: Identities,
        log: Logger,
        *,
        site: Site | None = None,
        past_command: Callable[[Micros], Sequence[str]] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.replica = replica
        self.link = link
        self.history = history
        self.identities = identities
        self.log = log
        self.site = site or Site()
        self.compiler = SubmissionCompiler(home_of=self.site.home_of, host=self.site.host or None)
        self.sent = SentBlobs()
        self.waits = JobWaits()
        self.past_desk = PastDesk(past_command, log)
        self.watchers = Watchers(replica)
        self.now = now
        replica.listeners += (_Forgetter(self.sent), self.waits)

    @property
    def now_us(self) -> Micros:
        """The time now."""
        return int(self.now() * 1_000_000)

    async def write(self, command: Command, caller: Caller, *, repeatable: bool = True) -> Answer:
        """Have a command decided; return its answer when the replica has what it caused.

        Raises:
            ProblemError: The controller, or its journal, is away.
        """
        basis = "admin" if caller.is_admin else "owner"
        answer = await self.link.ask(command, by=caller.user, basis=basis, repeatable=repeatable)
        for result in answer.results[:1]:
            if isinstance(result, Refusal) and result.code is RefusalCode.JOURNAL_AWAY:
                raise ProblemError(from_refusal(result), retry_after_s=1)
        if self.replica.seq < answer.seq:
            await self.replica.reach(answer.seq, REPLICA_S)
        return answer

    def past(
        self,
        job: JobId,
        runs: tuple[tuple[Index, Index], ...] = ((0, 1 << 62),),
        *,
        with_elements: bool = True,
    ) -> PastJob | None:
        """Return a job of the history, or None.

        Raises:
            ProblemError: The history cannot be read.
        """
        try:
            return self.history.job(job, runs, with_elements=with_elements)
        except HistoryError as error:
            self.log.exception("history-not-read")
            raise ProblemError(
                make_problem("internal", "the history cannot be read now", status=500)
            ) from error


class _Forgetter:
    """Forgets what was sent when the state begins anew: the journal may be another one."""

    def __init__(self, sent: SentBlobs) -> None:
        self._sent = sent

    def began(self) -> None:
        self._sent.forget_all()

    def came(self, entries: Iterable[Entry]) -> None:
        """Nothing follows from entries."""


def must_own(caller: Caller, owner: str, job: JobId) -> None:
    """Check that a caller may touch and read a job of ``owner``.

    Raises:
        ProblemError: It is somebody else's.
    """
    if caller.user != owner and not caller.is_admin:
        raise refused(
            RefusalCode.NOT_YOURS, f"job {job} belongs to {owner}", lsf="User permission denied"
        )


def unknown_job(text: str) -> ProblemError:
    """Return the refusal of a job that does not exist."""
    return refused(
        RefusalCode.UNKNOWN_JOB, f"no job has the id {text}", lsf=f"Job <{text}> is not found"
    )
