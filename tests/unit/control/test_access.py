"""Logins that are prolonged: each token once, and whose token is shown again loses the login."""

import pytest

from xce.control.access import AGAIN_US, SESSIONS_MAX
from xce.model.command import Accepted, RefreshLogin, RevokeLogin
from xce.model.ids import SECOND_US
from xce.model.record_access import LoginRefreshed, LoginRevoked
from xce.model.refusal import Refusal, RefusalCode
from xce.state.logins import LoginTable
from xce.state.snapshot import dump, load
from xce.testing.builders import cluster
from xce.testing.recorded import START_US

BEGAN_US = START_US - SECOND_US


def refresh(controller, turn, *, user="ann", session="s1", ends_in_s=3600):
    command = RefreshLogin(user, session, turn, BEGAN_US, controller.now_us + ends_in_s * SECOND_US)
    (result,) = controller.tell(command, by=user)
    return result


def test_each_token_is_exchanged_for_the_next_one():
    controller = cluster()
    for turn in range(4):
        assert refresh(controller, turn) == Accepted(text="refreshed", number=turn + 1)
    assert refresh(controller, 0, session="s2").number == 1


def test_a_token_that_was_exchanged_before_ends_the_login_and_no_other():
    controller = cluster()
    refresh(controller, 0)
    refresh(controller, 1)
    refresh(controller, 0, session="s2")
    reused = refresh(controller, 0)
    assert isinstance(reused, Refusal)
    assert reused.code is RefusalCode.TOKEN_REUSED
    assert isinstance(controller.entries[-1].records[0], LoginRevoked)
    # Neither the thief's next token nor the owner's counts now.
    for turn in (1, 2, 3):
        assert refresh(controller, turn).code is RefusalCode.TOKEN_REVOKED
    assert refresh(controller, 1, session="s2").number == 2


def test_an_answer_that_was_lost_may_be_asked_for_again_for_a_minute():
    controller = cluster()
    refresh(controller, 0)
    before = len(controller.entries)
    controller.now_us += AGAIN_US - SECOND_US
    assert refresh(controller, 0) == Accepted(text="refreshed", number=1)
    assert not [
        record
        for entry in controller.entries[before:]
        for record in entry.records
        if isinstance(record, LoginRefreshed)
    ]
    controller.now_us += 2 * SECOND_US
    assert refresh(controller, 0).code is RefusalCode.TOKEN_REUSED


def test_only_the_last_exchange_may_be_asked_for_again():
    controller = cluster()
    refresh(controller, 0)
    refresh(controller, 1)
    assert refresh(controller, 0).code is RefusalCode.TOKEN_REUSED


def test_a_journal_of_before_the_exchange_takes_a_later_token_for_good():
    assert refresh(cluster(), 7) == Accepted(text="refreshed", number=8)


def test_what_is_remembered_ends_with_the_login_and_is_bounded():
    controller = cluster()
    refresh(controller, 0, session="short", ends_in_s=5)
    controller.now_us += 6 * SECOND_US
    refresh(controller, 0, session="long")
    assert list(controller.state.logins.refreshed) == [("ann", "long")]
    for number in range(SESSIONS_MAX - 1):
        refresh(controller, 0, session=f"n{number}")
    assert refresh(controller, 0, session="more").code is RefusalCode.TOO_LARGE
    assert refresh(controller, 1, session="long").number == 2
    assert refresh(controller, 0, user="bob", session="more").number == 1


def test_a_snapshot_keeps_which_token_counts():
    controller = cluster()
    refresh(controller, 0)
    refresh(controller, 1)
    state = load(dump(controller.state))
    assert state.logins.refreshed == controller.state.logins.refreshed
    controller.tell(RevokeLogin("ann", "ann", "s1"), by="ann")
    assert not controller.state.logins.refreshed


@pytest.mark.parametrize("session", ["s1", ""])
def test_a_revoked_login_is_not_prolonged(session):
    controller = cluster()
    controller.tell(RevokeLogin("ann", "ann", session), by="ann")
    assert refresh(controller, 0).code is RefusalCode.TOKEN_REVOKED


def test_the_table_forgets_nothing_of_others():
    one, other = (LoginRefreshed("ann", name, 1, 10, 1_000) for name in ("a", "b"))
    table = LoginTable((), [one, other])
    table.take_turn(LoginRefreshed("ann", "a", 2, 20, 1_000))
    assert [item.turn for item in table.refreshed.values()] == [2, 1]
