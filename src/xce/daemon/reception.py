"""The controller's end of every connection: what peers say is checked and carried to the shell.

Who may come is the `Doorkeeper`'s, what he may say is `xce.net.allowlist`'s; all else is refused,
counted and logged.
"""

import asyncio
import pwd
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from xce.control.controller import Reply
from xce.daemon.controller_shell import ControllerShell
from xce.daemon.doorkeeper import Doorkeeper
from xce.daemon.host_token import digest_of
from xce.daemon.links import FollowerLink, WholeSource, WorkerLink
from xce.daemon.relays import Relays
from xce.daemon.terminal_relays import TerminalRelays
from xce.daemon.usage_relays import UsageRelays
from xce.journal.interface import JournalTroubleError
from xce.model.command import (
    AdoptStrangers,
    ApplyConfig,
    Command,
    DeclareHostsLost,
    EndStrangers,
    EnrolHost,
    MakeHostToken,
    RevokeKeys,
    SetDevicesOpen,
    SetHostsOpen,
    TrustKey,
)
from xce.model.errors import CorruptJournalError
from xce.model.ids import Seq
from xce.model.observation import HostDisconnected, HostJoined, Reported
from xce.model.refusal import Refusal
from xce.model.task import FileOrder, TaskFault
from xce.model.trust import TEST
from xce.net import message as m
from xce.net.allowlist import Gate
from xce.net.frame import WireError
from xce.net.handshake import choose_protocol
from xce.net.pacing import Pacer
from xce.net.peer import Peer
from xce.net.task_relays import TaskRelays, host_asked

HISTORY_DELAY_S: Final = 0.05
FILE_PACE_S: Final = 0.002
"""Between two pieces of files, of 64 KiB: some 30 MB/s in all are carried between hosts."""


_Relayed: TypeAlias = (
    m.ReadOutput | m.OutputChunk | m.ReadUsage | m.HostUsage | m.TerminalAsk | m.TerminalPiece
)
"""What is asked of a worker, and its answers."""


class _Guest(NamedTuple):
    """A peer that was let in."""

    peer: Peer
    gate: Gate
    version: str
    since_us: int

    @property
    def who(self) -> str:
        """Whom it acts for when it asks in its own name."""
        if self.peer.identity.how != "local":
            return self.gate.name
        try:
            return pwd.getpwuid(self.peer.uid).pw_name
        except KeyError:
            return f"user {self.peer.uid}"


