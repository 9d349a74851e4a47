"""Plans: what still holds is taken, whatever a scheduler says."""

import msgspec
import pytest

from xce.control.accept import plan_digest
from xce.model.command import ProposePlan, SetHostsOpen
from xce.model.config import HostConfig, QueueConfig
from xce.model.plan import BulkStart, GangStart
from xce.model.reason import Reason, ReasonCode
from xce.model.record import BulkPlaced, GangPlaced, ReasonsChanged, SessionRan
from xce.model.request import Alternative, Amount, Part, Request
from xce.state.check import check_not_over_committed, check_state
from xce.testing.builders import (
    bulk,
    cluster,
    gang,
    kill,
    leave_host,
    place,
    plan,
    request,
    stop,
    submission,
    submit,
    tick,
)


@pytest.fixture
def controller():
    found = cluster(
        [HostConfig(name="h1", slots=4, counters={"lic": 2}), HostConfig(name="h2", slots=2)],
        counters=("lic",),
        pools={"tokens": 3},
        queues=(QueueConfig(name="normal", default=True, exclusive=True),),
    )
    yield found
    check_state(found.state)
    check_not_over_committed(found.state)


def placed(controller, *items, **changes):
    """Propose items; return the records of the entry that answered."""
    proposal = msgspec.structs.replace(plan(controller, *items), **changes)
    before = len(controller.entries)
    controller.tell(ProposePlan(proposal), by="scheduler")
    (entry,) = controller.entries[before:]
    assert isinstance(entry.records[-1], SessionRan)
    assert entry.records[-1].digest == plan_digest(proposal)
    return list(entry.records[:-1]), entry.records[-1].stale


def test_an_empty_plan_leaves_no_entry(controller):
    before = len(controller.entries)
    controller.tell(ProposePlan(plan(controller)))
    assert len(controller.entries) == before


def test_elements_go_to_the_hosts_in_order_of_their_shares(controller):
    job = submit(controller, submission(elements="1-9:2,20"))
    records, stale = placed(controller, bulk(controller, job, hosts={"h2": 2, "h1": 4}))
    assert stale == 0
    assert [record.counts for record in records] == [[2, 4]]
    live = controller.job(job).live
    assert [live[position].hosts for position in range(6)] == [[1], [1], [0], [0], [0], [0]]


def test_a_share_is_trimmed_to_what_the_host_can_take(controller):
    job = submit(controller, submission(elements="1-9"))
    records, stale = placed(controller, bulk(controller, job, hosts={"h2": 5, "h1": 4}))
    (record,) = records
    assert (record.hosts, record.counts) == ([1, 0], [2, 4])
    assert (record.firsts, record.lasts) == ([1], [6])
    assert stale == 3


@pytest.mark.parametrize(
    "asks",
    [
        request(1, mem_mib=5_000),
        request(1, amounts=[Amount("lic", 2)]),
        request(1, amounts=[Amount("lic", 2, "host")]),
        request(1, amounts=[Amount("lic", 2, "job")]),
        request(1, amounts=[Amount("tokens", 2)]),
        request(1, amounts=[Amount("tokens", 3, "job")]),
        request(3, one_host=True),
        request(1, exclusive=True),
    ],
)
def test_every_amount_is_checked(controller, asks):
    job = submit(controller, submission(elements="1-3", asks=asks))
    records, stale = placed(controller, bulk(controller, job, hosts={"h1": 3}))
    assert [sum(record.counts) for record in records] == [1]
    assert stale == 2


def test_only_what_pends_is_taken(controller):
    job = submit(controller, submission(elements="1-6"))
    kill(controller, (job, 1, 2))
    stop(controller, (job, 4, 4))
    records, stale = placed(controller, bulk(controller, job, hosts={"h1": 4, "h2": 2}))
    (record,) = records
    assert (record.firsts, record.lasts) == ([3, 5], [3, 6])
    assert stale == 3


def test_an_array_limit_holds(controller):
    job = submit(controller, submission(elements="1-6", limit=2))
    records, stale = placed(controller, bulk(controller, job, hosts={"h1": 4}))
    assert [record.lasts for record in records] == [[2]]
    assert stale == 2
    records, stale = placed(controller, bulk(controller, job, hosts={"h1": 2}))
    assert (records, stale) == ([], 2)


