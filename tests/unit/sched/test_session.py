"""Sessions on small clusters: order, placement, limits, and how much work they are."""

from msgspec.structs import replace
from sessions import Scheduled

from xce.model.config import HostConfig, QueueConfig
from xce.model.reason import HostCode, ReasonCode
from xce.model.request import TASKS_MAX, Amount, HostChoice, Request
from xce.sched.counts import Counts
from xce.sched.session import run_session
from xce.testing.builders import (
    BOB,
    cluster,
    place,
    report_ended,
    report_started,
    request,
    resume,
    submission,
    submit,
)

QUEUES = (
    QueueConfig(name="normal", priority=30, default=True, exclusive=True),
    QueueConfig(name="urgent", priority=50),
    QueueConfig(name="narrow", priority=40, hosts=("h2",)),
    QueueConfig(name="asleep", priority=60, active=False),
)


def scheduled(hosts=("h1", "h2"), **settings) -> Scheduled:
    return Scheduled(cluster(hosts, queues=QUEUES, **settings))


# --- order ---------------------------------------------------------------------------------------


def test_a_higher_queue_priority_goes_first_whenever_it_was_submitted():
    world = scheduled({"h1": 1})
    first = submit(world.controller)
    second = submit(world.controller, submission(queue="urgent"))
    world.run()
    assert not world.is_live(first)
    assert world.is_live(second)


def test_a_higher_class_priority_goes_first_inside_a_queue():
    world = scheduled({"h1": 1})
    first = submit(world.controller, submission(priority=1))
    second = submit(world.controller, submission(priority=2))
    world.run()
    assert not world.is_live(first)
    assert world.is_live(second)


def test_classes_of_equal_rank_are_merged_by_submission():
    world = scheduled({"h1": 3})
    mine = [submit(world.controller)]
    theirs = [submit(world.controller, owner=BOB)]
    mine += [submit(world.controller), submit(world.controller)]
    theirs += [submit(world.controller, owner=BOB)]
    plan = world.run()
    assert [item.jobs for item in plan.bulk] == [[mine[0]], [theirs[0]], [mine[1]]]


def test_an_array_is_placed_up_to_the_end_before_a_later_job():
    world = scheduled({"h1": 8})
    array = submit(world.controller, submission(elements="1-5"))
    submit(world.controller, owner=BOB)
    plan = world.run()
    assert [sum(item.counts) for item in plan.bulk] == [5, 1]
    assert plan.bulk[0].jobs == [array]


def test_jobs_released_late_keep_their_place_by_job_id():
    world = scheduled({"h1": 1})
    held = submit(world.controller, submission(hold=True))
    later = submit(world.controller)
    resume(world.controller, held)
    world.run()
    assert world.is_live(held)
    assert not world.is_live(later)


def test_smaller_jobs_pass_one_that_does_not_fit():
    world = scheduled({"h1": 2})
    wide = submit(world.controller, submission(tasks=4))
    small = submit(world.controller, submission(tasks=2))
    world.run()
    assert not world.is_live(wide)
    assert world.is_live(small)


def test_an_inactive_queue_is_passed_over_and_gets_no_reason():
    world = scheduled()
    job = submit(world.controller, submission(queue="asleep"))
    assert world.run().is_empty
    assert not world.is_live(job)


# --- serial work ---------------------------------------------------------------------------------


def test_an_array_of_a_thousand_is_one_item_levelled_over_hosts():
    world = scheduled({"h1": 500, "h2": 300, "h3": 400})
    array = submit(world.controller, submission(elements="1-1000"))
    plan = world.run()
    assert len(plan.bulk) == 1
    assert (plan.bulk[0].firsts, plan.bulk[0].lasts) == ([1], [1000])
    assert world.spread(array) == [434, 233, 333]


