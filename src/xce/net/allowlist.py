"""What each role may say to the controller: one table; everything else is refused.

It holds for every connection, also for those of the same machine. `Gate` stands in front of one
connection and applies the table to it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from xce.model.command import (
    AdoptStrangers,
    ApplyConfig,
    Command,
    DeclareHostsLost,
    DeleteGroups,
    EndStrangers,
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
    TrustKey,
)
from xce.model.load import is_sample
from xce.model.observation import HostJoined, LoadSeen, ReignBegan, Reported
from xce.model.trust import TEST
from xce.net import message as m
from xce.net.bounds import refuse_observation


class Rights(NamedTuple):
    """What a role may say."""

    messages: tuple[type, ...]
    commands: tuple[type, ...] = ()
    """What it may ask for in `xce.net.message.Ask`."""
    observations: tuple[type, ...] = ()
    """What it may report, about itself only."""
    speaks_for_users: bool = False
    """Whether it says who asks and on what basis; else it asks in its own name."""
    frame_max: int = m.FRAME_MAX
    """Longest frame that is taken from it, in bytes."""


OF_USERS: Final[tuple[type, ...]] = (
    SubmitJobs, KillJobs, SignalJobs, StopJobs, ResumeJobs, MoveJobs, RequeueJobs, SwitchJobs,
    ForceJob, ModifyJobs, PostMessage, SetGroup, DeleteGroups, SetHostsOpen, DeclareHostsLost,
    EndStrangers, SetQueues, ApplyConfig, RevokeLogin, RefreshLogin, NoteDenials, NoteLogin,
    StartTrace, StopTrace, SetDevicesOpen, AdoptStrangers,
)  # fmt: skip
"""Commands of users, who are known to apiservers only."""
OF_ADMINS: Final[tuple[type, ...]] = (
    ApplyConfig, SetHostsOpen, DeclareHostsLost, EndStrangers, TrustKey, RevokeKeys, MakeHostToken,
    SetDevicesOpen, AdoptStrangers,
)  # fmt: skip

WORKER_FRAME_MAX: Final = 4 * 1024 * 1024
"""Room for a piece of output, or for some 200,000 attempts."""
SMALL_FRAME_MAX: Final = 64 * 1024

ALLOWED: Final[Mapping[str, Rights]] = {
    "apiserver": Rights(
        (m.Ask, m.Follow, m.ReadOutput, m.ReadUsage, m.TerminalAsk, m.FetchBlobs, m.Ping),
        OF_USERS,
        speaks_for_users=True,
    ),
    "scheduler": Rights((m.Ask, m.Follow, m.Ping), (ProposePlan, StopTrace)),
    "worker": Rights(
        (
            m.Observe,
            m.FetchBlobs,
            m.OutputChunk,
            m.HostUsage,
            m.TerminalPiece,
            m.TaskAsk,
            m.TaskPiece,
            m.Ping,
        ),
        observations=(HostJoined, Reported),
        frame_max=WORKER_FRAME_MAX,
    ),
    "history": Rights((m.Follow, m.FollowedTo, m.FetchBlobs, m.Ping)),
    "standby": Rights((m.Follow, m.FetchBlobs, m.Ping)),
    "node-manager": Rights((m.Ping,), frame_max=SMALL_FRAME_MAX),
    "proxy": Rights((m.Ping,), frame_max=SMALL_FRAME_MAX),
    "admin": Rights((m.Ask, m.Follow, m.FetchBlobs, m.ListKeys, m.ListPeers, m.Ping), OF_ADMINS),
    TEST: Rights(
        (
            m.Ask,
            m.Follow,
            m.ReadOutput,
            m.ReadUsage,
            m.TerminalAsk,
            m.FetchBlobs,
            m.ListKeys,
            m.ListPeers,
            m.Ping,
        ),
        tuple(dict.fromkeys((*OF_USERS, *OF_ADMINS))),
        speaks_for_users=True,
    ),
}
"""A standby follows and takes over by the journal's lease; proxies and node managers have nothing
to ask for in this release."""

ASKER_MAX: Final = 512
"""Longest name of who asks, ground, and place where he is."""
RESERVED_BASES: Final = ("component", "direct")
"""Bases that the controller itself writes: no peer may name them."""


def _asker(command: Command, otherwise: str) -> str:
    """Return who asks by the command's own word: the journal must not name two."""
    if isinstance(command, SubmitJobs):
        return command.owner.user
    by: str = getattr(command, "by", otherwise)
    return by


class Gate:
    """Judges what one connection says.

    Args:
        role: Of the peer, as it was found to be.
        name: Of the peer; a worker's is its host.
    """

    def __init__(self, role: str, name: str) -> None:
        self.role = role
        self.name = name
        self._rights = ALLOWED[role]
        self._has_joined = False
        self._last_report = 0
        self._last_task_ask = 0

    def refuse(self, message: m.Message) -> str:
        """Return why the peer may not say this now, for people; empty: it may."""
        kind = type(message)
        if kind not in self._rights.messages:
            return f"a {self.role} may not send {kind.__name__}"
        if isinstance(message, m.Ping):
            return self._refuse_load(message) if message.load else ""
        if isinstance(message, m.Ask):
            return self._refuse_ask(message.command, message)
        if isinstance(message, m.Observe):
            return self._refuse_observation(message)
        if isinstance(message, m.TaskAsk):
            return self._refuse_task_ask(message)
        return ""

    def _refuse_task_ask(self, ask: m.TaskAsk) -> str:
        """Nothing is asked twice on one connection: a task that is over would be started again."""
        if ask.id <= self._last_task_ask:
            return f"order {ask.id} about a task came behind {self._last_task_ask}"
        self._last_task_ask = ask.id
        return ""

    def _refuse_load(self, message: m.Ping) -> str:
        if self.role != "worker":
            return f"a {self.role} may not tell the load of a host"
        return "" if is_sample(message.load) else "a load is refused: it is none"

    def _refuse_ask(self, command: Command, ask: m.Ask) -> str:
        kind = type(command)
        if kind not in self._rights.commands:
            return f"a {self.role} may not ask for {kind.__name__}"
        if self._rights.speaks_for_users and self.role != TEST:
            if not ask.by or not ask.basis:
                return f"{kind.__name__} came without who asks and on what basis"
            if ask.basis in RESERVED_BASES:
                return f"a {self.role} may not name the basis {ask.basis}"
            if max(map(len, (ask.by, ask.basis, ask.origin))) > ASKER_MAX:
                return f"{kind.__name__} came with too long a text about who asks"
            if _asker(command, ask.by) != ask.by:
                return f"{kind.__name__} names another user than the one who asks"
        return ""

    def _refuse_observation(self, message: m.Observe) -> str:
        seen = message.observation
        kind = type(seen).__name__
        if not isinstance(seen, self._rights.observations):
            return f"a {self.role} may not report {kind}"
        if isinstance(seen, ReignBegan | LoadSeen) or seen.host != self.name:
            return f"the worker of host {self.name} may report about that host only"
        refusal = refuse_observation(seen)
        if refusal:
            return f"a {kind} is refused: {refusal}"
        if isinstance(seen, HostJoined):
            if self._has_joined:
                return "a worker joins once on a connection"
            self._has_joined = True
        elif isinstance(seen, Reported):
            # On one connection nothing comes twice: what does was not sent by the worker.
            if not self._has_joined or seen.number != self._last_report + 1:
                return f"report {seen.number} came where {self._last_report + 1} belongs"
            self._last_report = seen.number
        return ""
