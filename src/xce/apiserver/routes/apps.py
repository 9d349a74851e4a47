"""``GET /apps``: the application profiles, with the slots that their jobs want and have."""

from collections import defaultdict

import msgspec
from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer
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


class AppsAnswer(msgspec.Struct, frozen=True):
    """All application profiles, by name."""

    apps: list[AppRow]


class _Load:
    """Slots of a profile's jobs."""

    __slots__ = ("pend", "run", "ssusp", "susp")

    def __init__(self) -> None:
        self.pend = self.run = self.susp = self.ssusp = 0


async def list_apps(backend: Backend, call: Call) -> web.StreamResponse:
    """List the application profiles."""
    return answer(backend.replica.seq, AppsAnswer(app_rows(backend.replica.state)))


def app_rows(state: ClusterState) -> list[AppRow]:
    """Return all application profiles."""
    loads = _loads(state)
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
        )
        for app in state.apps.values()
    ]


def _loads(state: ClusterState) -> dict[str, _Load]:
    """Return what waits and runs of each profile."""
    loads: dict[str, _Load] = defaultdict(_Load)
    has_live = False
    for item in state.classes.values():
        if item.key.app in state.apps:
            waiting = item.pending + item.held
            loads[item.key.app].pend += waiting * item.key.request.tasks_min
            has_live = has_live or bool(item.live)
    for places in state.on_host.values() if has_live else ():
        for job, position in places:
            attempt = state.attempt(job, position)
            if attempt is None or state.classes[attempt.cls].key.app not in state.apps:
                continue
            load, slots = loads[state.classes[attempt.cls].key.app], sum(attempt.tasks)
            if attempt.suspended:
                load.susp += slots
                load.ssusp += slots if attempt.is_stopped_by_system else 0
            else:
                load.run += slots
    return loads
