"""What is unusual about how a job runs: LSF's exceptions of jobs, by what its queue says."""

from xce.model.config import QueueConfig
from xce.model.ids import SECOND_US


def exceptions_of(
    queue: QueueConfig | None, start_s: float | None, end_s: float | None, now_s: float,
    cpu_s: float | None,
) -> tuple[str, ...]:  # fmt: skip
    """Return how a job runs that is unusual in its queue: longer, shorter, or doing little.

    Args:
        queue: Its queue as it is now; None: it is gone.
        start_s: When the job started; None: not yet.
        end_s: When it ended; None: not yet.
        now_s: The time now.
        cpu_s: CPU time that it used up to now, or in all; None: it is not known.
    """
    if queue is None or start_s is None:
        return ()
    ran_us = ((now_s if end_s is None else end_s) - start_s) * SECOND_US
    is_judged = cpu_s is not None and ran_us >= queue.idle_after_us
    found = {
        "overrun": 0 < queue.overrun_us < ran_us,
        "underrun": end_s is not None and ran_us < queue.underrun_us,
        "idle": is_judged and (cpu_s or 0) * SECOND_US * 1000 < queue.idle_milli * ran_us,
    }
    return tuple(name for name, is_so in found.items() if is_so)
