"""What a restored journal lacks is taken up again, in whatever state a backup was made."""

import msgspec
import pytest
from restored_site import GPUS, Site

from xce.control.adopt import LOST
from xce.model.command import Accepted, AdoptStrangers, ApplyConfig
from xce.model.config import HostConfig, QueueConfig
from xce.model.device import GpuWish
from xce.model.host_record import AdoptionAsked, AdoptionRefused
from xce.model.ids import SECOND_US
from xce.model.job import JobSpec
from xce.model.observation import ReignBegan, Reported
from xce.model.processor import made_up
from xce.model.refusal import RefusalCode
from xce.model.request import Amount
from xce.state.snapshot import digest, dump, load
from xce.state.view import ended_element, stat_of
from xce.testing.builders import (
    BOB,
    array,
    bulk,
    cluster,
    gang,
    join_host,
    leave_host,
    place,
    propose,
    request,
    resume,
    stop,
    submission,
    submit,
    switch,
    tick,
)
from xce.testing.recorded import RecordedController, check_whole, replayed
from xce.worker.core import HostState

SCRIPT = "5" * 32


def started(*submissions, hosts=None, **more) -> tuple[Site, list[int], int]:
    """Return a site on which jobs run, their ids, and the last entry before the first of them."""
    controller = cluster(hosts or {"h1": 9, "h2": 9, "h3": 9}, **more)
    for name in controller.state.hosts.names:
        join_host(controller, name, devices=GPUS)
    before = controller.state.seq
    site = Site(controller)
    jobs = [submit(controller, one, owner=BOB) for one in submissions]
    return site, jobs, before


def attempts(controller):
    """Return all that lives, as it should be found again."""
    state, names = controller.state, controller.state.hosts.names
    return {
        (job.id, job.index(position)): (
            one.number, [names[host] for host in one.hosts], one.tasks, one.parts, one.devices,
            one.processors, one.alternative, one.phase, one.pid, one.suspended,
            one.suspension_wanted, state.classes[one.cls].key, job.owner, job.array,
            job.submit_at_us, state.spec(job).name, state.classes[one.cls].resreq, one.rule,
        )
        for job in state.jobs.values()
        for position, one in (job.live or {}).items()
    }  # fmt: skip


def test_what_runs_is_taken_up_as_it_was():
    queues = (QueueConfig(name="normal", default=True), QueueConfig(name="night"))
    amounts = (Amount("lic", 1, "job"), Amount("pool", 2, "job"))
    site, jobs, before = started(
        submission(name="one", queue="night", project="p1", run_limit_us=3_600 * SECOND_US),
        submission(name="many", elements="1-9:2", limit=4),
        submission(name="wide", asks=request(6, ptile=3, mem_mib=10, amounts=amounts)),
        submission(name="gpu", asks=msgspec.structs.replace(request(), gpu=GpuWish(2))),
        queues=queues, counters=("lic",), pools={"pool": 3},
        hosts=[
            HostConfig(name=name, slots=9, counters={"lic": 2}) for name in ("h1", "h2", "h3")
        ],
    )  # fmt: skip
    controller = site.controller
    place(controller, jobs[0])
    propose(controller, bulk(controller, (jobs[1], 3, 5), hosts={"h1": 1, "h2": 1}))
    propose(controller, gang(controller, jobs[2], hosts={"h2": 3, "h3": 3}))
    item = bulk(controller, jobs[3], hosts={"h3": 1})
    propose(controller, msgspec.structs.replace(item, devices=[[1, 3]]))
    site.tell()
    stop(controller, (jobs[1], 3, 3), by="bob")
    site.tell()
    wanted = attempts(controller)
    assert len(wanted) == 5
    began = {key: controller.attempt(*key).started_at_us for key in wanted}
    controller = site.restore(before)
    assert not attempts(controller)
    assert site.adopt("h1", "h2", "h3") == [
        Accepted(text="2 unknown attempts are being adopted"),
        Accepted(text="2 unknown attempts are being adopted"),
        Accepted(text="1 unknown attempts are being adopted"),
    ]
    assert site.refusals() == []
    assert attempts(controller) == wanted
    table = controller.state.hosts
    assert (table.strange, table.adopting, table.stale) == ({}, {}, {})
    for key, at_us in began.items():
        assert abs(controller.attempt(*key).started_at_us - at_us) < 5 * SECOND_US
    many = controller.job(jobs[1])
    assert [stat_of(controller.state, many, place) for place in range(5)] == [
        "PSUSP", "USUSP", "RUN", "PSUSP", "PSUSP",
    ]  # fmt: skip
    assert controller.state.spec(many).script == LOST
    check_whole(controller)
    resume(controller, (jobs[1], 3, 3), by="bob")
    site.tell()
    site.end("h1", (jobs[1], 3, 1), exit_code=3)
    site.end("h2", (jobs[2], 0, 1))
    assert ended_element(many, 1)[0].exit_code == 3
    assert stat_of(controller.state, controller.job(jobs[2]), 0) == "DONE"
    assert site.machines["h1"].live_of((jobs[0], 0, 1)) is not None
    check_whole(controller)


