"""Who may be connected to the controller: checked when one comes, and again when trust changes.

The doorkeeper has the TLS context of the listening socket in step with the trusted list, ends the
connections of keys that were revoked or have expired, writes revoked keys down beside the journal,
and tells workers of other hosts which keys the controllers have.
"""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from xce.daemon.key_files import load_revoked, note_revoked
from xce.model.ids import Micros
from xce.model.trust import CONTROLLER, TEST
from xce.net import message as m
from xce.net.frame import WireError
from xce.net.peer import Identity, Peer
from xce.net.tls import KeyPair, make_server_context, trust
from xce.state.cluster import ClusterState

REFUSALS_MAX: Final = 1_000
"""So many different refusals are told apart."""
REFUSAL_CHARACTERS: Final = 200
"""So much of one is kept and told: others have chosen the words."""
CONTROLLER_KEYS_SINCE: Final = 2
"""The protocol that has `xce.net.message.ControllerKeys`."""


TOLD_OF_CONTROLLERS: Final = frozenset(["worker", "apiserver", "scheduler", "history", "standby"])
"""Roles that stay connected, and must know whom to trust tomorrow."""


class Refusals:
    """Counts what was refused, and tells the log of the 1st, 2nd, 4th, 8th, ... of a kind."""

    def __init__(self, log: logging.Logger) -> None:
        self.counts: Counter[str] = Counter()
        self._log = log

    def note(self, why: str, who: str) -> None:
        """Count a refusal."""
        why, who = _shown(why), _shown(who)
        kind = why if why in self.counts or len(self.counts) < REFUSALS_MAX else "others"
        self.counts[kind] += 1
        count = self.counts[kind]
        if count & (count - 1) == 0:
            self._log.warning("peer-refused", extra={"why": why, "peer": who, "count": count})