def test_jobs_that_wait_are_not_taken(controller):
    first = submit(controller)
    job = submit(controller, submission(after=f"done({first})"))
    assert placed(controller, bulk(controller, job, hosts={"h1": 1})) == ([], 1)


def test_what_is_named_twice_is_taken_once(controller):
    job = submit(controller, submission(elements="1-3"))
    item = bulk(controller, job, hosts={"h1": 3})
    records, stale = placed(controller, item, item)
    assert len(records) == 1
    assert stale == 3
    twice = BulkStart(item.cls, [job, job], [1, 1], [3, 3], [1], [6])
    assert placed(controller, twice)[0] == []


def test_a_parallel_job_that_is_named_twice_is_taken_once(controller):
    job = submit(controller, submission(tasks=2))
    item = gang(controller, job, hosts={"h1": 2})
    records, stale = placed(controller, item, item)
    assert [type(record) for record in records] == [GangPlaced]
    assert stale == 1


@pytest.mark.parametrize("how", ["closed", "down", "unknown", "gone"])
def test_a_host_that_may_take_no_work_is_not_used(controller, how):
    job, wide = submit(controller), submit(controller, submission(tasks=2))
    number = 0
    match how:
        case "closed":
            controller.tell(SetHostsOpen("root", ("h1",), False, is_admin=True))
        case "down":
            leave_host(controller, "h1")
        case "unknown":
            number = 9
        case "gone":
            number = -1
    items = (
        BulkStart(controller.job(job).cls, [job], [0], [0], [number], [1]),
        GangStart(controller.job(wide).cls, wide, 0, [number], [2]),
    )
    assert placed(controller, *items) == ([], 2)


def test_a_parallel_job_gets_its_hosts_in_rank_order(controller):
    job = submit(controller, submission(tasks=3))
    records, _ = placed(controller, gang(controller, job, hosts={"h2": 1, "h1": 2}))
    assert [(r.hosts, r.tasks) for r in records] == [([1, 0], [1, 2])]
    assert controller.state.hosts.used[0].tolist() == [2, 1]
    ((host, effect),) = controller.effects()
    assert host == "h2"
    assert effect.hosts == (("h2", 1), ("h1", 2))


@pytest.mark.parametrize(
    ("tasks", "hosts"),
    [
        (3, {"h1": 2}),
        (3, {"h1": 4}),
        (3, {"h1": 3, "h2": 0}),
        ((2, 3), {"h1": 4}),
        (5, {"h1": 5}),
        (5, {"h2": 3, "h1": 2}),
    ],
)
def test_a_parallel_job_is_taken_whole_or_not_at_all(controller, tasks, hosts):
    job = submit(controller, submission(tasks=tasks))
    assert placed(controller, gang(controller, job, hosts=hosts)) == ([], 1)


def test_one_host_twice_or_none_is_no_allocation(controller):
    job = submit(controller, submission(tasks=2))
    cls = controller.job(job).cls
    assert placed(controller, GangStart(cls, job, 0, [0, 0], [1, 1])) == ([], 1)
    assert placed(controller, GangStart(cls, job, 0, [], [])) == ([], 1)


def test_span_hosts_1_is_not_spread(controller):
    job = submit(controller, submission(asks=request((2, 4), one_host=True)))
    assert placed(controller, gang(controller, job, hosts={"h1": 1, "h2": 1})) == ([], 1)
    assert len(placed(controller, gang(controller, job, hosts={"h1": 2}))[0]) == 1


def test_a_job_amount_is_taken_on_the_first_host_only(controller):
    job = submit(controller, submission(asks=request(2, amounts=[Amount("lic", 2, "job")])))
    assert placed(controller, gang(controller, job, hosts={"h2": 1, "h1": 1}))[0] == []
    assert len(placed(controller, gang(controller, job, hosts={"h1": 1, "h2": 1}))[0]) == 1
    row = controller.state.hosts.row["lic"]
    assert controller.state.hosts.used[row].tolist() == [2, 0]