def test_an_array_is_taken_up_host_by_host_and_nothing_of_it_runs_twice():
    site, (job,), before = started(submission(elements="1-4"))
    propose(site.controller, bulk(site.controller, job, hosts={"h1": 2, "h2": 2}))
    site.tell()
    controller = site.restore(before, hosts=("h1", "h3"))
    site.adopt("h1")
    site.join("h2")
    site.tell()
    assert site.machines["h2"].live_of((job, 3, 1)) is not None, "it is no stranger, and killed"
    site.adopt("h2")
    assert site.refusals() == []
    assert controller.job(job).live_count == 4
    check_whole(controller)


def test_what_is_started_anew_has_a_number_that_no_host_knows():
    site, (job,), before = started(submission(rerunnable=True))
    place(site.controller, job)
    site.tell()
    controller = site.restore(before)
    site.adopt("h1")
    leave_host(controller, "h1")
    join_host(controller, "h1", boot_id="boot-2")
    place(controller, job, host="h2")
    assert controller.attempt(job).number == controller.state.attempts_above + 1
    launch = next(one for host, one in controller.effects() if host == "h2")
    assert launch.spec.script == LOST, "a host's word is enough to start something elsewhere"
    check_whole(controller)


def lived() -> tuple[Site, int]:
    """Return a site after a life with a requeue, a move and an end; and the entry before it."""
    site, jobs, before = started(
        submission(rerunnable=True), submission(elements="1-3"), submission(asks=request(2)),
        queues=(QueueConfig(name="normal", default=True), QueueConfig(name="night")),
    )  # fmt: skip
    controller = site.controller
    place(controller, jobs[0])
    propose(controller, bulk(controller, (jobs[1], 1, 2), hosts={"h1": 1, "h2": 1}))
    site.tell()
    propose(controller, gang(controller, jobs[2], hosts={"h2": 1, "h3": 1}))
    site.end("h1", (jobs[1], 1, 1))
    site.tell()
    leave_host(controller, "h1")
    site.machines["h1"] = HostState()
    join_host(controller, "h1", boot_id="boot-2")
    switch(controller, "night", jobs[2], by="bob")
    place(controller, jobs[0], host="h2")
    site.tell()
    return site, before


def test_whenever_the_backup_was_made_all_that_runs_is_adopted_or_refused():
    last, before = lived()
    seen: set[str] = set()
    for seq in range(before, last.controller.state.seq + 1):
        site, _ = lived()
        running = {
            (one.job, one.index, one.attempt): host
            for host, machine in site.machines.items()
            for one in machine.joined()[0]
        }
        controller = site.restore(seq)
        site.adopt("h1", "h2", "h3")
        table = controller.state.hosts
        for (job, index, attempt), host in running.items():
            refused = table.unadopted.get(table.number[host], {}).get((job, index, attempt))
            lives = (job, index) in attempts(controller)
            assert lives != bool(refused), (seq, job, index, attempt, refused)
            assert not lives or controller.attempt(job, index).number == attempt
            assert site.machines[host].live_of((job, index, attempt)) is not None
            seen.add(refused or "adopted")
        assert not table.adopting
        check_whole(controller)
    assert seen == {"adopted", "it has ended"}


def test_only_administrators_adopt_and_only_on_hosts_that_are_there():
    site, (job,), before = started(submission())
    place(site.controller, job)
    site.tell()
    site.restore(before)
    (refused,) = site.adopt("h1", by="carol")
    assert refused.code == RefusalCode.DENIED
    assert not site.controller.state.hosts.adopting
    leave_host(site.controller, "h2")
    assert [one.code for one in site.adopt("h2", "h9")] == [
        RefusalCode.WRONG_STATE, RefusalCode.UNKNOWN_HOST,
    ]  # fmt: skip


