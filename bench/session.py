"""How long sessions take: ``python bench/session.py``, one JSON line for each case.

States are built through the controller; only `run_session` is timed (median of several runs).
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from xce.model.command import ProposePlan
from xce.model.job import ArraySpec, Submission
from xce.model.plan import Plan
from xce.model.request import Amount
from xce.sched.counts import Counts
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.testing.builders import ALICE, RecordedController, cluster, request, submission, submit

REPEATS = 7
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
    line = {
        "bench": "session",
        "case": case,
        "ms": round(statistics.median(times), 3),
        "ms_max": round(max(times), 3),
        "bar": f"< {limit_ms} ms" if limit_ms else "",
        "placed": sum(sum(item.counts) for item in plan.bulk) + len(plan.gangs),
        "reasons": len(plan.reasons),
        "counts": msgspec.to_builtins(counts),
    }
    print(json.dumps(line), flush=True)


def one_class() -> None:
    """100,000 separate jobs of one user on 100 hosts."""
    controller = cluster(named(100, 16))
    submit(controller, *separate(JOBS, [submission()]), owner=ALICE)
    report("100,000 jobs, 100 empty hosts, 1,600 placed", controller, Memory)
    memory = settle(controller)
    report("100,000 jobs pend, nothing to place, same memory", controller, lambda: memory, 20)
    report("100,000 jobs pend, nothing to place, fresh memory", controller, Memory, 20)


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


def main() -> int:
    for case in (one_class, ten_thousand, many_classes, parallel):
        case()
    return 0


if __name__ == "__main__":
    sys.exit(main())
