"""Jobs with ``affinity[]`` in sessions: who starts where, who waits and why, and what it costs."""

import numpy as np
from msgspec.structs import replace
from processors import host_of
from sessions import Scheduled

from xce.model.ids import SECOND_US
from xce.model.observation import AttemptSeen
from xce.model.processor import made_up
from xce.model.reason import HostCode, Reason, render_plain
from xce.model.request import Part
from xce.sched import processor_room
from xce.state import snapshot
from xce.state.processors import ProcessorTable, split_sets
from xce.testing.builders import (
    RecordedController,
    cluster,
    join_host,
    report_ended,
    report_started,
    request,
    submission,
    submit,
)

SEEN = [AttemptSeen(1, 0, 1, running=False)]


def hosts(names: str = "h1", *, slots: int = 8, **shape: int) -> RecordedController:
    """Return hosts that have joined, each with the processors of `host_of`."""
    controller = cluster(dict.fromkeys(names.split(), slots), join=False)
    for name in names.split():
        join_host(controller, name, cpus=8, processors=host_of(**shape))
    return controller


def bound(controller: RecordedController, job: int) -> list[tuple[str, list[int]]]:
    """Return the hosts of a job, and what each of its tasks there is bound to."""
    attempt = controller.state.attempt(job, 0)
    assert attempt is not None
    rows = zip(attempt.hosts, attempt.tasks, attempt.processors, strict=True)
    return [
        (controller.state.hosts.names[host], list(split_sets(words, tasks)[1]))
        for host, tasks, words in rows
    ]


def reason_of(controller: RecordedController, job: int) -> Reason:
    """Return why a job waits."""
    return controller.state.classes[controller.state.jobs[job].cls].reason


def run(controller: RecordedController, *texts: str, tasks: int = 1) -> Scheduled:
    """Submit a job for each wish and run a session."""
    for text in texts:
        submit(controller, submission(asks=request(tasks, affinity=text, one_host=True)))
    scheduled = Scheduled(controller)
    scheduled.run()
    return scheduled


def test_a_job_gets_its_cores_and_gives_them_back():
    controller = hosts()
    scheduled = run(controller, "core(3)")
    assert bound(controller, 1) == [("h1", [0b0011_1111])]
    submit(controller, submission(asks=request(affinity="core(2)")))
    scheduled.run()
    assert controller.state.attempt(2, 0) is None
    reason = reason_of(controller, 2)
    assert [item.code for item in reason.host_reasons] == [HostCode.PROCESSORS_BUSY]
    report_started(controller, 1)
    report_ended(controller, 1)
    scheduled.run()
    assert bound(controller, 2) == [("h1", [0b1111])]


def test_two_jobs_never_share_a_processor():
    controller = hosts(slots=20)
    run(controller, "core(1)", "thread(1)", "core(1,exclusive=(socket))", "thread(3)")
    assert bound(controller, 1) == [("h1", [0b11])]
    assert bound(controller, 2) == [("h1", [0b100])]
    assert bound(controller, 3) == [("h1", [0b11_0000])]
    # The rest of the second socket is the third job's, too: one thread is left.
    assert controller.state.attempt(4, 0) is None


def test_what_is_promised_later_keeps_its_processors_from_those_who_may_pass():
    controller = cluster({"h1": 4}, backfill="easy", join=False)
    join_host(controller, "h1", processors=host_of(1, 4, 1))
    for cores, span_s in ((2, 100), (4, 100), (1, 90), (1, 200)):
        asks = request(affinity=f"core({cores})")
        submit(controller, submission(asks=asks, run_limit_us=span_s * SECOND_US))
    Scheduled(controller).run()
    # The second is promised all cores when the first has ended; the fourth would delay it.
    assert [controller.state.attempt(job, 0) is not None for job in (1, 2, 3, 4)] == [
        True, False, True, False,
    ]  # fmt: skip