def test_what_does_not_fit_of_an_array_waits_with_a_reason():
    world = scheduled({"h1": 4, "h2": 4})
    array = submit(world.controller, submission(elements="1-100:3"))
    plan = world.run()
    assert (plan.bulk[0].firsts, plan.bulk[0].lasts) == ([1], [22])
    assert world.spread(array) == [4, 4]
    assert world.reason(array).code is ReasonCode.HOSTS


def test_an_array_runs_at_most_its_limit_of_elements():
    world = scheduled({"h1": 16})
    array = submit(world.controller, submission(elements="1-10", limit=3))
    world.run()
    assert world.spread(array) == [3]
    assert world.run().is_empty
    report_started(world.controller, array, 2)
    report_ended(world.controller, array, 2)
    world.run()
    assert sorted(world.controller.job(array).live) == [0, 2, 3]


def test_memory_bounds_how_many_fit():
    world = scheduled({"h1": 16, "h2": 16})
    array = submit(world.controller, submission(elements="1-100", mem_mib=3_000))
    world.run()
    assert world.spread(array) == [2, 2]


def test_several_tasks_on_one_host_are_placed_in_bulk():
    world = scheduled({"h1": 8, "h2": 4})
    array = submit(world.controller, submission(elements="1-9", asks=request(3, one_host=True)))
    plan = world.run()
    assert len(plan.bulk) == 1
    assert not plan.gangs
    assert world.spread(array) == [2, 1]


def test_pools_bound_how_many_start():
    world = scheduled({"h1": 16}, pools={"seats": 7})
    asks = request(amounts=[Amount("seats", 2)])
    array = submit(world.controller, submission(elements="1-9", asks=asks))
    world.run()
    assert world.spread(array) == [3]
    reason = world.reason(array)
    assert (reason.code, reason.resource, reason.needed, reason.available) == (
        ReasonCode.POOL, "seats", 2, 1,
    )  # fmt: skip


def test_one_exclusive_job_gets_an_empty_host_of_its_own():
    world = scheduled({"h1": 4, "h2": 4})
    place(world.controller, submit(world.controller), host="h1")
    array = submit(world.controller, submission(elements="1-3", asks=request(exclusive=True)))
    after = submit(world.controller, submission(elements="1-8"))
    world.run()
    assert world.spread(array) == [0, 1]
    assert world.spread(after) == [3, 0]


def test_a_job_is_not_sent_where_its_start_failed_and_others_are():
    world = scheduled({"h1": 1, "h2": 1})
    job = submit(world.controller)
    place(world.controller, job, host="h1")
    report_ended(world.controller, job, host_fault=True)
    place(world.controller, submit(world.controller, owner=BOB), host="h2")
    other = submit(world.controller)
    world.run()
    assert not world.is_live(job)
    assert world.hosts(other) == {"h1": 1}


def test_jobs_that_avoid_different_hosts_are_placed_apart_and_in_order():
    world = scheduled({"h1": 4, "h2": 4})
    jobs = [submit(world.controller) for _ in range(5)]
    for job, host in ((jobs[1], "h1"), (jobs[3], "h2")):
        place(world.controller, job, host=host)
        report_ended(world.controller, job, host_fault=True)
    plan = world.run()
    assert [item.jobs for item in plan.bulk] == [[job] for job in jobs]
    assert world.hosts(jobs[1]) == {"h2": 1}
    assert world.hosts(jobs[3]) == {"h1": 1}


def test_a_queue_keeps_its_jobs_on_its_hosts():
    world = scheduled(("h1", "h2"))
    array = submit(world.controller, submission(elements="1-9", queue="narrow"))
    world.run()
    assert world.spread(array) == [0, 4]


def test_hosts_that_were_asked_for_are_used_in_order_of_preference():
    world = scheduled({"h1": 2, "h2": 2, "h3": 2})
    wanted = replace(request(), hosts=(HostChoice("h3", 2), HostChoice("h1", 1)))
    array = submit(world.controller, submission(elements="1-3", asks=wanted))
    world.run()
    assert world.spread(array) == [1, 0, 2]


