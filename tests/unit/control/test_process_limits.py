"""Limits of processes: what queues and profiles say of them, and changes."""

from msgspec.structs import replace

from xce.model.config import AppConfig, QueueConfig
from xce.model.process_limits import ProcessLimits
from xce.model.refusal import RefusalCode
from xce.testing.builders import cluster, submission, submit, try_submit

HOUR_US = 3_600_000_000
QUEUES = (
    QueueConfig(
        name="normal", default=True, default_cpu_limit_us=HOUR_US,
        limits=ProcessLimits(cpu_us=2 * HOUR_US, processes=100),
    ),
)  # fmt: skip
APP = AppConfig(name="fluid", limits=ProcessLimits(processes=10, stack_kib=8192))


def with_limits(app: str = "", **limits: int):
    given = submission()
    return replace(given, app=app, spec=replace(given.spec, limits=ProcessLimits(**limits)))


def limits_of(controller, job):
    return controller.state.spec(controller.job(job)).limits


def test_a_job_that_says_none_has_those_of_its_profile_and_then_of_its_queue():
    controller = cluster(queues=QUEUES, applications=(APP,))
    assert limits_of(controller, submit(controller, with_limits())) == ProcessLimits(
        cpu_us=HOUR_US, processes=100
    )
    job = submit(controller, with_limits("fluid", cpu_us=5, threads=7))
    assert limits_of(controller, job) == ProcessLimits(
        cpu_us=5, processes=10, threads=7, stack_kib=8192
    )


def test_above_a_ceiling_a_job_is_refused_by_name():
    controller = cluster(queues=QUEUES, applications=(APP,))
    (refusal,) = try_submit(controller, with_limits(cpu_us=3 * HOUR_US))
    assert refusal.code is RefusalCode.OVER_QUEUE_LIMIT
    assert refusal.text == "CPU limit 3h; queue normal allows CPU limit 2h"
    (refusal,) = try_submit(controller, with_limits("fluid", stack_kib=8193))
    assert refusal.code is RefusalCode.OVER_APP_LIMIT
    assert refusal.text == (
        "stack limit 8193 KiB; application profile fluid allows stack limit 8192 KiB"
    )
