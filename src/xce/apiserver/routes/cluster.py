"""``GET /cluster /hosts /queues /arrays /ready``: the cluster at large."""

import os
from collections.abc import Callable

import msgspec
from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer
from xce.apiserver.listing import parse_flag, parse_refs
from xce.apiserver.problems import CONTROLLER_AWAY, ProblemError, make_problem, refused
from xce.apiserver.tables import (
    ArrayRow,
    HostRow,
    QueueRow,
    array_row,
    host_rows,
    past_array_row,
    queue_rows,
)
from xce.control.dependency import matches
from xce.model.config import ResourceConfig
from xce.model.refusal import RefusalCode
from xce.resreq.compile import compile_request
from xce.resreq.errors import LanguageError
from xce.resreq.select import compile_select
from xce.sched.columns import HostColumns, HostFacts
from xce.state.cluster import ClusterState
from xce.state.job import Job


class ClusterRow(msgspec.Struct, frozen=True):
    """The cluster, and who asks."""

    cluster: str
    controller_host: str
    version: str
    epoch: int
    seq: int
    now: float
    product_line: str
    """What ``lsid`` prints first; empty: XCE's own line."""
    unit_for_limits: str
    parse_script: bool
    default_queue: str
    user: str
    is_admin: bool
    max_array_size: int
    run_as_root: bool
    """Whether jobs of every user can be run."""
    resources: tuple[ResourceConfig, ...]
    """The declared ones."""
    pools: tuple[str, ...]
    levels: tuple[str, ...]
    """Levels of the topology, the narrowest first."""
    owner: str
    """The user who runs the cluster."""
    applications: tuple[str, ...]
    """The application profiles."""
    mode: str
    """``production``, or ``test``: then it is not for work."""
    hosts: int
    """How many hosts the configuration has, of whatever state."""


class HostsAnswer(msgspec.Struct, frozen=True):
    """The hosts."""

    hosts: list[HostRow]


class QueuesAnswer(msgspec.Struct, frozen=True):
    """The queues, the one of highest priority first."""

    queues: list[QueueRow]


class ArraysAnswer(msgspec.Struct, frozen=True):
    """Arrays, and the ids that name none."""

    arrays: list[ArrayRow]
    missing: list[str]


class ReadyAnswer(msgspec.Struct, frozen=True):
    """Whether reads are answered from a live replica."""

    ready: bool
    seq: int
    trouble: str = ""
    """Why nothing can be written now; empty: it can."""


async def show_cluster(backend: Backend, call: Call) -> web.StreamResponse:
    """Show the cluster's name, version and settings, and who you are."""
    replica, config = backend.replica, backend.replica.state.config
    row = ClusterRow(
        cluster=config.cluster_name,
        controller_host=backend.site.host or os.uname().nodename,
        version=backend.site.version,
        epoch=replica.epoch,
        seq=replica.seq,
        now=backend.now(),
        product_line=config.lsf_product_line,
        unit_for_limits=config.lsf_unit_for_limits,
        parse_script=config.lsf_parse_script,
        default_queue=replica.state.default_queue,
        user=call.caller.user,
        is_admin=backend.rights.is_admin(call.caller.actor),
        max_array_size=config.max_array_size,
        run_as_root=backend.identities.runs_as_root,
        resources=config.resources,
        pools=tuple(pool.name for pool in config.pools),
        levels=config.levels,
        owner=backend.identities.owner_name,
        applications=tuple(app.name for app in config.applications),
        mode=config.mode,
        hosts=int(replica.state.hosts.is_configured.sum()),
    )
    return answer(replica.seq, row)


async def list_hosts(backend: Backend, call: Call) -> web.StreamResponse:
    """List the hosts, all or those that a select expression takes."""
    state = backend.replica.state
    rows = host_rows(state)
    text = call.query.get("select", "")
    if text:
        taken = _selected(state, text)
        rows = [row for row in rows if row.name in taken]
    return answer(backend.replica.seq, HostsAnswer(rows))


