"""Two schedulers that share no code give the same starts: real sessions and that of job logs."""

from random import Random

import pytest

from xce.cli.xceadmin.scenario_words import CommandWords
from xce.sim.scenario_file import parse_scenario
from xce.sim.scenario_journal import run_scenario
from xce.sim.swf import SwfJob
from xce.sim.swf_core import simulate


def draw(rng: Random, procs: int) -> list[SwfJob]:
    jobs = []
    at = 0
    for number in range(rng.randint(2, 25)):
        at += rng.choice((0, 0, 5, 30, 90))
        limit_s = 60 * rng.randint(1, 9)
        run_s = rng.choice((limit_s, rng.randint(1, limit_s)))
        jobs.append(SwfJob(number, at, run_s, limit_s, rng.randint(1, procs), 1, 1, 1))
    return jobs


def starts_of_sessions(jobs: list[SwfJob], procs: int, backfill: str) -> list[int]:
    lines = [
        "cluster:",
        f"  hosts: [{{names: h1, slots: {procs}}}]",
        f"  queues: [{{name: normal, default: true, backfill: {backfill}}}]",
        "jobs:",
    ]
    lines += [
        f"  - {{id: j{job.number}, at: {job.submit}, runtime: {job.run},"
        f' submit: "bsub -n {job.size} -W {job.request // 60}"}}'
        for job in jobs
    ]
    scenario = parse_scenario("\n".join(lines), file="s", name="s", load_texts=lambda _: {})
    rows = run_scenario(scenario, CommandWords())["jobs"]
    return [row["start"] for row in rows]


def starts_of_log(jobs: list[SwfJob], procs: int, backfill: str) -> list[int]:
    # A session sees what happened before its second: jobs come, and room comes free, 1 s later.
    shifted = [
        job._replace(submit=job.submit + 1, run=job.run + 1, request=job.request + 1)
        for job in jobs
    ]
    return simulate(shifted, procs, backfill=backfill).starts


@pytest.mark.parametrize("seed", range(20))
def test_sessions_backfill_as_the_scheduler_of_job_logs(seed: int) -> None:
    # Conservative reservations lie behind one another, and each hand-over costs sessions a second
    # that reservations do not know of: there the two may differ by it.
    rng = Random(seed)
    procs = rng.randint(2, 12)
    jobs = draw(rng, procs)
    assert starts_of_sessions(jobs, procs, "easy") == starts_of_log(jobs, procs, "easy")
