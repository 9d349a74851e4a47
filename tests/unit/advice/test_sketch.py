"""A sketch shows what would be, and leaves what is alone."""

import numpy as np

from xce.advice.sketch import Easel
from xce.control.due import next_due_us
from xce.model.config import QueueConfig
from xce.model.refusal import Refusal
from xce.sched.session import run_session
from xce.state.snapshot import dump, load
from xce.testing.builders import (
    ALICE,
    BOB,
    RecordedController,
    cluster,
    gang,
    propose,
    report_ended,
    report_started,
    submission,
    submit,
)


def made() -> RecordedController:
    """Return a cluster with a job on two hosts, an array, and one that waits."""
    fair = QueueConfig(name="normal", priority=30, default=True, policy="fairshare")
    controller = cluster({"h1": 4, "h2": 4}, pools={"lic": 3}, queues=[fair])
    wide = submit(controller, submission(tasks=5, mem_mib=100))
    propose(controller, gang(controller, wide, hosts={"h1": 4, "h2": 1}))
    report_started(controller, wide)
    submit(controller, submission(name="a", elements="1-4", limit=2), owner=BOB)
    plan = run_session(controller.state, now_us=controller.now_us)
    propose(controller, *plan.bulk)
    submit(controller, submission(tasks=6))
    return controller


def test_an_end_in_a_sketch_is_as_an_end_in_life() -> None:
    controller = made()
    before = dump(controller.state)
    easel = Easel(controller.state, controller.now_us)
    sketch = easel.sketch()
    sketch.end([(1, 0), (2, 0)])
    assert dump(controller.state) == before

    report_ended(controller, 1)
    report_ended(controller, 2, 1)
    ended = controller.state
    assert np.array_equal(sketch.state.hosts.used, ended.hosts.used)
    assert np.array_equal(sketch.state.hosts.attempts, ended.hosts.attempts)
    assert sketch.state.pools.used == ended.pools.used
    assert {cls: list(found.waiting) for cls, found in sketch.state.waiting.items()} == {
        cls: list(found.waiting) for cls, found in ended.waiting.items()
    }
    for key, account in ended.shares.items():
        assert sketch.state.shares[key].slots == account.slots
    assert sketch.ended == [(1, 0), (2, 1)]


def test_sketches_after_one_another_begin_with_what_is() -> None:
    controller = made()
    easel = Easel(controller.state, controller.now_us)
    easel.sketch().end([(1, 0)])
    easel.put_back()
    assert np.array_equal(easel.sketch().state.hosts.used, controller.state.hosts.used)


def test_a_job_is_withdrawn_submitted_and_refused() -> None:
    controller = made()
    before = dump(controller.state)
    easel = Easel(controller.state, controller.now_us)
    sketch = easel.sketch()
    sketch.withdraw(3, ((0, 0),))
    assert all(3 not in found.waiting for found in sketch.state.waiting.values())
    job = sketch.submit(ALICE, submission())
    assert job == 4
    plan = run_session(sketch.state, now_us=controller.now_us)
    assert [start.jobs for start in plan.bulk] == [[4]]
    refused = sketch.submit(ALICE, submission(queue="nowhere"))
    assert isinstance(refused, Refusal)
    assert dump(controller.state) == before
    assert next_due_us(controller.state) == 0


def test_equal_classes_of_two_sketches_have_numbers_of_their_own() -> None:
    controller = made()
    easel = Easel(controller.state, controller.now_us)
    numbers = []
    for _ in range(2):
        sketch = easel.sketch()
        job = sketch.submit(ALICE, submission(tasks=2))
        assert not isinstance(job, Refusal)
        numbers.append(sketch.state.jobs[job].cls)
    assert numbers[0] != numbers[1]


def test_only_one_may_be_left_waiting() -> None:
    controller = made()
    sketch = Easel(load(dump(controller.state)), controller.now_us).sketch()
    sketch.keep_only(3)
    (found,) = sketch.state.waiting.values()
    assert list(found.waiting) == [3]
