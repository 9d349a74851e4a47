"""From a launch to the plan of its step: what each role runs, waits for, and what its end means.

Pure. The words of relations become waits, parents, restarts and fates (`xce.step.plan`); which
tasks there are is read off the rows of the allocation.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from xce.model.device import DeviceGrant, GpuWish
from xce.model.effect import Launch
from xce.model.ids import SECOND_US, Index
from xce.model.relation import LaunchType, Relation, RelationKind, Role
from xce.step.plan import (
    RESTART_NEVER,
    RESTART_ON_FAILURE,
    Plan,
    ProbePlan,
    RolePlan,
    TaskPlan,
    Wait,
)
from xce.worker.gpus import grants_at, is_hidden, own_grants, shown_names, visible_environment
from xce.worker.ranks import rows_of

SIDECAR_RESTARTS: Final = 10
"""So often a sidecar is started again unless its relation says otherwise."""
MEMBER_RESTARTS: Final = 3
"""So often each task of a role is whose fate is ``restart-member``."""
BACK_OFF_US: Final = SECOND_US


def plan_of(launch: Launch, index: Index, script: str) -> Plan:
    """Return the plan of one element.

    Args:
        launch: Of a job that runs by roles.
        index: Which element.
        script: The job's own text, for roles that have no command.
    """
    tasks = _Tasks(launch, index)
    spec = launch.spec
    numbers = {role.name: number for number, role in enumerate(spec.roles)}
    roles = [
        RolePlan(
            role.name,
            role.command or script,
            tasks.of(role),
            args=() if role.command else spec.args,
            env=role.env,
            cwd=role.cwd,
            output=role.output,
            error=role.error,
            probe=_probe(role),
            group=number,
            launch=role.launch.value,
            started=tasks.members_of(role) if role.launch is LaunchType.MPI else (),
        )
        for number, role in enumerate(spec.roles)
    ]
    # Fates come last: that of a sidecar is not what it has by itself.
    ordered = sorted(enumerate(spec.relations), key=lambda pair: pair[1].kind is RelationKind.FATE)
    for number, relation in ordered:
        _relate(roles, numbers, relation, f"relation {number + 1} ({relation.kind.value})")
    element = str(index)
    return Plan(tasks.hosts, tuple(roles), launch.kill_interval_us, str(launch.job), element)


def _probe(role: Role) -> ProbePlan | None:
    ready = role.ready
    if ready is None:
        return None
    return ProbePlan(
        ready.kind, ready.target, ready.period_us, ready.timeout_us, ready.failures_max
    )


def _relate(
    roles: list[RolePlan], numbers: Mapping[str, int], relation: Relation, title: str
) -> None:
    """Let a relation hold between roles."""
    source = [numbers[name] for name in relation.source if name in numbers]
    target = [numbers[name] for name in relation.target if name in numbers]
    both = [numbers[name] for name in relation.subjects if name in numbers]
    match relation.kind:
        case RelationKind.INIT_OF:
            _wait(roles, target, [Wait(one, "succeeded", title) for one in source])
        case RelationKind.SIDECAR_OF:
            _change(roles, source, {"parents": tuple(target), **_sidecar(relation)})
            _wait(roles, target, [Wait(one, "beside", title) for one in source])
        case RelationKind.READY_AFTER:
            timeout_us = _span_us(relation.param("timeout"))
            _wait(roles, source, [Wait(one, "ready", title, timeout_us) for one in target])
        case RelationKind.AFTER:
            until = "ended" if relation.param("outcome") == "ended" else "succeeded"
            _wait(roles, source, [Wait(one, until, title) for one in target])
        case RelationKind.WITH:
            groups = {roles[one].group for one in both}
            mine = [number for number, role in enumerate(roles) if role.group in groups]
            _change(roles, mine, {"group": min(groups)})
        case RelationKind.FATE:
            for one in both:
                _change(roles, [one], _fate(relation, is_sidecar=bool(roles[one].parents)))
        case _:
            pass


def _sidecar(relation: Relation) -> dict[str, Any]:
    return {
        "is_fatal": False,
        "fate": "tolerate",
        "restart": relation.param("restart", RESTART_ON_FAILURE),
        "restarts_max": int(relation.param("restarts_max", str(SIDECAR_RESTARTS))),
        "back_off_us": BACK_OFF_US,
    }


def _fate(relation: Relation, *, is_sidecar: bool) -> dict[str, Any]:
    """Return what a fate means; one that is tolerated is restarted as its own relation says."""
    policy = relation.param("policy", "fail-together")
    if policy == "restart-member":
        return {
            "fate": policy,
            "is_fatal": True,
            "restart": RESTART_ON_FAILURE,
            "restarts_max": int(relation.param("restarts_max", str(MEMBER_RESTARTS))),
            "back_off_us": _span_us(relation.param("back_off")) or BACK_OFF_US,
        }
    if policy == "tolerate":
        again = {} if is_sidecar else {"restart": RESTART_NEVER}
        return {"fate": policy, "is_fatal": False, **again}
    return {"fate": policy, "is_fatal": True, "restart": RESTART_NEVER}


def _span_us(text: str) -> int:
    """Return the span of a parameter, which is in seconds; 0: none was given."""
    return int(text.removesuffix("s") or 0) * SECOND_US


def _change(roles: list[RolePlan], numbers: list[int], fields: Mapping[str, Any]) -> None:
    for number in numbers:
        roles[number] = roles[number]._replace(**fields)


def _wait(roles: list[RolePlan], numbers: list[int], waits: list[Wait]) -> None:
    for number in numbers:
        roles[number] = roles[number]._replace(waits=(*roles[number].waits, *waits))


class _Tasks:
    """The tasks of the roles of one element, with the GPUs of each."""

    def __init__(self, launch: Launch, index: Index) -> None:
        self._launch = launch
        self._index = index
        self._rows = rows_of(launch)
        self._places = {host: place for place, host in enumerate(self._names())}
        self.hosts = tuple(self._places)
        self._grants = list(self._row_grants(index))
        self._has_gpus = any(wish is not None for wish in launch.row_gpus)

    def _names(self) -> Iterator[str]:
        yield from dict.fromkeys(
            [*(host for host, _ in self._launch.hosts), *(row.host for row in self._rows)]
        )

    def of(self, role: Role) -> tuple[TaskPlan, ...]:
        """Return the tasks of a role that the step starts."""
        found = self.members_of(role)
        match role.launch:
            case LaunchType.SCRIPT:
                return found[:1]
            case LaunchType.MPI:
                # The step's host: others can be reached from there only.
                return (TaskPlan(0, found[0].rank),) if found else ()
            case _:
                return found

    def members_of(self, role: Role) -> tuple[TaskPlan, ...]:
        """Return those who are to run the command of a role."""
        return self._attached(role) if role.attach else self._placed(role)

    def _attached(self, role: Role) -> tuple[TaskPlan, ...]:
        """Return one task on each host of those that it is attached to; it sees their GPUs."""
        on_host: dict[str, list[DeviceGrant]] = {}
        for row, grants in zip(self._rows, self._grants, strict=True):
            if row.role in role.attach:
                on_host.setdefault(row.host, []).extend(grants)
        return tuple(
            TaskPlan(self._places[host], -1, self._env(grants, host))
            for host, grants in on_host.items()
        )

    def _placed(self, role: Role) -> tuple[TaskPlan, ...]:
        found = []
        rank = 0
        wishes = self._launch.row_gpus or (None,) * len(self._rows)
        for row, grants, wish in zip(self._rows, self._grants, wishes, strict=True):
            for task in range(row.tasks):
                if row.role == role.name:
                    env = self._env(_share(grants, row.tasks, task, wish), row.host)
                    found.append(TaskPlan(self._places[row.host], rank, env))
                rank += 1
        return tuple(found)

    def _env(self, grants: list[DeviceGrant], host: str) -> tuple[tuple[str, str], ...]:
        if not self._has_gpus:
            return ()
        shown = shown_names(self._launch, self._index, host)
        env = visible_environment(grants, self._launch.gpu, shown)
        if is_hidden(self._launch):
            env.pop("CUDA_VISIBLE_DEVICES", None)
        return tuple(env.items())

    def _row_grants(self, index: Index) -> Iterator[list[DeviceGrant]]:
        """Yield the GPUs of each row: those of neighbours on one host stand one behind another."""
        entry, taken, slots = 0, 0, 0
        seen: set[str] = set()
        wishes = self._launch.row_gpus or (None,) * len(self._rows)
        for row, wish in zip(self._rows, wishes, strict=True):
            mine: list[DeviceGrant] = []
            if wish is not None and self._launch.devices:
                count = wish.items(row.tasks, is_first=row.role not in seen)
                mine = list(grants_at(self._launch, index, entry)[taken : taken + count])
                taken += count
            yield mine
            seen.add(row.role)
            slots += row.tasks
            if slots >= self._launch.hosts[entry][1]:
                entry, taken, slots = entry + 1, 0, 0


def _share(
    grants: list[DeviceGrant], tasks: int, task: int, wish: GpuWish | None
) -> list[DeviceGrant]:
    """Return what one of so many tasks has: its part where they can be parted, else all."""
    if wish is not None and wish.is_blocked:
        own = own_grants(grants, wish, tasks)
        if own:
            return list(own[task])
    each, rest = divmod(len(grants), tasks)
    return grants if rest or not each else grants[task * each : (task + 1) * each]
