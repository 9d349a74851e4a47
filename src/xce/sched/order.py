"""Order: queue priority, then class priority, then submission; total."""

from typing import TypeAlias

from xce.state.cluster import ClusterState, RequestClass

Rank: TypeAlias = tuple[int, ...]
"""Smaller goes first; classes of equal rank are merged by the ids of their waiting jobs."""


def rank_first_come(state: ClusterState, found: RequestClass) -> Rank:
    """Return a rank by queue priority and class priority: first come, first served inside it."""
    return (-state.queues[found.key.queue].priority, -found.key.priority)
