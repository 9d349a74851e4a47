"""Interactive jobs: which queues take them, and what they cannot be."""

from xce.model.config import QueueConfig
from xce.model.job import Submission
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState


def check_terminal(
    state: ClusterState, submission: Submission, queue: QueueConfig
) -> Refusal | None:
    """Refuse interactive jobs where they cannot be, and others in queues for them."""
    if submission.spec.terminal is None:
        if queue.interactive == "only":
            return Refusal(
                RefusalCode.WRONG_STATE,
                f"queue {queue.name} takes interactive jobs (-I, -Ip, -Is) only",
                lsf="Queue only accepts interactive jobs",
            )
        return None
    if queue.interactive == "refuse":
        return Refusal(
            RefusalCode.WRONG_STATE,
            f"queue {queue.name} takes no interactive jobs",
            lsf="Queue does not accept interactive jobs",
        )
    if submission.array is not None:
        return Refusal(
            RefusalCode.BAD_ARRAY, "an array cannot be interactive: it would need many terminals"
        )
    if submission.rerunnable:
        return Refusal(
            RefusalCode.BAD_REQUEST,
            "an interactive job is not started anew: nobody would be at its terminal",
            lsf="Interactive job cannot be rerunnable",
        )
    return None
