"""The trusted list as a table: which key may speak in which role under which name."""

from fnmatch import fnmatchcase

from xce.model.ids import Micros
from xce.model.record_trust import HostTokenMade, HostTokenUsed, KeyRevoked, KeyTrusted
from xce.model.trust import HostToken, RevokedKey, TrustedKey


class TrustTable:
    """Keys that are trusted, keys that never will be again, and tokens of hosts to come."""

    def __init__(self) -> None:
        self.keys: dict[str, TrustedKey] = {}
        self.revoked: dict[str, RevokedKey] = {}
        self.tokens: dict[str, HostToken] = {}
        self.change = 0
        """Counts changes of ``keys``; not part of a snapshot."""

    def refuse(self, key: str, role: str, name: str, now_us: Micros) -> str:
        """Return why a key may not speak in a role under a name now; empty: it may."""
        if key in self.revoked:
            return f"key {key[:16]} was revoked"
        found = self.keys.get(key)
        if found is None:
            return f"key {key[:16]} is not trusted here"
        if is_expired(found, now_us):
            return f"key {key[:16]} has expired"
        if found.role != role:
            return f"key {key[:16]} is for role {found.role}, not for {role}"
        if not fnmatchcase(name, found.name):
            return f"key {key[:16]} is for {role} {found.name}, not for {name}"
        return ""

    def valid(self, role: str, now_us: Micros) -> list[TrustedKey]:
        """Return the keys that are trusted in a role now."""
        return [
            item
            for item in self.keys.values()
            if item.role == role and not is_expired(item, now_us)
        ]

    def load(
        self, keys: list[TrustedKey], revoked: list[RevokedKey], tokens: list[HostToken]
    ) -> None:
        """Take what a snapshot has."""
        self.keys = {item.key: item for item in keys}
        self.revoked = {item.key: item for item in revoked}
        self.tokens = {item.token: item for item in tokens}
        self.change += 1

    # What `xce.state.apply` does.

    def apply_trusted(self, record: KeyTrusted) -> None:
        """Trust a key, or know it anew with another expiry."""
        self.keys[record.trusted.key] = record.trusted
        self.change += 1

    def apply_revoked(self, record: KeyRevoked) -> None:
        """Never trust a key again."""
        self.revoked[record.revoked.key] = record.revoked
        self.keys.pop(record.revoked.key, None)
        self.change += 1

    def apply_token_made(self, record: HostTokenMade, now_us: Micros) -> None:
        """Expect a host; what has expired is forgotten."""
        self.tokens = {
            name: token for name, token in self.tokens.items() if token.expires_at_us > now_us
        }
        self.tokens[record.made.token] = record.made

    def apply_token_used(self, record: HostTokenUsed) -> None:
        """Let a token never be used for another key."""
        made = self.tokens[record.token]
        self.tokens[record.token] = HostToken(
            made.token, made.digest, made.host, made.expires_at_us, made.key_expires_at_us,
            made.by, record.key,
        )  # fmt: skip


def is_expired(item: TrustedKey, now_us: Micros) -> bool:
    """Return whether a key is past its time."""
    return 0 < item.expires_at_us <= now_us
