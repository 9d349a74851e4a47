"""What an exit status means: done, started anew, or exited.

The job's word counts, then its application profile's, then its queue's.
"""

from typing import NamedTuple

from xce.control.profile import find_profile
from xce.model.config import ExitValues
from xce.model.ids import Index
from xce.model.job import JobSpec
from xce.model.request import ClassKey
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job


class Again(NamedTuple):
    """An attempt whose exit status has its element started anew."""

    detail: str
    is_held: bool
    """It was started anew too often: somebody must resume it."""
    is_elsewhere: bool
    """It does not use the same hosts again."""


def requeue_values(state: ClusterState, spec: JobSpec, key: ClassKey) -> ExitValues:
    """Return the exit statuses for which a job is started anew."""
    if spec.requeue_codes:
        return ExitValues(spec.requeue_codes, spec.requeue_elsewhere)
    own = find_profile(state, key.app).requeue_exit_values
    queue = state.queues.get(key.queue)
    return own if own.codes or queue is None else queue.requeue_exit_values


def success_codes(state: ClusterState, key: ClassKey) -> tuple[int, ...]:
    """Return the exit statuses beside 0 with which a job is done."""
    own = find_profile(state, key.app).success_exit_values.codes
    queue = state.queues.get(key.queue)
    return own if own or queue is None else queue.success_exit_values.codes


def requeues_max(state: ClusterState, key: ClassKey) -> int:
    """Return how often an element is started anew for its exit status."""
    own = find_profile(state, key.app).max_requeues
    queue = state.queues.get(key.queue)
    return own or (queue.max_requeues if queue is not None else 0) or state.config.max_requeues


def start_anew(
    state: ClusterState, job: Job, index: Index, attempt: Attempt, exit_code: int
) -> Again | None:
    """Return how an element is started anew for its exit status; None: it is not."""
    key = state.classes[attempt.cls].key
    position = job.position(index) or 0
    values = requeue_values(state, state.spec_at(job, position), key)
    if exit_code not in values.codes:
        return None
    most = requeues_max(state, key)
    before = (job.requeues or {}).get(position)
    is_held = before is not None and before.times >= most
    detail = f"exit code {exit_code}"
    if is_held:
        detail += f", {most} times before: held until it is resumed"
    return Again(detail, is_held, exit_code in values.elsewhere)
