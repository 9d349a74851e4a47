from typing import Any

import msgspec

from xce.model.job import Files, JobSpec, Owner
from xce.model.process_limits import ProcessLimits
from xce.model.ranges import ZERO
from xce.state.job import Job
from xce.state.sharing import KEPT_MAX, Sharing


def again(value: Any) -> Any:
    """Return an equal value that shares nothing, as it comes from the journal."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))


def test_equal_parts_of_specs_become_one_and_the_specs_stay_what_they_are():
    sharing = Sharing()
    spec = JobSpec(
        name="a", env="e" * 32, cwd="/some/where", home="/home/u", files=Files("in"),
        limits=ProcessLimits(cpu_us=9), tasks_asked=(3, 5),
    )  # fmt: skip
    other = JobSpec(name="b", env="f" * 32, cwd="/else/where")
    first, between, second = again(spec), again(other), again(spec)
    for one in (first, between, second):
        sharing.share_spec(one)
    assert (first, between, second) == (spec, other, spec)
    assert hash(second) == hash(spec)
    for name in ("env", "cwd", "home", "files", "limits", "tasks_asked"):
        assert getattr(first, name) is getattr(second, name)


def test_a_job_that_was_loaded_shares_its_owner_and_its_only_element():
    sharing = Sharing()
    jobs = [again(Job(n, 1, 1, Owner("u", 1, 1), 0, pending=ZERO)) for n in (1, 2)]
    for job in jobs:
        sharing.share_job(job)
    assert jobs[0].owner is jobs[1].owner
    assert jobs[0].owner == Owner("u", 1, 1)
    assert all(job.pending is ZERO for job in jobs)


def test_what_is_remembered_is_bounded():
    sharing = Sharing()
    for number in range(3 * KEPT_MAX):
        sharing.share_spec(JobSpec(cwd=f"/{number}"))
    assert len(sharing._kept) <= KEPT_MAX + 2
