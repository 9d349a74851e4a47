"""Every role against every message, command and observation: the table, and nothing else."""

import typing

import pytest

from xce.model.command import (
    ApplyConfig,
    Command,
    DeclareHostsLost,
    EndStrangers,
    EnrolHost,
    KillJobs,
    MakeHostToken,
    NoteDenials,
    ProposePlan,
    RequeueJobs,
    ResolveWindows,
    RevokeKeys,
    Selection,
    SetHostsOpen,
    SubmitJobs,
    Tick,
    TrustKey,
)
from xce.model.config import ClusterConfig
from xce.model.job import Owner
from xce.model.load import INDICES
from xce.model.observation import (
    HostDisconnected,
    HostJoined,
    LoadSeen,
    Observation,
    ReignBegan,
    Reported,
)
from xce.model.plan import Plan
from xce.model.task import EndTask
from xce.net import message as m
from xce.net.allowlist import ALLOWED, OF_ADMINS, OF_USERS, Gate

CLIENTS_NEVER_SAY = {
    m.Hello, m.Welcome, m.Refused, m.Answer, m.SnapshotPart, m.Batch, m.CaughtUp, m.ReportsTaken,
    m.Effects, m.Blobs, m.Pong, m.Enrol, m.Enrolled, m.ControllerKeys, m.KeyList, m.PeerList,
    m.JournalTrouble,
}  # fmt: skip
"""Answers, the first words, and what only controllers say."""
NOBODY_ASKS = {Tick, ResolveWindows, EnrolHost}
"""Commands that the controller's own shell makes."""
JOINED = m.Observe(HostJoined("h1", "boot", 4, 1024))
OWNER = Owner("ann", 1001, 1001)
COMMANDS: dict[type, Command] = {
    SubmitJobs: SubmitJobs(OWNER, ()),
    KillJobs: KillJobs("ann", False, Selection()),
    RequeueJobs: RequeueJobs("ann", False, Selection()),
    SetHostsOpen: SetHostsOpen("ann", ("h1",), True),
    DeclareHostsLost: DeclareHostsLost("ann", ("h1",)),
    EndStrangers: EndStrangers("ann", ("h1",)),
    ApplyConfig: ApplyConfig("ann", ClusterConfig()),
    TrustKey: TrustKey("ann", b"", "worker", "h1"),
    RevokeKeys: RevokeKeys("ann", ()),
    MakeHostToken: MakeHostToken("ann", "t", "d", "h1", 1),
    ProposePlan: ProposePlan(Plan(0, 0, 0)),
    Tick: Tick(),
    ResolveWindows: ResolveWindows(()),
    EnrolHost: EnrolHost("t", "d", "h1", b""),
}
_USERS = {
    SubmitJobs,
    KillJobs,
    RequeueJobs,
    SetHostsOpen,
    DeclareHostsLost,
    EndStrangers,
    ApplyConfig,
}
_ADMINS = {
    SetHostsOpen,
    DeclareHostsLost,
    EndStrangers,
    ApplyConfig,
    TrustKey,
    RevokeKeys,
    MakeHostToken,
}
MAY_ASK = {
    "apiserver": _USERS,
    "scheduler": {ProposePlan},
    "admin": _ADMINS,
    "test": _USERS | _ADMINS,
}


def test_every_role_has_a_row():
    assert set(ALLOWED) == set(m.ROLES)


def test_every_message_is_somebodys_or_the_controllers_alone():
    said = {kind for rights in ALLOWED.values() for kind in rights.messages}
    assert said.isdisjoint(CLIENTS_NEVER_SAY)
    assert said | CLIENTS_NEVER_SAY == set(typing.get_args(m.Message))


def test_every_command_is_somebodys_or_the_shells_alone():
    asked = {kind for rights in ALLOWED.values() for kind in rights.commands}
    assert asked.isdisjoint(NOBODY_ASKS)
    assert asked | NOBODY_ASKS == set(typing.get_args(Command))
    assert {*OF_USERS, *OF_ADMINS, ProposePlan} >= asked - set(ALLOWED["apiserver"].commands)


