"""The controller: inputs to entries, replies and what is newly owed. One thread, no I/O.

The same object is driven by the daemon (sockets, disk, clock), by the deterministic cluster test
and by replay. It applies at once and goes on deciding; the shell lets replies, effects and
followers see a batch only when it is durable.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

import msgspec

from xce.control import (
    access,
    devices,
    force,
    groups,
    hosts,
    kill,
    modify,
    move,
    post,
    queues,
    requeue,
    switch,
    trust,
    windows,
)
from xce.control.accept import decide_plan
from xce.control.adopt import decide_adoption
from xce.control.checkpoint import decide_checkpoint
from xce.control.consequences import decide_consequences
from xce.control.due import decide_tick
from xce.control.effects import Touched, is_told_anew, render_effects, render_stale, touch
from xce.control.load import decide_load
from xce.control.observe import decide_reported
from xce.control.selection import Selected, select, still_in_state
from xce.control.slices import JobControl, Results, Slices
from xce.control.submit import basis_of_submit, decide_submit
from xce.control.trace import decide_start, decide_stop
from xce.model.checkpoint import is_checkpoint
from xce.model.command import (
    Accepted,
    AdoptStrangers,
    ApplyConfig,
    Command,
    DeclareHostsLost,
    DeleteGroups,
    EndStrangers,
    EnrolHost,
    ForceJob,
    KillJobs,
    MakeHostToken,
    ModifyJobs,
    MoveJobs,
    NoteDenials,
    NoteLogin,
    PostMessage,
    ProposePlan,
    RefreshLogin,
    RequeueJobs,
    ResolveWindows,
    ResumeJobs,
    RevokeKeys,
    RevokeLogin,
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
    Tick,
    TrustKey,
)
from xce.model.effect import Effect
from xce.model.entry import Cause, Entry
from xce.model.host_record import AdoptionAsked, HostsLost, HostUp, PartsLeft
from xce.model.ids import HostNumber, Micros, Seq
from xce.model.observation import (
    HostDisconnected,
    HostJoined,
    LoadSeen,
    Observation,
    ReignBegan,
    Reported,
)
from xce.model.record import Record
from xce.model.refusal import Refusal, RefusalCode
from xce.state.apply import apply_records, begin_entry
from xce.state.cluster import ClusterState

Setup: TypeAlias = (
    SetHostsOpen
    | SetDevicesOpen
    | SetQueues
    | DeclareHostsLost
    | EndStrangers
    | AdoptStrangers
    | ApplyConfig
    | ResolveWindows
    | NoteDenials
    | NoteLogin
    | RevokeLogin
    | RefreshLogin
    | TrustKey
    | RevokeKeys
    | MakeHostToken
    | EnrolHost
    | PostMessage
    | ForceJob
    | SetGroup
    | DeleteGroups
    | StartTrace
    | StopTrace
)


class Input(msgspec.Struct, frozen=True):
    """Something to decide, and the caller's ticket by which its reply is known."""

    body: Command | Observation
    by: str = ""
    basis: str = ""
    ticket: int = 0
    """0: nobody waits for a reply."""
    origin: str = ""
    """Where a user's command came from."""


class Reply(msgspec.Struct, frozen=True):
    """What came of an input; to be told when entry ``seq`` is durable."""

    ticket: int
    seq: Seq
    results: tuple[Accepted | Refusal, ...]


class Step(msgspec.Struct, frozen=True):
    """What one step gave. All of it waits for the commit of ``entries``."""

    entries: tuple[Entry, ...]
    replies: tuple[Reply, ...]
    effects: tuple[tuple[HostNumber, tuple[Effect, ...]], ...]
    blobs: tuple[tuple[str, bytes], ...]


def with_basis(given: Input, basis: str) -> Input:
    """Return an input with the ground on which it was found to be allowed now.

    What a component says of its own accord, or what came past the apiserver, keeps its word for it.
    """
    if not basis or basis == given.basis or given.basis in ("component", "direct"):
        return given
    return msgspec.structs.replace(given, basis=basis)


def _asked(state: ClusterState, records: Sequence[Record]) -> Iterator[tuple[HostNumber, None]]:
    """Yield the hosts that are to be told something beside effects about what lives there."""
    for one in records:
        match one:
            case PartsLeft():
                yield from dict.fromkeys(one.hosts).items()
            case AdoptionAsked():
                yield one.host, None
            case HostUp() | HostsLost():
                # What waited for this host may be adopted now, or cannot be.
                yield from dict.fromkeys(state.hosts.adopting).items()
            case _:
                pass


