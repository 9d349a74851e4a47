"""Who may connect to the controller, and what each role may say: one table, all else refused."""

from collections.abc import Callable, Mapping
from typing import Final

from xce.control.controller import Reply
from xce.daemon.controller_shell import ControllerShell
from xce.daemon.links import FollowerLink, WholeSource, WorkerLink
from xce.journal.interface import JournalTroubleError
from xce.model.command import Command, ProposePlan, Tick
from xce.model.ids import Seq
from xce.model.observation import HostDisconnected, HostJoined, ReignBegan, Reported
from xce.model.refusal import Refusal
from xce.net import message as m
from xce.net.frame import WireError
from xce.net.peer import Peer

HISTORY_DELAY_S: Final = 0.05

MAY_SAY: Final[Mapping[str, tuple[type, ...]]] = {
    "apiserver": (m.Ask, m.Follow, m.ReadOutput, m.FetchBlobs, m.Ping),
    "scheduler": (m.Ask, m.Follow, m.Ping),
    "worker": (m.Observe, m.FetchBlobs, m.OutputChunk, m.Ping),
    "history": (m.Follow, m.FollowedTo, m.FetchBlobs, m.Ping),
    "admin": (m.Ask, m.Follow, m.FetchBlobs, m.Ping),
}
"""Messages that each role may send."""


def may_ask(role: str, command: Command) -> bool:
    """Return whether a role may ask for this command: a scheduler only plans, others never do."""
    if isinstance(command, Tick):
        return False
    return isinstance(command, ProposePlan) == (role == "scheduler")


