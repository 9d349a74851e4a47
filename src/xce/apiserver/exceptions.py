"""What is unusual about how long a job runs: LSF's exceptions of jobs, by what its queue says."""

from xce.model.config import QueueConfig
from xce.model.ids import SECOND_US


def exceptions_of(
    queue: QueueConfig | None, start_s: float | None, end_s: float | None, now_s: float
) -> tuple[str, ...]:
    """Return whether a job runs longer, or has run shorter, than those of its queue shall.

    Args:
        queue: Its queue as it is now; None: it is gone.
        start_s: When the job started; None: not yet.
        end_s: When it ended; None: not yet.
        now_s: The time now.
    """
    if queue is None or start_s is None:
        return ()
    ran_us = ((now_s if end_s is None else end_s) - start_s) * SECOND_US
    if 0 < queue.overrun_us < ran_us:
        return ("overrun",)
    return ("underrun",) if end_s is not None and ran_us < queue.underrun_us else ()
