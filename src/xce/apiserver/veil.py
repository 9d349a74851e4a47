"""Reasons without the jobs that a user may not know of."""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from xce.model.reason import Reason, ReasonCode
from xce.state.cluster import ClusterState

Sees: TypeAlias = Callable[[str, str, str], bool] | None
"""Whether a user may know of a job, by its owner, queue and project; None: of all."""
SOMEBODYS: Final = "of another user"


def veiled(reason: Reason, state: ClusterState, sees: Sees) -> Reason:
    """Return a reason in which no job is named that may not be known of."""
    if sees is None or reason.code is not ReasonCode.RESERVED:
        return reason
    digits = reason.detail.partition("[")[0]
    job = state.jobs.get(int(digits)) if digits.isascii() and digits.isdigit() else None
    if job is not None:
        key = state.key(job)
        if sees(job.owner.user, key.queue, key.project):
            return reason
    return msgspec.structs.replace(reason, detail=SOMEBODYS)
