"""``cu[excl]``: the domains of a job's hosts are its own as long as it runs."""

from msgspec.structs import replace
from sessions import Scheduled

from xce.model.config import HostConfig, QueueConfig
from xce.model.ids import SECOND_US
from xce.model.reason import HostCode
from xce.model.refusal import RefusalCode
from xce.model.request import Alternative, CuWish, Request
from xce.testing.builders import (
    RecordedController,
    cluster,
    report_ended,
    report_started,
    request,
    submission,
    submit,
    try_submit,
)

QUEUES = (QueueConfig(name="normal", default=True, exclusive=True),)


def racks(*sizes: int, **settings: object) -> Scheduled:
    """Return a cluster whose racks r1, r2, ... have so many hosts of two slots each."""
    hosts = [
        HostConfig(name=f"r{rack}h{number}", slots=2, labels={"rack": f"r{rack}"})
        for rack, size in enumerate(sizes, 1)
        for number in range(1, size + 1)
    ]
    settings = {"queues": QUEUES, "levels": ("rack",), **settings}
    return Scheduled(cluster(hosts, **settings))


def alone(tasks: int = 2, level: str = "rack") -> Request:
    return replace(request(tasks), cu=CuWish(level=level, exclusive=True))


def own(controller: RecordedController, job: int) -> list[str]:
    """Return the hosts that a job has for itself."""
    return [controller.state.hosts.names[number] for number in controller.attempt(job, 0).alone]


def end(controller: RecordedController, job: int) -> None:
    report_started(controller, job)
    report_ended(controller, job)


def test_all_hosts_of_a_domain_are_the_jobs_and_nobody_else_starts_there():
    world = racks(2, 1)
    submit(world.controller, submission(asks=alone()))
    world.run()
    assert own(world.controller, 1) == ["r1h1", "r1h2"]
    submit(world.controller, submission(elements="1-6"))
    world.run()
    live = world.controller.job(2).live or {}
    assert {attempt.hosts[0] for attempt in live.values()} == {2}
    end(world.controller, 1)
    world.run()
    assert len(world.controller.job(2).live or {}) == 6


def test_a_domain_in_which_anything_runs_is_not_taken():
    world = racks(2, 2)
    submit(world.controller, submission(asks=request(hosts=["r1h2"])))
    world.run()
    submit(world.controller, submission(asks=alone()))
    submit(world.controller, submission(asks=alone()))
    world.run()
    assert own(world.controller, 2) == ["r2h1", "r2h2"]
    assert not world.is_live(3)
    assert HostCode.EXCLUSIVE in world.host_codes(3)
    end(world.controller, 1)
    world.run()
    assert own(world.controller, 3) == ["r1h1", "r1h2"]


def test_jobs_of_one_session_do_not_get_into_each_others_domains():
    world = racks(2, 2)
    submit(world.controller, submission(asks=alone()))
    submit(world.controller, submission(asks=alone()))
    submit(world.controller, submission())
    world.run()
    assert [own(world.controller, job) for job in (1, 2)] == [
        ["r1h1", "r1h2"],
        ["r2h1", "r2h2"],
    ]
    assert not world.is_live(3)


def test_a_job_over_several_domains_has_all_of_them():
    world = racks(2, 1, 1)
    submit(world.controller, submission(asks=alone(6)))
    world.run()
    assert len(own(world.controller, 1)) in (3, 4)
    names = {name[:2] for name in world.hosts(1)}
    assert {name[:2] for name in own(world.controller, 1)} == names


def test_hosts_as_domains_are_ones_own_hosts():
    world = racks(2)
    submit(world.controller, submission(asks=alone(1, "host")))
    submit(world.controller, submission(asks=alone(2, "host")))
    world.run()
    assert len(own(world.controller, 1)) == len(own(world.controller, 2)) == 1


def test_an_alternative_with_domains_of_its_own_keeps_others_out_and_another_does_not():
    world = racks(2, 1)
    either = Request(2, 2, alternatives=(Alternative(alone()), Alternative(request(2))))
    first = submit(world.controller, submission(asks=either))
    submit(world.controller, submission(asks=request(1)))
    world.run()
    assert len(own(world.controller, first)) == 2
    assert world.controller.state.hosts.exclusive.tolist() == [1, 1, 0]
    other = submit(world.controller, submission(asks=either))
    world.run()
    assert not world.controller.job(other).live


def test_a_plan_that_claims_other_hosts_than_it_may_is_dropped():
    world = racks(2, 2)
    submit(world.controller, submission(asks=alone()))
    plan = world.plan()
    for claimed in ([], [0], [0, 1, 2]):
        wrong = replace(plan, gangs=tuple(replace(gang, alone=claimed) for gang in plan.gangs))
        assert world.propose(wrong) == 1
    submit(world.controller, submission(asks=request(2)))
    other = world.plan()
    greedy = replace(other, gangs=tuple(replace(gang, alone=[3]) for gang in other.gangs))
    assert world.propose(greedy) == 2


def test_a_domain_is_promised_as_a_whole():
    world = racks(2, backfill="easy")
    long, short = 100 * SECOND_US, 10 * SECOND_US
    submit(world.controller, submission(asks=request(hosts=["r1h1"]), run_limit_us=long))
    world.run()
    submit(world.controller, submission(asks=alone(), run_limit_us=long))
    submit(world.controller, submission(run_limit_us=2 * long))
    submit(world.controller, submission(run_limit_us=short))
    world.run()
    assert [world.is_live(job) for job in (2, 3, 4)] == [False, False, True]


def test_a_queue_without_exclusive_jobs_refuses_it():
    world = racks(2, queues=())
    (refusal,) = try_submit(world.controller, submission(asks=alone()))
    assert refusal.code is RefusalCode.QUEUE_REFUSES_EXCLUSIVE
    assert "cu[excl]" in refusal.text
