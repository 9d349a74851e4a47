"""``/jobgroups``: job groups, what is in them, and what is done to them."""

from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer, decode
from xce.apiserver.problems import ProblemError, from_refusal, refused
from xce.apiserver.submission_body import Text
from xce.apiserver.veil import Sees
from xce.control.groups import refuse_name
from xce.model.command import DeleteGroups, SetGroup
from xce.model.group import LIMIT_MAX, NO_LIMIT, above, is_group_name
from xce.model.ranges import count
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.groups import named_groups
from xce.state.job import Job


class GroupLoad(msgspec.Struct):
    """How many elements are in which state, or how many slots they have."""

    pend: int = 0
    run: int = 0
    ssusp: int = 0
    ususp: int = 0
    finish: int = 0


class GroupRow(msgspec.Struct):
    """A job group, with what is in it and not below it."""

    name: str
    owner: str
    limit: int | None
    """So many jobs in it and below it run at once; null: any number."""
    made: bool
    """Whether somebody made it; else jobs name it, and it goes with the last of them."""
    used: int = 0
    """Jobs in it and below it that count against a limit."""
    jobs: GroupLoad = msgspec.field(default_factory=GroupLoad)
    slots: GroupLoad = msgspec.field(default_factory=GroupLoad)


class JobGroupsAnswer(msgspec.Struct, frozen=True):
    """Job groups by name."""

    seq: int
    groups: list[GroupRow]


class GroupBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to do to a job group."""

    action: Literal["add", "modify", "delete"]
    name: Text = ""
    """Not given with ``delete``: all that the caller has made and that are empty."""
    limit: Annotated[int, Meta(ge=0, le=LIMIT_MAX)] | UnsetType | None = UNSET
    """With ``add`` and ``modify``; null: no limit."""
    below: bool = False
    """With ``delete``: the empty ones below it, not itself."""


class GroupDone(msgspec.Struct, frozen=True):
    """It is done."""

    seq: int
    count: int
    """Of deleted groups."""


_BODY: Final = msgspec.json.Decoder(GroupBody)


async def list_groups(backend: Backend, call: Call) -> web.StreamResponse:
    """Tell which job groups there are, and what is in them."""
    state = backend.replica.state
    rows = {
        name: GroupRow(name, group.owner, group.limit if group.limit >= 0 else None, made=True)
        for name, group in state.groups.items()
    }
    for name, owner in named_groups(state).items():
        rows.setdefault(name, GroupRow(name, owner, None, made=False))
    _count(state, rows, backend.sees(call.caller))
    seq = backend.replica.seq
    return answer(seq, JobGroupsAnswer(seq, [rows[name] for name in sorted(rows)]))


def _count(state: ClusterState, rows: dict[str, GroupRow], sees: Sees) -> None:
    """Count what is in groups, as far as it may be seen."""
    for found in state.classes.values():
        for name in above(found.key.group) if found.live else ():
            rows[name].used += found.live
    for job in state.jobs.values():
        key = state.key(job)
        row = rows.get(key.group) if key.group else None
        if row is not None and (sees is None or sees(job.owner.user, key.queue, key.project)):
            _add(row, job, key.request.tasks_asked)


def _add(row: GroupRow, job: Job, tasks: int) -> None:
    waiting = count(job.pending) + count(job.held)
    ended = job.done + job.exited
    for load, size in ((row.jobs, 1), (row.slots, tasks)):
        load.pend += waiting * size
        load.finish += ended * size
    for attempt in (job.live or {}).values():
        slots = sum(attempt.tasks)
        word = "run"
        if attempt.suspended:
            word = "ssusp" if attempt.is_stopped_by_system else "ususp"
        for load, size in ((row.jobs, 1), (row.slots, slots)):
            setattr(load, word, getattr(load, word) + size)


async def act_on_group(backend: Backend, call: Call) -> web.StreamResponse:
    """Make a job group, change its limit, or delete it."""
    body: GroupBody = decode(_BODY, await call.body())
    caller = call.caller
    name = body.name.strip().rstrip("/")
    if name and not is_group_name(name):
        raise ProblemError(from_refusal(refuse_name(body.name)))
    command: SetGroup | DeleteGroups
    if body.action == "delete":
        if body.limit is not UNSET:
            raise refused(RefusalCode.BAD_REQUEST, "limit belongs to add and modify")
        command = DeleteGroups(caller.user, caller.is_admin, name, body.below, caller.groups)
    else:
        if body.below or not name:
            raise refused(RefusalCode.BAD_REQUEST, "a name is needed; below belongs to delete")
        limit = None if body.limit is UNSET else NO_LIMIT if body.limit is None else body.limit
        is_new = body.action == "add"
        command = SetGroup(caller.user, caller.is_admin, name, limit, is_new, caller.groups)
    reply = await backend.write(command, caller, repeatable=False)
    (result,) = reply.results
    if isinstance(result, Refusal):
        raise ProblemError(from_refusal(result), about=f"job group {name}")
    return answer(backend.replica.seq, GroupDone(reply.seq, result.number))
