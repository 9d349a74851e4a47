"""Every reason that a session gives, with its numbers."""

import pytest
from msgspec.structs import replace
from sessions import Scheduled

from xce.model.command import SetHostsOpen
from xce.model.config import HostConfig, QueueConfig, ResourceConfig
from xce.model.reason import (
    HostCode,
    HostReason,
    Reason,
    ReasonCode,
    Wake,
    render_lsf,
    render_plain,
)
from xce.model.request import (
    TASKS_MAX,
    Alternative,
    Amount,
    CuWish,
    HostChoice,
    Part,
    Request,
    Threshold,
)
from xce.sched.explain import cures, gist
from xce.testing.builders import (
    cluster,
    join_host,
    leave_host,
    place,
    report_ended,
    request,
    submission,
    submit,
)

QUEUES = (
    QueueConfig(name="normal", priority=30, default=True, exclusive=True),
    QueueConfig(name="narrow", priority=40, hosts=("h2",)),
)


def scheduled(hosts=("h1", "h2"), **settings) -> Scheduled:
    return Scheduled(cluster(hosts, queues=QUEUES, **settings))


def fill(world: Scheduled, host: str, *, slots: int = 1, mem_mib: int = 0) -> None:
    asks = request(slots, mem_mib=mem_mib, one_host=True)
    place(world.controller, submit(world.controller, submission(asks=asks)), host=host)


def test_no_host_has_joined():
    world = scheduled(join=False)
    job = submit(world.controller)
    world.run()
    assert world.reason(job) == Reason(ReasonCode.NO_HOSTS)


def test_busy_hosts_are_counted_with_what_the_best_has_free():
    world = scheduled({"h1": 4, "h2": 4})
    fill(world, "h1", slots=4)
    fill(world, "h2", slots=2)
    job = submit(world.controller, submission(asks=request(3, one_host=True)))
    world.run()
    busy = HostReason(HostCode.SLOTS_BUSY, 2, "", 3, 2)
    assert world.reason(job) == Reason(ReasonCode.HOSTS, (busy,), needed=3, available=2)


def test_memory_that_is_given_out_is_named_with_its_amounts():
    world = scheduled({"h1": 4, "h2": 4})
    fill(world, "h1", mem_mib=8_000)
    fill(world, "h2", mem_mib=7_000)
    job = submit(world.controller, submission(mem_mib=2_000))
    world.run()
    assert world.reason(job).host_reasons == (
        HostReason(HostCode.AMOUNT_SHORT, 2, "mem", 2_000, 1_192),
    )


def test_each_host_is_counted_once_under_its_first_reason():
    hosts = [HostConfig(name=f"h{n}", slots=4, mem_mib=100) for n in range(1, 8)]
    hosts[6] = replace(hosts[6], slots=1)
    world = scheduled(hosts)
    world.controller.tell(
        SetHostsOpen("root", ("h3", "h2"), is_open=False, is_admin=True), by="root"
    )
    leave_host(world.controller, "h2")
    fill(world, "h4", slots=3)
    fill(world, "h5", mem_mib=80)
    asks = replace(
        request(2, one_host=True, mem_mib=20),
        hosts=tuple(HostChoice(f"h{n}") for n in range(2, 8)),
        select="hname != 'h6'",
    )
    job = submit(world.controller, submission(asks=asks))
    world.run()
    assert world.host_codes(job) == {
        HostCode.NOT_ASKED: 1,
        HostCode.SELECT: 1,
        HostCode.TOO_SMALL: 1,
        HostCode.UNREACHABLE: 1,
        HostCode.CLOSED: 1,
        HostCode.SLOTS_BUSY: 1,
        HostCode.AMOUNT_SHORT: 1,
    }
    assert not world.reason(job).unsatisfiable


def test_hosts_outside_the_queue_are_said_to_be():
    world = scheduled({"h1": 4, "h2": 4})
    fill(world, "h2", slots=4)
    job = submit(world.controller, submission(queue="narrow"))
    world.run()
    assert world.host_codes(job) == {HostCode.NOT_IN_QUEUE: 1, HostCode.SLOTS_BUSY: 1}


def test_a_job_that_wants_hosts_of_its_own_hears_of_the_others_work():
    world = scheduled()
    fill(world, "h1")
    fill(world, "h2")
    job = submit(world.controller, submission(asks=request(exclusive=True)))
    world.run()
    assert world.host_codes(job) == {HostCode.EXCLUSIVE: 2}


