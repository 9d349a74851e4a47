"""`SetGroup` and `DeleteGroups` to records: job groups are made, limited and deleted."""

from xce.model.command import Accepted, DeleteGroups, SetGroup
from xce.model.group import (
    LIMIT_MAX,
    NO_LIMIT,
    GroupsDeleted,
    GroupsSet,
    JobGroup,
    above,
    is_group_name,
)
from xce.model.permission import Actor, Permission
from xce.model.record import Record
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.groups import named_groups
from xce.state.rights import OWNER

Decided = tuple[list[Record], list[Accepted | Refusal]]


def decide_groups(state: ClusterState, command: SetGroup | DeleteGroups) -> Decided:
    """Return what becomes of groups, or why nothing does."""
    if isinstance(command, DeleteGroups):
        return _delete(state, command)
    if not is_group_name(command.name):
        return [], [refuse_name(command.name)]
    if command.limit is not None and not NO_LIMIT <= command.limit <= LIMIT_MAX:
        text = f"limit {command.limit}: expected a number from 0 to {LIMIT_MAX}"
        return [], [Refusal(RefusalCode.BAD_REQUEST, text)]
    return _add(state, command) if command.is_new else _change(state, command)


def basis_of(state: ClusterState, command: SetGroup | DeleteGroups) -> str:
    """Return on what ground somebody may do this; his own groups are his own affair."""
    group = state.groups.get(command.name)
    return OWNER if group is None else _basis(state, command, group.owner)


def refuse_name(name: str) -> Refusal:
    """Return the refusal of a text that is no name of a job group."""
    text = f"{name!r} is no job group: its name is a path of words, as /a/b"
    return Refusal(RefusalCode.BAD_REQUEST, text, lsf=f"{name}: Illegal job group name")


def _basis(state: ClusterState, command: SetGroup | DeleteGroups, owner: str) -> str:
    if owner == command.by:
        return OWNER
    actor = Actor(command.by, command.groups, command.is_admin)
    return state.rights.basis(actor, Permission.JOB_MODIFY)


def _denied(name: str, owner: str) -> Refusal:
    return Refusal(
        RefusalCode.NOT_YOURS,
        f"job group {name} belongs to {owner}; you lack the permission {Permission.JOB_MODIFY}",
        lsf="User permission denied",
        permission=Permission.JOB_MODIFY,
    )


def _add(state: ClusterState, command: SetGroup) -> Decided:
    """Return a new group, and those above it that are not there yet."""
    if command.name in state.groups or command.name in named_groups(state):
        text = f"there is a job group {command.name}"
        return [], [Refusal(RefusalCode.GROUP_EXISTS, text, lsf="Group exists")]
    limit = NO_LIMIT if command.limit is None else command.limit
    missing = [name for name in above(command.name) if name not in state.groups]
    found = {name: JobGroup(command.by, limit if name == command.name else NO_LIMIT)
             for name in reversed(missing)}  # fmt: skip
    return [GroupsSet(list(found), list(found.values()))], [Accepted(text="grouped")]


def _change(state: ClusterState, command: SetGroup) -> Decided:
    """Return a group with another limit; one that only jobs named stays from now on."""
    group = state.groups.get(command.name)
    if group is None:
        named = named_groups(state)
        if command.name not in named:
            return [], [_unknown(command.name)]
        group = JobGroup(named[command.name])
    if not _basis(state, command, group.owner):
        return [], [_denied(command.name, group.owner)]
    limit = group.limit if command.limit is None else command.limit
    return [GroupsSet([command.name], [JobGroup(group.owner, limit)])], [Accepted(text="grouped")]


def _unknown(name: str) -> Refusal:
    text = f"there is no job group {name}"
    return Refusal(RefusalCode.UNKNOWN_GROUP, text, lsf="Job group does not exist")


def _delete(state: ClusterState, command: DeleteGroups) -> Decided:
    """Return which groups are deleted: the one that is named, or all that are empty."""
    named = named_groups(state)
    if command.name and not command.below:
        group = state.groups.get(command.name)
        if command.name in named:
            text = f"job group {command.name} has jobs that have not ended, or such groups below it"
            return [], [Refusal(RefusalCode.GROUP_IN_USE, text, lsf="Job group contains jobs")]
        if group is None:
            return [], [_unknown(command.name)]
        if not _basis(state, command, group.owner):
            return [], [_denied(command.name, group.owner)]
        inside = f"{command.name}/"
        below = sorted(name for name in state.groups if name.startswith(inside))
        if below:
            text = f"job group {command.name} has groups below it: {below[0]}"
            return [], [Refusal(RefusalCode.GROUP_IN_USE, text, lsf="Job group contains subgroups")]
        return [GroupsDeleted([command.name])], [Accepted(text="deleted")]
    inside = f"{command.name}/"
    empty = [
        name
        for name, group in state.groups.items()
        if name.startswith(inside) and name not in named and _basis(state, command, group.owner)
    ]
    if not command.name:
        empty = [name for name in empty if state.groups[name].owner == command.by]
    if not empty:
        text = "there is no empty job group of yours"
        return [], [Refusal(RefusalCode.UNKNOWN_GROUP, text, lsf="Job group does not exist")]
    return [GroupsDeleted(sorted(empty))], [Accepted(text="deleted", number=len(empty))]