class Reception:
    """Accepts peers and carries what they say to the shell."""

    def __init__(self, shell: ControllerShell, *, cluster: str, version: str) -> None:
        self._shell = shell
        self._cluster = cluster
        self._version = version
        self._peers: set[Peer] = set()
        self._relays: dict[int, tuple[Peer, int, Peer]] = {}
        """Output requests under way: who asked, under which id, and which worker answers."""
        self._last_relay = 0
        self._stored: dict[Peer, Seq] = {}
        """Up to which entry each connected history store has everything."""

    def accept(self, peer: Peer, hello: m.Hello) -> m.Welcome | m.Refused:
        """Judge a peer that has said who it is."""
        if hello.role == "worker":
            self._accept_worker(peer, hello.name)
        else:
            peer.on_messages = self._listener(peer, hello.role)
            peer.on_lost = lambda reason: self._lose(peer, hello, reason)
        self._peers.add(peer)
        self._shell.log.info(
            "peer-connected",
            extra={"role": hello.role, "name_": hello.name, "version": hello.version},
        )
        return m.Welcome(
            m.PROTOCOL,
            self._shell.epoch,
            self._cluster,
            self._version,
            self._shell.desk.durable_seq,
            self._shell.state.config.heartbeat_us,
        )

    def close(self) -> None:
        """End every connection."""
        for peer in list(self._peers):
            peer.close("the controller ends")

    def _listener(self, peer: Peer, role: str) -> Callable[[list[m.Message]], None]:
        allowed = MAY_SAY[role]

        def listen(messages: list[m.Message]) -> None:
            for message in messages:
                if not isinstance(message, allowed):
                    raise WireError(f"a {role} may not send {type(message).__name__}")
                self._hear(peer, role, message)

        return listen

    def _hear(self, peer: Peer, role: str, message: m.Message) -> None:
        match message:
            case m.Ask():
                self._ask(peer, role, message)
            case m.Follow():
                self._follow(peer, role, message)
            case m.FollowedTo():
                self._stored[peer] = message.seq
                self._note_stored()
            case m.FetchBlobs():
                self._send_blobs(peer, message)
            case m.ReadOutput():
                self._relay(peer, message)
            case m.OutputChunk():
                self._relay_back(message)
            case m.Ping():
                # A worker takes the answer to its beat for the word of the one who leads, and lets
                # its jobs live on it. Beats below zero only ask whether this process lives.
                if role != "worker" or message.number < 0 or self._shell.journal.leads_surely:
                    peer.send(m.Pong(message.number))
            case _:
                raise WireError(f"{type(message).__name__} is not for a controller")

    def _ask(self, peer: Peer, role: str, ask: m.Ask) -> None:
        if not may_ask(role, ask.command):
            raise WireError(f"a {role} may not ask for {type(ask.command).__name__}")

        def answer(reply: Reply) -> None:
            # Whoever is answered finds in its own replica what the answer speaks of.
            for link in self._shell.followers:
                if link.peer is peer:
                    link.flush()
            peer.send(m.Answer(ask.id, reply.seq, reply.results))

        by = "scheduler" if role == "scheduler" else ask.by
        self._shell.give(ask.command, by=by, basis=ask.basis or "component", on_reply=answer)

    def _follow(self, peer: Peer, role: str, follow: m.Follow) -> None:
        shell = self._shell
        shell.followers = [link for link in shell.followers if link.peer is not peer]

        def note_damage(error: Exception) -> None:
            shell.log.error("follower-feed-failed", extra={"why": str(error)})

        link = FollowerLink(
            peer,
            WholeSource(shell.journal) if role == "history" else shell.journal,
            follow,
            epoch=shell.epoch,
            on_damage=note_damage,
            delay_s=self._delay_s(role),
        )
        shell.followers.append(link)
        link.send_stored()

    def _delay_s(self, role: str) -> float:
        """Return how long a follower's news may be gathered before they are sent."""
        if role == "scheduler":
            return self._shell.state.config.session_gather_us / 1_000_000
        return HISTORY_DELAY_S if role == "history" else 0.0

    def _send_blobs(self, peer: Peer, fetch: m.FetchBlobs) -> None:
        found = []
        try:
            for digest in fetch.hashes:
                content = self._shell.journal.blob(digest)
                if content is not None:
                    found.append((digest, content))
        except JournalTroubleError as error:
            # To answer without it would say that it is not there. It dials and asks again.
            raise WireError(f"the journal cannot be read now: {error}") from error
        peer.send(m.Blobs(fetch.id, tuple(found)))

    def _note_stored(self) -> None:
        """Note how far history goes: each machine's apiserver answers from its own store."""
        if self._stored:
            self._shell.history_seq = min(self._stored.values())

    def _lose(self, peer: Peer, hello: m.Hello, reason: str) -> None:
        shell = self._shell
        # One that is away catches up from the archive; nobody waits for it.
        if self._stored.pop(peer, None) is not None:
            self._note_stored()
        self._peers.discard(peer)
        shell.followers = [link for link in shell.followers if link.peer is not peer]
        self._drop_relays(peer)
        shell.log.info("peer-lost", extra={"role": hello.role, "name_": hello.name, "why": reason})

    # Workers.

    def _accept_worker(self, peer: Peer, host: str) -> None:
        shell = self._shell
        earlier = shell.workers.get(host)
        if earlier is not None:
            # A worker that was killed and started again; the kernel may tell of its end later.
            earlier.peer.abort("another worker came for this host")
        link = WorkerLink(peer, host)
        shell.workers[host] = link
        shell.watch.forget(host)
        allowed = MAY_SAY["worker"]

        def listen(messages: list[m.Message]) -> None:
            for message in messages:
                if not isinstance(message, allowed):
                    raise WireError(f"a worker may not send {type(message).__name__}")
                if isinstance(message, m.Observe):
                    shell.note_heard(link)
                    self._observe(link, message)
                else:
                    shell.note_heard(link, is_beat=isinstance(message, m.Ping))
                    self._hear(peer, "worker", message)

        def lose(reason: str) -> None:
            self._peers.discard(peer)
            self._drop_relays(peer)
            shell.log.info("worker-lost", extra={"host": host, "why": reason})
            if shell.workers.get(host) is link:
                del shell.workers[host]
                shell.watch.forget(host)
                gone = HostDisconnected(host, link.is_silent)
                shell.give(gone, by=f"host {host}", basis="component")

        peer.on_messages = listen
        peer.on_lost = lose

    def _observe(self, link: WorkerLink, message: m.Observe) -> None:
        seen = message.observation
        if isinstance(seen, HostDisconnected | ReignBegan) or seen.host != link.host:
            raise WireError(f"the worker of host {link.host} may report about that host only")
        by = f"host {link.host}"
        if isinstance(seen, Reported):
            number = seen.number

            def taken(_: Reply) -> None:
                link.peer.send(m.ReportsTaken(number))

            self._shell.give(seen, by=by, basis="component", on_reply=taken)
        else:
            self._join(link, seen, by)

    def _join(self, link: WorkerLink, seen: HostJoined, by: str) -> None:
        def joined(reply: Reply) -> None:
            link.is_joined = True
            for result in reply.results:
                if isinstance(result, Refusal):
                    self._shell.log.warning(
                        "host-refused", extra={"host": link.host, "why": result.text}
                    )
                    link.peer.send(m.Refused(result.text))
                    link.peer.close(result.text)

        self._shell.give(seen, by=by, basis="component", on_reply=joined)

    # Output, relayed on the worker's own connection (decision X-29).

    def _relay(self, peer: Peer, ask: m.ReadOutput) -> None:
        link = self._shell.workers.get(ask.host)
        if link is None or not link.peer.is_open:
            text = f"host {ask.host} is not connected"
            peer.send(m.OutputChunk(ask.id, b"", 0, text))
            return
        self._last_relay += 1
        self._relays[self._last_relay] = (peer, ask.id, link.peer)
        link.peer.send(
            m.ReadOutput(
                self._last_relay, ask.host, ask.job, ask.index, ask.attempt, ask.stream, ask.path,
                ask.cwd, ask.user, ask.uid, ask.gid, ask.offset, ask.limit,
            )
        )  # fmt: skip

    def _relay_back(self, chunk: m.OutputChunk) -> None:
        found = self._relays.pop(chunk.id, None)
        if found is not None:
            peer, ask_id, _ = found
            peer.send(m.OutputChunk(ask_id, chunk.content, chunk.size, chunk.error))

    def _drop_relays(self, gone: Peer) -> None:
        for relay, (peer, ask_id, worker) in list(self._relays.items()):
            if gone is worker:
                peer.send(m.OutputChunk(ask_id, b"", 0, "the host's worker is gone"))
            if gone in (peer, worker):
                del self._relays[relay]