def _selected(state: ClusterState, text: str) -> set[str]:
    """Return the hosts that a requirement's select expression takes, as things are now.

    Raises:
        ProblemError: It is none.
    """
    try:
        request = compile_request(
            [text], config=state.config, unit=state.config.lsf_unit_for_limits
        )
        program = compile_select(request.select)
    except LanguageError as error:
        raise refused(
            RefusalCode.BAD_RESREQ,
            error.message,
            lsf=error.lsf or "Bad resource requirement syntax",
        ) from error
    table = state.hosts
    pools = {name: state.pools.free(name) for name in state.pools.total}
    columns = HostColumns(HostFacts(table, state.config), table.total - table.used, pools)
    return {table.names[number] for number in program.mask(columns).nonzero()[0].tolist()}


async def list_queues(backend: Backend, call: Call) -> web.StreamResponse:
    """List the queues."""
    return answer(backend.replica.seq, QueuesAnswer(queue_rows(backend.replica.state)))


async def list_arrays(backend: Backend, call: Call) -> web.StreamResponse:
    """List arrays with how many of their elements are in which state."""
    query = call.query
    state, sees = backend.replica.state, backend.sees(call.caller)
    if "ids" in query:
        rows, missing = await _named_arrays(backend, query["ids"], query.get("user", ""), sees)
        return answer(backend.replica.seq, ArraysAnswer(rows, missing))
    user = query.get("user", call.caller.user)
    finished = parse_flag(query, "finished")
    wants = _filter(query.get("name", ""), "" if user == "all" else user, state.spec)
    if finished:
        jobs = list(state.jobs.values())
    else:
        ids = sorted(job for found in state.unfinished.values() for job in found)
        jobs = [state.jobs[job] for job in ids]
    found = [
        array_row(state, job)
        for job in jobs
        if job.array is not None and wants(job) and (not sees or sees(*backend.place_of(job)))
    ]
    return answer(backend.replica.seq, ArraysAnswer(found, []))


def _filter(name: str, user: str, spec: Callable[[Job], object]) -> Callable[[Job], bool]:
    def wants(job: Job) -> bool:
        if user and job.owner.user != user:
            return False
        return not name or matches(str(getattr(spec(job), "name", "")), name)

    return wants


async def _named_arrays(
    backend: Backend, text: str, user: str, sees: Callable[[str, str, str], bool] | None
) -> tuple[list[ArrayRow], list[str]]:
    rows: list[ArrayRow] = []
    missing: list[str] = []
    for asked, job_id, _ in parse_refs(text):
        job = backend.replica.state.jobs.get(job_id)
        row: ArrayRow | None = None
        place = ("", "", "")
        if job is not None:
            place = backend.place_of(job)
            row = array_row(backend.replica.state, job) if job.array is not None else None
        else:
            past = await backend.past(job_id, with_elements=False)
            if past is not None:
                place = (past.owner.user, past.key.queue, past.key.project)
            row = past_array_row(past) if past is not None and past.array is not None else None
        if sees and not sees(*place):
            row = None
        if row is None or (user not in ("", "all") and row.user != user):
            missing.append(asked)
        else:
            rows.append(row)
    rows.sort(key=lambda row: row.jobid)
    return rows, missing


async def show_ready(backend: Backend, call: Call) -> web.StreamResponse:
    """Tell whether the replica is live; 503 while it is not."""
    replica = backend.replica
    if replica.stale_s:
        raise ProblemError(
            make_problem(
                CONTROLLER_AWAY,
                f"the replica has not heard of the controller for {replica.stale_s:.1f} s",
                status=503,
            ),
            retry_after_s=1,
        )
    why = backend.link.trouble
    trouble = f"the journal cannot be written: {why}" if why else ""
    return answer(replica.seq, ReadyAnswer(ready=True, seq=replica.seq, trouble=trouble))