class Reception:
    """Accepts peers and carries what they say to the shell."""

    def __init__(
        self, shell: ControllerShell, doorkeeper: Doorkeeper, *, cluster: str, version: str
    ) -> None:
        self.doorkeeper = doorkeeper
        self.half_open: Callable[[], int] = lambda: 0
        """Tells how many connections have not said yet who they are."""
        self._shell = shell
        self._cluster = cluster
        self._version = version
        self._guests: dict[Peer, _Guest] = {}
        self._relays = Relays()
        self._terminals = TerminalRelays()
        self._usage = UsageRelays()
        self._tasks = TaskRelays()
        self._files = Pacer(FILE_PACE_S, lambda s, do: asyncio.get_running_loop().call_later(s, do))
        shell.on_durable = self._tasks.settle
        self._stored: dict[Peer, Seq] = {}
        """Up to which entry each connected history store has everything."""

    def accept(self, peer: Peer, hello: m.Hello) -> m.Welcome | m.Refused:
        """Judge a peer that has said who it is."""
        shell = self._shell
        refusal = self.doorkeeper.refuse(shell.state, peer.identity, hello)
        if refusal:
            if peer.identity.how == "local":  # the others come through a doorway, which counts
                who = f"{hello.role} {hello.name}"[:200]
                self.doorkeeper.refusals.note(refusal, f"{who} at {peer.identity.address}")
            return m.Refused(refusal)
        guest = _Guest(peer, Gate(hello.role, hello.name), hello.version, shell.now_us())
        self._guests[peer] = guest
        if hello.role == "worker":
            self._accept_worker(guest)
        else:
            peer.on_messages = self._listener(guest, None)
            peer.on_lost = lambda reason: self._lose(guest, reason)
        self.doorkeeper.note(peer, hello, shell.state)
        shell.log.info(
            "peer-connected",
            extra={
                "role": hello.role, "name_": hello.name, "version": hello.version,
                "how": peer.identity.how, "key": peer.identity.key[:16],
                "address": peer.identity.address,
            },
        )  # fmt: skip
        return m.Welcome(
            choose_protocol(hello), shell.epoch, self._cluster, self._version,
            shell.desk.durable_seq, shell.state.config.heartbeat_us,
        )  # fmt: skip

    def note_refused(self, why: str, address: str) -> None:
        """Take down that a connection came to nothing before anybody had said who he is."""
        self.doorkeeper.refusals.note(why, address)

    def close(self) -> None:
        """End every connection."""
        for peer in list(self._guests):
            peer.close("the controller ends")

    # New hosts.

    def enrol(self, peer: Peer, first: m.Enrol) -> None:
        """Have the key of a host that has a token trusted."""

        def answer(reply: Reply) -> None:
            (result,) = reply.results
            if isinstance(result, Refusal):
                self._refuse_enrolment(peer, first, result.text)
                return
            self._shell.log.info("host-enrolled", extra={"host": first.host, "token": first.token})
            controllers = self.doorkeeper.controllers(self._shell.state)
            peer.send(m.Enrolled(self._cluster, controllers))
            peer.close("enrolled")

        if not m.PROTOCOL_OLDEST <= first.protocol <= m.PROTOCOL:
            self._refuse_enrolment(peer, first, f"protocol {first.protocol} is not spoken here")
            return
        command = EnrolHost(first.token, digest_of(first.secret), first.host, first.certificate)
        self._shell.give(command, by=f"token {first.token[:40]}", basis="token", on_reply=answer)

    def _refuse_enrolment(self, peer: Peer, first: m.Enrol, why: str) -> None:
        who = f"host {first.host[:100]} at {peer.identity.address}"
        self.doorkeeper.refusals.note(f"enrolment: {why}", who)
        peer.send(m.Refused(why))
        peer.close(why)

    # Everybody.

    def _listener(
        self, guest: _Guest, link: WorkerLink | None
    ) -> Callable[[list[m.Message]], None]:
        def listen(messages: list[m.Message]) -> None:
            for message in messages:
                refusal = guest.gate.refuse(message)
                if refusal:
                    address = guest.peer.identity.address
                    self.doorkeeper.refusals.note(refusal, f"{guest.gate.name} at {address}")
                    raise WireError(refusal)
                if link is not None:
                    self._shell.note_heard(link, is_beat=isinstance(message, m.Ping))
                    if isinstance(message, m.Ping) and message.load:
                        self._shell.loads.hear(link.host, message.load)
                if link is not None and isinstance(message, m.Observe):
                    self._observe(link, message)
                else:
                    self._hear(guest, message)

        return listen

    def _relay(self, peer: Peer, message: _Relayed) -> None:
        """Pass on a question or an answer."""
        match message:
            case m.OutputChunk():
                self._relays.answer(peer, message)
            case m.TerminalPiece():
                self._terminals.answer(peer, message)
            case m.ReadOutput():
                self._relays.ask(peer, message, self._worker_of(message.host))
            case m.TerminalAsk():
                self._terminals.ask(peer, message, self._worker_of(message.host))
            case m.ReadUsage():
                self._usage.ask(peer, message, self._worker_of(message.host))
            case m.HostUsage():
                self._usage.answer(peer, message)

    def _worker_of(self, host: str) -> Peer | None:
        link = self._shell.workers.get(host)
        return link.peer if link is not None else None

    def _hear(self, guest: _Guest, message: m.Message) -> None:
        peer = guest.peer
        match message:
            case m.Ask():
                self._ask(guest, message)
            case m.Follow():
                self._follow(guest, message)
            case m.FollowedTo():
                self._stored[peer] = message.seq
                self._note_stored()
            case m.FetchBlobs():
                self._send_blobs(guest, message)
            case (
                m.ReadOutput() | m.OutputChunk() | m.ReadUsage() | m.HostUsage()
                | m.TerminalAsk() | m.TerminalPiece()
            ):  # fmt: skip
                self._relay(peer, message)
            case m.ListKeys():
                peer.send(self._key_list(message))
            case m.ListPeers():
                peer.send(self._peer_list(message))
            case m.TaskAsk():
                self._ask_task(guest, message)
            case m.TaskPiece():
                self._tasks.answer(peer, message)
            case m.Ping():
                # A worker takes the answer to its beat for the word of the one who leads, and lets
                # its jobs live on it. Beats below zero only ask whether this process lives.
                is_beat = guest.gate.role == "worker" and message.number >= 0
                if not is_beat or self._shell.journal.leads_surely:
                    beat_us = self._shell.state.config.heartbeat_us if is_beat else 0
                    peer.send(m.Pong(message.number, beat_us))
            case _:
                raise WireError(f"{type(message).__name__} is not for a controller")

    def _ask_task(self, guest: _Guest, ask: m.TaskAsk) -> None:
        if not isinstance(ask.order, FileOrder):
            self._pass_on(guest, ask)
            return
        job = self._shell.state.jobs.get(ask.job)
        busy = m.TaskPiece(ask.id, TaskFault.BUSY, "too much at once")
        self._files.put(
            job.owner.user if job is not None else "",
            lambda: self._pass_on(guest, ask),
            lambda: guest.peer.send(busy),
        )

    def _pass_on(self, guest: _Guest, ask: m.TaskAsk) -> None:
        """Pass on what the worker of one host asks of that of another."""
        asker = self._shell.workers.get(guest.gate.name)
        if self._shell.state.lost_jobs and (asker is None or not asker.is_joined):
            # Until then nobody knows whether it runs what a restored journal lacks.
            guest.peer.send(m.TaskPiece(ask.id, TaskFault.AWAY, "your host has not joined yet"))
            return
        ask = replace(ask, host=host_asked(self._shell.state, ask))
        # One that has not joined may have been restarted under what is asked of it.
        link = self._shell.workers.get(ask.host)
        worker = link.peer if link is not None and link.is_joined else None
        self._tasks.ask(
            guest.peer, ask, self._shell.state, by=guest.gate.name, worker=worker,
            durable_seq=self._shell.desk.durable_seq,
        )  # fmt: skip

    def _ask(self, guest: _Guest, ask: m.Ask) -> None:
        peer, role = guest.peer, guest.gate.role

        def answer(reply: Reply) -> None:
            # Whoever is answered finds in its own replica what the answer speaks of.
            for link in self._shell.followers:
                if link.peer is peer:
                    link.flush()
            peer.send(m.Answer(ask.id, reply.seq, reply.results))

        command = ask.command
        match role:
            case "scheduler":
                by, basis, origin = "scheduler", "component", ""
            case "admin":
                by, basis, origin = guest.who, "admin", peer.identity.address
                command = signed(command, by)
            case _ if role == TEST:
                by, basis, origin = ask.by or guest.who, "direct", peer.identity.address
            case _:
                by, basis, origin = ask.by, ask.basis, ask.origin
        self._shell.give(command, by=by, basis=basis, origin=origin, on_reply=answer)

    def _follow(self, guest: _Guest, follow: m.Follow) -> None:
        shell, peer = self._shell, guest.peer
        shell.followers = [link for link in shell.followers if link.peer is not peer]

        def note_damage(error: Exception) -> None:
            shell.log.error("follower-feed-failed", extra={"why": str(error)})

        link = FollowerLink(
            peer,
            WholeSource(shell.journal) if guest.gate.role == "history" else shell.journal,
            follow,
            epoch=shell.epoch,
            on_damage=note_damage,
            delay_s=self._delay_s(guest.gate.role),
        )
        shell.followers.append(link)
        link.send_stored()
        if guest.gate.role == "apiserver" and peer not in shell.troubled:
            shell.tell_of_trouble(peer)

    def _delay_s(self, role: str) -> float:
        """Return how long a follower's news may be gathered before they are sent."""
        if role == "scheduler":
            return self._shell.state.config.session_gather_us / 1_000_000
        return HISTORY_DELAY_S if role == "history" else 0.0

    def _send_blobs(self, guest: _Guest, fetch: m.FetchBlobs) -> None:
        hashes = fetch.hashes
        if guest.gate.role == "worker":
            own = self._blobs_of(guest.gate.name)
            hashes = tuple(digest for digest in hashes if digest in own)
        found, damaged = [], []
        for digest in hashes:
            try:
                content = self._shell.journal.blob(digest)
            except CorruptJournalError as error:
                # It ends the jobs that need it, and nothing else.
                self._shell.log.error(  # noqa: TRY400 - for people
                    "blob-damaged", extra={"why": str(error), "blob": digest}
                )
                damaged.append(digest)
                continue
            except JournalTroubleError as error:
                # To answer without it would say that it is not there. It dials and asks again.
                raise WireError(f"the journal cannot be read now: {error}") from error
            if content is not None:
                found.append((digest, content))
        guest.peer.send(m.Blobs(fetch.id, tuple(found), tuple(damaged)))

    def _blobs_of(self, host: str) -> set[str]:
        """Return the blobs that the attempts of a host need: its worker gets no others."""
        state = self._shell.state
        number = state.hosts.number.get(host, -1)
        own: set[str] = set()
        for job_id, position in state.on_host.get(number, ()):
            spec = state.spec_at(state.jobs[job_id], position)
            own.update((spec.script, spec.env, spec.files.input_blob))
        return own

    def _key_list(self, message: m.ListKeys) -> m.KeyList:
        table = self._shell.state.trust
        tokens = (msgspec.structs.replace(item, digest="") for item in table.tokens.values())
        return m.KeyList(
            message.id, self._shell.now_us(), tuple(table.keys.values()),
            tuple(table.revoked.values()), tuple(tokens),
        )  # fmt: skip

    def _peer_list(self, message: m.ListPeers) -> m.PeerList:
        seen = [
            m.PeerSeen(
                guest.gate.role, guest.gate.name, guest.version, guest.peer.protocol,
                guest.peer.identity.how, guest.peer.identity.key, guest.peer.identity.address,
                guest.since_us,
            )
            for guest in self._guests.values()
        ]  # fmt: skip
        refused = tuple(self.doorkeeper.refusals.counts.most_common())
        return m.PeerList(message.id, tuple(seen), refused, self.half_open())

    def _note_stored(self) -> None:
        """Note how far history goes: each machine's apiserver answers from its own store."""
        if self._stored:
            self._shell.history_seq = min(self._stored.values())

    def _lose(self, guest: _Guest, reason: str) -> None:
        shell, peer = self._shell, guest.peer
        self._forget(peer)
        # One that is away catches up from the archive; nobody waits for it.
        if self._stored.pop(peer, None) is not None:
            self._note_stored()
        shell.followers = [link for link in shell.followers if link.peer is not peer]
        shell.log.info(
            "peer-lost",
            extra={"role": guest.gate.role, "name_": guest.gate.name, "why": reason},
        )

    def _forget(self, peer: Peer) -> None:
        self._guests.pop(peer, None)
        self.doorkeeper.forget(peer)
        self._relays.drop(peer)
        self._terminals.drop(peer)
        self._usage.drop(peer)
        self._tasks.drop(peer)

    # Workers.

    def _accept_worker(self, guest: _Guest) -> None:
        shell, peer, host = self._shell, guest.peer, guest.gate.name
        earlier = shell.workers.get(host)
        if earlier is not None:
            # A worker that was killed and started again; the kernel may tell of its end later.
            earlier.peer.abort("another worker came for this host")
        link = WorkerLink(peer, host)
        shell.workers[host] = link
        shell.watch.forget(host)

        def lose(reason: str) -> None:
            self._forget(peer)
            shell.log.info("worker-lost", extra={"host": host, "why": reason})
            if shell.workers.get(host) is link:
                del shell.workers[host]
                shell.watch.forget(host)
                shell.loads.forget(host)
                gone = HostDisconnected(host, link.is_silent)
                shell.give(gone, by=f"host {host}", basis="component")

        peer.on_messages = self._listener(guest, link)
        peer.on_lost = lose

    def _observe(self, link: WorkerLink, message: m.Observe) -> None:
        seen = message.observation
        by = f"host {link.host}"
        if isinstance(seen, Reported):
            number = seen.number

            def taken(_: Reply) -> None:
                link.peer.send(m.ReportsTaken(number))

            self._shell.give(seen, by=by, basis="component", on_reply=taken)
        elif isinstance(seen, HostJoined):
            self._join(link, seen, by)

    def _join(self, link: WorkerLink, seen: HostJoined, by: str) -> None:
        def joined(reply: Reply) -> None:
            link.is_joined = True
            self._tell_strangers(link)
            for result in reply.results:
                if isinstance(result, Refusal):
                    self._shell.log.warning(
                        "host-refused", extra={"host": link.host, "why": result.text}
                    )
                    link.peer.send(m.Refused(result.text))
                    link.peer.close(result.text)

        self._shell.give(seen, by=by, basis="component", on_reply=joined)

    def _tell_strangers(self, link: WorkerLink) -> None:
        """Say what a host runs that a restored journal does not know."""
        table = self._shell.state.hosts
        found = table.strange.get(table.number.get(link.host, -1))
        if found:
            self._shell.log.warning(
                "strangers-seen", extra={"host": link.host, "attempts": list(found)[:20]}
            )


def signed(command: Command, by: str) -> Command:
    """Return an administrator's command with the name of who really asks."""
    match command:
        case (
            SetHostsOpen() | SetDevicesOpen() | DeclareHostsLost() | EndStrangers()
            | AdoptStrangers() | ApplyConfig()
        ):  # fmt: skip
            return msgspec.structs.replace(command, by=by, is_admin=True)
        case TrustKey() | RevokeKeys() | MakeHostToken():
            return msgspec.structs.replace(command, by=by)
        case _:
            return command
