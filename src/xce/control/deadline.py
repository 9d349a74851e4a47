"""Which deadlines are taken of those that jobs are given."""

from xce.model.ids import Micros
from xce.model.job import Submission
from xce.model.refusal import Refusal, RefusalCode


def refuse_times(
    submission: Submission, now_us: Micros, *, begin_at_us: Micros | None = None
) -> Refusal | None:
    """Return why a job does not get the deadline that it asks for; None: it does, or asks for none.

    Args:
        submission: What it shall be.
        now_us: The present instant.
        begin_at_us: Before when it does not begin; None: as the submission says.
    """
    deadline_us = submission.spec.deadline_us
    if not deadline_us:
        return None
    if deadline_us <= now_us:
        past = "Job termination time cannot be in the past"
        return Refusal(RefusalCode.BAD_REQUEST, "-t: the deadline is over already", lsf=past)
    if deadline_us <= (submission.begin_at_us if begin_at_us is None else begin_at_us):
        return Refusal(
            RefusalCode.BAD_REQUEST,
            "-b is not before -t: the deadline is over before the job may begin",
            lsf="Start time is later than termination time",
        )
    return None
