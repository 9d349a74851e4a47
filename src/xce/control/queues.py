"""`SetQueues` to records: queues are opened, closed, activated and inactivated."""

from xce.model.command import Accepted, SetQueues
from xce.model.queue_record import QueuesSwitched
from xce.model.record import Record
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState


def decide_queues(
    state: ClusterState, command: SetQueues
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the record that switches queues, and a result for each name."""
    results: list[Accepted | Refusal] = []
    changed: list[str] = []
    word = _word(command)
    for name in command.queues:
        queue = state.queues.get(name)
        if queue is None:
            known = ", ".join(sorted(state.queues))
            results.append(
                Refusal(
                    RefusalCode.UNKNOWN_QUEUE,
                    f"no queue is called {name!r}; known are: {known}",
                    lsf=f"{name}: No such queue",
                )
            )
            continue
        is_open = queue.open if command.is_open is None else command.is_open
        is_active = queue.active if command.is_active is None else command.is_active
        if (is_open, is_active) != (queue.open, queue.active) and name not in changed:
            changed.append(name)
        results.append(Accepted(text=word, queue=name))
    records: list[Record] = []
    if changed:
        records.append(QueuesSwitched(changed, command.is_open, command.is_active, command.comment))
    return records, results


def _word(command: SetQueues) -> str:
    if command.is_open is not None:
        return "opened" if command.is_open else "closed"
    return "activated" if command.is_active else "inactivated"
