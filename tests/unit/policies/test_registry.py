"""The table of policies."""

from xce.policies.registry import DEFAULT_POLICY, POLICIES
from xce.sched.policy import FIRST_COME


def test_the_default_policy_is_named():
    assert POLICIES[DEFAULT_POLICY] is FIRST_COME
