"""Pre- and post-execution commands: which a job has, and what comes of one that failed."""

from typing import Final

from xce.control.profile import find_profile
from xce.model.effect import Hook
from xce.model.job import EndCause, JobSpec
from xce.model.observation import AttemptEnded
from xce.model.request import ClassKey
from xce.state.cluster import ClusterState
from xce.state.job import Attempt

PRE_ABORT: Final = 99
"""A pre-execution command that ends with it wants the job not to be tried again."""


def hooks_of(state: ClusterState, spec: JobSpec, key: ClassKey) -> tuple[Hook, ...]:
    """Return the commands around a job: the queue's are the outermost, the job's the innermost."""
    queue, app = state.queues.get(key.queue), find_profile(state, key.app)
    pre = [
        ("queue", queue.pre_exec if queue is not None else ""),
        ("application", app.pre_exec),
        ("job", spec.pre_exec),
    ]
    post = [
        ("job", spec.post_exec),
        ("application", app.post_exec),
        ("queue", queue.post_exec if queue is not None else ""),
    ]
    return (
        *(Hook("pre", command, origin) for origin, command in pre if command),
        *(Hook("post", command, origin) for origin, command in post if command),
    )


def tries_again(state: ClusterState, item: AttemptEnded, attempt: Attempt) -> bool:
    """Return whether an attempt that is over is tried again since a pre hook failed."""
    if item.cause != EndCause.PRE_EXEC_FAIL or item.exit_code == PRE_ABORT:
        return False
    job = state.jobs[item.job]
    before = (job.requeues or {}).get(job.position(item.index) or 0)
    tried = before.pre_times if before is not None else 0
    return tried + 1 < state.config.pre_exec_tries