class Controller:
    """Decides and applies. ``state`` may be read between steps; it is ahead of what is durable."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.halted = ""
        """Why nothing is started; empty: what is planned is."""
        self._entries: list[Entry] = []
        self._replies: list[Reply] = []
        self._blobs: list[tuple[str, bytes]] = []
        self._touched: Touched = {}
        self._fencing: dict[HostNumber, None] = {}
        """Hosts that came with something stale, or are asked what their strangers are."""
        self._controls: deque[tuple[Input, Slices]] = deque()
        """Commands about many jobs of which slices are still to be decided."""

    @property
    def has_more(self) -> bool:
        """Whether slices of an earlier command wait for the next step."""
        return bool(self._controls)

    def step(self, inputs: Sequence[Input], now_us: Micros) -> Step:
        """Decide ``inputs`` in order and return what follows.

        Args:
            inputs: What came since the last step.
            now_us: The instant of this step; never before the last one's.
        """
        assert now_us >= self.state.now_us, "the clock went back"
        if self._controls:
            self._decide_slice(now_us)
        for given in inputs:
            self._decide(given, now_us)
        effects = self._take_effects() if self._touched or self._fencing else ()
        step = Step(tuple(self._entries), tuple(self._replies), effects, tuple(self._blobs))
        self._entries, self._replies, self._blobs = [], [], []
        return step

    def _take_effects(self) -> tuple[tuple[HostNumber, tuple[Effect, ...]], ...]:
        """Return what hosts are to be told that something was decided about."""
        touched, self._touched = self._touched, {}
        fencing, self._fencing = self._fencing, {}
        effects = [(host, render_stale(self.state, host)) for host in sorted(fencing)]
        effects.extend(
            (host, render_effects(self.state, places)) for host, places in sorted(touched.items())
        )
        return tuple((host, found) for host, found in effects if found)

    def _decide(self, given: Input, now_us: Micros) -> None:
        body = given.body
        results: Results = []
        match body:
            case Reported():
                for told in body.told:
                    # An entry for each: what one holds is not free for the next.
                    self._take(given, decide_adoption(self.state, body.host, told, now_us), now_us)
                records = decide_reported(self.state, body, now_us)
            case ProposePlan() if self.halted:
                records, results = [], [Refusal(RefusalCode.WRONG_STATE, self.halted)]
            case ProposePlan():
                records = decide_plan(self.state, body.plan, now_us)
            case SubmitJobs():
                records, results = decide_submit(self.state, body, now_us)
                given = with_basis(given, basis_of_submit(self.state, body, results))
                if records:
                    self._blobs.extend(body.blobs)
            case ModifyJobs():
                self._modify(given, body, now_us)
                return
            case (
                KillJobs() | SignalJobs() | StopJobs() | ResumeJobs() | RequeueJobs() | MoveJobs()
                | SwitchJobs()
            ):  # fmt: skip
                self._begin_control(given, body, now_us)
                return
            case Tick():
                records = decide_tick(self.state, body, now_us)
            case LoadSeen():
                records = decide_load(self.state, body)
            case HostJoined() | HostDisconnected() | ReignBegan():
                records = self._hear_of_host(body, results, now_us)
            case _:
                given, records, results = self._decide_setup(given, body, now_us)
        self._take(given, records, now_us)
        self._reply(given, results)

    def _modify(self, given: Input, command: ModifyJobs, now_us: Micros) -> None:
        """Change jobs, an entry for each: what one was may be what the next one shall be."""
        refusal = modify.find_refusal(self.state, command, now_us)
        if refusal is not None:
            self._reply(given, [refusal for _ in command.jobs])
            return
        results: Results = []
        for item in command.jobs:
            basis = modify.basis_of_modification(self.state, command, item.job)
            records, result = modify.decide_modification(self.state, command, item, now_us)
            results.append(result)
            if records:
                self._blobs.extend(command.blobs)
            self._take(with_basis(given, basis), records, now_us)
        self._reply(given, results)

    def _hear_of_host(
        self, body: HostJoined | HostDisconnected | ReignBegan, results: Results, now_us: Micros
    ) -> list[Record]:
        """Decide what connections of workers mean."""
        match body:
            case HostJoined():
                return self._join(body, results, now_us)
            case HostDisconnected():
                return hosts.decide_disconnect(self.state, body)
            case ReignBegan():
                return hosts.decide_reign(self.state, body, now_us)
            case _:
                assert_never(body)

    def _decide_setup(
        self, given: Input, body: Setup, now_us: Micros
    ) -> tuple[Input, list[Record], Results]:
        """Decide what is about the cluster itself, its users and its components."""
        state = self.state
        match body:
            case SetHostsOpen() | DeclareHostsLost() | EndStrangers() | AdoptStrangers():
                given = with_basis(given, hosts.basis_of(state, body))
                records, results = hosts.decide_hosts(state, body, now_us)
            case SetDevicesOpen():
                records, results = devices.decide_devices(state, body)
                given = with_basis(given, hosts.basis_of(state, body))
            case SetQueues():
                records, results = queues.decide_queues(state, body)
                given = with_basis(given, queues.basis_of(state, body))
            case ApplyConfig():
                records, results = hosts.decide_config(state, body)
                given = with_basis(given, hosts.basis_of_config(state, body))
            case SetGroup() | DeleteGroups() | PostMessage() | ForceJob():
                return self._decide_beside(given, body, now_us)
            case ResolveWindows():
                records, results = windows.decide_windows(state, body, now_us), []
            case NoteDenials() | NoteLogin() | RefreshLogin() | RevokeLogin():
                return self._decide_access(given, body, now_us)
            case StartTrace() | StopTrace():
                if isinstance(body, StartTrace):
                    records, results = decide_start(state, body, now_us)
                else:
                    records, results = decide_stop(state, body)
            case TrustKey() | RevokeKeys() | MakeHostToken() | EnrolHost():
                records, results = trust.decide_keys(state, body, now_us)
            case _:
                assert_never(body)
        return given, records, results

    def _decide_access(
        self,
        given: Input,
        body: NoteDenials | NoteLogin | RefreshLogin | RevokeLogin,
        now_us: Micros,
    ) -> tuple[Input, list[Record], Results]:
        """Decide what is about logins of users."""
        match body:
            case NoteDenials() | NoteLogin():
                records, results = access.decide_note(body)
            case RefreshLogin():
                records, results = access.decide_refresh(self.state, body, now_us)
            case RevokeLogin():
                records, results = access.decide_revoke(self.state, body, now_us)
                given = with_basis(given, access.basis_of(self.state, body))
            case _:
                assert_never(body)
        return given, records, results

    def _decide_beside(
        self, given: Input, body: SetGroup | DeleteGroups | PostMessage | ForceJob, now_us: Micros
    ) -> tuple[Input, list[Record], Results]:
        """Decide what is about job groups, or about one job."""
        if isinstance(body, PostMessage):
            basis = post.basis_of_post(self.state, body)
            records, results = post.decide_post(self.state, body, now_us)
            self._blobs.extend(body.blobs if records else ())
        elif isinstance(body, ForceJob):
            basis = force.basis_of_force(self.state, body)
            records, results = force.decide_force(self.state, body, now_us)
        else:
            basis = groups.basis_of(self.state, body)
            records, results = groups.decide_groups(self.state, body)
        return with_basis(given, basis), records, results

    def _join(self, seen: HostJoined, results: Results, now_us: Micros) -> list[Record]:
        decided = hosts.decide_join(self.state, seen, now_us)
        if isinstance(decided, Refusal):
            results.append(decided)
            return []
        number = self.state.hosts.number[seen.host]
        self._fencing[number] = None
        self._touched.setdefault(number, {}).update(self.state.owed.get(number, {}))
        for place in self.state.on_host.get(number, ()):
            attempt = self.state.attempt(*place)
            if attempt is not None and is_told_anew(self.state, place[0], attempt):
                self._touched[number][place] = None
        return decided

    def _begin_control(self, given: Input, command: JobControl, now_us: Micros) -> None:
        with_finished = isinstance(command, RequeueJobs) and not {"DONE", "EXIT"}.isdisjoint(
            command.states
        )
        items = select(
            self.state,
            command.selection,
            actor=kill.actor_of(command),
            permission=kill.PERMISSIONS[type(command)],
            with_finished=with_finished,
        )
        self._controls.append((given, Slices(command, items, size=kill.SLICE)))
        if len(self._controls) == 1:
            self._decide_slice(now_us)

    def _decide_slice(self, now_us: Micros) -> None:
        given, slices = self._controls[0]
        piece = slices.take()
        command = slices.command
        chosen = [item for item in piece if isinstance(item, Selected)]
        if command.selection.state and not command.selection.jobs:
            chosen = list(still_in_state(self.state, chosen, command.selection.state))
        match command:
            case KillJobs():
                records, results = kill.decide_kill(
                    self.state, command, chosen, now_us, late=slices.late
                )
            case SignalJobs() if is_checkpoint(command.signal):
                records, results = decide_checkpoint(self.state, command, chosen)
            case SignalJobs():
                records, results = kill.decide_signal(self.state, command, chosen, now_us)
            case StopJobs():
                records, results = kill.decide_stop(self.state, command, chosen, now_us)
            case ResumeJobs():
                records, results = kill.decide_resume(self.state, command, chosen, now_us)
            case RequeueJobs():
                records, results = requeue.decide_requeue(self.state, command, chosen, now_us)
            case MoveJobs():
                records, results = move.decide_move(self.state, command, chosen)
            case SwitchJobs():
                records, results = switch.decide_switch(self.state, command, chosen)
            case _:
                assert_never(command)
        slices.note(piece, results)
        bases = ", ".join(sorted({item.basis for item in chosen}))
        self._take(with_basis(given, bases), records, now_us)
        if slices.is_over:
            self._controls.popleft()
            self._reply(given, slices.results())

    def _take(self, given: Input, records: list[Record], now_us: Micros) -> None:
        """Apply records and what follows from them as one entry."""
        if not records:
            return
        seq = self.state.seq + 1
        begin_entry(self.state, seq=seq, at_us=now_us)
        whole: list[Record] = []
        while records:
            apply_records(self.state, records)
            touch(self.state, records, self._touched)
            self._fencing.update(_asked(self.state, records))
            whole.extend(records)
            records = decide_consequences(self.state, records, now_us)
        kind = type(given.body).__struct_config__.tag
        cause = Cause(str(kind), given.by, given.basis, given.origin)
        self._entries.append(Entry(seq, now_us, cause, tuple(whole)))

    def _reply(self, given: Input, results: Results) -> None:
        if given.ticket:
            self._replies.append(Reply(given.ticket, self.state.seq, tuple(results)))
