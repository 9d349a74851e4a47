"""Full job logs with published schedules; where they lie is told by ``XCE_SWF_DIR``."""

import os
from pathlib import Path

import pytest

from xce.sim.swf import Cleaning, clean, load_log
from xce.sim.swf_core import simulate

DIRECTORY = os.environ.get("XCE_SWF_DIR", "")


@pytest.mark.long
@pytest.mark.skipif(not DIRECTORY, reason="XCE_SWF_DIR names no directory with job logs")
@pytest.mark.parametrize(
    ("name", "slowdown"),
    [("KTH-SP2-1996-sc15-easy", 92.5765), ("SDSC-SP2-1998-sc15-easy", 87.8703)],
)
def test_easy_equals_the_published_schedule_job_by_job(name: str, slowdown: float) -> None:
    log = load_log(Path(DIRECTORY) / f"{name}.swf.gz")
    jobs, dropped = clean(log.records, Cleaning(log.processors))
    assert not dropped
    published = {record.job: record.wait for record in log.records}
    starts = simulate(jobs, log.processors, each_event=True).starts
    waits = {job.number: start - job.submit for job, start in zip(jobs, starts, strict=True)}
    assert waits == published
    bounded = [max(1.0, (waits[job.number] + job.run) / max(job.run, 10)) for job in jobs]
    assert round(sum(bounded) / len(bounded), 4) == slowdown
