"""A run of ``sim swf``: a log, the processor-only scheduler, and the object that tells of it."""

import hashlib
import heapq
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from xce.sim.report import Summary
from xce.sim.swf import Cleaning, SwfError, SwfJob, clean, load_log
from xce.sim.swf_core import Result, simulate


class SwfOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, and how."""

    log: Path
    procs: int = 0
    """0: what the log's header says."""
    hosts: int = 1
    """The processors are spread evenly over so many hosts; a job may use any of them."""
    policy: str = "fcfs"
    backfill: str = "easy"
    limit: int = 0
    """Only the first jobs, after cleaning; 0: all."""
    model: bool = False
    field8_only: bool = False
    actual: bool = False
    each_event: bool = False
    with_jobs: bool = False


def run_swf(options: SwfOptions) -> dict[str, Any]:
    """Run a log and return the object that tells of it.

    Raises:
        SwfError: The log cannot be read, or the machine is not known.
    """
    log = load_log(options.log)
    procs = options.procs or log.processors
    if procs < 1:
        raise SwfError(
            f"{options.log}: the header tells neither MaxProcs nor MaxNodes; give --procs"
        )
    if options.hosts < 1 or procs % options.hosts:
        raise SwfError(f"--hosts {options.hosts}: {procs} processors do not spread evenly over it")
    rule = Cleaning(procs, options.model, options.field8_only, options.actual)
    jobs, dropped = clean(log.records, rule, limit=options.limit)
    result = simulate(
        jobs,
        procs,
        policy=options.policy,
        backfill=options.backfill,
        each_event=options.each_event,
    )
    document: dict[str, Any] = {
        "scenario": options.log.name,
        "sessions": result.sessions,
        "events": result.events,
        "digest": _digest(jobs, result),
    }
    if options.with_jobs:
        document["jobs"] = _job_rows(jobs, result, procs, options.hosts)
    summary = Summary()
    for job, start in zip(jobs, result.starts, strict=True):
        summary.note_submit(job.submit)
        summary.add(
            submit=job.submit,
            start=start,
            end=start + job.run,
            slots=job.size,
            queue=str(job.queue),
            project=str(job.group),
        )
    document["summary"] = {
        **summary.render(procs),
        "sum_start": sum(result.starts),
        "dropped": dropped,
    }
    document["expect"] = []
    return document


def _digest(jobs: Sequence[SwfJob], result: Result) -> str:
    """Return a hash of which job started when, in the order of the starts."""
    total = hashlib.blake2b(digest_size=16)
    for number in result.order:
        total.update(b"%d %d\n" % (jobs[number].number, result.starts[number]))
    return total.hexdigest()


def _job_rows(
    jobs: Sequence[SwfJob], result: Result, procs: int, hosts: int
) -> list[dict[str, Any]]:
    placements = _place(jobs, result, procs, hosts)
    return [
        {
            "id": str(job.number),
            "jobid": job.number,
            "index": 0,
            "state": "DONE",
            "submit": job.submit,
            "start": start,
            "end": start + job.run,
            "wait": start - job.submit,
            "attempt": 1,
            "exit": 0,
            "reason": None,
            "placement": placement,
        }
        for job, start, placement in zip(jobs, result.starts, placements, strict=True)
    ]


def _place(
    jobs: Sequence[SwfJob], result: Result, procs: int, hosts: int
) -> list[list[dict[str, Any]]]:
    """Return on which hosts each job ran: the first ones with free processors at its start."""
    free = [procs // hosts] * hosts
    shares: list[list[tuple[int, int]]] = [[] for _ in jobs]
    placements: list[list[dict[str, Any]]] = [[] for _ in jobs]
    ends: list[tuple[int, int]] = []
    for number in result.order:
        start = result.starts[number]
        while ends and ends[0][0] <= start:
            for host, size in shares[heapq.heappop(ends)[1]]:
                free[host] += size
        left, rank = jobs[number].size, 0
        for host in range(hosts):
            size = min(left, free[host])
            if size > 0:
                free[host] -= size
                shares[number].append((host, size))
                placements[number].append(
                    {
                        "host": f"h{host + 1}", "role": "", "slots": size, "gpus": [],
                        "amounts": {}, "ranks": list(range(rank, rank + size)),
                    }
                )  # fmt: skip
                left, rank = left - size, rank + size
            if left == 0:
                break
        heapq.heappush(ends, (start + jobs[number].run, number))
    return placements