def test_an_exclusive_job_needs_an_empty_host_and_lets_nobody_in(controller):
    plain = submit(controller)
    place(controller, plain, host="h1")
    job = submit(controller, submission(asks=request(exclusive=True)))
    assert placed(controller, bulk(controller, job, hosts={"h1": 1})) == ([], 1)
    assert len(placed(controller, bulk(controller, job, hosts={"h2": 1}))[0]) == 1
    other = submit(controller)
    assert placed(controller, bulk(controller, other, hosts={"h2": 1})) == ([], 1)


def test_pools_last_for_the_whole_plan(controller):
    asks = request(1, amounts=[Amount("tokens", 2, "job")])
    wide = request(2, amounts=[Amount("tokens", 1)])
    job, parallel = (submit(controller, submission(asks=one)) for one in (asks, wide))
    records, stale = placed(
        controller,
        bulk(controller, job, hosts={"h1": 1}),
        gang(controller, parallel, hosts={"h1": 2}),
    )
    assert [type(record) for record in records] == [BulkPlaced]
    assert stale == 1


def test_a_plan_of_another_configuration_is_stale_as_a_whole(controller):
    job, wide = submit(controller), submit(controller, submission(tasks=2))
    items = bulk(controller, job, hosts={"h1": 1}), gang(controller, wide, hosts={"h1": 2})
    assert placed(controller, *items, config_version=99) == ([], 2)


def test_a_class_or_job_that_is_gone_is_stale(controller):
    job = submit(controller)
    items = (
        BulkStart(77, [job], [0], [0], [0], [1]),
        BulkStart(controller.job(job).cls, [99], [0], [0], [0], [1]),
        GangStart(77, job, 0, [0], [1]),
        GangStart(controller.job(job).cls, 99, 0, [0], [1]),
        GangStart(controller.job(job).cls, job, 5, [0], [1]),
    )
    assert placed(controller, *items) == ([], 5)


def test_reasons_are_kept_for_classes_that_are_there(controller):
    job = submit(controller)
    cls = controller.job(job).cls
    reason = Reason(ReasonCode.AHEAD)
    records, _ = placed(controller, reasons=((cls, reason), (77, reason)))
    assert records == [ReasonsChanged([cls], [reason])]
    assert controller.state.classes[cls].reason == reason


def test_parts_are_taken_together_and_what_they_take_adds_up(controller):
    part = Request(tasks_min=1, tasks_max=1, amounts=(Amount("lic", 1), Amount("tokens", 1)))
    asks = Request(tasks_min=2, tasks_max=2, parts=(Part("a", 1, part), Part("b", 1, part)))
    first, second = (submit(controller, submission(asks=asks)) for _ in range(2))
    cls = controller.job(first).cls
    wrong = GangStart(cls, first, 0, [0, 0], [1, 1], [0, 0])
    elsewhere = GangStart(cls, first, 0, [0, 1], [1, 1], [0, 1])
    right = GangStart(cls, first, 0, [0, 0], [1, 1], [0, 1])
    for item in (wrong, elsewhere):
        assert placed(controller, item) == ([], 1)
    records, stale = placed(controller, right)
    assert stale == 0
    assert records[0].parts == [0, 1]
    assert controller.attempt(first).parts == [0, 1]
    assert controller.state.hosts.attempts.tolist() == [1, 0]
    assert controller.state.pools.used == {"tokens": 2}
    again = msgspec.structs.replace(right, job=second)
    assert placed(controller, again) == ([], 1), "neither licences nor tokens are left"


def test_an_alternative_is_taken_only_when_its_delay_has_passed(controller):
    one = Request(amounts=(Amount("lic", 9),))
    two = Request(amounts=(Amount("lic", 2),))
    asks = Request(alternatives=(Alternative(one), Alternative(two, delay_us=5_000_000)))
    job = submit(controller, submission(asks=asks))
    start = GangStart(controller.job(job).cls, job, 0, [0], [1], [], 1)
    assert placed(controller, start) == ([], 1)
    assert placed(controller, msgspec.structs.replace(start, alternative=2)) == ([], 1)
    tick(controller, after_us=5_000_001)
    records, stale = placed(controller, start)
    assert (records[0].alternative, stale) == (1, 0)
    assert controller.state.hosts.used[:, 0].tolist() == [1, 0, 2]
