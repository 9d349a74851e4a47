"""What routes draw on: the replica, the controller, the history, and what was sent already."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from logging import Logger
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from xce.apiserver.archive import Archive
from xce.apiserver.copies import Copies
from xce.apiserver.denials import Denials
from xce.apiserver.door import Door
from xce.apiserver.identity import Caller, Identities
from xce.apiserver.limits import Limits
from xce.apiserver.link import Link
from xce.apiserver.logins import Logins
from xce.apiserver.past_desk import PastDesk
from xce.apiserver.problems import ProblemError, denied, from_refusal, make_problem
from xce.apiserver.replica import Replica
from xce.apiserver.submission import SubmissionCompiler
from xce.apiserver.tokens import KEY_BYTES, Tokens
from xce.apiserver.usage import UsageDesk
from xce.apiserver.waits import JobWaits
from xce.apiserver.watch import Watchers
from xce.journal.history_reader import HistoryReader
from xce.journal.past import PastJob
from xce.model.command import Command
from xce.model.config import ClusterConfig
from xce.model.entry import Entry
from xce.model.ids import Index, JobId, Micros
from xce.model.permission import Permission
from xce.model.refusal import Refusal, RefusalCode
from xce.net.message import Answer
from xce.state.job import Job
from xce.state.rights import Rights, Sight

REPLICA_S: Final = 10.0
"""How long a write waits until the replica has what it caused."""
PASSES_S: Final = {RefusalCode.JOURNAL_AWAY: 1, RefusalCode.OVERLOADED: 1}
"""Refusals of a command as a whole that pass by themselves: when to come again."""
BLOBS_REMEMBERED: Final = 20_000
BLOB_S: Final = 600.0
"""How long a blob counts as known to the controller."""


JobPlace: TypeAlias = tuple[str, str, str]
"""Owner, queue and project of a job."""


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
    load_config: Callable[[], ClusterConfig] | None = None
    """Reads the configuration files; raises `ConfigError` with what is wrong with them."""
    note_config: Callable[[ClusterConfig], None] = lambda _: None
    """Told which configuration is in effect now."""
    lsf_dir: str = ""
    """Where the files are that readers of LSF's configuration look for; empty: nowhere."""
    traces: Path = Path("trace")
    """Where the scheduler keeps traces."""
    past_command: Callable[[Micros], Sequence[str]] | None = None
    """Gives the command line of a process that answers about an instant."""


class Backend:
    """What routes draw on.

    Args:
        replica: The state.
        link: The controller.
        history: What left the state.
        identities: Who is who.
        log: Where things are told.
        site: Where this runs.
        now: Seconds since the epoch.
        token_key: The secret with which tokens are signed; empty: a new one.
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
        now: Callable[[], float] = time.time,
        token_key: bytes = b"",
    ) -> None:
        self.replica = replica
        self.link = link
        self.history = Archive(history, log)
        """For questions about a few jobs, which are answered at once."""
        self.archive = Archive(history.another(), log)
        """For those about many."""
        self.identities = identities
        self.log = log
        self.site = site or Site()
        self.compiler = SubmissionCompiler(home_of=self.site.home_of, host=self.site.host or None)
        self.sent = SentBlobs()
        self.denials = Denials(link, log, now=now)
        self.limits = Limits()
        self.logins = Logins(Tokens(token_key or os.urandom(KEY_BYTES), clock=now), identities)
        self.door = Door()
        """Set when the apiserver listens on the network."""
        self.waits = JobWaits()
        self.past_desk = PastDesk(self.site.past_command, log)
        self.watchers = Watchers(replica)
        self.copies = Copies()
        self.usage = UsageDesk(link, now)
        self.is_stopping = False
        """Whether connections end because this apiserver does."""
        self.tasks: set[asyncio.Task[None]] = set()
        """What goes on when the request is over that began it."""
        self.now = now
        replica.listeners += (_Forgetter(self.sent), self.waits)

    @property
    def now_us(self) -> Micros:
        """The time now."""
        return int(self.now() * 1_000_000)

    @property
    def rights(self) -> Rights:
        """Who may do what, by the configuration that holds now."""
        return self.replica.state.rights

    def place_of(self, job: Job) -> JobPlace:
        """Return owner, queue and project of a job of the state."""
        key = self.replica.state.key(job)
        return job.owner.user, key.queue, key.project

    def sees(self, caller: Caller) -> Sight | None:
        """Return which jobs a caller may know of, by `JobPlace`; None: all."""
        return self.rights.filter(caller.actor, Permission.JOB_VIEW)

    def is_logged_in(self, caller: Caller) -> bool:
        """Return whether a caller may still be answered: his login was not ended meanwhile."""
        login = caller.login
        if login is None:
            return True
        revoked = self.replica.state.logins
        is_over = self.now() >= login.ends_at
        return not (is_over or revoked.is_revoked(login.user, login.session, login.began_at_us))

    def basis(self, caller: Caller) -> str:
        """Return on what ground a caller asks; the controller finds out what holds in the end."""
        return "admin" if self.rights.is_admin(caller.actor) else "owner"

    async def write(self, command: Command, caller: Caller, *, repeatable: bool = True) -> Answer:
        """Have a command decided; return its answer when the replica has what it caused.

        Raises:
            ProblemError: The controller, or its journal, is away.
        """
        answer = await self.link.ask(
            command,
            by=caller.user,
            basis=self.basis(caller),
            repeatable=repeatable,
            origin=caller.origin,
        )
        for result in answer.results[:1]:
            if isinstance(result, Refusal) and result.code in PASSES_S:
                raise ProblemError(from_refusal(result), retry_after_s=PASSES_S[result.code])
        if self.replica.seq < answer.seq:
            await self.replica.reach(answer.seq, REPLICA_S)
        return answer

    async def past(
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
        return await self.history.ask(
            lambda reader: reader.job(job, runs, with_elements=with_elements)
        )


class _Forgetter:
    """Forgets what was sent when the state begins anew: the journal may be another one."""

    def __init__(self, sent: SentBlobs) -> None:
        self._sent = sent

    def began(self) -> None:
        self._sent.forget_all()

    def came(self, entries: Iterable[Entry]) -> None:
        """Nothing follows from entries."""


def check_job(
    backend: Backend, caller: Caller, permission: Permission, job: JobId, place: JobPlace
) -> None:
    """Check that a caller may do something to a job.

    Raises:
        ProblemError: He may not; of a job that he may not even see: it does not exist.
    """
    rights, actor = backend.rights, caller.actor
    owner, queue, project = place
    if rights.basis(actor, permission, owner=owner, queue=queue, project=project):
        return
    if not rights.basis(actor, Permission.JOB_VIEW, owner=owner, queue=queue, project=project):
        raise unknown_job(str(job), denied=permission)
    raise denied(
        permission,
        f"job {job} belongs to {owner}; you lack the permission {permission}",
        code=RefusalCode.NOT_YOURS,
        about=f"job {job}",
    )


def unknown_job(text: str, *, denied: str = "") -> ProblemError:
    """Return the refusal of a job that does not exist, or (``denied``) may not be known to."""
    problem = make_problem(
        RefusalCode.UNKNOWN_JOB, f"no job has the id {text}", lsf=f"Job <{text}> is not found"
    )
    return ProblemError(problem, denied=denied, about=f"job {text}" if denied else "")