def test_what_is_owed_outlives_controller_connection_and_worker():
    site, (job,), before = started(submission())
    place(site.controller, job)
    site.tell()
    controller = site.restore(before)
    controller.tell(AdoptStrangers("root", ("h1",), is_admin=True), by="root")
    state = load(dump(controller.state))
    assert digest(state) == digest(controller.state)
    again = RecordedController(state, now_us=controller.now_us)
    again.tell(ReignBegan(), by="controller")
    site.machines["h1"] = site.reborn(site.machines["h1"])
    site.follow(again)
    assert again.attempt(job).number == 1
    asked = [one for entry in again.entries for one in entry.records]
    assert not any(isinstance(one, AdoptionAsked) for one in asked), "it was asked for again"


def test_an_answer_that_comes_twice_or_that_nobody_wants_changes_nothing():
    site, (job,), before = started(submission())
    place(site.controller, job)
    site.tell()
    controller = site.restore(before)
    told = site.machines["h1"].live_of((job, 0, 1)).told(site.now_us)
    seq = controller.state.seq
    controller.tell(Reported("h1", 9, told=(told,)), by="host h1")
    assert controller.state.seq == seq
    site.adopt("h1")
    seq = controller.state.seq
    controller.tell(Reported("h1", 10, told=(told,)), by="host h1")
    assert controller.state.seq == seq


def test_a_stranger_that_ends_is_none_any_more():
    site, (job,), before = started(submission())
    place(site.controller, job)
    site.tell()
    controller = site.restore(before)
    site.end("h1", (job, 0, 1))
    assert not controller.state.hosts.strange
    assert job not in controller.state.jobs


def test_what_ends_while_its_host_is_asked_ends_as_the_job_did():
    site, (job,), before = started(submission())
    place(site.controller, job)
    site.tell()
    controller = site.restore(before)
    controller.tell(AdoptStrangers("root", ("h1",), is_admin=True), by="root")
    site.tell_hosts()
    site.end("h1", (job, 0, 1), exit_code=5)
    assert ended_element(controller.job(job), 0)[0].exit_code == 5
    check_whole(controller)


def adopted_with(site, controller, change):
    """Adopt what runs on h1, with what its host tells of it changed."""
    machine = site.machines["h1"]
    for seen in machine.joined()[0]:
        live = machine.live_of((seen.job, seen.index, seen.attempt))
        live.launch = change(live.launch)
    site.adopt("h1")
    return site.refusals()


def claimed(launch, **changed):
    return msgspec.structs.replace(launch, claim=msgspec.structs.replace(launch.claim, **changed))


