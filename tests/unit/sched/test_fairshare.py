"""Order by shares, and short jobs first."""

from msgspec.structs import replace
from sessions import Scheduled

from xce.model.config import QueueConfig, ShareConfig
from xce.model.ids import HOUR_US, SECOND_US
from xce.model.job import Owner
from xce.testing.builders import (
    ALICE,
    BOB,
    cluster,
    report_ended,
    report_started,
    submission,
    submit,
)

CAROL = Owner("carol", 1003, 1003)
SHARED = QueueConfig(name="shared", priority=30, default=True, policy="fairshare")


def scheduled(slots=1, *, fairshare=(), **settings) -> Scheduled:
    queue = replace(SHARED, fairshare=tuple(fairshare))
    return Scheduled(cluster({"h1": slots}, queues=[queue], **settings))


def user(name, shares=1):
    return ShareConfig(name=name, shares=shares)


def group(name, *members, shares=1):
    return ShareConfig(name=name, shares=shares, members=members)


def many(world, owner, count=6, **wanted):
    return [submit(world.controller, submission(**wanted), owner=owner) for _ in range(count)]


def live(world, ids):
    return sum(world.is_live(job) for job in ids)


def test_users_take_turns_though_one_came_first():
    world = scheduled(4, fairshare_chunk=1)
    mine, theirs = many(world, ALICE), many(world, BOB)
    world.run()
    assert (live(world, mine), live(world, theirs)) == (2, 2)


def test_keys_hold_for_a_chunk_of_placements():
    world = scheduled(4, fairshare_chunk=3)
    mine, theirs = many(world, ALICE), many(world, BOB)
    world.run()
    assert (live(world, mine), live(world, theirs)) == (3, 1)


def test_shares_weigh():
    world = scheduled(8, fairshare=[user("alice", 3), user("bob", 1)], fairshare_chunk=1)
    mine, theirs = many(world, ALICE, 8), many(world, BOB, 8)
    world.run()
    assert (live(world, mine), live(world, theirs)) == (6, 2)


def test_a_group_shares_what_it_gets():
    tree = [group("lab", user("alice"), user("bob")), user("carol")]
    world = scheduled(8, fairshare=tree, fairshare_chunk=1)
    mine, theirs, hers = many(world, ALICE, 8), many(world, BOB, 8), many(world, CAROL, 8)
    world.run()
    assert (live(world, mine), live(world, theirs), live(world, hers)) == (2, 2, 4)


def test_who_has_no_shares_comes_last():
    world = scheduled(4, fairshare=[user("alice")], fairshare_chunk=1)
    theirs, mine = many(world, BOB), many(world, ALICE, 3)
    world.run()
    assert (live(world, mine), live(world, theirs)) == (3, 1)


def test_past_use_counts_and_fades():
    world = scheduled(1, fairshare_half_life_us=HOUR_US)
    first = many(world, ALICE, 1)[0]
    world.run()
    report_started(world.controller, first)
    world.controller.now_us += 10 * HOUR_US
    report_ended(world.controller, first)
    mine, theirs = many(world, ALICE, 1), many(world, BOB, 1)
    world.run()
    assert live(world, theirs) == 1
    report_started(world.controller, theirs[0])
    world.controller.now_us += HOUR_US
    report_ended(world.controller, theirs[0])
    # Five of the ten hours are left, against one.
    more = many(world, BOB, 1)
    world.run()
    assert (live(world, mine), live(world, more)) == (0, 1)
    report_started(world.controller, more[0])
    world.controller.now_us += 6 * HOUR_US
    report_ended(world.controller, more[0])
    many(world, BOB, 1)
    world.run()
    assert live(world, mine) == 1


def test_a_users_own_jobs_go_by_their_priority():
    world = scheduled(1)
    low, high = many(world, ALICE, 1, priority=1), many(world, ALICE, 1, priority=2)
    world.run()
    assert (live(world, low), live(world, high)) == (0, 1)


def test_an_array_is_one_users_turn_by_turn():
    world = scheduled(6, fairshare_chunk=2)
    array = submit(world.controller, submission(elements="1-10"))
    theirs = many(world, BOB)
    world.run()
    assert len(world.controller.job(array).live) == 4
    assert live(world, theirs) == 2


def test_short_jobs_first():
    queue = replace(SHARED, policy="sjf")
    world = Scheduled(cluster({"h1": 1}, queues=[queue]))
    spans = (0, 50, 10, 20)
    ids = [many(world, ALICE, 1, run_limit_us=span * SECOND_US)[0] for span in spans]
    world.run()
    assert [world.is_live(job) for job in ids] == [False, False, True, False]
