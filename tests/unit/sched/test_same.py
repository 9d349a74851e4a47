"""``same[]``: whatever attribute it names, session and controller see the same of it."""

import pytest
from sessions import Scheduled

from xce.model.config import HostConfig, ResourceConfig
from xce.model.device import Device
from xce.model.request import Part, Request
from xce.resreq.built import refuse_not_built
from xce.resreq.compile import compile_request
from xce.resreq.errors import LanguageError
from xce.resreq.schema import Schema
from xce.testing.builders import cluster, config, join_host, request, submission, submit

RESOURCES = [
    ResourceConfig(name=f"my{kind}", kind=kind) for kind in ("number", "string", "boolean")
]
SITE = config(["h1"], resources=RESOURCES)
ALIKE = ("cpuf", "rexpri", "server", "status")
"""What all hosts have alike."""
GPUS = (Device(0), Device(1))


def is_taken(name: str) -> bool:
    """Return whether a submission may name it."""
    try:
        asked = compile_request([f"same[{name}]"], config=SITE, tasks=(2, 2))
    except LanguageError:
        return False
    return refuse_not_built(asked, config=SITE) is None


TAKEN = sorted(filter(is_taken, Schema(SITE).kinds))


def two_alike() -> Scheduled:
    """Return hosts of which the last two are alike, and the others like no other one."""
    sizes = {"h1": 1, "h2": 2, "h3": 3, "h4": 3}
    hosts = [
        HostConfig(name=name, slots=size, mem_mib=50 * size, gpus=GPUS[: size - 1])
        for name, size in sizes.items()
    ]
    controller = cluster(hosts, resources=RESOURCES, join=False)
    numbers = ("maxswp", "maxtmp", "ncores", "ndisks", "nprocs", "nthreads", "mynumber")
    for name, size in sizes.items():
        attributes = {
            **dict.fromkeys(numbers, size * 1000),
            **dict.fromkeys(("mystring", "model", "type"), f"kind{size}"),
            "myboolean": size == 3,
        }
        join_host(controller, name, cpus=size, attributes=attributes)
    return Scheduled(controller)


def test_what_may_be_named_is_what_hosts_are():
    assert {*ALIKE, "hname", "maxmem", "maxslots", "ncpus", "ngpus", "mystring"} < {*TAKEN}
    assert {"slots", "mem", "r1m", "gpu"}.isdisjoint(TAKEN)


@pytest.mark.parametrize("name", TAKEN)
def test_the_controller_takes_what_a_session_plans(name: str):
    world = two_alike()
    plain = Request(tasks_min=2, tasks_max=2, ptile=1, same=(name,))
    job = submit(world.controller, submission(asks=plain))
    world.run()
    if name == "hname":
        assert not world.is_live(job)
        return
    used = {*world.hosts(job)}
    assert len(used) == 2
    if name not in (*ALIKE, "myboolean"):
        assert used == {"h3", "h4"}


@pytest.mark.parametrize("name", TAKEN)
def test_so_it_is_over_all_parts(name: str):
    world = two_alike()
    parts = Part("a", 2, request(2)), Part("b", 2, request(2))
    whole = Request(tasks_min=4, tasks_max=4, same=(name,), parts=parts)
    job = submit(world.controller, submission(asks=whole))
    world.run()
    assert world.is_live(job) is (name != "hname")