def test_others_are_used_when_the_preferred_hosts_are_full():
    world = scheduled({"h1": 2, "h2": 2, "h3": 2})
    wanted = replace(request(), hosts=(HostChoice("h3", 0),), other_hosts=True)
    array = submit(world.controller, submission(elements="1-3", asks=wanted))
    world.run()
    assert world.spread(array) == [1, 0, 2]


def test_a_preference_of_the_others_puts_them_first_or_between():
    world = scheduled({"h1": 1, "h2": 1, "h3": 1, "h4": 1})
    wanted = replace(
        request(),
        hosts=(HostChoice("h4", 3), HostChoice("h1", 0)),
        other_hosts=True,
        others_preference=2,
    )
    array = submit(world.controller, submission(elements="1-3", asks=wanted))
    world.run()
    assert world.spread(array) == [0, 1, 1, 1]


def test_hosts_are_named_by_their_domain_and_left_out_by_it():
    hosts = [
        HostConfig(name=f"h{place}", slots=1, labels={"rack": rack})
        for place, rack in enumerate(("r1", "r2", "r1", "r3"), 1)
    ]
    world = scheduled(hosts, levels=("rack",))
    inside = replace(request(), hosts=(HostChoice("r1"),))
    beside = replace(request(), hosts_excluded=("h2", "r1"))
    first = submit(world.controller, submission(elements="1-4", asks=inside))
    second = submit(world.controller, submission(elements="1-4", asks=beside))
    world.run()
    assert world.spread(first) == [1, 0, 1, 0]
    assert world.spread(second) == [0, 0, 0, 1]
    assert world.host_codes(second)[HostCode.NOT_ASKED] == 3


def test_order_keys_with_a_mark_are_asked_again_for_each_attempt():
    world = scheduled({"h1": 4, "h2": 2, "h3": 3})
    again = replace(request(), order="!slots")
    array = submit(world.controller, submission(elements="1-6", asks=again))
    world.run()
    assert world.spread(array) == [3, 1, 2]


def test_order_keys_fill_hosts_one_after_another():
    world = scheduled({"h1": 4, "h2": 2, "h3": 3})
    array = submit(
        world.controller, submission(elements="1-4", asks=replace(request(), order="-slots"))
    )
    world.run()
    assert world.spread(array) == [0, 2, 2]


def test_select_over_free_memory_is_asked_again_after_each_start():
    world = scheduled([HostConfig(name="h1", slots=9, mem_mib=10)])
    asks = replace(request(mem_mib=3), select="mem > 3")
    array = submit(world.controller, submission(elements="1-9", asks=asks))
    world.run()
    assert world.spread(array) == [3]
    assert world.host_codes(array) == {HostCode.SELECT: 1}


def test_select_over_free_memory_follows_what_is_free():
    world = scheduled({"h1": 4, "h2": 4})
    place(world.controller, submit(world.controller, submission(mem_mib=8_000)), host="h1")
    asks = replace(request(), select="mem > 1000")
    array = submit(world.controller, submission(elements="1-9", asks=asks))
    world.run()
    assert world.spread(array) == [0, 4]


# --- parallel work -------------------------------------------------------------------------------


def test_a_parallel_job_starts_whole_or_not_at_all():
    world = scheduled({"h1": 4, "h2": 3})
    first = submit(world.controller, submission(tasks=6))
    second = submit(world.controller, submission(tasks=2))
    world.run()
    assert world.hosts(first) == {"h1": 4, "h2": 2}
    assert not world.is_live(second)


def test_a_range_of_tasks_takes_the_largest_count_that_fits():
    world = scheduled({"h1": 4, "h2": 3})
    job = submit(world.controller, submission(tasks=(2, 20)))
    world.run()
    assert world.hosts(job) == {"h1": 4, "h2": 3}


def test_a_range_on_one_host_takes_the_host_with_most_room():
    world = scheduled({"h1": 4, "h2": 6})
    job = submit(world.controller, submission(asks=request((2, 20), one_host=True)))
    world.run()
    assert world.hosts(job) == {"h2": 6}


