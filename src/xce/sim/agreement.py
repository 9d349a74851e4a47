"""Whether the state and the books of a world, which were kept apart, agree."""

from xce.model.ranges import contains
from xce.sim.ledger import Ledger
from xce.sim.ledger_rows import ENDED, HELD, LIVE, PENDING
from xce.sim.untrue import demand
from xce.state.cluster import ClusterState
from xce.state.job import Job


def check_books(ledger: Ledger, state: ClusterState) -> None:
    """The state and the books, which were kept apart, agree.

    Raises:
        UntrueError: They do not.
    """
    demand(ledger.jobs.keys() == state.jobs.keys(), "books and state know other jobs")
    for job_id, kept in ledger.jobs.items():
        job = state.jobs[job_id]
        for index, one in kept.elements.items():
            position = job.position(index)
            assert position is not None
            attempt = state.attempt(job_id, position)
            demand(
                one.place == _place(job, position, is_live=attempt is not None),
                f"{job_id}[{index}] is {one.place} in the books, and not in the state",
            )
            number = attempt.number if attempt is not None else one.attempt
            demand(number == one.attempt, f"{job_id}[{index}]: another attempt lives in the books")
    table = state.hosts
    for (host, resource), value in ledger.used.items():
        if host:
            said = table.used[table.row[resource] if resource != "slots" else 0, table.number[host]]
        else:
            said = state.pools.used.get(resource, 0)
        demand(said == value, f"{resource} on {host}: books {value}, state {said}")


def _place(job: Job, position: int, *, is_live: bool) -> str:
    if is_live:
        return LIVE
    if contains(job.pending, position, position):
        return PENDING
    return HELD if contains(job.held, position, position) else ENDED
