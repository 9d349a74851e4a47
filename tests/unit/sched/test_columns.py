"""Columns of hosts for select and order expressions."""

from msgspec.structs import replace
from sessions import Scheduled

from xce.model.config import HostConfig, ResourceConfig
from xce.sched.columns import HostColumns, HostFacts
from xce.sched.ground import open_ground
from xce.testing.builders import cluster, join_host, place, request, submission, submit

RESOURCES = (
    ResourceConfig(name="speed", kind="number"),
    ResourceConfig(name="rack", kind="string"),
    ResourceConfig(name="gpu", kind="boolean"),
)


def world() -> Scheduled:
    hosts = [
        HostConfig(name="h1", slots=4, attributes={"speed": 1_500, "rack": "r1", "gpu": True}),
        HostConfig(name="h2", slots=4, attributes={"speed": 500, "rack": "r2", "gpu": False}),
        HostConfig(name="h3", slots=4),
    ]
    controller = cluster(hosts, join=False, resources=RESOURCES)
    for name in ("h1", "h2", "h3"):
        join_host(controller, name, cpus=8, attributes={"type": "X86_64"})
    return Scheduled(controller)


def columns(scheduled: Scheduled) -> HostColumns:
    state = scheduled.controller.state
    return HostColumns(HostFacts(state.hosts, state.config), open_ground(state, {}).free)


def test_numbers_are_thousandths_and_missing_ones_are_told():
    milli, defined = columns(world()).number("speed")
    assert milli.tolist() == [1_500, 500, 0]
    assert defined.tolist() == [True, True, False]


def test_amounts_are_what_is_free_and_maxima_are_not():
    scheduled = world()
    place(scheduled.controller, submit(scheduled.controller, submission(mem_mib=192)), host="h2")
    found = columns(scheduled)
    assert found.number("slots")[0].tolist() == [4_000, 3_000, 4_000]
    assert found.number("mem")[0].tolist() == [8_192_000, 8_000_000, 8_192_000]
    assert found.number("maxslots")[0].tolist() == [4_000] * 3
    assert found.number("maxmem")[0].tolist() == [8_192_000] * 3
    assert found.number("ncpus")[0].tolist() == [8_000] * 3


def test_texts_are_codes_and_hosts_have_name_and_type():
    found = columns(world())
    codes, code_of = found.text("rack")
    assert codes.tolist() == [code_of["r1"], code_of["r2"], -1]
    codes, code_of = found.text("hname")
    assert [code_of[name] for name in ("h1", "h2", "h3")] == codes.tolist()
    codes, code_of = found.text("type")
    assert codes.tolist() == [code_of["X86_64"]] * 3


def test_flags_and_kinds():
    found = columns(world())
    assert found.flag("gpu").tolist() == [True, False, False]
    kinds = [found.kind(name) for name in ("speed", "rack", "gpu", "mem", "nothing")]
    assert kinds == ["number", "string", "boolean", "number", ""]


def test_jobs_go_where_select_and_order_send_them():
    scheduled = world()
    controller = scheduled.controller
    wanted = {
        "gpu": "h1",
        "speed < 1": "h2",
        "!defined(speed)": "h3",
        "rack == r2 && type == X86_64": "h2",
    }
    for select, host in wanted.items():
        job = submit(controller, submission(asks=replace(request(), select=select)))
        scheduled.run()
        assert scheduled.hosts(job) == {host: 1}
    slow = submit(controller, submission(asks=replace(request(), order="-speed")))
    fast = submit(controller, submission(asks=replace(request(), order="speed")))
    scheduled.run()
    assert (scheduled.hosts(slow), scheduled.hosts(fast)) == ({"h2": 1}, {"h1": 1})
