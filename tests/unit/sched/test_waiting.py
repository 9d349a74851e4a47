"""What a scheduler remembers: when it is due, and which reasons it tells."""

from msgspec.structs import replace
from sessions import Scheduled

from xce.model.command import SetHostsOpen
from xce.model.entry import Cause, Entry
from xce.model.host_record import HostDown
from xce.model.ids import SECOND_US
from xce.model.reason import Wake
from xce.model.record import SessionRan, Started
from xce.model.request import TASKS_MAX, Amount
from xce.sched.waiting import Memory
from xce.testing.builders import (
    cluster,
    kill,
    leave_host,
    place,
    report_ended,
    report_started,
    request,
    submission,
    submit,
    tick,
)


def entry(*records) -> Entry:
    return Entry(1, 1, Cause("test"), records)


def test_a_new_memory_is_due():
    assert Memory().is_due


def test_news_that_cure_nothing_make_no_session_due():
    world = Scheduled(cluster({"h1": 1}))
    job = submit(world.controller)
    world.run()
    report_started(world.controller, job)
    world.hear()
    assert not world.memory.is_due


def test_new_work_makes_a_session_due():
    world = Scheduled(cluster({"h1": 1}))
    world.run()
    submit(world.controller)
    world.hear()
    assert world.memory.is_due


def test_an_end_makes_a_session_due_for_those_that_wait():
    world = Scheduled(cluster({"h1": 1}))
    job = submit(world.controller)
    submit(world.controller)
    world.run()
    report_started(world.controller, job)
    world.hear()
    assert not world.memory.is_due
    report_ended(world.controller, job)
    world.hear()
    assert world.memory.is_due


def test_sleepers_say_what_can_cure_them():
    world = Scheduled(cluster({"h1": 1}, pools={"seats": 0}))
    short = submit(world.controller, submission(asks=request(amounts=[Amount("seats", 1)])))
    wide = submit(world.controller, submission(tasks=3))
    world.run()
    wakes = {cls: sleeper.wakes for cls, sleeper in world.memory.sleepers.items()}
    assert wakes[world.controller.job(short).cls] == {Wake.POOL, Wake.CONFIG}
    assert wakes[world.controller.job(wide).cls] == {Wake.CAPACITY, Wake.CONFIG}


def test_a_session_stays_due_until_its_plan_has_an_answer():
    world = Scheduled(cluster({"h1": 1}))
    submit(world.controller)
    plan = world.plan()
    assert world.memory.is_due
    world.propose(plan)
    assert not world.memory.is_due


def test_a_lost_plan_is_made_again():
    world = Scheduled(cluster({"h1": 1}))
    submit(world.controller)
    assert world.plan() == world.plan()


def test_a_plan_that_did_not_hold_as_a_whole_makes_a_session_due():
    world = Scheduled(cluster({"h1": 1}))
    first = submit(world.controller)
    second = submit(world.controller, submission(mem_mib=1))
    plan = world.plan()
    kill(world.controller, first)
    assert world.propose(plan) == 1
    assert world.memory.is_due
    world.run()
    assert world.is_live(second)


def test_a_host_that_left_makes_a_session_due_for_the_reasons():
    memory = Memory()
    world = Scheduled(cluster({"h1": 1}))
    world.memory = memory
    world.run()
    memory.note(entry(Started([1], [0], [1], [1])))
    assert not memory.is_due
    memory.note(entry(HostDown(0)))
    assert memory.is_due


def test_an_answer_without_stale_elements_leaves_nothing_due():
    world = Scheduled(cluster({"h1": 1}))
    world.run()
    world.memory.note(entry(SessionRan(1, 1, "")))
    assert not world.memory.is_due
    world.memory.note(entry(SessionRan(1, 1, "", stale=2)))
    assert world.memory.is_due


def test_a_memory_forgets_when_it_is_given_another_state():
    first, second = Scheduled(cluster({"h1": 1})), Scheduled(cluster({"h1": 4, "h2": 4}))
    for world in (first, second):
        submit(world.controller, submission(tasks=5))
    first.run()
    second.memory = first.memory
    assert second.plan().gangs


def test_a_reason_is_told_once():
    world = Scheduled(cluster({"h1": 2}))
    place(world.controller, submit(world.controller), host="h1")
    submit(world.controller, submission(tasks=2))
    assert len(world.run().reasons) == 1
    assert world.run().is_empty


def test_numbers_that_change_with_every_start_are_no_news():
    world = Scheduled(cluster({"h1": 4, "h2": 4}))
    wide = submit(world.controller, submission(tasks=8))
    place(world.controller, submit(world.controller), host="h1")
    assert len(world.run().reasons) == 1
    place(world.controller, submit(world.controller), host="h2")
    assert not world.run().reasons
    assert world.reason(wide).available == 7


def test_another_code_among_busy_hosts_is_told():
    world = Scheduled(cluster({"h1": 2}))
    running = submit(world.controller, submission(mem_mib=8_000))
    place(world.controller, running, host="h1")
    big = submit(world.controller, submission(mem_mib=1_000))
    world.run()
    assert [item.code for item in world.reason(big).host_reasons] == ["amount-short"]
    place(world.controller, submit(world.controller), host="h1")
    assert len(world.run().reasons) == 1
    assert [item.code for item in world.reason(big).host_reasons] == ["slots-busy"]


def test_a_host_more_that_is_closed_or_away_is_told():
    world = Scheduled(cluster({"h1": 1, "h2": 1, "h3": 1}))
    job = submit(world.controller, submission(tasks=4))
    satisfiable = submit(world.controller, submission(tasks=3))
    world.run()
    assert world.is_live(satisfiable)
    later = submit(world.controller, submission(tasks=3))
    world.run()
    leave_host(world.controller, "h1")
    world.run()
    assert world.host_codes(later) == {"unreachable": 1, "slots-busy": 2}
    world.controller.tell(SetHostsOpen("root", ("h2",), is_open=False, is_admin=True), by="root")
    world.run()
    assert world.host_codes(later) == {"unreachable": 1, "closed": 1, "slots-busy": 1}
    assert world.reason(job).unsatisfiable


def test_who_fills_hosts_is_looked_at_again_when_a_pool_has_more_though_hosts_are_as_they_were():
    world = Scheduled(cluster({"h1": 8, "h2": 1}, pools={"seats": 10}))
    seats = Amount("seats", 6, "job", duration_us=60 * SECOND_US)
    short = submit(world.controller, submission(asks=request(amounts=[seats])))
    place(world.controller, short, host="h2")
    report_started(world.controller, short)
    asks = replace(request(amounts=[Amount("seats", 1)]), ptile=-1, whole_hosts=1)
    wide = submit(world.controller, submission(asks=replace(asks, tasks_max=TASKS_MAX)))
    world.run()
    assert not world.is_live(wide)
    tick(world.controller, after_us=61 * SECOND_US)
    world.run()
    assert world.hosts(wide) == {"h1": 8}