def keyed(launch, **changed):
    return claimed(launch, key=msgspec.structs.replace(launch.claim.key, **changed))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda launch: msgspec.structs.replace(launch, claim=None), "an older release started it"),
        (lambda launch: keyed(launch, queue="gone"), "there is no queue gone"),
        (lambda launch: msgspec.structs.replace(launch, hosts=(("h9", 1),)), "there is no host h9"),
        (lambda launch: msgspec.structs.replace(launch, hosts=(("h2", 1),)), "not fit together"),
        (lambda launch: keyed(launch, request=request(1, mem_mib=10**9)), "less mem free"),
        (lambda launch: keyed(launch, request=request(2)), "does not lie as it asks"),
        (lambda launch: claimed(launch, array=array("2-9")), "it has no such element"),
        (
            lambda launch: msgspec.structs.replace(
                launch, spec=JobSpec(script=SCRIPT, transfers=(("a", "<", "b", "c"),))
            ),
            "for which a host's word is not enough",
        ),
        (
            lambda launch: claimed(launch, rows=(("h1", 1, 3),)),
            "does not lie as it asks: the parts are not all there",
        ),
        (lambda launch: claimed(launch, processors=[[[3, 3]]]), "processors that nobody asked for"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_up_is_refused_with_the_reason_and_runs_on(change, why):
    site, (job,), before = started(submission())
    place(site.controller, job)
    site.tell()
    controller = site.restore(before)
    (said,) = adopted_with(site, controller, change)
    assert why in said
    assert job not in controller.state.jobs
    assert list(controller.state.hosts.strange[0]) == [(job, 0, 1)]
    assert site.machines["h1"].live_of((job, 0, 1)) is not None
    refused = controller.entries[-1].records
    assert isinstance(refused[0], AdoptionRefused)
    check_whole(controller)


def test_room_that_others_have_now_is_not_given_twice():
    site, (job,), before = started(submission(asks=request(5, one_host=True)))
    place(site.controller, job)
    site.tell()
    controller = site.restore(before)
    controller.tell(ApplyConfig("root", _smaller(controller, 4), is_admin=True), by="root")
    site.adopt("h1")
    assert site.refusals() == ["host h1 has less slots free than it needs"]
    controller.tell(ApplyConfig("root", _smaller(controller, 5), is_admin=True), by="root")
    site.adopt("h1")
    assert site.refusals() == []
    assert controller.attempt(job).tasks == [5]
    check_whole(controller)


def _smaller(controller, slots):
    config = controller.state.config
    hosts = tuple(msgspec.structs.replace(one, slots=slots) for one in config.hosts)
    return msgspec.structs.replace(config, hosts=hosts)


def test_a_parallel_attempt_is_taken_up_where_it_is_led_and_when_all_its_hosts_are_there():
    site, (job,), before = started(submission(asks=request(4, ptile=2)))
    propose(site.controller, gang(site.controller, job, hosts={"h1": 2, "h2": 2}))
    site.tell()
    lead = site.machines["h1"].live_of((job, 0, 1))
    site.machines["h2"].join_part(lead.launch, 0, 1, site.now_us)
    controller = site.restore(before, hosts=("h1", "h3"))
    site.adopt("h1")
    assert (site.refusals(), list(controller.state.hosts.adopting)) == ([], [0])
    site.join("h2")
    site.tell()
    assert not controller.state.hosts.strange
    controller = site.restore(before, hosts=("h1", "h3"))
    site.adopt("h1")
    tick(controller, after_us=1_000 * SECOND_US)
    site.tell()
    assert site.refusals() == ["its host h2 is not there"]
    site.join("h2")
    site.adopt("h2")
    assert "host h1 leads it: adopt it there" in site.refusals()
    site.adopt("h1")
    assert site.refusals() == []
    assert not controller.state.hosts.strange
    assert controller.attempt(job).is_adopted
    site.join("h2")
    site.tell()
    assert site.machines["h2"].live_of((job, 0, 1)) is not None
    check_whole(controller)


def test_bound_processors_are_taken_up():
    site, (job,), before = started(
        submission(asks=request(2, one_host=True, affinity="core")),
        hosts=[
            HostConfig(
                name="h1", slots=9,
                processors=made_up({"sockets": 1, "cores": 4, "threads": 1, "numa": 1}),
            ),
        ],
    )  # fmt: skip
    controller = site.controller
    item = bulk(controller, job, hosts={"h1": 1})
    propose(controller, msgspec.structs.replace(item, processors=[[0b110, 0b10, 0b100]]))
    site.tell()
    wanted = attempts(controller)
    assert wanted
    controller = site.restore(before)
    site.adopt("h1")
    assert site.refusals() == []
    assert attempts(controller) == wanted
    check_whole(controller)


def test_a_controller_that_dies_behind_any_entry_leaves_the_rest_owed():
    for dies in range(20):
        site, jobs, before = started(
            submission(elements="1-3"), submission(asks=request(2)), submission(asks=request(99)),
        )  # fmt: skip
        propose(site.controller, bulk(site.controller, jobs[0], hosts={"h1": 2, "h2": 1}))
        propose(site.controller, gang(site.controller, jobs[1], hosts={"h2": 1, "h1": 1}))
        site.tell()
        wanted = attempts(site.controller)
        assert len(wanted) == 4
        controller = site.restore(before)
        asked = controller.state.seq + 1
        site.adopt("h1", "h2")
        assert attempts(controller) == wanted
        if asked + dies > controller.state.seq:
            assert dies > 3
            return
        state = replayed(controller.entries[: asked + dies])
        again = RecordedController(state, now_us=controller.now_us + SECOND_US)
        again.entries = controller.entries[: asked + dies]
        again.tell(ReignBegan(), by="controller")
        site.follow(again)
        assert attempts(again) == wanted, dies
        assert not again.state.hosts.strange
        check_whole(again)
