import random

import pytest

from xce.sim import swf_conservative, swf_core
from xce.sim.swf import SwfJob
from xce.sim.swf_core import simulate


def job(number: int, submit: int, run: int, size: int, request: int = 0) -> SwfJob:
    return SwfJob(number, submit, run, request or run, size, 1, 1, 1)


def naive(jobs: list[SwfJob], procs: int, policy: str, backfill: str) -> list[int]:
    """The same rules, told as they are in the books: second by second, nothing remembered."""
    starts = [-1] * len(jobs)
    reserved: dict[int, int] = {}
    now = 0
    while -1 in starts or any(starts[i] + j.run > now for i, j in enumerate(jobs)):
        ended = [i for i, j in enumerate(jobs) if starts[i] >= 0 and starts[i] + j.run == now]
        queue = [i for i, j in enumerate(jobs) if j.submit <= now and starts[i] < 0]
        queue.sort(key=lambda i: (jobs[i].request if policy == "sjf" else 0, jobs[i].submit, i))
        running = [i for i, j in enumerate(jobs) if starts[i] >= 0 and starts[i] + j.run > now]

        def free_at(t: int, held: list[tuple[int, int, int]]) -> int:
            return procs - sum(size for first, last, size in held if first <= t < last)

        held = [(starts[i], starts[i] + jobs[i].request, jobs[i].size) for i in running]
        if backfill == "conservative":
            if any(jobs[i].run < jobs[i].request for i in ended):
                reserved.clear()
            held += [
                (reserved[i], reserved[i] + jobs[i].request, jobs[i].size)
                for i in queue
                if i in reserved
            ]
            for i in queue:
                if i not in reserved:
                    at = now
                    while any(
                        free_at(t, held) < jobs[i].size for t in range(at, at + jobs[i].request)
                    ):
                        at += 1
                    reserved[i] = at
                    held.append((at, at + jobs[i].request, jobs[i].size))
            for i in queue:
                if reserved[i] <= now:
                    starts[i] = now
        else:
            while queue and jobs[queue[0]].size <= free_at(now, held):
                i = queue.pop(0)
                starts[i] = now
                held.append((now, now + jobs[i].request, jobs[i].size))
            if queue and backfill != "none":
                head = jobs[queue[0]]
                at = now
                while free_at(at, held) < head.size:
                    at += 1
                held.append((at, at + 10**6, head.size))
                rest = queue[1:]
                if backfill == "easy-sjbf":
                    rest.sort(key=lambda i: (jobs[i].request, jobs[i].submit, i))
                for i in rest:
                    if all(
                        free_at(t, held) >= jobs[i].size for t in range(now, now + jobs[i].request)
                    ):
                        starts[i] = now
                        held.append((now, now + jobs[i].request, jobs[i].size))
        now += 1
    return starts


@pytest.mark.parametrize("many", [0, 2, 256])
@pytest.mark.parametrize("policy", ["fcfs", "sjf"])
@pytest.mark.parametrize("backfill", ["none", "easy", "easy-sjbf", "conservative"])
def test_starts_equal_a_naive_scheduler_job_by_job(
    policy: str, backfill: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swf_core, "MANY", many)
    rng = random.Random(f"{policy} {backfill}")
    for _ in range(60):
        procs = rng.randint(1, 6)
        jobs = []
        at = 0
        for number in range(rng.randint(1, 14)):
            at += rng.choice((0, 0, 1, 3, 7))
            run = rng.randint(1, 9)
            jobs.append(job(number, at, run, rng.randint(1, procs), run + rng.choice((0, 0, 2, 6))))
        result = simulate(jobs, procs, policy=policy, backfill=backfill)
        assert result.starts == naive(jobs, procs, policy, backfill), (procs, jobs)


def test_easy_lets_pass_what_does_not_delay_the_head() -> None:
    jobs = [
        job(1, 0, 100, 3),
        job(2, 1, 50, 4),
        job(3, 2, 99, 1),
        job(4, 2, 98, 1),
        job(5, 101, 5, 1),
    ]
    assert simulate(jobs, 4, backfill="none").starts == [0, 100, 150, 150, 150]
    # Job 3 would end one second behind the head's start and no processor is left beside the head.
    assert simulate(jobs, 4).starts == [0, 100, 150, 2, 150]