def test_tasks_of_a_parallel_job_go_to_several_hosts():
    controller = hosts("h1 h2", slots=8, cores=1, threads=1)
    submit(controller, submission(asks=request(4, affinity="core(1)")))
    Scheduled(controller).run()
    assert bound(controller, 1) == [("h1", [0b1, 0b10]), ("h2", [0b1, 0b10])]


def test_many_alike_are_bound_in_one_go():
    controller = hosts("h1 h2", slots=8)
    submit(controller, submission(asks=request(affinity="core(1)"), elements="1-20"))
    Scheduled(controller).run()
    job = controller.state.jobs[1]
    assert len(job.live or {}) == 8
    held = {
        (attempt.hosts[0], split_sets(attempt.processors[0], 1)[0])
        for attempt in (job.live or {}).values()
    }
    assert held == {(host, 0b11 << 2 * core) for host in (0, 1) for core in range(4)}


def test_hosts_that_do_not_tell_their_processors_are_named():
    controller = cluster({"h1": 4})
    run(controller, "core(1)")
    reason = reason_of(controller, 1)
    assert [item.code for item in reason.host_reasons] == [HostCode.PROCESSORS_UNKNOWN]
    assert "not telling which processors there are" in render_plain(reason, now_us=0)
    assert not reason.unsatisfiable


def test_a_wish_that_no_host_could_meet_is_unsatisfiable():
    controller = hosts()
    run(controller, "core(3,same=socket)")
    reason = reason_of(controller, 1)
    assert [item.code for item in reason.host_reasons] == [HostCode.NO_PROCESSORS]
    assert reason.unsatisfiable


def test_a_snapshot_has_who_is_bound_to_what():
    controller = hosts()
    run(controller, "core(3)")
    loaded = snapshot.load(snapshot.dump(controller.state))
    assert (loaded.hosts.used == controller.state.hosts.used).all()
    assert (loaded.hosts.total == controller.state.hosts.total).all()
    assert snapshot.dump(loaded) == snapshot.dump(controller.state)


def test_processors_that_are_gone_stay_in_use_until_their_job_ends():
    controller = hosts()
    run(controller, "core(3)")
    join_host(controller, "h1", cpus=2, processors=host_of(1, 1, 2), attempts=SEEN)
    table = controller.state.hosts
    assert table.free()[table.word_row :, 0].tolist() == [0]
    report_started(controller, 1)
    report_ended(controller, 1)
    assert table.free()[table.word_row :, 0].tolist() == [0b11]


def test_a_host_with_more_processors_than_all_before_makes_room_for_them():
    controller = hosts()
    run(controller, "core(3)")
    before = controller.state.hosts.width
    join_host(
        controller,
        "h1",
        cpus=128,
        processors=made_up({"sockets": 2, "cores": 32, "threads": 2, "numa": 4}),
        attempts=SEEN,
    )
    table = controller.state.hosts
    assert table.width == before + 2
    assert table.used[table.word_row :, 0].tolist() == [0b11_1111, 0, 0]
    loaded = snapshot.load(snapshot.dump(controller.state))
    assert (loaded.hosts.used == table.used).all()


def test_a_plan_with_processors_that_are_taken_meanwhile_is_dropped():
    controller = hosts()
    submit(controller, submission(asks=request(affinity="core(3)")))
    scheduled = Scheduled(controller)
    plan = scheduled.plan()
    other = Scheduled(controller)
    submit(controller, submission(asks=request(affinity="core(2)"), name="another"))
    stale = replace(
        other.plan(),
        bulk=tuple(replace(item, jobs=[2], cls=controller.state.jobs[2].cls) for item in plan.bulk),
    )
    assert scheduled.propose(plan) == 0
    assert other.propose(stale) == 1


