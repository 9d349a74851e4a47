"""Every promise has a bug that breaks it: planted in the core, each must be found in a few worlds.

CI plants a share of them; all are planted in the long form, where the state's own checks are
switched off too, so that what finds them shares no code with what is broken.
"""

import msgspec
import pytest
from rough_worlds import (
    DistrustfulWorld,
    DoubtfulWorld,
    LonelyWorld,
    RestoredWorld,
    RoughWorld,
    complaint,
)

from xce.control import consequences, controller, hosts, loss, observe, strangers
from xce.model import host_record as h
from xce.model import record as r
from xce.net import message as m
from xce.net.follow import FollowerFeed
from xce.resreq.dependency import Verdict
from xce.sim import leader as leader_module
from xce.sim import oracles
from xce.sim.disk import Disk
from xce.sim.leader import Leader
from xce.sim.planner import Planner
from xce.sim.world import World
from xce.state import apply as apply_module
from xce.state import live, usage
from xce.state.cluster import ClusterState
from xce.worker.core import HostState

SEEDS = range(160)


def without(kind):
    """Let a decider forget records of a kind."""

    def bug(original):
        def decide(*args, **words):
            records = original(*args, **words)
            return [record for record in records if not isinstance(record, kind)]

        return decide

    return bug


def wrapped(place, name, bug):
    """Plant a bug around a function."""
    return lambda patch: patch.setattr(place, name, bug(getattr(place, name)))


def forget_record(kind):
    """Let the state ignore records of a kind; the journal has them."""
    return lambda patch: patch.setitem(apply_module._APPLY, kind, lambda *_: None)


def free_gang_twice(original):
    def give_back(state, found, attempt):
        original(state, found, attempt)
        for host in attempt.hosts:
            state.hosts.used[0, host] = max(0, state.hosts.used[0, host] - 1)

    return give_back


def free_single_twice(original):
    def give_back_bulk(state, freed):
        original(state, freed)
        for _, host, _ in freed:
            state.hosts.used[0, host] = max(0, state.hosts.used[0, host] - 1)

    return give_back_bulk


def take_old_epochs(original):
    return lambda host, epoch, effects, now_us: original(
        host, max(epoch, host._epoch), effects, now_us
    )


def no_limit(original):
    return lambda state, job: job.size


def drop_reasons(original):
    return lambda planner, now_us: msgspec.structs.replace(original(planner, now_us), reasons=())


def tell_followers_early(original):
    def write(leader, batch, stored):
        for wire, feed in list(leader.feeds.items()):
            if feed.takes_live(stored.first, stored.last, 0):
                wire.send(leader, m.Batch(stored.first, stored.last, stored.content))
        original(leader, batch, stored)

    return write


def skip_the_end(original):
    def recover_less(disk, **words):
        kept, disk.batches = disk.batches, disk.batches[:-1]
        try:
            return original(disk, **words)
        finally:
            disk.batches = kept

    return recover_less


def never_fence(original):
    def end(disk, write):
        if write.is_over or write.is_stored:
            original(disk, write)
            return
        mine, disk.epoch = disk.epoch, write.epoch
        try:
            original(disk, write)
        finally:
            disk.epoch = max(mine, disk.epoch)

    return end


def believe_any_attempt(original):
    def current(state, host, job_id, index, number):
        job = state.jobs.get(job_id)
        position = job.position(index) if job is not None else None
        return state.attempt(job_id, position) if position is not None else None

    return current


def count_no_attempts(original):
    """Let an attempt that comes again have the number of the one before."""

    def wait_again(state, job, position, requeue, *, hold):
        job.attempts.pop(position, None)
        original(state, job, position, requeue, hold=hold)

    return wait_again


def always_holds(original):
    return lambda tree, ask: Verdict.HOLDS


def restored_with(**changes):
    """Let a restored reign begin with a record that says something else."""

    def bug(original):
        def decide(state, now_us):
            said = {name: change(state) for name, change in changes.items()}
            return [msgspec.structs.replace(one, **said) for one in original(state, now_us)]

        return decide

    return wrapped(hosts, "decide_restored", bug)


