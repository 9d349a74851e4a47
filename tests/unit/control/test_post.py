"""Messages that people write to jobs, by ``bpost``."""

from xce.model.command import Accepted, PostMessage
from xce.model.record_post import Post
from xce.model.refusal import RefusalCode
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import cluster, replayed, run_job, submission, submit


def tell(controller, job, box=0, text="hello", by="alice", **more):
    command = PostMessage(by, by == "root", job, box, text, **more)
    (result,) = controller.tell(command, by=by)
    return result


def texts(controller, job, position=-1):
    return {box: post.text for box, post in controller.job(job).posts_of(position).items()}


def test_messages_lie_in_boxes_and_a_new_one_replaces_the_old():
    controller = cluster()
    job = submit(controller)
    assert isinstance(tell(controller, job, text="one"), Accepted)
    tell(controller, job, 5, "five", level="ERROR")
    tell(controller, job, text="another")
    assert texts(controller, job) == {0: "another", 5: "five"}
    assert controller.job(job).posts_of(0)[5] == Post(
        "alice", controller.entries[-2].at_us, "five", "ERROR"
    )
    check_state(controller.state)
    assert digest(replayed(controller.entries)) == digest(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)


def test_elements_have_messages_of_their_own_and_those_of_their_array():
    controller = cluster()
    job = submit(controller, submission(elements="1-5:2"))
    tell(controller, job, text="all")
    tell(controller, job, text="third", index=3)
    tell(controller, job, 1, "more", index=3)
    assert texts(controller, job) == {0: "all"}
    assert texts(controller, job, 1) == {0: "third", 1: "more"}
    assert texts(controller, job, 2) == {0: "all"}
    assert tell(controller, job, index=2).code is RefusalCode.UNKNOWN_JOB


def test_what_is_attached_is_stored_with_the_message():
    controller = cluster()
    job = submit(controller)
    tell(controller, job, name="a.txt", blobs=(("cafe", b"content"),))
    assert controller.last.blobs == (("cafe", b"content"),)
    found = controller.job(job).posts_of(-1)[0]
    assert (found.blob, found.name, found.size) == ("cafe", "a.txt", 7)


def test_what_is_too_much_or_not_allowed_is_refused():
    controller = cluster()
    job = submit(controller)
    file = {"name": "a", "blobs": (("cafe", b"x"),)}
    cases = [
        (tell(controller, 99), RefusalCode.UNKNOWN_JOB),
        (tell(controller, job, by="bob"), RefusalCode.NOT_YOURS),
        (tell(controller, job, 129), RefusalCode.BAD_REQUEST),
        (tell(controller, job, level="LOUD"), RefusalCode.BAD_REQUEST),
        (tell(controller, job, text="x" * 513), RefusalCode.TOO_LARGE),
        (tell(controller, job, name="a"), RefusalCode.BAD_REQUEST),
        (tell(controller, job, name="a", blobs=(("c", b"x" * ((1 << 20) + 1)),)),
         RefusalCode.TOO_LARGE),
    ]  # fmt: skip
    assert [result.code for result, _ in cases] == [code for _, code in cases]
    assert isinstance(tell(controller, job, by="root", **file), Accepted)
    run_job(controller, job)
    assert tell(controller, job).lsf == "Job has already finished"
    assert texts(controller, job) == {0: "hello"}, "they can be read as long as the job is kept"