@pytest.mark.parametrize(
    "asks",
    [
        request(),
        request(3),
        request(2, one_host=True),
        request(exclusive=True),
        replace(request(), select="mem > 1"),
    ],
)
def test_a_host_that_another_job_has_for_itself_is_told_apart_from_busy_ones(asks: Request):
    world = scheduled({"h1": 4, "h2": 2})
    alone = submit(world.controller, submission(asks=request(exclusive=True)))
    place(world.controller, alone, host="h1")
    fill(world, "h2", slots=2)
    job = submit(world.controller, submission(asks=asks))
    world.run()
    codes = world.host_codes(job)
    assert codes.pop(HostCode.TAKEN) == 1
    assert set(codes) <= {HostCode.SLOTS_BUSY, HostCode.EXCLUSIVE}
    assert "Running an exclusive job: 1 host" in render_lsf(world.reason(job))
    assert "1 host taken by an exclusive job" in render_plain(world.reason(job), now_us=0)


def test_a_host_is_taken_as_soon_as_an_exclusive_job_starts_in_the_same_session():
    world = scheduled(("h1",))
    alone = submit(world.controller, submission(asks=request(exclusive=True)))
    job = submit(world.controller)
    world.run()
    assert world.is_live(alone)
    assert world.host_codes(job) == {HostCode.TAKEN: 1}
    report_ended(world.controller, alone)
    world.run()
    assert world.is_live(job)


def test_a_host_that_is_busy_and_then_taken_is_told_anew():
    """With as much free, a verdict that was found before holds no more."""
    world = scheduled({"h1": 1})
    job = submit(world.controller)
    place(world.controller, job, host="h1")
    waiting = submit(world.controller)
    world.run()
    assert world.host_codes(waiting) == {HostCode.SLOTS_BUSY: 1}
    report_ended(world.controller, job)
    alone = submit(world.controller, submission(asks=request(exclusive=True)))
    place(world.controller, alone, host="h1")
    world.run()
    assert world.host_codes(waiting) == {HostCode.TAKEN: 1}


def test_a_job_that_avoids_its_only_host_is_told_so_and_not_that_it_can_never_run():
    world = scheduled(("h1",))
    job = submit(world.controller)
    place(world.controller, job, host="h1")
    report_ended(world.controller, job, host_fault=True)
    world.run()
    assert world.host_codes(job) == {HostCode.AVOIDED: 1}
    assert not world.reason(job).unsatisfiable


def test_the_reason_of_jobs_that_avoid_nothing_goes_before():
    world = scheduled({"h1": 1, "h2": 1})
    first, second = submit(world.controller), submit(world.controller)
    place(world.controller, first, host="h1")
    report_ended(world.controller, first, host_fault=True)
    fill(world, "h1")
    fill(world, "h2")
    world.run()
    assert world.host_codes(second) == {HostCode.SLOTS_BUSY: 2}


def test_a_parallel_job_hears_how_many_slots_are_usable():
    world = scheduled({"h1": 4, "h2": 4})
    fill(world, "h1", slots=3)
    fill(world, "h2", slots=4)
    job = submit(world.controller, submission(tasks=6))
    world.run()
    busy = HostReason(HostCode.SLOTS_BUSY, 2, "", 6, 1)
    assert world.reason(job) == Reason(ReasonCode.HOSTS, (busy,), needed=6, available=1)


def test_enough_slots_in_the_wrong_places_are_a_matter_of_span():
    world = scheduled({"h1": 4, "h2": 4})
    fill(world, "h1")
    fill(world, "h2")
    one_host = submit(world.controller, submission(asks=request(4, one_host=True)))
    tiled = submit(world.controller, submission(asks=request(6, ptile=4)))
    world.run()
    for job, needed in ((one_host, 4), (tiled, 6)):
        reason = world.reason(job)
        assert (reason.code, reason.needed, reason.available) == (ReasonCode.SPAN, needed, 6)
        assert not reason.unsatisfiable


def whole(count: int, least: int = 0) -> Request:
    return replace(request((max(count, least), TASKS_MAX), ptile=-1), whole_hosts=count)