def test_ptile_puts_so_many_on_each_host_and_the_rest_on_the_last():
    world = scheduled({"h1": 2, "h2": 4, "h3": 4})
    job = submit(world.controller, submission(asks=request(8, ptile=3)))
    world.run()
    assert list(world.hosts(job).items()) == [("h2", 3), ("h3", 3), ("h1", 2)]


def test_the_first_host_is_one_that_leaves_room_for_all_tasks():
    hosts = [HostConfig(name="h1", slots=5, mem_mib=6), HostConfig(name="h2", slots=4, mem_mib=9)]
    world = scheduled(hosts)
    asks = request(8, amounts=[Amount("mem", 1), Amount("mem", 5, "job")])
    job = submit(world.controller, submission(asks=asks))
    world.run()
    assert list(world.hosts(job).items()) == [("h2", 4), ("h1", 4)]


def test_a_range_from_one_task_uses_hosts_that_could_not_be_the_first():
    hosts = [HostConfig(name="h1", slots=2, mem_mib=9), HostConfig(name="h2", slots=3, mem_mib=2)]
    world = scheduled(hosts)
    job = submit(
        world.controller, submission(asks=request((1, 9), amounts=[Amount("mem", 5, "job")]))
    )
    world.run()
    assert list(world.hosts(job).items()) == [("h1", 2), ("h2", 3)]


def test_amounts_once_for_a_host_and_once_for_the_job():
    world = scheduled({"h1": 4, "h2": 4})
    asks = request(6, amounts=[Amount("mem", 6_000, "job"), Amount("mem", 2_000, "host")])
    job = submit(world.controller, submission(asks=asks))
    world.run()
    assert world.hosts(job) == {"h1": 4, "h2": 2}
    assert world.controller.state.hosts.used[1].tolist() == [8_000, 2_000]


def test_elements_of_a_parallel_array_start_one_by_one_up_to_its_limit():
    world = scheduled({"h1": 8, "h2": 8})
    array = submit(world.controller, submission(elements="1-5", limit=2, tasks=3))
    plan = world.run()
    assert [(item.job, item.index) for item in plan.gangs] == [(array, 1), (array, 2)]


def test_two_parallel_jobs_do_not_share_what_one_of_them_got():
    world = scheduled({"h1": 4, "h2": 4})
    jobs = [submit(world.controller, submission(tasks=3)) for _ in range(3)]
    world.run()
    assert [sum(world.hosts(job).values()) for job in jobs[:2]] == [3, 3]
    assert not world.is_live(jobs[2])


def test_pools_for_each_task_bound_a_range():
    world = scheduled({"h1": 16}, pools={"seats": 7})
    asks = request((2, 9), amounts=[Amount("seats", 2), Amount("seats", 1, "job")])
    job = submit(world.controller, submission(asks=asks))
    world.run()
    assert world.hosts(job) == {"h1": 3}


# --- work ----------------------------------------------------------------------------------------


def test_a_hundred_thousand_blocked_jobs_cost_one_look_at_the_hosts():
    world = scheduled({f"h{number}": 1 for number in range(10)})
    submit(world.controller, *[submission()] * 100_000)
    world.run()
    counts = Counts()
    run_session(world.controller.state, now_us=world.controller.now_us, counts=counts)
    # The masks of one request, and one try.
    assert counts == Counts(classes=1, tries=1, host_rows=20, runs=0)


def test_a_second_session_touches_no_host_when_nothing_changed():
    world = scheduled({"h1": 2, "h2": 2})
    submit(world.controller, submission(elements="1-100"))
    submit(world.controller, submission(mem_mib=100_000), submission(tasks=50))
    world.run()
    world.run()
    assert world.counts.host_rows == 0
    assert world.counts.tries == 0
    assert not world.memory.is_due


