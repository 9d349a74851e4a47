"""`SetQueues` to records: queues are opened, closed, activated and inactivated."""

from xce.model.command import Accepted, SetQueues
from xce.model.permission import Actor, Permission
from xce.model.queue_record import QueuesSwitched
from xce.model.record import Record
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState


def permissions_to(command: SetQueues) -> tuple[Permission, ...]:
    """Return what one needs to switch queues so."""
    found = []
    if command.is_open is not None:
        found.append(Permission.QUEUE_OPEN if command.is_open else Permission.QUEUE_CLOSE)
    if command.is_active is not None:
        found.append(
            Permission.QUEUE_ACTIVATE if command.is_active else Permission.QUEUE_INACTIVATE
        )
    return tuple(found)


def basis_of(state: ClusterState, command: SetQueues) -> str:
    """Return on what grounds queues may be switched so; empty: none may."""
    actor = Actor(command.by, command.groups, command.is_admin)
    found = {
        state.rights.basis(actor, permission, queue=name)
        for name in command.queues
        for permission in permissions_to(command)
    }
    return ", ".join(sorted(found - {""}))


def refuse_queue(
    state: ClusterState, command: SetQueues, name: str, permissions: tuple[Permission, ...]
) -> Refusal | None:
    """Return why a queue may not be switched so by who asks; None: it may."""
    actor = Actor(command.by, command.groups, command.is_admin)
    for permission in permissions:
        if not state.rights.basis(actor, permission, queue=name):
            return Refusal(
                RefusalCode.DENIED,
                f"queue {name} is switched so by administrators and by those who have the "
                f"permission {permission}",
                lsf="User permission denied",
                permission=permission,
            )
    return None


def decide_queues(
    state: ClusterState, command: SetQueues
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the record that switches queues, and a result for each name."""
    results: list[Accepted | Refusal] = []
    changed: list[str] = []
    word = _word(command)
    permissions = permissions_to(command)
    for name in command.queues:
        refusal = refuse_queue(state, command, name, permissions)
        if refusal is not None:
            results.append(refusal)
            continue
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