def _shown(text: str) -> str:
    """Return what may be kept and printed of a text that somebody else has a part in."""
    text = text[:REFUSAL_CHARACTERS]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class Doorkeeper:
    """Judges who comes, and ends whom it must not keep.

    Args:
        keys: Directory of the controller's keys.
        own: The controller's key; None: it has none, and nobody can come by TLS.
        is_test: Whether `mode: test` holds.
        clock: Gives the present instant; the state's is that of its last entry.
        log: Where things are told.
    """

    def __init__(
        self,
        keys: Path,
        own: KeyPair | None,
        *,
        is_test: bool,
        clock: Callable[[], Micros],
        log: logging.Logger,
    ) -> None:
        self.refusals = Refusals(log)
        self.is_test = is_test
        self._keys = keys
        self._clock = clock
        self._own = own
        self._log = log
        self._context: ssl.SSLContext | None = None
        self._in_context: set[str] = set()
        self._context_change = -1
        """`TrustTable.change` when the context was last brought up to date."""
        self._change = -1
        """`TrustTable.change` when connections were last looked at."""
        self._told: tuple[bytes, ...] = ()
        """Certificates of controllers that they were last told of."""
        self._by_key: dict[str, dict[Peer, tuple[str, str]]] = {}
        """Connections by the key that they were made with: role and name of each."""
        self._noted: set[str] = set(load_revoked(keys))
        self._next_expiry_us: Micros = 0

    def context(self, state: ClusterState) -> ssl.SSLContext | None:
        """Return how to shake hands now, None: not at all.

        Certificates are added as they are trusted. One that was revoked may still finish the
        handshake; it is then refused by `refuse`, with a word about it.
        """
        if self._own is None:
            return None
        if self._context is None:
            self._context = make_server_context(self._own, ())
        if self._context_change == state.trust.change:
            return self._context
        self._context_change = state.trust.change
        for key, item in state.trust.keys.items():
            if key not in self._in_context:
                self._in_context.add(key)
                if not trust(self._context, item.certificate):
                    self._log.error("certificate-unreadable", extra={"key": key})
        return self._context

    def missing_revocations(self, state: ClusterState) -> tuple[str, ...]:
        """Return the keys that are written down as revoked and that the state does not know so.

        There are some when an older journal was restored.
        """
        return tuple(sorted(self._noted - state.trust.revoked.keys()))

    def refuse(self, state: ClusterState, identity: Identity, hello: m.Hello) -> str:
        """Return why a peer is not wanted; empty: he is."""
        if hello.role == TEST and not self.is_test:
            return "test tools are refused: the cluster is in mode production"
        match identity.how:
            case "local":
                return ""
            case "plain":
                return "" if self.is_test else "plaintext is refused"
            case "key":
                if hello.role == TEST:
                    return "test tools have no keys"
                return state.trust.refuse(identity.key, hello.role, hello.name, self._clock())
            case _:
                return "no key was shown: a new host enrols first"

    def note(self, peer: Peer, hello: m.Hello, state: ClusterState) -> None:
        """Keep an eye on a peer that was let in."""
        key = peer.identity.key
        if not key:
            return
        self._by_key.setdefault(key, {})[peer] = (hello.role, hello.name)
        expires_us = state.trust.keys[key].expires_at_us
        if expires_us and (not self._next_expiry_us or expires_us < self._next_expiry_us):
            self._next_expiry_us = expires_us
        if hello.role in TOLD_OF_CONTROLLERS and peer.protocol >= CONTROLLER_KEYS_SINCE:
            # Behind the welcome.
            asyncio.get_running_loop().call_soon(self._tell_keys, peer, state)

    def forget(self, peer: Peer) -> None:
        """Note that a connection has ended."""
        peers = self._by_key.get(peer.identity.key)
        if peers is not None and peers.pop(peer, None) is not None and not peers:
            del self._by_key[peer.identity.key]

    def controllers(self, state: ClusterState) -> tuple[bytes, ...]:
        """Return the certificates that controllers of this cluster may have now."""
        return tuple(item.certificate for item in state.trust.valid(CONTROLLER, self._clock()))

    def look(self, state: ClusterState, now_us: Micros) -> None:
        """End what must not stand any more. To be called when something became durable, and often
        enough for expiries.
        """
        is_new = state.trust.change != self._change
        is_due = 0 < self._next_expiry_us <= now_us
        if not (is_new or is_due):
            return
        self._change = state.trust.change
        self._next_expiry_us = 0
        for key, peers in list(self._by_key.items()):
            found = state.trust.keys.get(key)
            if found is not None and found.expires_at_us > now_us:
                later_us = found.expires_at_us
                self._next_expiry_us = min(self._next_expiry_us or later_us, later_us)
            for peer, (role, name) in list(peers.items()):
                why = state.trust.refuse(key, role, name, now_us)
                if why:
                    self.refusals.note(why, f"{role} {name} at {peer.identity.address}")
                    peer.abort(why)
        if is_new:
            self._write_revoked(state)
            self._tell_controllers(state)

    def _tell_controllers(self, state: ClusterState) -> None:
        """Tell components of other machines when controllers have got or lost a key."""
        controllers = self.controllers(state)
        if controllers == self._told:
            return
        self._told = controllers
        for peers in self._by_key.values():
            for peer, (role, _) in peers.items():
                if role in TOLD_OF_CONTROLLERS and peer.protocol >= CONTROLLER_KEYS_SINCE:
                    self._tell_keys(peer, state)

    def _write_revoked(self, state: ClusterState) -> None:
        missing = sorted(state.trust.revoked.keys() - self._noted)
        if missing:
            try:
                note_revoked(self._keys, missing)
            except OSError as error:
                self._log.error("revocations-not-written", extra={"why": str(error)})
                self._change = -1  # it is tried again
                return
            self._noted.update(missing)

    def _tell_keys(self, peer: Peer, state: ClusterState) -> None:
        try:
            peer.send(m.ControllerKeys(self.controllers(state)))
        except WireError as error:
            peer.abort(str(error))
