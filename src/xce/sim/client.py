"""A user of a world: submits and controls jobs, and asks again until there is an answer."""

import hashlib
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

import msgspec

from xce.control.part import as_it_is, wishes_of
from xce.model.command import (
    Accepted,
    AdoptStrangers,
    ApplyConfig,
    Command,
    DeclareHostsLost,
    DeleteGroups,
    EndStrangers,
    KillJobs,
    MakeHostToken,
    Modification,
    ModifyJobs,
    MoveJobs,
    NoteDenials,
    NoteLogin,
    PostMessage,
    RefreshLogin,
    RequeueJobs,
    ResumeJobs,
    RevokeKeys,
    RevokeLogin,
    Selection,
    SetDevicesOpen,
    SetGroup,
    SetHostsOpen,
    SetQueues,
    SignalJobs,
    StartTrace,
    StopJobs,
    StopTrace,
    SubmitJobs,
    SwitchJobs,
    TrustKey,
)
from xce.model.config import ClusterConfig
from xce.model.ids import SECOND_US, JobId, Micros, Seq
from xce.model.job import ArraySpec, JobSpec, Owner, Submission
from xce.model.permission import Denial
from xce.model.refusal import Refusal, RefusalCode
from xce.model.trace import TraceKind
from xce.net import message as m
from xce.sim.forms import Named
from xce.sim.loop import Loop, Process
from xce.sim.network import Network, Wire
from xce.sim.oracles import Truth
from xce.sim.untrue import demand

PATIENCE_US: Final = 8 * SECOND_US
REQUEUED: Final = (
    ("RUN", "USUSP", "SSUSP"),
    ("RUN", "USUSP", "SSUSP"),
    ("DONE",),
    ("EXIT", "DONE"),
    ("PEND", "RUN", "EXIT"),
)
"""In which states users requeue jobs."""


_TOLD: Final = {"run_limit_us": "run_limit_s", "request": "resreq", "deadline_us": "deadline_at"}
"""What a user calls members of a submission."""


def _program(script: bytes) -> dict[str, str]:
    """Return what of a spec says that a script runs."""
    digest = hashlib.blake2b(script, digest_size=16).hexdigest()
    return {"command": script.decode(), "script": digest}


class Wish(msgspec.Struct):
    """One thing that a user wants, until it is answered."""

    make: Callable[[], Command]
    key: str = ""
    asked: int = 0
    """Id of the last question; 0: none."""
    results: tuple[Accepted | Refusal, ...] | None = None
    is_doubted: bool = False
    """It was answered, and is asked once more all the same."""
    change: tuple[Named, frozenset[str], Mapping[str, object]] | None = None
    """Of which elements what is changed: in the words of a submission, and to what."""