@pytest.mark.parametrize(
    ("asks", "text"),
    [
        (whole(3), "too few hosts can be taken whole, as -nnodes wants them (needs 3, 2 usable)"),
        (
            whole(2, 9),
            "as many hosts as -nnodes wants have too few slots together (needs 9, 8 usable)",
        ),
        (
            whole(4),
            "too few hosts can be taken whole, as -nnodes wants them (needs 4, 3 usable)",
        ),
        (
            replace(whole(2), same=("tier",)),
            "no hosts meet -nnodes and same[] (needs 2 slots, 11 usable)",
        ),
        (
            replace(request(8), same=("tier",)),
            "no hosts meet same[] (needs 8 slots, 11 usable)",
        ),
        (
            replace(request(8, ptile=4), same=("tier",)),
            "no hosts meet span[] and same[] (needs 8 slots, 11 usable)",
        ),
        (
            replace(request(10), hosts_max=2),
            "no hosts meet span[] (needs 10 slots, 12 usable)",
        ),
    ],
)  # fmt: skip
def test_a_reason_names_what_says_where_tasks_lie(asks, text):
    """Of three hosts, two of which are alike; one of these is partly in use."""
    resources = (ResourceConfig(name="tier", kind="string"),)
    hosts = [
        HostConfig(name=name, slots=4, attributes={"tier": tier})
        for name, tier in (("h1", "a"), ("h2", "b"), ("h3", "a"))
    ]
    world = scheduled(hosts, resources=resources)
    fill(world, "h1")
    job = submit(world.controller, submission(asks=asks))
    world.run()
    assert text in render_plain(world.reason(job), now_us=0)


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        (request(9), Reason(ReasonCode.HOSTS, needed=9, available=8, unsatisfiable=True)),
        (
            request(mem_mib=9_000),
            Reason(
                ReasonCode.HOSTS,
                (HostReason(HostCode.TOO_SMALL, 2, "mem", 9_000, 8_192),),
                unsatisfiable=True,
            ),
        ),
        (
            request(6, one_host=True),
            Reason(
                ReasonCode.SPAN,
                (HostReason(HostCode.TOO_SMALL, 2, "slots", 6, 4),),
                needed=6,
                available=8,
                unsatisfiable=True,
            ),
        ),
        (
            request(8, ptile=5),
            Reason(ReasonCode.SPAN, needed=8, available=8, unsatisfiable=True),
        ),
        (
            request(2, amounts=[Amount("seats", 2)]),
            Reason(
                ReasonCode.POOL, resource="seats", needed=4, available=3, unsatisfiable=True
            ),
        ),
    ],
)  # fmt: skip
def test_what_an_idle_cluster_could_not_run_is_unsatisfiable(asks, expected):
    world = scheduled({"h1": 4, "h2": 4}, pools={"seats": 3})
    fill(world, "h1", slots=4)
    leave_host(world.controller, "h2")
    job = submit(world.controller, submission(asks=asks))
    world.run()
    assert world.reason(job) == expected


def test_a_select_over_free_memory_that_no_idle_host_meets_is_unsatisfiable():
    world = scheduled({"h1": 4})
    asks = replace(request(), select="mem > 9000")
    job = submit(world.controller, submission(asks=asks))
    world.run()
    assert world.reason(job).unsatisfiable
    assert world.host_codes(job) == {HostCode.SELECT: 1}


def test_a_host_that_has_not_joined_yet_may_be_large_enough():
    hosts = [HostConfig(name="h1", slots=2), HostConfig(name="h2")]
    world = scheduled(hosts, join=False)
    join_host(world.controller, "h1")
    job = submit(world.controller, submission(tasks=20))
    world.run()
    assert not world.reason(job).unsatisfiable
    assert world.host_codes(job)[HostCode.UNREACHABLE] == 1
    join_host(world.controller, "h2", cpus=4)
    world.run()
    assert world.reason(job).unsatisfiable


def test_a_job_too_large_for_the_cluster_reads_so_in_lsf_words():
    world = scheduled({"h1": 4})
    job = submit(world.controller, submission(tasks=9))
    world.run()
    assert render_lsf(world.reason(job)) == ("Not enough job slot(s)",)


def test_a_pool_is_cured_by_the_pool_and_all_else_by_capacity():
    assert cures(Reason(ReasonCode.POOL)) == {Wake.POOL, Wake.CONFIG}
    assert cures(Reason(ReasonCode.HOSTS)) == {Wake.CAPACITY, Wake.CONFIG}


def test_the_gist_leaves_out_what_every_start_changes():
    def reason(*items: HostReason, **numbers: int) -> Reason:
        return Reason(ReasonCode.HOSTS, items, **numbers)

    busy = reason(HostReason(HostCode.SLOTS_BUSY, 3, "", 4, 2), needed=4, available=1)
    busier = reason(HostReason(HostCode.SLOTS_BUSY, 2, "", 4, 0), needed=4, available=0)
    assert gist(busy) == gist(busier)
    short = HostReason(HostCode.AMOUNT_SHORT, 1, "mem", 4, 2)
    assert gist(busy) != gist(reason(short))
    assert gist(reason(HostReason(HostCode.CLOSED, 1))) != gist(
        reason(HostReason(HostCode.CLOSED, 2))
    )
    assert gist(busy) != gist(replace(busy, unsatisfiable=True))


