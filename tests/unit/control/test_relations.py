from xce.control.relations import resolve_relations
from xce.model.command import SubmitJobs
from xce.model.config import QueueConfig
from xce.model.constraint import Colocate, Exclusive, Near
from xce.model.refusal import Refusal, RefusalCode
from xce.model.request import Part, Request
from xce.testing.builders import (
    ALICE,
    BOB,
    RecordedController,
    cluster,
    submission,
    submit,
    try_submit,
)


def resolved(controller: RecordedController, *subjects: str, admin: bool = False) -> object:
    constraints = tuple(Near(at, ("a",), subject, ("host",)) for at, subject in enumerate(subjects))
    request = Request(constraints=(Colocate(9, ("a",), ("host",)), *constraints))
    command = SubmitJobs(BOB, (), is_admin=admin)
    found = resolve_relations(controller.state, command, request)
    if isinstance(found, Refusal):
        return found.code
    return [item.subject for item in found.constraints if isinstance(item, Near)]


def test_a_queue_without_exclusive_jobs_refuses_isolation():
    asks = Request(parts=(Part("a", 1, Request()),), constraints=(Exclusive(0, ("a",), "host"),))
    (result,) = try_submit(cluster(), submission(asks=asks))
    assert isinstance(result, Refusal)
    assert result.code == RefusalCode.QUEUE_REFUSES_EXCLUSIVE
    queue = QueueConfig(name="normal", default=True, exclusive=True)
    assert submit(cluster(queues=[queue]), submission(asks=asks))


def test_groups_belong_to_their_user():
    assert resolved(cluster(), "group:g", "group:bob/g") == ["group:bob/g", "group:bob/g"]


def test_jobs_are_ones_own_and_known():
    controller = cluster()
    submit(controller, submission(name="t"), owner=BOB)
    newest = submit(controller, submission(name="t"), owner=BOB)
    others = submit(controller, submission(name="t"), owner=ALICE)
    assert resolved(controller, "job:t", "job:1") == [f"job:{newest}", "job:1"]
    assert resolved(controller, "job:x") == RefusalCode.UNKNOWN_JOB
    assert resolved(controller, "job:99") == RefusalCode.UNKNOWN_JOB
    assert resolved(controller, f"job:{others}") == RefusalCode.NOT_YOURS
    assert resolved(controller, f"job:{others}", admin=True) == [f"job:{others}"]
