"""The half of a job row that all jobs of one spec and one class have alike."""

from typing import Final

import msgspec

from xce.apiserver.checkpoints import CheckpointsRow, checkpoints_row
from xce.apiserver.process_limits import limit_row
from xce.model.ids import SECOND_US, Micros
from xce.model.job import JobSpec
from xce.model.mail import NOTICE_WORDS
from xce.model.request import ClassKey
from xce.model.transfers import Transfer
from xce.resreq.used import resources_used


def number_s(span_us: Micros) -> float:
    """Return a span in seconds, a whole number where it is one."""
    whole, rest = divmod(span_us, SECOND_US)
    return span_us / SECOND_US if rest else whole


class Shared(msgspec.Struct, frozen=True, gc=False):
    """The half of a row that every job of one spec and one class has alike."""

    user: str
    queue: str
    project: str
    from_host: str
    name: str
    """The job's name, or its command when it was given none."""
    named: bool
    command: str
    tasks_min: int
    tasks_max: int
    run_limit_s: float
    estimate_s: float
    mem_limit_kib: int
    resreq_asked: str
    resreq: str
    dependency: str
    hosts_asked: str
    exclusive: bool
    rerunnable: bool
    cwd: str
    cwd_given: str
    """``-cwd`` as given; relative to ``cwd``, with patterns; empty: not given."""
    home: str
    input: str
    output: str
    error: str
    output_append: bool
    error_append: bool
    array: str
    priority: int
    interactive: str
    """``I``, ``Ip`` or ``Is``; empty: it is not."""
    group: str
    """The job group; empty: none."""
    app: str
    """The application profile; empty: none."""
    login_shell: str
    user_group: str
    gpu_asked: str
    """``-gpu`` as asked for, with what it does not say."""
    requeue_codes: tuple[int, ...]
    """Exit statuses for which it is started anew."""
    requeue_elsewhere: tuple[int, ...]
    """Those of them for which it does not use the same host again."""
    pre_exec: str
    post_exec: str
    notices: tuple[str, ...]
    """What its owner wants mail about: ``start``, ``done``, ``exit``."""
    mail_to: str
    """Where it goes; empty: to the owner."""
    warning_signal: int
    """Sent ``warning_s`` before the run limit; 0: none."""
    warning_s: float
    warning_command: str
    """Run then in place of a signal."""
    deadline_at: float | None
    """When it is ended if it still runs; None: never."""
    description: str
    output_dir: str
    """``-outdir`` as given; relative to where the job runs, with patterns; empty: not given."""
    limits: dict[str, float]
    """Those that it has: ``cpu_limit_s``, ``swap_limit_kib``, ``process_limit``, ..."""
    transfers: tuple[Transfer, ...]
    """Files that are copied before and after: local path, operator, the job's path."""
    checkpoints: CheckpointsRow | None
    rusage: tuple[tuple[str, ...], ...]
    """The resources that ``rusage[]`` asks for, one list for each alternative; empty: none."""


class Common:
    """Where the members of `Shared` are read off: a spec and a class.

    Args:
        spec: What runs.
        key: The key of the class.
        resreq: The effective requirement.
    """

    __slots__ = ("key", "resreq", "spec")

    def __init__(self, spec: JobSpec, key: ClassKey, resreq: str) -> None:
        self.spec = spec
        self.key = key
        self.resreq = resreq

    @property
    def name(self) -> str:
        """The job's name, or its command when it was given none."""
        return self.spec.name or self.spec.command

    @property
    def named(self) -> bool:
        """Whether it was given a name."""
        return bool(self.spec.name)

    @property
    def interactive(self) -> str:
        """``I``, ``Ip`` or ``Is`` of an interactive job."""
        return self.spec.terminal.mode if self.spec.terminal is not None else ""

    @property
    def notices(self) -> tuple[str, ...]:
        """What its owner wants mail about."""
        return tuple(word for word, bit in NOTICE_WORDS.items() if self.spec.notices & bit)

    @property
    def run_limit_s(self) -> float:
        """The run limit."""
        return number_s(self.key.run_limit_us)

    @property
    def limits(self) -> dict[str, float]:
        """Of CPU time, swap, processes and sizes."""
        return limit_row(self.spec.limits)

    @property
    def checkpoints(self) -> CheckpointsRow | None:
        """Where, when and by which programs they are written."""
        return checkpoints_row(self.spec.checkpoints)

    @property
    def rusage(self) -> tuple[tuple[str, ...], ...]:
        """The resources of ``rusage[]``, for each alternative."""
        return resources_used(self.key.request)

    @property
    def warning_s(self) -> float:
        """How long before the run limit the warning comes."""
        return number_s(self.spec.warning_us)

    @property
    def deadline_at(self) -> float | None:
        """When it is ended if it still runs."""
        return number_s(self.spec.deadline_us) if self.spec.deadline_us else None

    @property
    def estimate_s(self) -> float:
        """The user's estimate of the run time."""
        return number_s(self.key.estimate_us)


SHARED_PATHS: Final[dict[str, str]] = {
    "user": "key.user",
    "queue": "key.queue",
    "project": "key.project",
    "from_host": "spec.from_host",
    "name": "name",
    "named": "named",
    "command": "spec.command",
    "tasks_min": "key.request.tasks_min",
    "tasks_max": "key.request.tasks_asked",
    "run_limit_s": "run_limit_s",
    "estimate_s": "estimate_s",
    "mem_limit_kib": "spec.mem_limit_kib",
    "resreq_asked": "spec.requested",
    "resreq": "resreq",
    "dependency": "spec.dependency",
    "hosts_asked": "spec.hosts_asked",
    "exclusive": "key.request.exclusive",
    "rerunnable": "spec.rerunnable",
    "cwd": "spec.cwd",
    "cwd_given": "spec.cwd_asked",
    "home": "spec.home",
    "input": "spec.files.input",
    "output": "spec.files.output",
    "error": "spec.files.error",
    "output_append": "spec.files.output_append",
    "error_append": "spec.files.error_append",
    "array": "spec.array",
    "priority": "key.priority",
    "interactive": "interactive",
    "group": "key.group",
    "app": "key.app",
    "login_shell": "spec.login_shell",
    "user_group": "spec.user_group",
    "gpu_asked": "spec.gpu_asked",
    "requeue_codes": "spec.requeue_codes",
    "requeue_elsewhere": "spec.requeue_elsewhere",
    "pre_exec": "spec.pre_exec",
    "post_exec": "spec.post_exec",
    "notices": "notices",
    "mail_to": "spec.mail_to",
    "warning_signal": "spec.warning_signal",
    "warning_s": "warning_s",
    "warning_command": "spec.warning_command",
    "deadline_at": "deadline_at",
    "description": "spec.description",
    "output_dir": "spec.output_dir",
    "limits": "limits",
    "transfers": "spec.transfers",
    "checkpoints": "checkpoints",
    "rusage": "rusage",
}
"""Each member of `Shared` and where `Common` has it."""