def named_cluster() -> Scheduled:
    """Return two racks of two hosts; the second rack has an attribute."""
    hosts = [
        HostConfig(
            name=f"h{place}",
            slots=2,
            mem_mib=10 * place,
            labels={"rack": f"r{place // 3}"} if place < 4 else {},
            attributes={"kind": "a"} if place > 2 else {},
        )
        for place in range(1, 5)
    ]
    return Scheduled(cluster(hosts, resources=[ResourceConfig(name="kind", kind="string")]))


def why(scheduled: Scheduled, asks: Request) -> Reason:
    job = submit(scheduled.controller, submission(asks=asks))
    scheduled.run()
    return scheduled.reason(job)


def asked(tasks: int, **more: object) -> Request:
    return Request(tasks_min=tasks, tasks_max=tasks, **more)


def test_a_part_that_does_not_fit_alone_is_named_with_its_reason():
    small, large = asked(1), asked(2, select="mem > 99")
    reason = why(named_cluster(), asked(3, parts=(Part("one", 1, small), Part("two", 2, large))))
    assert (reason.code, reason.needed, reason.unsatisfiable) == (ReasonCode.PARTS, 3, True)
    (under,) = reason.under
    assert under.role == "two"
    assert [item.code for item in under.host_reasons] == [HostCode.SELECT]
    assert "(two: " in render_plain(reason, now_us=0)
    assert (
        render_lsf(reason)[0] == "Not enough hosts to meet the job's compound resource requirement"
    )


def test_parts_that_fit_alone_but_not_together_are_told_as_such():
    part = asked(1, amounts=(Amount("mem", 35),))
    reason = why(named_cluster(), asked(2, parts=(Part("one", 1, part), Part("two", 1, part))))
    assert reason == Reason(ReasonCode.PARTS, needed=2, unsatisfiable=True)


def test_each_alternative_has_its_own_reason():
    scheduled = named_cluster()
    runs = submit(scheduled.controller, submission(asks=asked(8)))
    scheduled.run()
    assert scheduled.is_live(runs)
    first = Alternative(asked(1, select="mem > 99"))
    second = Alternative(asked(2))
    reason = why(scheduled, asked(2, alternatives=(first, second)))
    assert (reason.code, reason.unsatisfiable) == (ReasonCode.ALTERNATIVES, False)
    assert [(item.role, item.unsatisfiable) for item in reason.under] == [
        ("alternative 1", True),
        ("alternative 2", False),
    ]
    assert Wake.CAPACITY in cures(reason)


def test_a_request_whose_alternatives_must_all_be_waited_for_says_so():
    late = Alternative(asked(1), delay_us=60_000_000)
    assert why(named_cluster(), asked(1, alternatives=(late,))) == Reason(ReasonCode.DELAY)


def test_domains_thresholds_and_missing_values_are_told():
    scheduled = named_cluster()
    near = why(scheduled, asked(5, cu=CuWish("rack", max_domains=1)))
    assert (near.code, near.resource, near.available) == (ReasonCode.DOMAINS, "rack", 6)
    assert HostReason(HostCode.NO_DOMAIN, 1, "rack") in near.host_reasons
    same = why(scheduled, asked(5, same=("kind",)))
    assert (same.code, same.available) == (ReasonCode.HOSTS, 4)
    assert HostReason(HostCode.NO_VALUE, 2, "kind") in same.host_reasons
    floor = why(scheduled, asked(1, thresholds=(Threshold("mem", 99_000),)))
    assert floor.host_reasons == (HostReason(HostCode.THRESHOLD, 4, "mem"),)
    assert "beyond the threshold of mem" in render_plain(floor, now_us=0)


def test_a_search_that_gave_up_does_not_claim_that_nothing_fits():
    hosts = [HostConfig(name=f"h{place}", slots=3, mem_mib=3) for place in range(60)]
    scheduled = Scheduled(cluster(hosts))
    parts = tuple(
        Part(f"part{place}", 20, asked(20, amounts=(Amount("mem", 2, "host"),), ptile=2))
        for place in range(4)
    )
    reason = why(scheduled, asked(80, parts=parts, hosts_max=39))
    assert (reason.code, reason.unsatisfiable) == (ReasonCode.SEARCH, False)
