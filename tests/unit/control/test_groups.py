"""Job groups: they are made, limited and deleted, and their limits hold."""

from msgspec.structs import replace

from xce.model.command import (
    Accepted,
    DeleteGroups,
    KillJobs,
    ProposePlan,
    Selection,
    SetGroup,
    SwitchJobs,
)
from xce.model.group import JobGroup, is_group_name
from xce.model.reason import ReasonCode
from xce.model.refusal import RefusalCode
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.state.check import check_state
from xce.state.groups import named_groups
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import (
    bulk,
    chosen,
    cluster,
    kill,
    modify,
    place,
    plan,
    propose,
    replayed,
    report_ended,
    report_started,
    request,
    submission,
    submit,
)


def tell(controller, name, limit=None, *, by="alice", is_new=True):
    (result,) = controller.tell(SetGroup(by, by == "root", name, limit, is_new), by=by)
    return result


def delete(controller, name, *, by="alice", below=False):
    (result,) = controller.tell(DeleteGroups(by, by == "root", name, below), by=by)
    return result


def in_group(name, **more):
    return replace(submission(**more), group=name)


def session(controller, memory=None):
    controller.tell(
        ProposePlan(run_session(controller.state, now_us=controller.now_us, memory=memory)),
        by="scheduler",
    )


def running(controller):
    return sorted(job.id for job in controller.state.jobs.values() for _ in job.live or ())


def test_names_are_paths_of_words():
    assert is_group_name("/a")
    assert is_group_name("/a/b.c-1")
    for name in ("", "/", "a", "a/b", "/a/", "//a", "/a b", "/a\n", "/" + "x" * 512):
        assert not is_group_name(name), name


def test_groups_are_made_with_those_above_them_changed_and_deleted():
    controller = cluster()
    assert isinstance(tell(controller, "/a/b", 2), Accepted)
    assert controller.state.groups == {"/a": JobGroup("alice"), "/a/b": JobGroup("alice", 2)}
    assert tell(controller, "/a").lsf == "Group exists"
    assert tell(controller, "/x", is_new=False).lsf == "Job group does not exist"
    assert tell(controller, "x").code is RefusalCode.BAD_REQUEST
    assert tell(controller, "/a", 5, by="bob", is_new=False).lsf == "User permission denied"
    tell(controller, "/a", 5, by="root", is_new=False)
    assert controller.state.groups["/a"] == JobGroup("alice", 5)
    tell(controller, "/a", -1, is_new=False)
    assert controller.state.groups["/a"].limit == -1
    assert delete(controller, "/a").lsf == "Job group contains subgroups"
    assert delete(controller, "/a/b", by="bob").lsf == "User permission denied"
    assert isinstance(delete(controller, "/a/b"), Accepted)
    assert delete(controller, "/a/b").lsf == "Job group does not exist"
    assert delete(controller, "").number == 1
    assert controller.state.groups == {}
    assert digest(replayed(controller.entries)) == digest(controller.state)


def test_a_group_that_a_job_names_is_there_as_long_as_the_job():
    controller = cluster()
    job = submit(controller, in_group("/p/q"))
    assert named_groups(controller.state) == {"/p/q": "alice", "/p": "alice"}
    assert tell(controller, "/p/q").lsf == "Group exists"
    assert delete(controller, "/p/q").lsf == "Job group contains jobs"
    tell(controller, "/p/q", 3, is_new=False)
    assert controller.state.groups == {"/p/q": JobGroup("alice", 3)}
    assert digest(load(dump(controller.state))) == digest(controller.state)
    kill(controller, job)
    assert named_groups(controller.state) == {}
    assert isinstance(delete(controller, "/p/q"), Accepted)


def test_no_more_run_than_the_limits_of_a_group_and_those_above_allow():
    controller = cluster({"h1": 20})
    tell(controller, "/a", 3)
    tell(controller, "/a/b", 2)
    memory = Memory()
    lower = [submit(controller, in_group("/a/b")) for _ in range(4)]
    array = submit(controller, in_group("/a", elements="1-4"))
    free = submit(controller)
    for entry in controller.entries:
        memory.note(entry)
    session(controller, memory)
    assert running(controller) == [*lower[:2], array, free]
    reason = controller.state.classes[controller.job(lower[3]).cls].reason
    assert (reason.code, reason.resource, reason.needed) == (
        ReasonCode.JOB_GROUP_LIMIT, "/a/b", 2,
    )  # fmt: skip
    check_state(controller.state)
    # A plan that knows nothing of it starts no more either.
    propose(controller, bulk(controller, lower[2], hosts={"h1": 1}))
    assert running(controller) == [*lower[:2], array, free]
    report_started(controller, lower[0])
    report_ended(controller, lower[0])
    session(controller)
    assert running(controller) == [*lower[1:3], array, free]
    tell(controller, "/a", -1, is_new=False)
    session(controller)
    assert running(controller) == [*lower[1:3], *[array] * 4, free]


def test_parallel_jobs_count_one_each():
    controller = cluster({"h1": 20})
    tell(controller, "/a", 1)
    jobs = [submit(controller, in_group("/a", asks=request(3))) for _ in range(2)]
    session(controller)
    assert running(controller) == jobs[:1]
    stale = plan(controller, bulk(controller, jobs[1], hosts={"h1": 1}))
    controller.tell(ProposePlan(stale), by="scheduler")
    assert running(controller) == jobs[:1]


def test_jobs_are_selected_by_their_group_and_change_it():
    controller = cluster()
    first, second = submit(controller, in_group("/a")), submit(controller, in_group("/a/b"))
    chosen_by_group = Selection(all=True, group="/a")
    results = controller.tell(KillJobs("alice", False, chosen_by_group), by="alice")
    assert [item.job for item in results] == [first]
    modify(controller, second, group="/c")
    assert named_groups(controller.state) == {"/c": "alice"}
    controller.tell(SwitchJobs("alice", False, chosen(second), "normal"), by="alice")
    place(controller, second)
    assert named_groups(controller.state) == {"/c": "alice"}
    check_state(controller.state)
