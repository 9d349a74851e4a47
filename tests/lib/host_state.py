"""What the host state machine is told in tests: launches and news of one job."""

from xce.model.effect import Launch
from xce.model.job import Files, JobSpec, Owner
from xce.worker.action import Ended, Present, Started
from xce.worker.core import HostState

S = 1_000_000


def launch(
    *indices: int, job: int = 1, attempt: int = 1, run_limit_us: int = 0, mem_limit_kib: int = 0,
    output: str = "",
) -> Launch:  # fmt: skip
    spec = JobSpec(command="x", mem_limit_kib=mem_limit_kib, files=Files(output=output))
    wanted = list(indices) or [0]
    return Launch(
        job, wanted, [attempt] * len(wanted), spec, Owner("u", 1000, 1000), "normal", "p", "c",
        (("h1", 1),), 1, 0, run_limit_us, 600 * S, 10 * S,
    )  # fmt: skip


def started(index: int = 0, attempt: int = 1, at_us: int = 10 * S) -> Started:
    return Started(1, index, attempt, 77, at_us)


def ended(index: int = 0, attempt: int = 1, at_us: int = 20 * S, **more: object) -> Ended:
    return Ended(1, index, attempt, 10 * S, at_us, **more)  # type: ignore[arg-type]


def running(one: Launch | None = None) -> HostState:
    state = HostState()
    state.take_effects(1, [one or launch()], 0)
    state.take_news([started()], 10 * S)
    state.reports(10 * S)
    state.acknowledged(1, 10 * S)
    return state


def present(attempt: int = 1, **more: object) -> Present:
    fields: dict[str, object] = {
        "pid": 77, "started_us": 10 * S, "suspended_us": 0, "stopped_us": 0, "number": 0,
        "cause": 0, "step": 0, "step_us": 0, "reported": False,
    }  # fmt: skip
    return Present(1, 0, attempt, "", **(fields | more))  # type: ignore[arg-type]
