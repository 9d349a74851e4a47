"""Logins that were revoked or prolonged, as long as a token of theirs might still be shown."""

from collections.abc import Iterable

from xce.model.ids import Micros
from xce.model.record_access import LoginRefreshed, LoginRevoked


class LoginTable:
    """Revoked and prolonged logins; those that would have ended by themselves are forgotten."""

    def __init__(
        self,
        revoked: Iterable[LoginRevoked] = (),
        refreshed: Iterable[LoginRefreshed] = (),
    ) -> None:
        self.revoked: dict[tuple[str, str], LoginRevoked] = {
            (item.user, item.session): item for item in revoked
        }
        """By user and session; an empty session: all that began before."""

        self.refreshed: dict[tuple[str, str], LoginRefreshed] = {
            (item.user, item.session): item for item in refreshed
        }
        """By user and session: the last exchange of what prolongs a login; none yet: not here."""

    def take_turn(self, record: LoginRefreshed) -> None:
        """Note that a login was prolonged."""
        gone = [key for key, item in self.refreshed.items() if item.ends_at_us <= record.at_us]
        for key in gone:
            del self.refreshed[key]
        self.refreshed[record.user, record.session] = record

    def take(self, record: LoginRevoked, now_us: Micros) -> None:
        """Note a revocation."""
        gone = [key for key, item in self.revoked.items() if item.expires_at_us <= now_us]
        for key in gone:
            del self.revoked[key]
        self.revoked[record.user, record.session] = record
        self.refreshed.pop((record.user, record.session), None)

    def is_revoked(self, user: str, session: str, began_at_us: Micros) -> bool:
        """Return whether a login, which began at ``began_at_us``, counts no more."""
        if (user, session) in self.revoked:
            return True
        found = self.revoked.get((user, ""))
        return found is not None and began_at_us <= found.at_us

    def count_refreshed(self, user: str) -> int:
        """Return of how many logins of a user it is known that they were prolonged."""
        return sum(1 for name, _ in self.refreshed if name == user)

    def count(self, user: str) -> int:
        """Return how many single logins of a user are remembered."""
        return sum(1 for name, session in self.revoked if name == user and session)
