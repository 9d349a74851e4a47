"""How long sessions take: ``python bench/session.py [CASE ...]``, a JSON line for each of a case.

States are built through the controller; only `run_session` is timed (median of several runs).
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from xce.model.command import ProposePlan
from xce.model.config import HostConfig
from xce.model.job import ArraySpec, Submission
from xce.model.plan import Plan
from xce.model.request import Amount
from xce.sched.counts import Counts
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.sim.swf import Cleaning, clean, load_log
from xce.testing.builders import (
    ALICE,
    RecordedController,
    cluster,
    report_ended,
    request,
    submission,
    submit,
)

REPEATS = 7
LOG = Path(__file__).resolve().parents[1] / "tests/data/swf/kth-sp2-1996-excerpt.swf.gz"
JOBS = 100_000


def named(count: int, slots: int) -> dict[str, int]:
    return {f"h{number:04d}": slots for number in range(count)}


def separate(count: int, asks: Sequence[Submission]) -> list[Submission]:
    return [asks[number % len(asks)] for number in range(count)]


def accept(controller: RecordedController, memory: Memory, plan: Plan) -> None:
    first = len(controller.entries)
    controller.tell(ProposePlan(plan), by="scheduler")
    for entry in controller.entries[first:]:
        memory.note(entry)


def settle(controller: RecordedController) -> Memory:
    """Run sessions until nothing changes any more."""
    memory = Memory()
    while not (
        plan := run_session(controller.state, now_us=controller.now_us, memory=memory)
    ).is_empty:
        accept(controller, memory, plan)
    return memory


def report(
    case: str,
    controller: RecordedController,
    make_memory: Callable[[], Memory],
    limit_ms: int = 0,
    decided: int = 0,
) -> None:
    times = []
    counts, plan = Counts(), None
    for _ in range(REPEATS):
        memory, counts = make_memory(), Counts()
        gc.collect()
        gc.disable()
        began = time.perf_counter_ns()
        plan = run_session(controller.state, now_us=controller.now_us, memory=memory, counts=counts)
        times.append((time.perf_counter_ns() - began) / 1e6)
        gc.enable()
    assert plan is not None
    placed = sum(sum(item.counts) for item in plan.bulk) + len(plan.gangs)
    seconds = statistics.median(times) / 1000
    line = {
        "bench": "session",
        "case": case,
        "ms": round(statistics.median(times), 3),
        "ms_max": round(max(times), 3),
        "bar": f"< {limit_ms} ms" if limit_ms else "",
        "placed": placed,
        "placed_per_s": round(placed / seconds),
        "reasons": len(plan.reasons),
        "counts": msgspec.to_builtins(counts),
    }
    if decided:
        line["decided_per_s"] = round(decided / seconds)
    print(json.dumps(line), flush=True)


def one_class() -> None:
    """100,000 separate jobs of one user on 100 hosts."""
    controller = cluster(named(100, 16))
    submit(controller, *separate(JOBS, [submission()]), owner=ALICE)
    report("100,000 jobs, 100 empty hosts, 1,600 placed", controller, Memory)
    memory = settle(controller)
    report("100,000 jobs pend, nothing to place, same memory", controller, lambda: memory, 20)
    report("100,000 jobs pend, nothing to place, fresh memory", controller, Memory, 20)


def a_million() -> None:
    """1,000,000 separate jobs of one user on 1,000 full hosts."""
    controller = cluster(named(1_000, 16))
    for _ in range(20):
        submit(controller, *separate(50_000, [submission()]), owner=ALICE)
    memory = settle(controller)
    report("1,000,000 jobs pend on 1,000 hosts, same memory", controller, lambda: memory, 50)
    report("1,000,000 jobs pend on 1,000 hosts, fresh memory", controller, Memory, 50)


def ten_thousand() -> None:
    """10,000 elements and jobs placed at once on 4 hosts."""
    controller = cluster(named(4, 2_500))
    spec = submission(elements="1-10000")
    submit(controller, msgspec.structs.replace(spec, array=ArraySpec(((1, 10_000, 1),))))
    report("10,000 elements of an array placed on 4 hosts", controller, Memory)
    controller = cluster(named(4, 2_500))
    submit(controller, *separate(20_000, [submission()]))
    report("10,000 of 20,000 separate jobs placed on 4 hosts", controller, Memory)


def many_classes() -> None:
    """1,000 classes whose jobs alternate."""
    limits = [submission(run_limit_us=number * 1_000_000) for number in range(1, 1_001)]
    controller = cluster(named(100, 16))
    submit(controller, *separate(JOBS, limits))
    report("1,000 classes of one request alternate, 1,600 placed", controller, Memory)
    memory = settle(controller)
    report("1,000 classes of one request pend, same memory", controller, lambda: memory, 20)
    report("1,000 classes of one request pend, fresh memory", controller, Memory)
    asks = [submission(mem_mib=number) for number in range(1, 1_001)]
    controller = cluster(named(100, 16))
    submit(controller, *separate(JOBS, asks))
    report("1,000 different requests alternate, 1,600 placed", controller, Memory)
    memory = settle(controller)
    report("1,000 different requests pend, same memory", controller, lambda: memory, 20)
    report("1,000 different requests pend, fresh memory", controller, Memory)


def parallel() -> None:
    """Parallel jobs of 64 tasks on 1,000 hosts."""
    for case, wanted in (
        ("any split", request(64)),
        ("span[ptile=4]", request(64, ptile=4)),
        ("span[hosts=1], 2..8", request((2, 8), one_host=True)),
        ("per job amounts", request(64, amounts=[Amount("mem", 100, "job")])),
    ):
        controller = cluster(named(1_000, 16))
        submit(controller, *separate(1_000, [submission(asks=wanted)]))
        report(f"1,000 parallel jobs on 1,000 hosts, {case}", controller, Memory)


def many_hosts() -> None:
    """10,000 hosts: tasks of one shape, as an array and as jobs."""
    controller = cluster(named(10_000, 100))
    spec = submission(elements="1-1000000")
    submit(controller, msgspec.structs.replace(spec, array=ArraySpec(((1, 1_000_000, 1),))))
    report("1,000,000 tasks of one shape placed on 10,000 hosts", controller, Memory)
    controller = cluster(named(10_000, 100))
    submit(controller, *separate(JOBS, [submission()]))
    report("100,000 jobs of one shape placed on 10,000 hosts", controller, Memory)


def real_mix() -> None:
    """3,000 jobs of a real log wait at once: sizes and run limits as they were asked for."""
    log = load_log(LOG)
    jobs, _ = clean(log.records, Cleaning(log.processors))
    for hosts in (100, 1_000):
        controller = cluster(named(hosts, 16))
        asks = [
            submission(asks=request(job.size), run_limit_us=job.request * 1_000_000) for job in jobs
        ]
        for first in range(0, len(asks), 500):
            submit(controller, *asks[first : first + 500])
        case = f"{len(jobs):,} jobs of a real log decided, {hosts:,} hosts"
        report(case, controller, Memory, decided=len(jobs))


def blocked_shapes() -> None:
    """10,000 different requests wait on 1,000 full hosts, of which one comes free each time."""
    hosts = [HostConfig(name=name, slots=1, mem_mib=20_000) for name in named(1_000, 1)]
    controller = cluster(hosts)
    submit(controller, *separate(1_000, [submission()]))
    memory = settle(controller)
    submit(controller, *[submission(mem_mib=number) for number in range(1, 10_001)])
    memory = settle(controller)
    times = []
    for job in range(1, 12):
        first = len(controller.entries)
        report_ended(controller, job)
        for entry in controller.entries[first:]:
            memory.note(entry)
        gc.collect()
        gc.disable()
        began = time.perf_counter_ns()
        plan = run_session(controller.state, now_us=controller.now_us, memory=memory)
        # The first sessions count the blocked requests, some thousand at a time.
        times += [(time.perf_counter_ns() - began) / 1e6] if job > 4 else []
        gc.enable()
        accept(controller, memory, plan)
    line = {
        "bench": "session",
        "case": "10,000 blocked requests, one host comes free",
        "ms": round(statistics.median(times), 3),
        "ms_max": round(max(times), 3),
    }
    print(json.dumps(line), flush=True)


def main() -> int:
    cases = (
        one_class, a_million, ten_thousand, many_classes, parallel, many_hosts, real_mix,
        blocked_shapes,
    )  # fmt: skip
    wanted = sys.argv[1:]
    for case in cases:
        if not wanted or case.__name__ in wanted:
            case()
    return 0


if __name__ == "__main__":
    sys.exit(main())