def test_what_the_head_leaves_over_may_be_used_longer() -> None:
    jobs = [job(1, 0, 100, 3), job(2, 1, 50, 3), job(3, 2, 500, 1)]
    assert simulate(jobs, 4).starts == [0, 100, 2]


def test_at_one_second_submissions_come_first_when_each_event_has_a_session() -> None:
    # A job whose estimate ends now counts as gone: what comes at that second may start at once.
    jobs = [job(1, 0, 10, 4), job(2, 5, 10, 4), job(3, 10, 3, 1)]
    assert simulate(jobs, 4, each_event=True).starts == [0, 10, 20]
    # One that ends early is gone only when its end is handled, behind the submissions.
    jobs = [job(1, 0, 10, 3, 20), job(2, 5, 9, 2), job(3, 10, 9, 2), job(4, 10, 30, 1)]
    assert simulate(jobs, 4, each_event=True).starts == [0, 10, 19, 10]
    assert simulate(jobs, 4, each_event=False).starts == [0, 10, 10, 19]


def test_a_session_looks_only_at_what_waits() -> None:
    rng = random.Random(7)
    jobs, at = [], 0
    for number in range(3_000):
        at += rng.randint(0, 40)
        run = rng.randint(1, 200)
        jobs.append(job(number, at, run, rng.choice((1, 1, 2, 4, 8)), run * 2))
    result = simulate(jobs, 16)
    assert result.sessions <= 2 * len(jobs)
    longest = max(
        sum(j.submit <= other.submit < result.starts[i] for other in jobs[i:])
        for i, j in enumerate(jobs)
    )
    assert result.tried <= result.sessions * max(1, longest)


@pytest.mark.parametrize("policy", ["fcfs", "sjf"])
@pytest.mark.parametrize("each_event", [False, True])
def test_reservations_that_are_put_off_change_no_start(
    policy: str, each_event: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{policy} {each_event}")
    tried: dict[int, int] = {}
    for _ in range(8):
        procs = rng.randint(2, 30)
        jobs, at = [], 0
        for number in range(300):
            at += rng.choice((0, 0, 1, 5, 9))
            run = rng.randint(1, 60)
            size = min(procs, rng.choice((1, 1, 2, 3, 8, procs)))
            jobs.append(job(number, at, run, size, run + rng.choice((0, 5, 90))))
        starts = []
        for lazy_from in (0, 10**9):
            monkeypatch.setattr(swf_conservative, "LAZY_FROM", lazy_from)
            result = simulate(
                jobs, procs, policy=policy, backfill="conservative", each_event=each_event
            )
            starts.append(result.starts)
            tried[lazy_from] = tried.get(lazy_from, 0) + result.tried
        assert starts[0] == starts[1]
    assert tried[0] < tried[10**9] / 2


def test_a_long_queue_costs_few_reservations_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    # All come within minutes, and each early end makes every reservation anew.
    rng = random.Random(11)
    jobs = []
    for number in range(400):
        run = rng.randint(1, 600)
        size = rng.choice((1, 1, 2, 4, 8, 16))
        jobs.append(job(number, number // 4, run, size, run * rng.choice((1, 2, 5))))
    results = []
    for lazy_from in (20, 10**9):
        monkeypatch.setattr(swf_conservative, "LAZY_FROM", lazy_from)
        results.append(simulate(jobs, 32, backfill="conservative"))
    assert results[0].starts == results[1].starts
    assert results[0].tried < results[1].tried / 4


@pytest.mark.parametrize("policy", ["fcfs", "sjf"])
@pytest.mark.parametrize("backfill", ["easy", "easy-sjbf"])
def test_of_a_long_queue_hardly_any_who_cannot_start_are_looked_at(
    policy: str, backfill: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An overloaded machine: far more comes than it can run, and thousands wait."""
    rng = random.Random(3)
    jobs = []
    for number in range(3_000):
        run = rng.randint(1, 600)
        size = rng.choice((1, 2, 3, 4, 8, 8, 16, 16))
        jobs.append(job(number, number // 4, run, size, run * rng.choice((1, 2, 5))))
    results = []
    for many in (256, 10**9):
        monkeypatch.setattr(swf_core, "MANY", many)
        results.append(simulate(jobs, 32, policy=policy, backfill=backfill))
    assert results[0].starts == results[1].starts
    assert results[0].order == results[1].order
    assert results[0].tried < results[1].tried / 10
