"""Keeps the accounts of fairshare in step with what is placed, started and over."""

from xce.model.ids import Micros
from xce.state.account import Account
from xce.state.cluster import ClusterState, RequestClass
from xce.state.job import Attempt


def _account(state: ClusterState, found: RequestClass) -> Account:
    key = found.key.queue, found.key.user
    account = state.shares.get(key)
    if account is None:
        account = state.shares[key] = Account()
    return account


def note_placed(state: ClusterState, found: RequestClass, slots: int) -> None:
    """Count slots that were given out."""
    _account(state, found).slots += slots


def note_started(state: ClusterState, attempt: Attempt, at_us: Micros) -> None:
    """Count from when on an attempt runs; it may be told again, corrected."""
    account = _account(state, state.classes[attempt.cls])
    slots = sum(attempt.tasks)
    if attempt.started_at_us:
        account.running -= slots
        account.started -= slots * attempt.started_at_us
    account.running += slots
    account.started += slots * at_us


def note_released(state: ClusterState, attempt: Attempt) -> None:
    """Let the use of an attempt that is over decay from now on."""
    note_given_back(state, attempt, sum(attempt.tasks))


def note_given_back(state: ClusterState, attempt: Attempt, slots: int) -> None:
    """Let the use of slots of an attempt decay from now on."""
    account = _account(state, state.classes[attempt.cls])
    account.slots -= slots
    if not attempt.started_at_us:
        return
    account.running -= slots
    account.started -= slots * attempt.started_at_us
    account.used = account.past(state.now_us, state.config.fairshare_half_life_us)
    account.used += slots * max(state.now_us - attempt.started_at_us, 0)
    account.since_us = state.now_us


def move_use(state: ClusterState, attempt: Attempt, to: RequestClass) -> None:
    """Count what a live attempt holds for another class; what it was before stays where it was."""
    before, after = _account(state, state.classes[attempt.cls]), _account(state, to)
    slots = sum(attempt.tasks)
    before.slots -= slots
    after.slots += slots
    if attempt.started_at_us:
        for account, sign in ((before, -1), (after, 1)):
            account.running += sign * slots
            account.started += sign * slots * attempt.started_at_us