def test_only_workers_report_and_none_that_its_connection_ended():
    reported = {role: set(rights.observations) for role, rights in ALLOWED.items()}
    assert reported.pop("worker") == set(typing.get_args(Observation)) - {
        HostDisconnected,
        ReignBegan,
        LoadSeen,
    }
    assert not any(reported.values())


@pytest.mark.parametrize("role", m.ROLES)
@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_a_role_asks_for_its_own_commands_only(role, kind):
    ask = m.Ask(1, COMMANDS[kind], "ann", "owner")
    refusal = Gate(role, "h1").refuse(ask)
    assert (refusal == "") == (kind in MAY_ASK.get(role, set())), refusal


@pytest.mark.parametrize("role", m.ROLES)
def test_only_workers_observe(role):
    assert (Gate(role, "h1").refuse(JOINED) == "") == (role == "worker")


@pytest.mark.parametrize(
    ("by", "basis"), [("", "owner"), ("ann", ""), ("ann", "component"), ("ann", "direct")]
)
def test_an_apiserver_says_who_asks_and_on_what_basis(by, basis):
    ask = m.Ask(1, COMMANDS[KillJobs], by, basis)
    assert Gate("apiserver", "a").refuse(ask)


def test_what_an_apiserver_asks_for_names_one_user_and_at_no_great_length():
    gate = Gate("apiserver", "a")
    for command in (COMMANDS[KillJobs], COMMANDS[SubmitJobs], COMMANDS[ApplyConfig]):
        assert gate.refuse(m.Ask(1, command, "ann", "owner", "10.0.0.1")) == ""
        assert "names another user" in gate.refuse(m.Ask(1, command, "bob", "owner"))
        for long in (("ann", "x" * 513, ""), ("ann", "owner", "x" * 513)):
            assert "too long a text" in gate.refuse(m.Ask(1, command, *long))
    assert gate.refuse(m.Ask(1, NoteDenials(()), "apiserver", "apiserver")) == ""


def test_a_worker_reports_about_its_own_host_only():
    gate = Gate("worker", "h2")
    assert "that host only" in gate.refuse(JOINED)
    assert "that host only" in gate.refuse(m.Observe(Reported("h1", 1)))
    for seen in (HostDisconnected("h2"), ReignBegan(), LoadSeen(("h2",), ())):
        assert "may not report" in gate.refuse(m.Observe(seen))


def test_an_order_about_a_task_comes_once_on_a_connection():
    gate = Gate("worker", "h1")
    for number in (1, 2, 5):
        ask = m.TaskAsk(number, "h2", 1, 0, 1, EndTask("t"))
        assert gate.refuse(ask) == ""
        assert "came behind" in gate.refuse(ask)
    assert "may not send" in Gate("apiserver", "a").refuse(ask)


def test_only_a_worker_tells_a_load_and_it_must_be_one():
    load = (100,) * len(INDICES)
    assert Gate("worker", "h1").refuse(m.Ping(1, load)) == ""
    assert Gate("worker", "h1").refuse(m.Ping(1)) == ""
    assert "may not tell the load" in Gate("apiserver", "a").refuse(m.Ping(1, load))
    for wrong in (load[1:], (*load[1:], -2), (*load[1:], 2**62)):
        assert "it is none" in Gate("worker", "h1").refuse(m.Ping(1, wrong))


def test_a_worker_joins_once_and_first():
    gate = Gate("worker", "h1")
    assert gate.refuse(m.Observe(Reported("h1", 1)))
    assert gate.refuse(JOINED) == ""
    assert "joins once" in gate.refuse(JOINED)


def test_a_report_that_comes_again_is_refused():
    gate = Gate("worker", "h1")
    assert gate.refuse(JOINED) == ""
    assert gate.refuse(m.Observe(Reported("h1", 1))) == ""
    assert gate.refuse(m.Observe(Reported("h1", 2))) == ""
    assert "report 2 came where 3 belongs" in gate.refuse(m.Observe(Reported("h1", 2)))
    assert gate.refuse(m.Observe(Reported("h1", 1)))
