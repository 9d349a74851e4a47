"""A change of a job as REST takes it, and what the job shall be as the controller gets it.

The job as it shall be is made out from what it is in the replica. The controller sees whether it
was changed meanwhile; then it is made out again.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from xce.apiserver.checkpoints import (
    CheckpointsBody,
    Period,
    change_period,
    read_checkpoints,
    render_checkpoints,
)
from xce.apiserver.gpu_body import GpuBody, render_gpu, wish_by_lsf
from xce.apiserver.notices import read_mail
from xce.apiserver.problems import refused
from xce.apiserver.process_limits import LimitsChange, change_limits
from xce.apiserver.profile import choose_app
from xce.apiserver.submission import (
    SubmissionCompiler,
    compile_resources,
    read_arguments,
    read_group,
    read_program,
    to_micros,
)
from xce.apiserver.submission_body import (
    ARGS_COUNT_MAX,
    AT_S_MAX,
    MEM_KIB_MAX,
    PRIORITY_MAX,
    RESREQ_COUNT_MAX,
    Addresses,
    Command,
    Description,
    ExitStatus,
    LoginShell,
    Path,
    Short,
    SignalNumber,
    Span,
    SubmissionBody,
    Text,
    TransferBody,
)
from xce.apiserver.submission_checks import check_paths, check_warning, check_word
from xce.control.part import as_it_is, wishes_of
from xce.control.submit import given_limits
from xce.model.command import Modification
from xce.model.config import AppConfig
from xce.model.ids import Index
from xce.model.job import JobSpec, Submission
from xce.model.mail import NOTICE_WORDS, Notice
from xce.model.process_limits import without
from xce.model.refusal import RefusalCode
from xce.model.request import TASKS_MAX, ClassKey, Request
from xce.model.transfers import TRANSFERS_MAX, render_transfer
from xce.state.cluster import ClusterState
from xce.state.job import Job

LIMIT_MAX: Final = (1 << 31) - 1
CHANGES_MAX: Final = 1024
"""Longest text about what was changed."""
Unsettable = Literal[
    "name", "array_limit", "queue", "project", "tasks", "resreq", "hosts", "exclusive",
    "rerunnable", "begin_at", "run_limit_s", "estimate_s", "mem_limit_kib", "dependency", "input",
    "output", "error", "cwd_given", "priority", "group", "deadline_at",
    "requeue_codes", "app", "pre_exec", "post_exec", "warning_signal", "warning_s",
    "warning_command", "description", "output_dir", "transfers", "mail_to", "login_shell",
    "user_group", "gpu", "nodes", "ends_as_orphan",
    "cpu_limit_s", "swap_limit_kib", "process_limit", "thread_limit", "stack_limit_kib",
    "data_limit_kib", "file_limit_kib", "core_limit_kib", "checkpoints",
]  # fmt: skip


class ChangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What shall be changed of a job: members of a submission; what is not named stays."""

    command: str | UnsetType = UNSET
    script: str | UnsetType = UNSET
    script_data: bytes | UnsetType = UNSET
    script_name: Path = ""
    args: Annotated[list[str], Meta(max_length=ARGS_COUNT_MAX)] = []
    name: Text | UnsetType = UNSET
    """Without an index list: the elements of an array stay those they are."""
    array_limit: Annotated[int, Meta(ge=0, le=LIMIT_MAX)] | UnsetType = UNSET
    """So many elements run at once; 0: any number."""
    queue: Short | UnsetType = UNSET
    project: Short | UnsetType = UNSET
    tasks: tuple[int, int] | UnsetType = UNSET
    resreq: Annotated[list[Text], Meta(max_length=RESREQ_COUNT_MAX)] | UnsetType = UNSET
    unit_for_limits: Short = ""
    hosts: Text | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    rerunnable: bool | UnsetType = UNSET
    begin_at: Annotated[float, Meta(ge=0, le=AT_S_MAX)] | UnsetType = UNSET
    deadline_at: Annotated[float, Meta(gt=0, le=AT_S_MAX)] | UnsetType = UNSET
    run_limit_s: Span | UnsetType = UNSET
    estimate_s: Span | UnsetType = UNSET
    mem_limit_kib: Annotated[int, Meta(ge=0, le=MEM_KIB_MAX)] | UnsetType = UNSET
    limits: LimitsChange = LimitsChange()
    checkpoint_period_s: Period | UnsetType = UNSET
    checkpoints: CheckpointsBody | UnsetType = UNSET
    """Of what has not started; the period alone may be changed of what runs, too."""
    dependency: Text | UnsetType = UNSET
    cwd_given: Path | UnsetType = UNSET
    input: Path | UnsetType = UNSET
    input_data: bytes | UnsetType = UNSET
    output: Path | UnsetType = UNSET
    output_append: bool = True
    error: Path | UnsetType = UNSET
    error_append: bool = True
    priority: Annotated[int, Meta(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] | UnsetType = UNSET
    group: Text | UnsetType = UNSET
    app: Short | UnsetType = UNSET
    requeue_codes: Annotated[list[ExitStatus], Meta(max_length=256)] | UnsetType = UNSET
    requeue_elsewhere: Annotated[list[ExitStatus], Meta(max_length=256)] = []
    pre_exec: Command | UnsetType = UNSET
    post_exec: Command | UnsetType = UNSET
    warning_signal: SignalNumber | UnsetType = UNSET
    warning_s: Span | UnsetType = UNSET
    warning_command: Command | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    output_dir: Path | UnsetType = UNSET
    transfers: Annotated[list[TransferBody], Meta(max_length=TRANSFERS_MAX)] | UnsetType = UNSET
    mail_start: bool | UnsetType = UNSET
    """Whether mail is wanted about its beginning."""
    mail_done: bool | UnsetType = UNSET
    """About its end, if it is a good one."""
    mail_exit: bool | UnsetType = UNSET
    """About any other end."""
    mail_to: Addresses | UnsetType = UNSET
    login_shell: LoginShell | UnsetType = UNSET
    user_group: Short | UnsetType = UNSET
    gpu: GpuBody | UnsetType = UNSET
    nodes: Annotated[int, Meta(ge=1, le=TASKS_MAX)] | UnsetType = UNSET
    """So many whole hosts."""
    ends_as_orphan: bool | UnsetType = UNSET
    unset: list[Unsettable] = []
    """What is as if it had not been said at submission."""


_RESOURCES: Final = frozenset(
    ["tasks", "resreq", "hosts", "exclusive", "queue", "app", "gpu", "nodes"]
)
_OF_ROLES: Final = frozenset(["tasks", "resreq", "hosts", "exclusive", "gpu", "nodes"])
"""What a job with roles has from its jobspec."""
_PROGRAM: Final = frozenset(["command", "script"])
_SCRIPT: Final = frozenset(["script", "script_data"])
_PARTS: Final = {
    "script_data": "script", "script_name": "script", "args": "script", "input_data": "input",
    "requeue_elsewhere": "requeue_codes",
    "output_append": "output", "error_append": "error", "unit_for_limits": "resreq",
}  # fmt: skip
"""Members that belong to another one."""


def changed_members(change: ChangeBody) -> tuple[str, ...]:
    """Return the names of what is changed.

    Raises:
        ProblemError: Nothing is, or something is both set and unset.
    """
    given = {_PARTS.get(name, name) for name, _ in _given(change)}
    twice = sorted(given.intersection(change.unset))
    if twice:
        raise refused(RefusalCode.BAD_REQUEST, f"{twice[0]} is both set and unset")
    if not given and not change.unset:
        raise refused(RefusalCode.BAD_REQUEST, "change names nothing to change")
    return tuple(sorted(given.union(change.unset)))


def _given(change: ChangeBody) -> Iterator[tuple[str, Any]]:
    """Yield what is set."""
    for name in change.__struct_fields__:
        value = getattr(change, name)
        own = name not in _PARTS or name in ("script_data", "input_data")
        if own and name not in ("unset", "limits") and value is not UNSET:
            yield name, value
    for name in change.limits.__struct_fields__:
        if (value := getattr(change.limits, name)) is not UNSET:
            yield name, value


def render_changes(change: ChangeBody) -> str:
    """Return what is changed, for people."""
    parts: list[str] = []
    for name, value in _given(change):
        match value:
            case bytes():
                parts.append(name)
            case [int(least), int(most)]:
                parts.append(f"{name}={least},{most}")
            case [(_, _, _, _), *_]:
                parts.append(f"{name}={'; '.join(map(render_transfer, value))}")
            case list():
                parts.append(f"{name}={' '.join(map(str, value))}")
            case GpuBody():
                parts.append(f"{name}={render_gpu(value)}")
            case CheckpointsBody():
                parts.append(f"{name}={render_checkpoints(value)}")
            case float():
                parts.append(f"{name}={value:.12g}")
            case _:
                parts.append(f"{name}={value}")
    parts += [f"{name} unset" for name in change.unset]
    text = ", ".join(parts).replace("\n", ";")
    return text if len(text) <= CHANGES_MAX else text[: CHANGES_MAX - 3] + "..."


class Composer:
    """Makes out what jobs shall be.

    Args:
        change: What is changed.
        compiler: Reads texts of submissions.
        state: What is true.
    """

    def __init__(
        self, change: ChangeBody, compiler: SubmissionCompiler, state: ClusterState
    ) -> None:
        self._change = change
        self._compiler = compiler
        self._state = state
        self.changed = changed_members(change)
        self.blobs: list[tuple[str, bytes]] = []
        """Contents that the jobs will need."""

    def _is_changed(self, name: str) -> bool:
        return name in self.changed

    def _value(self, name: str, default: Any, before: Any) -> Any:  # noqa: ANN401 - any member
        """Return a member as it shall be; ``default``: where it is unset."""
        if name in self._change.unset:
            return default
        value = getattr(self._change, name)
        return before if value is UNSET else value

    def compose(self, job: Job, runs: tuple[tuple[Index, Index], ...]) -> tuple[Modification, ...]:
        """Return a job as it shall be: an item for all that is alike of it.

        Raises:
            ProblemError: Something cannot be read, or is too large.
        """
        forms = {item.form: self._submission(job, item.form) for item in wishes_of(job, runs)}
        before = job.array.limit if job.array is not None else 0
        limit = self._value("array_limit", 0, before)
        return tuple(
            item.modification(job, forms[item.form], limit) for item in wishes_of(job, runs)
        )

    def _submission(self, job: Job, form: tuple[int, int]) -> Submission:
        """Return what is alike of a job as it shall be."""
        state, change = self._state, self._change
        spec, key = state.specs[form[1]], state.classes[form[0]].key
        self._check_roles(job, spec)
        project: str = self._value("project", "", key.project)
        check_word("project", project)
        run_limit_us = self._run_limit_us(spec, key)
        app = self._app(key)
        wanted = self._spec(self._without_limit(spec, key))
        request = key.request
        if not spec.roles and not _RESOURCES.isdisjoint(self.changed):
            request = self._request(wanted, key, app)
        began = None if change.begin_at is UNSET else change.begin_at
        estimate_s = self._value("estimate_s", 0.0, None)
        return replace(
            as_it_is(state, job, form),
            spec=wanted,
            request=request,
            queue=self._value("queue", "", key.queue),
            project=project,
            begin_at_us=to_micros(began),
            run_limit_us=run_limit_us,
            estimate_us=key.estimate_us if estimate_s is None else to_micros(estimate_s),
            priority=self._value("priority", 0, key.priority),
            rerunnable=self._value("rerunnable", None, spec.rerunnable),
            group=read_group(self._value("group", "", key.group)),
            app=app.name,
        )

    def _check_roles(self, job: Job, spec: JobSpec) -> None:
        """Refuse to change what the roles of a job say."""
        fixed = _OF_ROLES | _PROGRAM if spec.runs_by_roles else _OF_ROLES
        taken = sorted(fixed & set(self.changed)) if spec.roles else []
        if taken:
            raise refused(
                RefusalCode.NOT_BUILT,
                f"job {job.id} has roles, which say its {taken[0]}: to change that is not built "
                "yet; submit its jobspec anew",
            )

    def _app(self, key: ClassKey) -> AppConfig:
        """Return the application profile; one that is gone and is not changed says nothing."""
        if self._is_changed("app"):
            return choose_app(self._value("app", None, ""), self._state.config)
        return self._state.apps.get(key.app) or AppConfig(name=key.app)

    def _without_limit(self, spec: JobSpec, key: ClassKey) -> JobSpec:
        """Return a spec without the limits that another queue or profile gave it."""
        before = self._state.apps.get(key.app)
        queue = self._state.queues.get(key.queue)
        if queue is not None and (self._is_changed("app") or self._is_changed("queue")):
            given = given_limits(queue, before or AppConfig(name=""))
            spec = replace(spec, limits=without(spec.limits, given))
        given_kib = before.mem_limit_mib * 1024 if before is not None else 0
        if self._is_changed("app") and given_kib and spec.mem_limit_kib == given_kib:
            return replace(spec, mem_limit_kib=0)
        return spec

    def _run_limit_us(self, spec: JobSpec, key: ClassKey) -> int:
        if self._is_changed("run_limit_s"):
            return to_micros(self._value("run_limit_s", 0.0, 0.0))
        is_moved = self._is_changed("queue") or self._is_changed("app")
        return spec.run_limit_asked_us if is_moved else key.run_limit_us

    def _request(self, spec: JobSpec, key: ClassKey, app: AppConfig) -> Request:
        """Return what a job asks for, read anew with the configuration that holds now."""
        request = key.request
        tasks = spec.tasks_asked
        is_told = tasks != (0, 0)
        if not is_told and "tasks" not in self.changed and request.tasks_max > 1:
            # Of an earlier release, which did not keep it.
            tasks, is_told = (request.tasks_min, request.tasks_max), not request.parts
        texts = list(spec.requests) or ([spec.requested] if spec.requested else [])
        body = SubmissionBody(
            tasks=tasks if is_told else None,
            resreq=texts,
            hosts=spec.hosts_asked,
            nodes=self._value("nodes", 0, request.whole_hosts),
            gpu=self._value("gpu", None, None),
            exclusive=self._value("exclusive", default=False, before=request.exclusive),
        )
        config = self._state.config
        unit = spec.unit or config.lsf_unit_for_limits
        wish = None if self._is_changed("gpu") else wish_by_lsf(request)
        return compile_resources(body, config, unit, base=app.resreq, wish=wish)

    def _spec(self, spec: JobSpec) -> JobSpec:
        """Return what runs."""
        spec = self._with_program(spec)
        spec = self._with_files(spec)
        if self._is_changed("resreq"):
            texts: list[str] = self._value("resreq", [], [])
            spec = replace(
                spec,
                requested=" ".join(texts),
                requests=tuple(texts) if len(texts) > 1 else (),
                unit=self._change.unit_for_limits,
            )
        if self._is_changed("run_limit_s"):
            asked_us = to_micros(self._value("run_limit_s", 0.0, 0.0))
            spec = replace(spec, run_limit_asked_us=asked_us)
        if self._is_changed("name"):
            spec = replace(spec, name=self._name())
        if self._is_changed("requeue_codes"):
            codes, elsewhere = self._value("requeue_codes", (), ()), self._change.requeue_elsewhere
            spec = replace(
                spec,
                requeue_codes=tuple(sorted({*codes, *elsewhere})),
                requeue_elsewhere=tuple(sorted(set(elsewhere))),
            )
        spec = self._with_words(spec)
        has_new = self._is_changed("warning_signal") or self._is_changed("warning_command")
        signal: int = self._value("warning_signal", 0, 0 if has_new else spec.warning_signal)
        kept = "" if has_new else spec.warning_command
        command: str = self._value("warning_command", "", kept).strip()
        before_s: float | None = self._value("warning_s", 0.0, None)
        before_us = spec.warning_us if before_s is None else to_micros(before_s)
        deadline_s: float | None = self._value("deadline_at", 0.0, None)
        spec = self._with_checkpoints(spec)
        check_warning(signal, command, before_us, has_checkpoints=spec.checkpoints is not None)
        return replace(
            spec,
            warning_signal=signal,
            warning_us=before_us,
            warning_command=command,
            deadline_us=spec.deadline_us if deadline_s is None else to_micros(deadline_s),
            mem_limit_kib=self._value("mem_limit_kib", 0, spec.mem_limit_kib),
            dependency=self._value("dependency", "", spec.dependency).strip(),
            hosts_asked=self._value("hosts", "", spec.hosts_asked),
            tasks_asked=self._value("tasks", (0, 0), spec.tasks_asked),
            cwd_asked=self._value("cwd_given", "", spec.cwd_asked),
            pre_exec=self._value("pre_exec", "", spec.pre_exec).strip(),
            post_exec=self._value("post_exec", "", spec.post_exec).strip(),
        )

    def _with_checkpoints(self, spec: JobSpec) -> JobSpec:
        """Return a spec with where and when checkpoints are written."""
        found = spec.checkpoints
        if self._is_changed("checkpoints"):
            found = read_checkpoints(
                self._value("checkpoints", None, None),
                self._state.config,
                is_interactive=spec.terminal is not None,
            )
        period_s: float | None = self._value("checkpoint_period_s", 0.0, None)
        if period_s is not None:
            found = change_period(found, period_s)
        return replace(spec, checkpoints=found)

    def _with_words(self, spec: JobSpec) -> JobSpec:
        """Return a spec with what is only kept for people, mail, the shell and the shares."""
        value, before, notices = self._value, spec.notices, Notice.NONE
        for word, bit in NOTICE_WORDS.items():
            if value(f"mail_{word}", default=False, before=bool(before & bit)):
                notices |= bit
        to = read_mail(SubmissionBody(mail_to=value("mail_to", "", "")))["mail_to"]
        gpu: GpuBody | None = value("gpu", None, None)
        asked = "" if gpu is None else render_gpu(gpu)
        return replace(
            spec,
            limits=change_limits(self._change.limits, self._change.unset, spec.limits),
            description=value("description", "", spec.description),
            output_dir=value("output_dir", "", spec.output_dir),
            transfers=tuple(value("transfers", (), spec.transfers)),
            notices=int(notices),
            mail_to=to if self._is_changed("mail_to") else spec.mail_to,
            login_shell=value("login_shell", "", spec.login_shell),
            user_group=value("user_group", "", spec.user_group),
            ends_as_orphan=value("ends_as_orphan", default=False, before=spec.ends_as_orphan),
            gpu_asked=asked if self._is_changed("gpu") else spec.gpu_asked,
        )

    def _name(self) -> str:
        text = self._value("name", "", "")
        name, array, _ = self._compiler.name(SubmissionBody(name=text), self._state.config)
        if array is not None:
            raise refused(
                RefusalCode.BAD_ARRAY,
                "the elements of an array stay those they are: name it without an index list",
                lsf="Job array index error",
            )
        return name

    def _with_program(self, spec: JobSpec) -> JobSpec:
        change = self._change
        if not self._is_changed("command") and not self._is_changed("script"):
            if change.args or change.script_name:
                raise refused(RefusalCode.BAD_REQUEST, "args and script_name belong to a script")
            return spec
        body = SubmissionBody(
            command=None if change.command is UNSET else change.command,
            script=None if change.script is UNSET else change.script,
            script_data=None if change.script_data is UNSET else change.script_data,
            script_name=change.script_name,
            args=change.args,
        )
        text, command = read_program(body)
        digest = self._compiler.hash(text)
        self.blobs.append((digest, text))
        return replace(spec, command=command, script=digest, args=read_arguments(body))

    def _with_files(self, spec: JobSpec) -> JobSpec:
        change, files = self._change, spec.files
        body = SubmissionBody(
            cwd_given=self._value("cwd_given", "", ""),
            input=self._value("input", "", ""),
            input_data=None if change.input_data is UNSET else change.input_data,
            output=self._value("output", "", ""),
            error=self._value("error", "", ""),
            pre_exec=self._value("pre_exec", "", ""),
            post_exec=self._value("post_exec", "", ""),
            warning_command=self._value("warning_command", "", ""),
            description=self._value("description", "", ""),
            output_dir=self._value("output_dir", "", ""),
            transfers=self._value("transfers", [], []),
        )
        check_paths(body)
        if self._is_changed("input"):
            found = self._compiler.files(body, self.blobs)
            files = replace(files, input=found.input, input_blob=found.input_blob)
        if self._is_changed("output"):
            files = replace(files, output=body.output, output_append=change.output_append)
        if self._is_changed("error"):
            files = replace(files, error=body.error, error_append=change.error_append)
        return replace(spec, files=files)
