"""Logins that were revoked, as long as a token of theirs might still be shown."""

from collections.abc import Iterable

from xce.model.ids import Micros
from xce.model.record_access import LoginRevoked


class LoginTable:
    """Revoked logins; those that would have ended by themselves are forgotten."""

    def __init__(self, revoked: Iterable[LoginRevoked] = ()) -> None:
        self.revoked: dict[tuple[str, str], LoginRevoked] = {
            (item.user, item.session): item for item in revoked
        }
        """By user and session; an empty session: all that began before."""

    def take(self, record: LoginRevoked, now_us: Micros) -> None:
        """Note a revocation."""
        gone = [key for key, item in self.revoked.items() if item.expires_at_us <= now_us]
        for key in gone:
            del self.revoked[key]
        self.revoked[record.user, record.session] = record

    def is_revoked(self, user: str, session: str, began_at_us: Micros) -> bool:
        """Return whether a login, which began at ``began_at_us``, counts no more."""
        if (user, session) in self.revoked:
            return True
        found = self.revoked.get((user, ""))
        return found is not None and began_at_us <= found.at_us

    def count(self, user: str) -> int:
        """Return how many single logins of a user are remembered."""
        return sum(1 for name, session in self.revoked if name == user and session)
