"""`NoteDenials`, `NoteLogin`, `RefreshLogin` and `RevokeLogin` to records."""

from typing import Final

from xce.model.command import Accepted, NoteDenials, NoteLogin, RefreshLogin, RevokeLogin
from xce.model.ids import SECOND_US, Micros
from xce.model.permission import Actor, Permission
from xce.model.record import Record
from xce.model.record_access import DenialsNoted, LoginBegan, LoginRefreshed, LoginRevoked
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.rights import OWNER

ROWS_MAX: Final = 1_000
"""Most denials that one command may tell of."""
TEXT_MAX: Final = 256
SESSIONS_MAX: Final = 1_000
"""Most single logins of one user that are remembered as revoked."""
REMEMBERED_US: Final = 31 * 86_400 * SECOND_US
"""No login lasts longer."""
AGAIN_US: Final = 60 * SECOND_US
"""So long the token before the last one may be shown again: an answer may have been lost, and
commands that run side by side read one file."""

Decided = tuple[list[Record], list[Accepted | Refusal]]


def decide_note(command: NoteDenials | NoteLogin) -> Decided:
    """Return the record that keeps what users were denied, or that one logged in."""
    record: DenialsNoted | LoginBegan
    if isinstance(command, NoteLogin):
        texts: tuple[str, ...] = (command.by, command.session, command.way)
        count, record = 1, LoginBegan(command.by, command.session, command.way)
    else:
        rows = command.rows
        texts = tuple(
            text for row in rows for text in (row.user, row.permission, row.about, row.origin)
        )
        count, record = len(rows), DenialsNoted(rows)
    if count > ROWS_MAX or any(len(text) > TEXT_MAX for text in texts):
        return [], [Refusal(RefusalCode.TOO_LARGE, "too many at once, or too long a text")]
    return ([record] if count else []), [Accepted(text="noted")]


def decide_refresh(state: ClusterState, command: RefreshLogin, now_us: Micros) -> Decided:
    """Return the record of an exchange, or that which ends a login whose token is shown again.

    A token that was exchanged before is in two hands, and nobody can tell which is the right one.
    """
    user, session, turn = command.by, command.session, command.turn
    if state.logins.is_revoked(user, session, command.began_at_us):
        return [], [Refusal(RefusalCode.TOKEN_REVOKED, "the login was revoked: log in again")]
    last = state.logins.refreshed.get((user, session))
    if last is None and state.logins.count_refreshed(user) >= SESSIONS_MAX:
        text = f"{user} has {SESSIONS_MAX} logins already: end some of them"
        return [], [Refusal(RefusalCode.TOO_LARGE, text)]
    if last is not None and turn < last.turn:
        if turn == last.turn - 1 and now_us - last.at_us <= AGAIN_US:
            return [], [Accepted(text="refreshed", number=last.turn)]
        is_full = state.logins.count(user) >= SESSIONS_MAX
        # Dated by the login itself: whatever clocks say, it is over.
        at_us = max(now_us, command.began_at_us)
        ended = LoginRevoked(user, "" if is_full else session, at_us, at_us + REMEMBERED_US)
        text = "the token was used before, so somebody else may have it: the login is over"
        return [ended], [Refusal(RefusalCode.TOKEN_REUSED, text)]
    record = LoginRefreshed(user, session, turn + 1, now_us, command.ends_at_us)
    return [record], [Accepted(text="refreshed", number=turn + 1)]


def basis_of(state: ClusterState, command: RevokeLogin) -> str:
    """Return on what ground logins of a user may be revoked; empty: they may not."""
    if command.user == command.by:
        return OWNER
    actor = Actor(command.by, command.groups, command.is_admin)
    return state.rights.basis(actor, Permission.TOKEN_REVOKE)


def decide_revoke(state: ClusterState, command: RevokeLogin, now_us: Micros) -> Decided:
    """Return the record after which a login counts no more."""
    if not basis_of(state, command):
        return [], [
            Refusal(
                RefusalCode.DENIED,
                f"logins of {command.user} are revoked by himself and by those who have the "
                f"permission {Permission.TOKEN_REVOKE}",
                lsf="User permission denied",
                permission=Permission.TOKEN_REVOKE,
            )
        ]
    if command.session and (command.user, command.session) in state.logins.revoked:
        return [], [Accepted(text="revoked")]
    if command.session and state.logins.count(command.user) >= SESSIONS_MAX:
        text = f"{SESSIONS_MAX} logins of {command.user} are revoked already: revoke all of them"
        return [], [Refusal(RefusalCode.TOO_LARGE, text)]
    # Logins are dated by the wall clock of the apiserver.
    at_us = command.wall_us or now_us
    record = LoginRevoked(command.user, command.session, at_us, max(at_us, now_us) + REMEMBERED_US)
    return [record], [Accepted(text="revoked")]
