"""Which hosts the reasons of requests are about."""

import pytest
from sessions import Scheduled

from xce.apiserver.reason_rows import name_hosts, render_reason
from xce.apiserver.rows import Listing
from xce.model.command import SetHostsOpen
from xce.model.config import QueueConfig
from xce.sched.excluded import Allowance, Excluder
from xce.testing.builders import cluster, submission, submit
from xce.testing.values import request

QUEUES = [
    QueueConfig(name="normal", default=True, exclusive=True),
    QueueConfig(name="few", hosts=("h1", "h2")),
]


@pytest.fixture
def world():
    made = Scheduled(cluster({"h1": 4, "h2": 2, "h3": 4, "h4": 1}, queues=QUEUES))
    made.controller.tell(SetHostsOpen("root", ("h3",), is_open=False, is_admin=True))
    for host, size in (("h1", 3), ("h2", 1)):
        filler = submission(asks=request(size, hosts=(host,)))
        submit(made.controller, filler)
    made.run()
    return made


def told(world, wanted, queue="normal"):
    """Return which hosts keep a job waiting, by role and code, beside the reason that counts."""
    job = submit(world.controller, submission(queue=queue, asks=wanted))
    world.run()
    state = world.controller.state
    found = Excluder(state, Allowance()).hosts_of(state.jobs[job], 0)
    names = state.hosts.names
    hosts = {(one.role, one.code): [names[host] for host in one.hosts] for one in found}
    return hosts, world.memory.sleepers[state.jobs[job].cls].reason, job


@pytest.mark.parametrize(
    ("wanted", "queue", "hosts"),
    [
        (request(2, one_host=True), "normal",
         {"closed": ["h3"], "too-small": ["h4"], "slots-busy": ["h1", "h2"]}),
        (request(2, one_host=True), "few",
         {"not-in-queue": ["h3", "h4"], "slots-busy": ["h1", "h2"]}),
        (request(1, hosts=("h2", "h3"), exclusive=True), "normal",
         {"not-asked": ["h1", "h4"], "closed": ["h3"], "exclusive": ["h2"]}),
        (request(6), "normal", {"closed": ["h3"], "slots-busy": ["h1", "h2", "h4"]}),
        (request(1, mem_mib=10_000_000, hosts=("h1",)), "normal",
         {"not-asked": ["h2", "h3", "h4"], "too-small": ["h1"]}),
    ],
)  # fmt: skip
def test_each_host_stands_under_the_reason_that_counts_it(world, wanted, queue, hosts):
    found, reason, _ = told(world, wanted, queue)
    assert {code: names for (_, code), names in found.items()} == hosts
    counted = {item.code: item.hosts for item in reason.host_reasons}
    assert counted == {code: len(names) for code, names in hosts.items()}


def test_a_row_names_them_where_it_is_asked_to(world):
    _, reason, job = told(world, request(6))
    state = world.controller.state
    plain, named = (
        Listing(state, {}, now_us=state.now_us, naming=naming).elements(state.jobs[job])[0]
        for naming in (None, Allowance())
    )
    assert {item.names for item in plain.reason.hosts} == {()}
    assert {item.code: item.names for item in named.reason.hosts} == {
        "closed": ("h3",), "slots-busy": ("h1", "h2", "h4")
    }  # fmt: skip
    row = name_hosts(render_reason(reason, 0), (), state.hosts.names)
    assert row == render_reason(reason, 0)


@pytest.mark.parametrize(
    ("allowance", "named"),
    [(Allowance(names=3), [True, False]), (Allowance(requests=1), [True, False]),
     (Allowance(names=0), [False, False]), (Allowance(), [True, True])],
)  # fmt: skip
def test_beyond_what_one_answer_may_name_hosts_are_counted(world, allowance, named):
    jobs = [told(world, request(size))[2] for size in (6, 7)]
    state = world.controller.state
    listing = Listing(state, {}, now_us=state.now_us, naming=allowance)
    rows = [listing.elements(state.jobs[job])[0] for job in jobs]
    assert [any(item.names for item in row.reason.hosts) for row in rows] == named
    assert [sum(item.hosts for item in row.reason.hosts) for row in rows] == [4, 4]
