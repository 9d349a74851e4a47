"""Who is counted in which group of a queue's shares."""

import pytest

from xce.control.user_group import check_user_group
from xce.model.config import QueueConfig, ShareConfig

INNER = ShareConfig(name="inner", members=(ShareConfig(name="carol"),))
TREE = (
    ShareConfig(name="science", members=(ShareConfig(name="alice"), INNER)),
    ShareConfig(name="guests", members=(ShareConfig(name="default"),)),
    ShareConfig(name="bob"),
)
QUEUE = QueueConfig(name="q", fairshare=TREE)


@pytest.mark.parametrize(
    ("user", "group", "lsf"),
    [
        ("alice", "", ""),
        ("alice", "science", ""),
        ("carol", "inner", ""),
        ("carol", "science", ""),
        ("dave", "guests", ""),
        ("alice", "inner", "User not in the specified user group"),
        ("bob", "guests", "User not in the specified user group"),
        ("dave", "science", "User not in the specified user group"),
        ("alice", "nobody", "Bad user group name"),
        ("alice", "bob", "Bad user group name"),
    ],
)
def test_a_user_is_in_the_groups_around_him(user: str, group: str, lsf: str) -> None:
    refusal = check_user_group(QUEUE, user, group)
    assert (refusal.lsf if refusal else "") == lsf


def test_without_shares_there_are_no_groups() -> None:
    refusal = check_user_group(QueueConfig(name="q"), "alice", "science")
    assert refusal is not None
    assert refusal.lsf == "Bad user group name"