def tell_news_only(original):
    """Let a host that comes be told nothing anew of what was placed before a restore."""
    return lambda state, job, attempt: bool(attempt.signals) or attempt.has_new_limits


def never(result):
    """Let a function always return the same."""
    return lambda original: lambda *_: type(result)(result)


BUGS = {
    "a requeue is dropped": (LonelyWorld, wrapped(loss, "end_or_requeue", without(r.Requeued))),
    "an allocation is freed twice": (World, wrapped(usage, "give_back_bulk", free_single_twice)),
    "an old epoch is accepted": (DoubtfulWorld, wrapped(Disk, "_end", never_fence)),
    "reasons are forgotten": (World, wrapped(Planner, "make_plan", drop_reasons)),
    "keys are forgotten": (DoubtfulWorld, forget_record(r.KeyUsed)),
    "a parallel allocation is freed twice": (World, wrapped(usage, "give_back", free_gang_twice)),
    "array limits are ignored": (World, wrapped(ClusterState, "room", no_limit)),
    "followers are told too early": (World, wrapped(Leader, "_write", tell_followers_early)),
    "the last batch is left out": (DoubtfulWorld, wrapped(leader_module, "recover", skip_the_end)),
    "news of any attempt is believed": (
        RoughWorld, wrapped(observe, "_current", believe_any_attempt),
    ),
    "attempts are not counted": (RoughWorld, wrapped(live, "wait_again", count_no_attempts)),
    "failed starts are not written down": (
        RoughWorld, wrapped(observe, "_ended", without(r.LaunchFailed)),
    ),
    "dependencies hold at once": (World, wrapped(consequences, "evaluate", always_holds)),
    "releases are forgotten": (World, forget_record(r.JobsReleased)),
    "old controllers are obeyed": (
        DistrustfulWorld, wrapped(HostState, "take_effects", take_old_epochs),
    ),
    "a restored reign begins as any other": (
        RestoredWorld, wrapped(hosts, "decide_restored", never([])),
    ),
    "ids are given out again after a restore": (
        RestoredWorld, restored_with(next_job=lambda state: state.next_job),
    ),
    "attempts are given out again after a restore": (
        RestoredWorld, restored_with(attempts_above=lambda state: state.attempts_above + 1),
    ),
    "nobody waits for hosts after a restore": (RestoredWorld, restored_with(hosts=lambda _: [])),
    "strangers are not held": (RestoredWorld, wrapped(strangers, "_hold", never([]))),
    "strangers are killed": (RestoredWorld, wrapped(hosts, "find_strangers", never([]))),
    "strangers' hosts stay open": (
        RestoredWorld, wrapped(hosts, "decide_strangers", without(h.HostsOpened)),
    ),
    "followers keep what a restored journal lacks": (
        RestoredWorld, wrapped(FollowerFeed, "_is_another", never(False)),
    ),
    "hosts keep what they were told by lost entries": (
        RestoredWorld, wrapped(controller, "is_told_anew", tell_news_only),
    ),
    "what began and is forgotten is launched again": (
        RestoredWorld, wrapped(hosts, "decide_unstarted", never([])),
    ),
}  # fmt: skip
CI = (
    "a requeue is dropped",
    "an allocation is freed twice",
    "an old epoch is accepted",
    "reasons are forgotten",
    "keys are forgotten",
    "a restored reign begins as any other",
    "strangers are killed",
)


def is_found(name, patch):
    kind, plant = BUGS[name]
    plant(patch)
    error, count = complaint(kind, SEEDS)
    print(f"{name}: {count} worlds: {type(error).__name__}: {error}"[:300])
    return error is not None


@pytest.mark.parametrize("kind", [World, RoughWorld, LonelyWorld, DoubtfulWorld, RestoredWorld])
def test_the_worlds_themselves_are_in_order(kind):
    error, _ = complaint(kind, range(8))
    assert error is None


@pytest.mark.parametrize("name", CI)
def test_a_bug_in_the_core_is_found(monkeypatch, name):
    assert is_found(name, monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BUGS)
def test_every_bug_is_found_without_the_cores_own_checks(monkeypatch, name):
    for check in ("check_state", "check_not_over_committed"):
        monkeypatch.setattr(oracles, check, lambda state: None)
    assert is_found(name, monkeypatch)
