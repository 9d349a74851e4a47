"""``GET /parameters /users /groups /pools``: what LSF's smaller commands show of a site."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec
from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer
from xce.config.lsf_parameters import Parameter, lsf_parameters
from xce.model.config import ShareConfig
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job

Sees = Callable[[str, str, str], bool]
"""Whether the caller may know of a job, by owner, queue and project."""


class ParametersAnswer(msgspec.Struct, frozen=True):
    """The configuration in LSF's words."""

    parameters: tuple[Parameter, ...]


class UserRow(msgspec.Struct, frozen=True):
    """A user with unfinished jobs. Jobs are counted in slots."""

    name: str
    njobs: int
    pend: int
    run: int
    ssusp: int
    ususp: int
    rsv: int = 0


class UsersAnswer(msgspec.Struct, frozen=True):
    """Users with unfinished jobs, by name."""

    users: list[UserRow]


class GroupRow(msgspec.Struct, frozen=True):
    """A group: of users with shares of a queue, or of hosts in one domain of the topology."""

    name: str
    kind: str
    """``users``, or a level of the topology."""
    members: tuple[str, ...]
    """A group among them ends in ``/``."""
    shares: tuple[tuple[str, int], ...] = ()
    queue: str = ""
    """Whose shares they are."""


class GroupsAnswer(msgspec.Struct, frozen=True):
    """All groups."""

    groups: list[GroupRow]


class PoolRow(msgspec.Struct, frozen=True):
    """A consumable amount of the whole cluster."""

    name: str
    total: int
    used: int


class PoolsAnswer(msgspec.Struct, frozen=True):
    """All pools, by name."""

    pools: list[PoolRow]


async def show_parameters(backend: Backend, call: Call) -> web.StreamResponse:
    """Show the configuration in LSF's words."""
    replica, site = backend.replica, backend.site
    found = lsf_parameters(replica.state.config, view_dir=site.lsf_dir, version=site.version)
    return answer(replica.seq, ParametersAnswer(found))


async def list_users(backend: Backend, call: Call) -> web.StreamResponse:
    """List the users with unfinished jobs that the caller may see, counted in slots."""
    rows = user_rows(backend.replica.state, backend.sees(call.caller))
    return answer(backend.replica.seq, UsersAnswer(rows))


async def list_groups(backend: Backend, call: Call) -> web.StreamResponse:
    """List groups of users, and of hosts."""
    return answer(backend.replica.seq, GroupsAnswer(group_rows(backend.replica.state)))


async def list_pools(backend: Backend, call: Call) -> web.StreamResponse:
    """List the pools."""
    pools = backend.replica.state.pools
    rows = [PoolRow(name, pools.total[name], pools.used[name]) for name in sorted(pools.total)]
    return answer(backend.replica.seq, PoolsAnswer(rows))


def user_rows(state: ClusterState, sees: Sees | None = None) -> list[UserRow]:
    """Return the users with unfinished jobs; ``sees``: only jobs of which it is true."""
    pend: dict[str, int] = defaultdict(int)
    run: dict[str, int] = defaultdict(int)
    susp: dict[str, int] = defaultdict(int)
    flexible = False
    for item in state.classes.values():
        user, request = item.key.user, item.key.request
        if sees is not None and not sees(user, item.key.queue, item.key.project):
            continue
        pend[user] += (item.pending + item.held) * request.tasks_min
        if request.tasks_min == request.tasks_max:
            run[user] += (item.live - item.suspended) * request.tasks_max
            susp[user] += item.suspended * request.tasks_max
        else:
            flexible = flexible or bool(item.live)
    by_system: dict[str, int] = defaultdict(int)
    for job_id, position in state.stopped:
        attempt = state.attempt(job_id, position)
        if attempt is None or not _is_seen(state, attempt, sees):
            continue
        if attempt.is_stopped_by_system:
            by_system[state.jobs[job_id].owner.user] += sum(attempt.tasks)
    if flexible:
        _add_flexible(state, run, susp, sees)
    rows = []
    for user in sorted({name for found in (pend, run, susp) for name, n in found.items() if n}):
        stopped = by_system[user]
        rows.append(
            UserRow(
                name=user,
                njobs=pend[user] + run[user] + susp[user],
                pend=pend[user],
                run=run[user],
                ssusp=stopped,
                ususp=susp[user] - stopped,
            )
        )
    return rows


def _is_seen(state: ClusterState, attempt: Attempt, sees: Sees | None) -> bool:
    key = state.classes[attempt.cls].key
    return sees is None or sees(key.user, key.queue, key.project)


def _add_flexible(
    state: ClusterState, run: dict[str, int], susp: dict[str, int], sees: Sees | None
) -> None:
    """Count the slots of attempts whose number of tasks was chosen at their start."""
    for places in state.on_host.values():
        for job_id, position in places:
            job: Job = state.jobs[job_id]
            attempt = (job.live or {}).get(position)
            if attempt is None or not _is_seen(state, attempt, sees):
                continue
            request = state.classes[attempt.cls].key.request
            if request.tasks_min != request.tasks_max:
                (susp if attempt.suspended else run)[job.owner.user] += sum(attempt.tasks)


def group_rows(state: ClusterState) -> list[GroupRow]:
    """Return the groups of users in the shares of queues, and the domains of hosts."""
    rows: list[GroupRow] = []
    for queue in state.config.queues:
        _add_groups(rows, queue.fairshare, queue.name)
    domains: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host in state.config.hosts:
        for level, label in host.labels.items():
            domains[level, label].append(host.name)
    order = {level: place for place, level in enumerate(state.config.levels)}
    for level, label in sorted(domains, key=lambda key: (order.get(key[0], 99), *key)):
        rows.append(GroupRow(label, level, tuple(domains[level, label])))
    return rows


def _add_groups(rows: list[GroupRow], nodes: Sequence[ShareConfig], queue: str) -> None:
    for node in nodes:
        if node.members:
            names = tuple(f"{m.name}/" if m.members else m.name for m in node.members)
            shares = tuple((m.name, m.shares) for m in node.members)
            rows.append(GroupRow(node.name, "users", names, shares, queue))
            _add_groups(rows, node.members, queue)
