"""The keys of a world's hosts, and what goes wrong with trust there."""

from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Final

from xce.control.desk import Desk
from xce.model.certificate import parse_certificate
from xce.model.entry import Entry
from xce.model.ids import SECOND_US, Epoch, Micros, Seq
from xce.model.record_trust import HostTokenMade, HostTokenUsed, KeyRevoked, KeyTrusted
from xce.model.trust import HostToken
from xce.net.message import Effects, Welcome
from xce.sim.certificates import make_certificate
from xce.sim.network import Wire
from xce.sim.untrue import demand
from xce.state.cluster import ClusterState

KEPT: Final = 12
"""Frames of each host that are kept to be played again."""
CUT_US: Final = 50_000
"""So long after a revocation is durable its connections are gone."""
UNSURE_US: Final = SECOND_US + CUT_US
"""As long where the journal came through with what the leader was told had failed: its next tick
ends them, or the commit that it tries again.
"""
EXPIRED_US: Final = 3 * SECOND_US


class Keyring:
    """Which key the worker of each host has now."""

    def __init__(self) -> None:
        self._certificates: dict[str, bytes] = {}
        self._made = 0

    def make(self, host: str) -> bytes:
        """Give a host another key; return its certificate."""
        self._made += 1
        certificate = make_certificate(self._made.to_bytes(32, "big"))
        self._certificates[host] = certificate
        return certificate

    def certificate(self, host: str) -> bytes:
        """Return the certificate of a host's key."""
        return self._certificates[host]

    def key(self, host: str) -> str:
        """Return the fingerprint of a host's key; empty: it has none."""
        certificate = self._certificates.get(host)
        return parse_certificate(certificate).fingerprint if certificate is not None else ""


class Eavesdropper:
    """Keeps what was said, and says it again where it can do harm.

    On a connection a frame of its own worker comes once more; a worker hears once more what an
    earlier controller told it.
    """

    def __init__(self, rng: Random) -> None:
        self.repeated = 0
        self._rng = rng
        self._said: dict[Wire, deque[object]] = {}
        self._told: dict[str, deque[Effects]] = {}
        self._epochs: dict[Wire, Epoch] = {}
        """Of the controller that has welcomed a worker: before that it cannot know what is old."""

    def note(self, wire: Wire, side: int, message: object) -> None:
        """Hear a message that arrives; ``side`` 1: at the controller."""
        if wire.role != "worker":
            return
        if side == 1:
            said = self._said.get(wire)
            if said is None:
                said = self._said[wire] = deque(maxlen=KEPT)
            said.append(message)
        elif isinstance(message, Welcome):
            self._epochs[wire] = message.epoch
        elif isinstance(message, Effects):
            self._told.setdefault(wire.name, deque(maxlen=KEPT)).append(message)

    def repeat(self, wires: list[Wire]) -> None:
        """Say something again, to one side or the other."""
        workers = [wire for wire in wires if wire.role == "worker"]
        self._said = {wire: said for wire, said in self._said.items() if wire in workers}
        self._epochs = {wire: epoch for wire, epoch in self._epochs.items() if wire in workers}
        if not workers:
            return
        wire = self._rng.choice(workers)
        epoch = self._epochs.get(wire, 0)
        old = [told for told in self._told.get(wire.name, ()) if told.epoch < epoch]
        if old:
            self.repeated += 1
            wire.inject(0, self._rng.choice(old))
        elif self._said.get(wire):
            self.repeated += 1
            wire.inject(1, self._rng.choice(list(self._said[wire])))


class TrustOracle:
    """No worker is heard whose key the journal says is not trusted any more; no token is used
    twice, too late or for another host, and no revoked key comes back.
    """

    def __init__(self) -> None:
        self._seen_us: dict[str, Micros] = {}
        self._tokens: dict[str, HostToken] = {}
        self._used: dict[str, str] = {}
        """Which key was enrolled by a token."""
        self._revoked: dict[str, Seq] = {}
        """By key: the entry that revokes it."""

    @property
    def enrolled(self) -> int:
        """How many tokens were used."""
        return len(self._used)

    def note(self, entries: Iterable[Entry]) -> None:
        """Judge what is durable now.

        Raises:
            UntrueError: It must never be.
        """
        for entry in entries:
            for record in entry.records:
                match record:
                    case HostTokenMade(made):
                        demand(made.token not in self._tokens, f"token {made.token} is made twice")
                        self._tokens[made.token] = made
                    case HostTokenUsed(token, key):
                        self._check_used(entry, token, key)
                    case KeyRevoked(revoked):
                        self._revoked[revoked.key] = entry.seq
                    case KeyTrusted(trusted):
                        is_back = trusted.key in self._revoked
                        demand(not is_back, f"key {trusted.key} is trusted after it was revoked")

    def _check_used(self, entry: Entry, token: str, key: str) -> None:
        made = self._tokens[token]
        before = self._used.setdefault(token, key)
        demand(before == key, f"token {token} enrolled two keys")
        demand(entry.at_us < made.expires_at_us, f"token {token} is used when it has expired")
        trusted = [record.trusted for record in entry.records if isinstance(record, KeyTrusted)]
        places = [(item.key, item.role, item.name) for item in trusted]
        demand((key, "worker", made.host) in places, f"token of {made.host} gave {places}")

    def check(self, state: ClusterState, wire: Wire, now_us: Micros, desk: Desk) -> None:
        """Judge that the leader hears something over a connection.

        Args:
            state: What is durable.
            wire: The connection.
            now_us: The time since the world began.
            desk: The leader's: what it has decided beyond that, where a key may have been given
                more time, and what it knows to be durable.

        Raises:
            UntrueError: It must not have been open any more.
        """
        key = wire.key
        if wire.role != "worker":
            return
        if key in state.trust.revoked:
            since_us = self._seen_us.setdefault(key, now_us)
            is_unsure = bool(desk.trouble) and desk.durable_seq < self._revoked[key]
            span_us = UNSURE_US if is_unsure else CUT_US
            demand(now_us - since_us <= span_us, f"host {wire.name} is heard with a revoked key")
        found = state.trust.keys.get(key)
        if found is not None:
            if found.name != wire.name:
                demand(False, f"{wire.name} is heard with a key of {found.name}")
            if 0 < found.expires_at_us < state.now_us - EXPIRED_US:
                is_renewed = desk.controller.state.trust.keys.get(key) not in (found, None)
                demand(is_renewed, f"host {wire.name} is heard with an expired key")