def test_classes_that_differ_in_user_or_run_limit_share_one_try():
    world = scheduled({"h1": 1})
    submit(world.controller, *[submission(run_limit_us=1_000_000 * n) for n in range(1, 51)])
    place(world.controller, 1, host="h1")
    world.run()
    assert world.counts.classes == 49
    assert world.counts.tries == 1


def test_a_request_that_did_not_fit_is_not_tried_again_in_a_session():
    world = scheduled({"h1": 4})
    wide = submit(world.controller, submission(tasks=9))
    small = submit(world.controller, owner=BOB)
    same = submit(world.controller, submission(tasks=9), owner=BOB)
    busy = submit(world.controller, submission(asks=request(2, mem_mib=5_000)))
    also_busy = submit(world.controller, submission(asks=request(2, mem_mib=5_000)), owner=BOB)
    world.run()
    assert world.is_live(small)
    assert world.reason(wide) == world.reason(same)
    assert world.reason(busy) == world.reason(also_busy)
    # The small one, and each request once where it is not known to be too large for ever.
    assert world.counts.tries == 1
    place(world.controller, submit(world.controller), host="h1")
    first = submit(world.controller, submission(tasks=3))
    submit(world.controller, submission(tasks=2))
    second = submit(world.controller, submission(tasks=3), owner=BOB)
    world.run()
    assert world.reason(first) == world.reason(second)
    assert world.counts.tries == 2


def test_a_class_sleeps_on_when_what_came_free_went_to_one_in_front():
    world = scheduled({"h1": 1})
    running = submit(world.controller)
    world.run()
    submit(world.controller, submission(queue="urgent"))
    behind = submit(world.controller, submission(mem_mib=5))
    world.run()
    report_started(world.controller, running)
    report_ended(world.controller, running)
    world.run()
    assert not world.is_live(behind)
    assert world.counts.tries == 1


def test_a_class_blocked_by_a_pool_is_not_held_against_hosts():
    world = scheduled({"h1": 4}, pools={"seats": 1})
    asks = request(amounts=[Amount("seats", 1)])
    submit(world.controller, submission(elements="1-9", asks=asks))
    world.run()
    submit(world.controller, submission(mem_mib=1))
    world.run()
    assert world.counts.tries == 1


# --- whole hosts ---------------------------------------------------------------------------------


def whole(count: int, least: int = 1) -> Request:
    return Request(
        tasks_min=max(count, least), tasks_max=TASKS_MAX, ptile=-1, whole_hosts=count
    )  # fmt: skip


def test_whole_hosts_are_given_with_all_their_slots():
    world = scheduled({"h1": 2, "h2": 4, "h3": 3})
    job = submit(world.controller, submission(asks=whole(2)))
    world.run()
    hosts = world.hosts(job)
    assert len(hosts) == 2
    assert all(tasks == {"h1": 2, "h2": 4, "h3": 3}[name] for name, tasks in hosts.items())


def test_a_host_of_which_anything_is_taken_is_not_whole():
    world = scheduled({"h1": 2, "h2": 2, "h3": 2})
    small = submit(world.controller)
    world.run()
    (taken,) = world.hosts(small)
    job = submit(world.controller, submission(asks=whole(2)))
    more = submit(world.controller, submission(asks=whole(1)))
    world.run()
    assert taken not in world.hosts(job)
    assert not world.is_live(more)
    assert world.reason(more).code is ReasonCode.SPAN
    report_ended(world.controller, small)
    world.run()
    assert world.hosts(more) == {taken: 2}


def test_whole_hosts_have_the_tasks_asked_for_together():
    world = scheduled({"h1": 1, "h2": 4, "h3": 3})
    job = submit(world.controller, submission(asks=whole(2, least=7)))
    world.run()
    assert world.hosts(job) == {"h2": 4, "h3": 3}


def test_more_whole_hosts_than_there_are_wait_for_ever_and_say_so():
    world = scheduled({"h1": 1, "h2": 4})
    job = submit(world.controller, submission(asks=whole(3)))
    world.run()
    assert not world.is_live(job)
    assert world.reason(job).unsatisfiable
