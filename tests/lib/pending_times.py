"""How long each element was ineligible, counted second by second of the entries of a journal."""

from xce.model.ranges import contains
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.ineligible import ineligible_us


def check_pending_times(entries):
    """Compare what the state tells with what the time between entries adds up to."""
    state, counted = ClusterState(), {}
    for entry in entries:
        passed_us = entry.at_us - state.now_us
        for job in state.jobs.values():
            for position in range(job.size):
                if _is_ineligible(state, job, position):
                    place = job.id, position
                    counted[place] = counted.get(place, 0) + passed_us
        apply(state, entry)
    for job in state.jobs.values():
        for position in range(job.size):
            told = ineligible_us(state, job, position, state.now_us)
            assert told == counted.get((job.id, position), 0), f"job {job.id}, {position}"
    return counted


def _is_ineligible(state, job, position):
    if contains(job.held, position, position):
        return True
    if not contains(job.pending, position, position):
        return False
    queue = state.queues.get(state.classes[job.form_at(position)[0]].key.queue)
    return (
        bool(job.waits)
        or contains(job.awaiting, position, position)
        or queue is None
        or not queue.active
        or not state.is_window_open(queue.name)
    )
