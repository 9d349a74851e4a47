"""Who has a processor while another job has it, too."""

from msgspec.structs import replace

from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.model.processor import Binding
from xce.sim.device_oracle import shared_processors

ONE = Launch(
    1, [0], [1], JobSpec(command="x"), Owner("ann", 1, 1), "normal", "default", "c",
    (("h1", 2),), 2, 0, 0, 0, 0, bindings=[(Binding(("0-1", "2"), ("", "")),)],
)  # fmt: skip


def test_processors_that_two_jobs_have_are_named():
    other = replace(ONE, job=2, bindings=[(Binding(("2-3",), ("",)),)])
    running = {(1, 0, 1): ("h1", ONE), (2, 0, 1): ("h1", other)}
    assert shared_processors("h1", running) == ["processor 2 of host h1"]
    assert shared_processors("h1", running, [(2, 0, 1)]) == []
    assert shared_processors("h2", running) == []


def test_two_tasks_of_a_job_have_none_in_common_either():
    same = replace(ONE, bindings=[(Binding(("0", "0"), ("", "")),)])
    assert shared_processors("h1", {(1, 0, 1): ("h1", same)}) == ["processor 0 of host h1"]
