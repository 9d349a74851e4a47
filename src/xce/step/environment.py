"""What a task's environment says beside the job's, and where its output goes. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from xce.step.plan import Plan, RolePlan

LIST_MAX: Final = 100_000
"""A longer list is left out of the environment: the kernel takes 128 KiB a variable."""
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_PATTERN: Final = re.compile(r"%([JIRT])")
_DROPPED: Final = re.compile(r"(?:CUDA|ROCR)_VISIBLE_DEVICES\d+|XCE_STEP_\w*")


class Meeting:
    """Where the tasks of a step find each other: the addresses of hosts, a port for each task."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.addresses = list(plan.hosts)
        self.ports: dict[tuple[int, int], int] = {}
        self.doors: dict[int, int] = {}
        """The port at which the tasks of a role meet, by its number."""
        self.on_host: list[list[tuple[int, int]]] = [[] for _ in plan.hosts]
        """The tasks on each host, as (role, task)."""
        for number, place in plan.tasks():
            self.on_host[plan.roles[number].tasks[place].host].append((number, place))
        self._shared: dict[str, str] | None = None

    def led_by(self, host: int) -> list[int]:
        """Return the roles whose tasks meet on a host."""
        meetings = self._plan.meetings()
        return [one for one in meetings if self._plan.roles[one].tasks[0].host == host]

    def ports_wanted(self, host: int) -> int:
        """Return how many free ports a host is asked for."""
        return len(self.on_host[host]) + len(self.led_by(host))

    def note_host(self, host: int, address: str, ports: list[int]) -> None:
        """Learn where a host is found, and which ports are free there."""
        self.addresses[host] = address or self._plan.hosts[host]
        free = iter(ports)
        for role, task in self.on_host[host]:
            port = next(free, 0)
            if port:
                self.ports[role, task] = port
        self.doors |= dict(zip(self.led_by(host), free, strict=False))
        self._shared = None

    def shared(self) -> dict[str, str]:
        """Return the variables that say where the tasks of each role are."""
        if self._shared is None:
            self._shared = {}
            for number, role in enumerate(self._plan.roles):
                hosts = " ".join(self._plan.hosts[task.host] for task in role.members)
                ends = " ".join(
                    f"{self.addresses[task.host]}:{self.ports[number, place]}"
                    for place, task in enumerate(role.tasks)
                    if (number, place) in self.ports
                )
                for name, text in (("XCE_HOSTS", hosts), ("XCE_ENDPOINTS", ends)):
                    if len(text) <= LIST_MAX:
                        self._shared[f"{name}_{role.name}"] = text
        return self._shared


def task_environment(
    plan: Plan, number: int, place: int, base: Mapping[str, str], meeting: Meeting,
    world: Mapping[str, str] | None = None,
) -> dict[str, str]:  # fmt: skip
    """Return the whole environment of a task.

    Args:
        plan: Of the step.
        number: The role's.
        place: The task's in its role.
        base: The environment of the job.
        meeting: Where the tasks of the step are.
        world: What its launch type tells it of the others of its role.
    """
    role = plan.roles[number]
    task = role.tasks[place]
    mine = meeting.on_host[task.host]
    found = {name: value for name, value in base.items() if not _DROPPED.fullmatch(name)}
    found |= meeting.shared()
    found |= {
        "XCE_ROLE": role.name,
        "XCE_ROLE_INDEX": str(place),
        "XCE_ROLE_NTASKS": str(len(role.members)),
        "XCE_HOST_NTASKS": str(len(mine)),
        "XCE_HOST_TASK_INDEX": str(mine.index((number, place))),
        "XCE_HOST": plan.hosts[task.host],
    }
    found.pop("XCE_RANK", None)
    if task.rank >= 0:
        found["XCE_RANK"] = str(task.rank)
    if (number, place) in meeting.ports:
        found["XCE_PORT"] = str(meeting.ports[number, place])
    found |= world or {}
    found |= dict(task.env)
    found |= dict(item.split("=", 1) for item in role.env)
    return found


def expand_variables(text: str, env: Mapping[str, str]) -> str:
    """Return a text with ``$NAME`` and ``${NAME}`` filled in; what is not there is empty."""
    return _VARIABLE.sub(lambda match: env.get(match[1] or match[2], ""), text)


def stream_path(path: str, plan: Plan, role: RolePlan, place: int) -> str:
    """Return where a stream of a task goes, with its patterns filled in."""
    values = {"J": plan.job, "I": plan.element, "R": role.name, "T": str(place)}
    return _PATTERN.sub(lambda match: values[match[1]], path)


_SCRIPT: Final = (
    'f="$XCE_JOB_HOST_DIR/$0.$$"; printf %s "$1" >"$f" && chmod 700 "$f" && shift && exec "$f" "$@"'
)
"""Writes a program where it runs, and becomes it."""


def task_arguments(role: RolePlan) -> list[str]:
    """Return what is executed for a task: a program of its own, or lines for the shell."""
    if role.command.startswith("#!"):
        return ["/bin/sh", "-c", _SCRIPT, role.name, role.command, *role.args]
    return ["/bin/sh", "-c", role.command, role.name, *role.args]


def own_devices(environ: Mapping[str, str], place: str) -> dict[str, str]:
    """Return the variables by which a task sees its own GPUs; nothing where it has none of its own.

    Args:
        environ: Of its job on its host.
        place: Which of the job's tasks there it is.
    """
    amd = environ.get(f"ROCR_VISIBLE_DEVICES{place}")
    if amd is not None:
        return {"ROCR_VISIBLE_DEVICES": amd}
    own = environ.get(f"CUDA_VISIBLE_DEVICES{place}")
    if own is None:
        return {}
    mps = environ.get("XCE_GPU_MPS", "")
    if mps:
        # Names as the job's daemon of MPS counts them, or none: containers have those of the host.
        return {} if "nocvd" in mps else {"CUDA_VISIBLE_DEVICES": own}
    return {"CUDA_VISIBLE_DEVICES": own, "NVIDIA_VISIBLE_DEVICES": own}
