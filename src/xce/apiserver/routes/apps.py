"""``GET /apps``: the application profiles, with the slots that their jobs want and have."""

from operator import attrgetter

import msgspec
from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer
from xce.apiserver.loads import sum_loads
from xce.apiserver.process_limits import limit_row
from xce.apiserver.tables import values_text
from xce.state.cluster import ClusterState


class AppRow(msgspec.Struct, frozen=True):
    """An application profile. Jobs are counted in slots."""

    name: str
    description: str
    is_default: bool
    njobs: int
    pend: int
    run: int
    ssusp: int
    ususp: int
    rsv: int
    resreq: str
    run_limit_s: float
    estimate_s: float
    mem_limit_mib: int
    tasks_min: int
    tasks_max: int
    rerunnable: bool | None
    """Null: as the queue of a job has it."""
    requeue_exit_values: str
    """As LSF writes it; empty: none."""
    success_exit_values: str
    max_requeues: int
    pre_exec: str
    post_exec: str
    limits: dict[str, float]
    """As in the row of a job: ceilings, and what jobs have that say nothing."""
    self_fence: bool | None
    """Null: as the cluster has it."""


class AppsAnswer(msgspec.Struct, frozen=True):
    """All application profiles, by name."""

    apps: list[AppRow]


async def list_apps(backend: Backend, call: Call) -> web.StreamResponse:
    """List the application profiles."""
    return answer(backend.replica.seq, AppsAnswer(app_rows(backend.replica.state)))


def app_rows(state: ClusterState) -> list[AppRow]:
    """Return all application profiles."""
    loads = sum_loads(state, attrgetter("app"))
    return [
        AppRow(
            name=app.name,
            description=app.description,
            is_default=app.name == state.config.default_application,
            njobs=loads[app.name].pend + loads[app.name].run + loads[app.name].susp,
            pend=loads[app.name].pend,
            run=loads[app.name].run,
            ssusp=loads[app.name].ssusp,
            ususp=loads[app.name].susp - loads[app.name].ssusp,
            rsv=0,
            resreq=app.resreq,
            run_limit_s=app.run_limit_us / 1_000_000,
            estimate_s=app.estimate_us / 1_000_000,
            mem_limit_mib=app.mem_limit_mib,
            tasks_min=app.tasks_min,
            tasks_max=app.tasks_max,
            rerunnable=app.rerunnable,
            requeue_exit_values=values_text(app.requeue_exit_values),
            success_exit_values=values_text(app.success_exit_values),
            max_requeues=app.max_requeues,
            pre_exec=app.pre_exec,
            post_exec=app.post_exec,
            limits=limit_row(app.limits),
            self_fence=app.self_fence,
        )
        for app in state.apps.values()
    ]
