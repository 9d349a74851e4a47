"""How long sessions take over jobs with relations: ``python bench/relations.py``, JSON lines.

10,000 hosts in 64 blocks of switches; one job of 512 hosts and four roles with nested relations is
placed, or proved impossible, by a session that knows nothing yet; then 1,000 pending jobs that ask
for ten different things.
"""

import json
import statistics
import time
from collections.abc import Sequence
from typing import Final

from xce.model.config import HostConfig, QueueConfig
from xce.model.constraint import Colocate, Constraint, Spread
from xce.model.ids import MINUTE_US
from xce.model.request import Amount, Part, Request
from xce.sched.counts import Counts
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.testing.builders import RecordedController, cluster, kill, submission, submit

HOSTS, BLOCKS, PER_SWITCH, SLOTS = 10_000, 64, 16, 8
REPEATS: Final = 5
QUEUE = QueueConfig(name="normal", default=True)
FULL = {"ptile": SLOTS}


def build() -> RecordedController:
    hosts = []
    for number in range(HOSTS):
        block = number * BLOCKS // HOSTS
        labels = {"switch": f"b{block:02}s{number // PER_SWITCH:04}", "block": f"b{block:02}"}
        hosts.append(HostConfig(name=f"h{number:05}", slots=SLOTS, mem_mib=65_536, labels=labels))
    return cluster(hosts, queues=[QUEUE], levels=("switch", "block"))


def asks(sizes: Sequence[int], *constraints: Constraint, **fields: object) -> Request:
    """Return roles a, b, ... of so many whole hosts."""
    parts = tuple(
        Part(name, size * SLOTS, Request(size * SLOTS, size * SLOTS, **(fields or FULL)))
        for name, size in zip("abcdefgh", sizes, strict=False)
    )
    total = sum(part.tasks for part in parts)
    return Request(total, total, parts=parts, constraints=constraints)


NESTED = (
    Colocate(0, ("a",), ("switch",)),
    Colocate(1, ("b",), ("switch",)),
    Colocate(2, ("a", "b", "c"), ("block",)),
)
WIDE = Amount("mem", 40_000)
CASES = {
    "512 hosts, nested, placed": asks((16, 16, 100, 380), *NESTED, Spread(3, ("d",), "block", 512)),
    "512 hosts, four blocks, placed": asks(
        (128, 128, 128, 128), *(Colocate(at, (name,), ("block",)) for at, name in enumerate("abcd"))
    ),
    "512 hosts, nested, and preferred, placed": asks(
        (16, 16, 100, 380), *NESTED, Colocate(3, ("c", "d"), ("block", "zone"), required=False)
    ),
    "512 hosts, no block has room": asks(
        (128, 128, 128, 128),
        Colocate(0, ("a", "b"), ("block",)),
        Colocate(1, ("c", "d"), ("block",)),
    ),
    "512 hosts, no switch has room": asks(
        (17, 15, 100, 380), *NESTED, Spread(3, ("d",), "block", 512)
    ),
    "512 hosts, no spread has room": asks(
        (16, 16, 100, 380), *NESTED, Spread(3, ("d",), "block", 47)
    ),
    "tasks of more than half a host, no block has room": asks(
        (12, 12), Colocate(0, ("a", "b"), ("block",)), amounts=(WIDE,)
    ),
}


def time_case(name: str, controller: RecordedController, wanted: Request) -> None:
    job = submit(controller, submission(asks=wanted))
    times, placed, reason = [], False, ""
    for _ in range(REPEATS):
        began = time.process_time_ns()
        plan = run_session(controller.state, now_us=controller.now_us, memory=Memory())
        times.append((time.process_time_ns() - began) / 1e6)
        placed = any(gang.job == job for gang in plan.gangs)
        reason = "".join(str(why.code) for _, why in plan.reasons)
    kill(controller, job)
    print(
        json.dumps(
            {
                "bench": "relations",
                "case": name,
                "ms": round(statistics.median(times), 1),
                "placed": placed,
                "reason": reason,
            }
        ),
        flush=True,
    )


def time_many(controller: RecordedController, jobs: int) -> float:
    """Return how long a session takes over jobs that ask for ten things, each with its own limit."""
    wanted = [asks((128 + at, 64), Colocate(0, ("a", "b"), ("block",)), **FULL) for at in range(10)]
    for number in range(jobs):
        limit_us = (number + 1) * MINUTE_US
        submit(controller, submission(asks=wanted[number % 10], run_limit_us=limit_us))
    times = []
    counts = Counts()
    for _ in range(REPEATS):
        counts = Counts()
        began = time.process_time_ns()
        run_session(controller.state, now_us=controller.now_us, memory=Memory(), counts=counts)
        times.append((time.process_time_ns() - began) / 1e6)
    ms = statistics.median(times)
    found = {"case": f"{jobs} pending, ten requests", "ms": round(ms, 1), "rows": counts.host_rows}
    print(json.dumps({"bench": "relations", **found}), flush=True)
    return ms


def main() -> None:
    controller = build()
    for name, wanted in CASES.items():
        time_case(name, controller, wanted)
    few, many = time_many(build(), 10), time_many(build(), 1_000)
    ratio = {"case": "1,000 pending against ten", "ratio": round(many / few, 2)}
    print(json.dumps({"bench": "relations", **ratio}))


if __name__ == "__main__":
    main()