def test_jobs_without_affinity_cost_no_question_about_processors(monkeypatch):
    asked = []
    monkeypatch.setattr(processor_room, "_each", lambda *args: asked.append(args))
    controller = hosts("h1 h2 h3")
    submit(controller, submission(asks=request(), elements="1-30"))
    submit(controller, submission(asks=request(4)))
    Scheduled(controller).run()
    assert not asked


def test_hosts_that_are_alike_are_asked_once(monkeypatch):
    counted = []
    whole = processor_room.most_tasks
    monkeypatch.setattr(
        processor_room, "most_tasks", lambda *args: counted.append(args) or whole(*args)
    )
    controller = hosts(" ".join(f"h{number}" for number in range(1, 40)))
    submit(controller, submission(asks=request(3, affinity="core(1)")))
    Scheduled(controller).run()
    assert controller.state.attempt(1, 0) is not None
    kinds = {layout for _, layout, _ in counted}
    assert len(kinds) == 1
    assert len(counted) < 39


def test_what_was_counted_is_known_as_long_as_the_same_is_free(monkeypatch):
    counted = []
    count = processor_room._count
    monkeypatch.setattr(
        processor_room, "_count", lambda *args: counted.append(args) or count(*args)
    )
    table = hosts("h1 h2").state.hosts
    shape = processor_room.lay_out("core(1)", table.processors, table.word_row)
    free = table.free()
    for _ in range(3):
        assert processor_room.tasks_by_processors(shape, free).tolist() == [4, 4]
        assert processor_room.attempts_by_processors(shape, free, 2).tolist() == [2, 2]
        only = processor_room.within(shape, np.asarray([1]))
        assert processor_room.tasks_by_processors(only, free[:, [1]]).tolist() == [4]
    assert len(counted) == 3
    free[shape.row, 0] = 0
    assert processor_room.tasks_by_processors(shape, free).tolist() == [0, 4]
    monkeypatch.setattr(processor_room, "KNOWN_BYTES", 2000)
    free[shape.row, 1] = 0
    assert processor_room.tasks_by_processors(shape, free).tolist() == [0, 0]
    assert len(shape.known) == 1
    monkeypatch.setattr(processor_room, "_BYTES_MAX", 8)
    assert processor_room.tasks_by_processors(shape, free).tolist() == [0, 0]
    assert len(counted) == 6


def test_hosts_that_are_alike_share_what_is_known_of_their_processors():
    controller = hosts("h1 h2 h3")
    loaded = snapshot.load(snapshot.dump(controller.state))
    for table in (controller.state.hosts.processors, loaded.hosts.processors):
        assert len(table.layouts) == 1
        assert table.hosts[0] is table.hosts[2]
        assert table.reported[0] is table.hosts[0]


def test_requests_of_parts_are_placed_on_hosts_with_many_processors():
    controller = cluster({f"h{number}": 2 for number in range(1, 11)}, join=False)
    for number in range(1, 11):
        join_host(controller, f"h{number}", processors=host_of(2, 30, 1))
    parts = tuple(
        Part(name, 5, replace(request(5), select=select))
        for name, select in (("a", ""), ("b", "mem > 1"))
    )
    submit(controller, submission(asks=replace(request(10), parts=parts)))
    Scheduled(controller).run()
    assert controller.state.attempt(1, 0) is not None


def test_what_is_remembered_of_a_request_has_a_bound_in_bytes():
    table = ProcessorTable()
    for _ in range(500):
        table.add()
        table.report(len(table.hosts) - 1, host_of())
        table.settle(len(table.hosts) - 1, None)
    shape = processor_room.lay_out("core(1)", table, 0)
    assert shape is not None
    for free in range(1, 100):
        words = np.full((table.words, 500), free, np.int64)
        processor_room.tasks_by_processors(shape, words)
    kept = [*shape.known.values(), *(np.frombuffer(b"".join(key[1:])) for key in shape.known)]
    assert 0 < sum(one.nbytes for one in kept) <= processor_room.KNOWN_BYTES
