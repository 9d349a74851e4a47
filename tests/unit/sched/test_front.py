"""Taking the waiting jobs of a class in order."""

from xce.model.ids import HostNumber
from xce.sched.front import NO_LIMIT, Front
from xce.testing.builders import (
    RecordedController,
    cluster,
    kill,
    place,
    report_ended,
    submission,
    submit,
)


def front(controller: RecordedController, job: int = 1) -> Front:
    return Front(controller.state, controller.state.classes[controller.job(job).cls], (0,))


def avoid(controller: RecordedController, job: int, host: str) -> None:
    place(controller, job, host=host)
    report_ended(controller, job, host_fault=True)


def test_separate_jobs_come_in_order_and_are_taken_once():
    controller = cluster({"h1": 4})
    submit(controller, *[submission()] * 300)
    waiting = front(controller)
    runs, taken = waiting.take(100, NO_LIMIT)
    assert taken == 100
    assert runs.jobs == list(range(1, 101))
    assert (set(runs.firsts), set(runs.lasts)) == ({0}, {0})
    assert waiting.first() == 101
    assert waiting.take(1_000, NO_LIMIT)[0].jobs == list(range(101, 301))
    assert waiting.first() is None


def test_nothing_is_taken_from_the_limit_on():
    controller = cluster({"h1": 4})
    submit(controller, *[submission()] * 300)
    waiting = front(controller)
    assert waiting.take(1_000, (31, 0))[1] == 30
    assert waiting.first() == 31


def test_arrays_are_taken_as_runs_of_indices_between_separate_jobs():
    controller = cluster({"h1": 4})
    submit(controller, submission(), submission(elements="2-10:2,20-25"), submission())
    waiting = front(controller)
    runs, taken = waiting.take(4, NO_LIMIT)
    assert taken == 4
    assert list(zip(*runs, strict=True)) == [(1, 0, 0), (2, 2, 6)]
    runs, taken = waiting.take(100, NO_LIMIT)
    assert taken == 9
    assert list(zip(*runs, strict=True)) == [(2, 8, 25), (3, 0, 0)]


def test_an_array_that_lost_elements_is_taken_in_pieces():
    controller = cluster({"h1": 4})
    array = submit(controller, submission(elements="1-10"))
    kill(controller, (array, 4, 6))
    runs, taken = front(controller).take(5, NO_LIMIT)
    assert taken == 5
    assert list(zip(*runs, strict=True)) == [(1, 1, 3), (1, 7, 8)]


def test_an_array_gives_no_more_than_its_limit():
    controller = cluster({"h1": 4})
    submit(controller, submission(elements="1-10", limit=3), submission())
    waiting = front(controller)
    assert waiting.take(2, NO_LIMIT)[1] == 2
    runs, taken = waiting.take(9, NO_LIMIT)
    assert taken == 2
    assert list(zip(*runs, strict=True)) == [(1, 3, 3), (2, 0, 0)]


def test_jobs_that_avoid_other_hosts_are_taken_apart_or_left_out():
    controller = cluster({"h1": 9})
    submit(controller, *[submission()] * 6)
    for job in (2, 3):
        avoid(controller, job, "h1")
    waiting = front(controller)
    assert waiting.take(9, NO_LIMIT)[0].jobs == [1]
    expected: tuple[HostNumber, ...] = (0,)
    assert waiting.likeness[0] == expected
    waiting.skip_alike()
    assert waiting.take(9, NO_LIMIT)[0].jobs == [4, 5, 6]


def test_many_jobs_that_avoid_the_same_hosts_are_left_out_at_once():
    controller = cluster({"h1": 200})
    submit(controller, *[submission()] * 100)
    for job in range(1, 91):
        place(controller, job, host="h1")
    for job in range(1, 91):
        report_ended(controller, job, host_fault=True)
    waiting = front(controller)
    waiting.skip_alike()
    assert waiting.first() == 91
