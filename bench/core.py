"""The core alone: microseconds an element in the controller and in each replica. JSON lines."""

import json
import time

from xce.control.controller import Controller, Input
from xce.journal.codec import decode_batch, encode_batch
from xce.model.command import ApplyConfig, ProposePlan, SubmitJobs
from xce.model.config import ClusterConfig, HostConfig
from xce.model.job import ArraySpec, JobSpec, Owner, Submission
from xce.model.observation import AttemptEnded, HostJoined, Reported
from xce.model.plan import BulkStart, Plan
from xce.state.apply import apply
from xce.state.cluster import ClusterState


def main(count=10_000, batch=16):
    """Place and end an array's elements in rounds of ``batch`` on each of four hosts."""
    state = ClusterState()
    controller = Controller(state)
    replica = ClusterState()
    now = 10**15
    spent = {"step": 0, "encode": 0, "decode": 0, "apply": 0}
    crc = 0

    def step(body):
        nonlocal crc, now
        now += 1000
        t0 = time.perf_counter_ns()
        done = controller.step([Input(body)], now)
        t1 = time.perf_counter_ns()
        before = crc
        content, crc = encode_batch(done.entries, crc)
        t2 = time.perf_counter_ns()
        entries, _ = decode_batch(content, previous_crc=before, expected_seq=None)
        t3 = time.perf_counter_ns()
        for entry in entries:
            apply(replica, entry)
        t4 = time.perf_counter_ns()
        for key, value in zip(spent, (t1 - t0, t2 - t1, t3 - t2, t4 - t3), strict=True):
            spent[key] += value

    hosts = tuple(HostConfig(name=f"h{n}", slots=batch, mem_mib=1000) for n in range(4))
    step(ApplyConfig("root", ClusterConfig(hosts=hosts), is_admin=True))
    for host in hosts:
        step(HostJoined(host.name, "b", 4, 1000))
    job = Submission(JobSpec(command="true", script="a"), array=ArraySpec(((1, count, 1),)))
    step(SubmitJobs(Owner("u", 1, 1), (job,)))
    for key in spent:
        spent[key] = 0
    for first in range(1, count + 1, 4 * batch):
        last = min(first + 4 * batch - 1, count)
        sizes = [max(0, min(batch, last - first + 1 - n * batch)) for n in range(4)]
        pairs = [(n, size) for n, size in enumerate(sizes) if size]
        start = BulkStart(1, [1], [first], [last], [n for n, _ in pairs], [s for _, s in pairs])
        step(ProposePlan(Plan(state.seq, state.config_version, now, bulk=(start,))))
        index = first
        for host, size in pairs:
            ended = tuple(
                AttemptEnded(1, place, 1, started_age_us=900, ended_age_us=100, user_us=500)
                for place in range(index, index + size)
            )
            index += size
            step(Reported(f"h{host}", 1, ended=ended))
    assert state.jobs[1].done == count
    per = {key: round(value / count / 1000, 2) for key, value in spent.items()}
    print(json.dumps({"bench": "core", "elements": count, "batch": batch, "us_per_element": per}))


if __name__ == "__main__":
    main()
    main(batch=4)
    main(count=100_000, batch=16)