class Client(Process):
    """A user."""

    def __init__(
        self,
        loop: Loop,
        network: Network,
        rng: Random,
        truth: Truth,
        *,
        owner: Owner,
        wall_us: Callable[[], Micros],
        is_admin: bool = False,
        role: str = "apiserver",
    ) -> None:
        super().__init__(loop)
        self.owner = owner
        self.jobs: list[JobId] = []
        self.wishes: list[Wish] = []
        self.is_admin = is_admin
        self.starts_tasks = False
        """Whether its parallel jobs start tasks on their other hosts."""
        self.keeps_groups = False
        """Whether it makes job groups in which there are no jobs, and deletes them."""
        self.sets_deadlines = False
        self._role = role
        self._network = network
        self._rng = rng
        self._truth = truth
        self._wall_us = wall_us
        self._wire: Wire | None = None
        self._is_welcome = False
        self._asked = 0
        self._by_id: dict[int, tuple[Wish, Seq]] = {}
        """What each question was about, with the last durable entry then: a wish is asked again
        before an earlier question is answered, when the journal was full or a wire was lost."""
        self._dial()

    @property
    def is_content(self) -> bool:
        """Whether every wish was answered."""
        return all(wish.results is not None and not wish.is_doubted for wish in self.wishes)

    def go_back(self) -> None:
        """Learn that the journal was restored: what it lacks is forgiven."""
        known = self._truth.jobs.keys()
        for wish in self.wishes:
            found = wish.results or ()
            jobs = {one.job for one in found if isinstance(one, Accepted)}
            wish.is_doubted = wish.is_doubted and jobs <= known

    # Wishes.

    def submit(self, *jobs: Submission, blobs: tuple[tuple[str, bytes], ...] = ()) -> None:
        """Wish that jobs run."""
        seconds = self._wall_us() // SECOND_US
        key = f"{seconds}-{self.owner.user}{len(self.wishes)}"

        def make() -> SubmitJobs:
            return SubmitJobs(self.owner, jobs, blobs, key, wall_us=self._wall_us())

        self._wish(Wish(make, key))

    def control(self, kind: type[Command], selection: Selection, *, signal: int = 10) -> None:
        """Wish that something is done to jobs."""
        by, admin = self.owner.user, self.is_admin
        states = self._rng.choice(REQUEUED)
        make: dict[type, Callable[[], Command]] = {
            KillJobs: lambda: KillJobs(by, admin, selection),
            StopJobs: lambda: StopJobs(by, admin, selection),
            ResumeJobs: lambda: ResumeJobs(by, admin, selection),
            RequeueJobs: lambda: RequeueJobs(by, admin, selection, states, signal == 15),
            SignalJobs: lambda: SignalJobs(by, admin, selection, signal),
        }
        self._wish(Wish(make[kind]))

    def declare_lost(self, names: tuple[str, ...]) -> None:
        """Wish that hosts are given up."""
        self._wish(Wish(lambda: DeclareHostsLost(self.owner.user, names, is_admin=True)))

    def end_strangers(self, names: tuple[str, ...]) -> None:
        """Wish that hosts are rid of what a restored journal does not know."""
        self._wish(Wish(lambda: EndStrangers(self.owner.user, names, is_admin=True)))

    def adopt_strangers(self, names: tuple[str, ...]) -> None:
        """Wish that what hosts run that a restored journal does not know is taken up again."""
        self._wish(Wish(lambda: AdoptStrangers(self.owner.user, names, is_admin=True)))

    def array_of(self, job: JobId) -> tuple[JobId, ArraySpec] | None:
        """Return a job with its elements, if it is an array that the cluster knows."""
        found = self._truth.state.jobs.get(job)
        return None if found is None or found.array is None else (job, found.array)

    def move(self, job: JobId, *, to_top: bool, position: int) -> None:
        """Wish that a job stands elsewhere in its queue."""
        by, admin = self.owner.user, self.is_admin
        selection = Selection(jobs=((job, ()),))
        self._wish(Wish(lambda: MoveJobs(by, admin, selection, to_top, position)))

    def switch(self, named: Named, queue: str) -> None:
        """Wish that a job, or some elements of one, are in another queue."""
        by, admin = self.owner.user, self.is_admin
        selection = Selection(jobs=(named,))
        change = (named, frozenset({"queue"}), {"queue": queue})
        self._wish(Wish(lambda: SwitchJobs(by, admin, selection, queue), change=change))

    def modify(self, named: Named, script: bytes = b"", **changed: object) -> None:
        """Wish that members of a submission are others, or that another script runs."""
        by, admin, state = self.owner.user, self.is_admin, self._truth.state
        job, runs = named
        of_spec: dict[str, object] = {**(_program(script) if script else {})}
        words = (*changed, "command") if script else tuple(changed)
        told = tuple(_TOLD.get(word, word) for word in words)
        others = [word for word in changed if word not in Submission.__struct_fields__]
        of_spec |= {word: changed.pop(word) for word in others}

        def make() -> ModifyJobs:
            found = state.jobs.get(job)
            if found is None:
                item = Modification(job, 0, 0, Submission(JobSpec()))
                return ModifyJobs(by, admin, (item,), ("queue",))
            limit = found.array.limit if found.array is not None else 0
            items = []
            for wish in wishes_of(found, runs):
                before = as_it_is(state, found, wish.form)
                spec = msgspec.structs.replace(before.spec, **of_spec)
                wanted = msgspec.structs.replace(before, spec=spec, **changed)
                items.append(wish.modification(found, wanted, limit))
            blobs = ((str(of_spec["script"]), script),) if script else ()
            return ModifyJobs(by, admin, tuple(items), told, ", ".join(told), blobs)

        change = (named, frozenset(told), {**changed, **of_spec})
        self._wish(Wish(make, change=change))

    def regroup(self, name: str, limit: int | None, rng: Random) -> None:
        """Wish that a job group is there, has another limit, or (None) is there no more."""
        by, admin = self.owner.user, self.is_admin
        is_new = rng.random() < 0.5
        if limit is None:
            wanted: Command = DeleteGroups(by, admin, "" if is_new else name)
        else:
            wanted = SetGroup(by, admin, name, limit, is_new)
        self._wish(Wish(lambda: wanted))

    def keep_groups(self, dice: Random) -> None:
        """Wish that a job group without jobs is there, or that such ones are there no more."""
        by, admin = self.owner.user, self.is_admin
        name = dice.choice(("/idle", "/idle", "/idle/below", "/c"))
        wanted: Command = SetGroup(by, admin, name, dice.choice((-1, 1, 3)), dice.random() < 0.8)
        if dice.random() < 0.5:
            name = dice.choice(("", name))
            wanted = DeleteGroups(by, admin, name, below=bool(name) and dice.random() < 0.5)
        self._wish(Wish(lambda: wanted))

    def open_devices(self, host: str, devices: tuple[str, ...], *, is_open: bool = True) -> None:
        """Wish that GPUs of a host are open, or closed."""
        by = self.owner.user
        self._wish(Wish(lambda: SetDevicesOpen(by, host, devices, is_open, is_admin=True)))

    def open_hosts(self, names: tuple[str, ...], *, is_open: bool = True) -> None:
        """Wish that hosts are open, or closed."""
        self._wish(Wish(lambda: SetHostsOpen(self.owner.user, names, is_open, is_admin=True)))

    def switch_queues(self, names: tuple[str, ...], *, is_active: bool = True) -> None:
        """Wish that the jobs of queues may start, or may not."""
        self._wish(
            Wish(lambda: SetQueues(self.owner.user, names, is_active=is_active, is_admin=True))
        )

    def configure(self, config: Callable[[], ClusterConfig]) -> None:
        """Wish that the newest configuration is in effect."""
        self._wish(Wish(lambda: ApplyConfig(self.owner.user, config(), is_admin=True)))

    def trust(self, certificate: bytes, host: str, *, for_us: Micros = 0) -> None:
        """Wish that the key of a host is trusted, for a while or for ever."""
        by = self.owner.user
        expires_at_us = self._wall_us() + for_us if for_us else 0
        self._wish(Wish(lambda: TrustKey(by, certificate, "worker", host, expires_at_us)))

    def expect(self, token: str, digest: str, host: str, *, for_us: Micros) -> None:
        """Wish that a host may enrol with a token."""
        by, until_us = self.owner.user, self._wall_us() + for_us
        self._wish(Wish(lambda: MakeHostToken(by, token, digest, host, until_us)))

    def revoke(self, key: str) -> None:
        """Wish that a key is never trusted again."""
        self._wish(Wish(lambda: RevokeKeys(self.owner.user, (key,))))

    def note_something(self, dice: Random) -> None:
        """Wish that something is kept that no job feels."""
        by, number = self.owner.user, len(self.wishes)
        later_us = self._wall_us() + dice.choice((1, 60)) * SECOND_US
        of_admins: tuple[Command, ...] = (
            MakeHostToken(by, f"token{number}", "digest", "h1", later_us),
        )
        of_users: tuple[Command, ...] = (
            StartTrace(by, self.is_admin, TraceKind.USER, 5 * SECOND_US, name=by),
            StopTrace(by, self.is_admin),
            NoteLogin(by, f"session{number}", "test"),
            RefreshLogin(by, "session", dice.randrange(2), self._wall_us(), later_us),
            RevokeLogin(by, by, wall_us=self._wall_us()),
            SetGroup(by, self.is_admin, "/paper"),
            DeleteGroups(by, self.is_admin, ""),
            PostMessage(by, self.is_admin, dice.choice(self.jobs or [1]), 0, f"text {number}"),
            NoteDenials((Denial(by, "kill-jobs", "", "alice", 1, later_us),)),
        )
        command = dice.choice(of_admins if self._role == "admin" else of_users)
        self._wish(Wish(lambda: command))

    def some_job(self) -> Named | None:
        """Return one of this user's jobs, or some of its elements."""
        if not self.jobs:
            return None
        lately = self._rng.random() < 0.7
        job = self._rng.choice(self.jobs[-3:] if lately else self.jobs)
        if self._rng.random() < 0.5:
            return job, ()
        first = self._rng.randrange(8)
        return job, ((first, first + self._rng.randrange(4)),)

    def _wish(self, wish: Wish) -> None:
        self.wishes.append(wish)
        self._ask(wish)

    def _ask(self, wish: Wish) -> None:
        if self._wire is None or not self._is_welcome:
            return
        if wish.results is not None and not wish.is_doubted:
            return  # it was doubted before the journal was restored
        self._asked += 1
        wish.asked = self._asked
        self._by_id[self._asked] = wish, self._truth.state.seq
        self._wire.send(self, m.Ask(self._asked, wish.make(), self.owner.user, "owner"))
        self.after(PATIENCE_US, self._lose_patience, wish, self._asked)

    def _lose_patience(self, wish: Wish, asked: int) -> None:
        is_open = wish.results is None or wish.is_doubted
        if is_open and wish.asked == asked and self._wire is not None:
            wire = self._wire
            wire.close(self)
            self.lose(wire)

    # The connection.

    def _dial(self) -> None:
        self._network.dial(self._role, self.owner.user, self, self._dialled, self)

    def _dialled(self, wire: Wire | None) -> None:
        self._wire = wire
        if wire is None:
            self.after(100_000 + self._rng.randrange(400_000), self._dial)

    def hang_up(self) -> None:
        """Hear nothing more on the present connection."""
        wire = self._wire
        if wire is not None:
            wire.close(self)
            self.lose(wire)

    def lose(self, wire: Wire) -> None:
        """Learn that the connection has ended."""
        if wire is self._wire:
            self._wire = None
            self._is_welcome = False
            self.after(self._rng.randrange(500_000), self._dial)

    def hear(self, wire: Wire, message: object) -> None:
        """Take an answer."""
        if wire is not self._wire:
            return
        match message:
            case m.Welcome():
                self._is_welcome = True
                for wish in self.wishes:
                    if wish.results is None or wish.is_doubted:
                        self._ask(wish)
            case m.Answer():
                self._take(*self._by_id.pop(message.id), message)
            case _:
                raise AssertionError(f"a client is told {message!r}")

    def _take(self, wish: Wish, asked_seq: Seq, answer: m.Answer) -> None:
        truth = self._truth
        codes = {item.code for item in answer.results if isinstance(item, Refusal)}
        if RefusalCode.JOURNAL_FULL in codes:
            self.after(SECOND_US, self._ask, wish)
            return
        demand(answer.seq <= truth.state.seq, "an answer came before its entry was durable")
        demand(RefusalCode.KEY_EXPIRED not in codes, "a key of now is said to be too old")
        if wish.change is not None and all(isinstance(one, Accepted) for one in answer.results):
            truth.forms.check_told(*wish.change, asked_seq, answer.seq)
        if not wish.key:
            wish.results = answer.results
            return
        ids = [item.job for item in answer.results if isinstance(item, Accepted)]
        for job in ids:
            demand(job in truth.jobs, f"job {job} is acknowledged and not in the journal")
        if wish.results is not None:
            before = [item.job for item in wish.results if isinstance(item, Accepted)]
            demand(before == ids, f"one key gave jobs {before} and {ids}")
            wish.is_doubted = False
            return
        wish.results = answer.results
        self.jobs.extend(ids)
        if self._rng.random() < 0.1:
            wish.is_doubted = True
            self.after(self._rng.randrange(2 * SECOND_US), self._ask, wish)
