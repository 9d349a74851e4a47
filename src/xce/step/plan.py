"""What a step runs: its roles with their tasks, and in which order they begin and end. Pure.

A plan is made by the worker of the first host (`xce.worker.step_plan`) and read by the step's own
programs, which import the standard library only; it travels as JSON.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

RESTART_NEVER: Final = "never"
RESTART_ON_FAILURE: Final = "on-failure"
RESTART_ALWAYS: Final = "always"
TORCH: Final = "torch"
"""The launch type of a role whose tasks are the processes of one ``torch.distributed`` world."""
MPI: Final = "mpi"
"""That of a role whose one task is ``mpirun``, which starts the role's members."""


class ProbePlan(NamedTuple):
    """How it is found out that a task is ready."""

    kind: str
    """``exec``, ``tcp`` or ``http``."""
    target: str
    period_us: int
    timeout_us: int
    failures_max: int
    """So many failures in a row are the end of the task; 0: it is asked on and on."""


class TaskPlan(NamedTuple):
    """One task of a role."""

    host: int
    """Its place in `Plan.hosts`."""
    rank: int = -1
    """Among all tasks that have slots; -1: it has none of its own."""
    env: tuple[tuple[str, str], ...] = ()
    """What only it has, devices for instance."""


class Wait(NamedTuple):
    """What another role must have done before a role begins."""

    role: int
    until: str
    """``succeeded``, ``ended``, ``ready`` or ``beside`` (a sidecar: ready, or given up)."""
    relation: str
    """How it is called where it matters."""
    timeout_us: int = 0
    """Of ``ready``: so long after all its tasks have begun; 0: for ever."""


class RolePlan(NamedTuple):
    """A role: what its tasks run, what they wait for, what becomes of them."""

    name: str
    command: str
    """A text for the shell, or a script with its ``#!``."""
    tasks: tuple[TaskPlan, ...]
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    """``NAME=value``."""
    cwd: str = ""
    """Empty: where the job runs."""
    output: str = ""
    """Empty: with the job's output, each line named."""
    error: str = ""
    """Empty: with the output."""
    probe: ProbePlan | None = None
    waits: tuple[Wait, ...] = ()
    parents: tuple[int, ...] = ()
    """Of a sidecar: whose end is its own; empty: it is none."""
    group: int = 0
    """Roles of one number begin together."""
    restart: str = RESTART_NEVER
    restarts_max: int = 0
    """Of each task."""
    back_off_us: int = 0
    """Before the first restart; each later one waits twice as long as the one before."""
    is_fatal: bool = True
    """A task that has failed for good ends the job."""
    fate: str = "fail-together"
    """The word for people."""
    launch: str = "tasks"
    """How its command becomes its tasks."""
    started: tuple[TaskPlan, ...] = ()
    """Its members, where its one task starts them."""

    @property
    def members(self) -> tuple[TaskPlan, ...]:
        """Those who run its command."""
        return self.started or self.tasks

    @property
    def meets(self) -> bool:
        """Whether its members meet at a port on the host of its first task."""
        return self.launch in (TORCH, MPI)


class Plan(NamedTuple):
    """A whole step."""

    hosts: tuple[str, ...]
    """The first one runs the step."""
    roles: tuple[RolePlan, ...]
    grace_us: int
    """Between TERM and KILL of a task that is to end."""
    job: str = ""
    """How the job is called in file names: its id."""
    element: str = "0"
    """Its index; 0: it is no array."""

    def tasks(self) -> "Iterator[tuple[int, int]]":
        """Yield all tasks, as (role, index)."""
        for number, role in enumerate(self.roles):
            for index in range(len(role.tasks)):
                yield number, index

    def meetings(self) -> dict[int, set[int]]:
        """Return the hosts of each role whose members meet, by its number."""
        return {
            number: {task.host for task in (*role.tasks, *role.members)}
            for number, role in enumerate(self.roles)
            if role.meets
        }


def encode_plan(plan: Plan) -> str:
    """Return a plan as JSON."""
    return json.dumps(plan, separators=(",", ":"))


def decode_plan(text: str) -> Plan:
    """Return the plan in a text."""
    hosts, roles, *rest = json.loads(text)
    return Plan(tuple(hosts), tuple(_role(role) for role in roles), *rest)


def _role(fields: list[Any]) -> RolePlan:
    named = dict(zip(RolePlan._fields, fields, strict=False))  # of an earlier release, perhaps
    for name in ("tasks", "started"):
        named[name] = tuple(
            TaskPlan(host, rank, tuple((name, value) for name, value in env))
            for host, rank, env in named.get(name, ())
        )
    named["waits"] = tuple(Wait(*wait) for wait in named["waits"])
    for name in ("args", "env", "parents"):
        named[name] = tuple(named[name])
    if named["probe"] is not None:
        named["probe"] = ProbePlan(*named["probe"])
    return RolePlan(**named)
