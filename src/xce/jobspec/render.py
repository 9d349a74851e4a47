"""A job back to its jobspec, whichever way it was submitted: what `read_spec` takes again."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from xce.jobspec.values import LIMIT_KEYS
from xce.model.checkpoint import Checkpoints
from xce.model.ids import SECOND_US, Micros
from xce.model.job import COMMAND_MAX, JobSpec
from xce.model.mail import NOTICE_WORDS
from xce.model.process_limits import SHOWN, ProcessLimits, is_set
from xce.model.relation import LaunchType, Probe, Relation, Role
from xce.model.request import ClassKey, Request
from xce.resreq import ast
from xce.resreq.render import render_requirement
from xce.resreq.tree import tree_of

VERSION: Final = 1


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job beside what runs and its class."""

    array: str | None = None
    """Which elements of an array are meant; None: all that it was submitted with."""
    array_limit: int = 0
    """So many of its elements at once; 0: any number."""
    hold: bool = False
    begin_at_us: Micros = 0
    queue_reruns: bool = False
    """Whether jobs of its queue are started anew unless they say otherwise."""


AS_IT_IS: Final = Standing()


def render_spec(
    job: JobSpec, key: ClassKey, *, script: str = "", standing: Standing = AS_IT_IS
) -> dict[str, Any]:
    """Return the jobspec of a job as JSON values, keys in the order of the documentation.

    Args:
        job: What runs.
        key: Its request, queue, project and limits.
        script: The text that runs; empty: it is not kept any more, and what listings show counts.
        standing: What else there is to say.
    """
    found: dict[str, Any] = {"version": VERSION} | _program(job, script)
    given: Mapping[str, Any] = {
        "args": list(job.args),
        "name": job.name,
        "queue": key.queue,
        "project": key.project,
        "app": key.app,
        "group": key.group,
        "cwd": job.cwd_asked,
        "input": job.files.input,
        "output": job.files.output,
        "error": job.files.error,
        "run_limit": _span(job.run_limit_asked_us),
        "estimate": _span(key.estimate_us),
        "mem_limit": _kib(job.mem_limit_kib) if job.mem_limit_kib else "",
        "dependency": job.dependency,
        "priority": key.priority,
        "array": _array(
            job.array if standing.array is None else standing.array, standing.array_limit
        ),
        "hosts": job.hosts_asked,
        "exclusive": key.request.exclusive,
        "rerunnable": job.rerunnable,
        "hold": standing.hold,
        "begin_at": _seconds(standing.begin_at_us),
        "deadline_at": _seconds(job.deadline_us),
        **_manner(job),
    }
    found |= {name: value for name, value in given.items() if value}
    if standing.queue_reruns and not job.rerunnable:
        found["rerunnable"] = False
    found |= {
        name: False
        for name, append in (
            ("output_append", job.files.output_append),
            ("error_append", job.files.error_append),
        )
        if not append
    }
    found |= _roles(job, key.request) if job.roles else _whole(job, key.request)
    if job.relations:
        found["relations"] = [render_relation(relation) for relation in job.relations]
    return found


def _program(job: JobSpec, script: str) -> dict[str, Any]:
    """Return what runs: a command, a script, or nothing where roles say it."""
    shown = script.strip("\n").replace("\n", ";")[:COMMAND_MAX]
    own = next((role for role in job.roles if not role.attach), None)
    if script and (job.args or "\n" in script or (own is None and shown != job.command)):
        named = {} if shown == job.command else {"script_name": _script_name(job)}
        return {"script": script} | named
    text = script or job.command
    return {"command": text} if own is None or own.command != text or _leave_to_job(job) else {}


def _script_name(job: JobSpec) -> str:
    """Return what stands before the arguments in what listings show."""
    return job.command.removesuffix(" ".join(("", *job.args)))


def _array(runs: str, limit: int) -> str:
    return f"{runs}%{limit}" if runs and limit else runs


def _manner(job: JobSpec) -> dict[str, Any]:
    """Return how a job runs, and what is said of it."""
    elsewhere = list(job.requeue_elsewhere)
    return {
        "user_group": job.user_group,
        "description": job.description,
        "output_dir": job.output_dir,
        "login_shell": job.login_shell,
        "pre_exec": job.pre_exec,
        "post_exec": job.post_exec,
        "requeue": [code for code in job.requeue_codes if code not in elsewhere],
        "requeue_elsewhere": elsewhere,
        "ends_as_orphan": job.ends_as_orphan,
        "warning": _span(job.warning_us),
        "warning_signal": job.warning_signal,
        "warning_command": job.warning_command,
        "notices": [word for word, notice in NOTICE_WORDS.items() if job.notices & notice],
        "mail_to": job.mail_to,
        "limits": _limits(job.limits),
        "transfers": [list(one) for one in job.transfers],
        "checkpoints": _checkpoints(job.checkpoints),
    }


def _checkpoints(found: Checkpoints | None) -> dict[str, Any]:
    if found is None:
        return {}
    shown: dict[str, Any] = {"directory": found.directory, "method": found.method}
    if found.period_us:
        shown["period"] = _span(found.period_us)
        if found.first_us:
            shown["first"] = _span(found.first_us)
    return shown


def _limits(limits: ProcessLimits) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in SHOWN:
        if is_set(limits, one.member):
            value: int = getattr(limits, one.member)
            is_span = one.member == "cpu_us"
            text = _span(value) if is_span else _kib(value) if one.is_size else value
            found[LIMIT_KEYS[one.member]] = text
    return found


def _leave_to_job(job: JobSpec) -> bool:
    """Whether roles run the job's command, so that it must be said."""
    return job.runs_by_roles and any(not role.command for role in job.roles)


def _whole(job: JobSpec, request: Request) -> dict[str, Any]:
    """Return what a job without roles asks for, in the words in which it did."""
    texts = list(job.requests) or [job.requested] * bool(job.requested)
    found: dict[str, Any] = {}
    if texts:
        found["resreq"] = texts[0] if len(texts) == 1 else texts
    if job.unit != ("MB" if texts else ""):
        found["unit"] = job.unit or "cluster"
    if job.tasks_asked != (0, 0):
        found["tasks"] = _tasks(*job.tasks_asked)
    if request.whole_hosts:
        found["nodes"] = request.whole_hosts
    if job.gpu_asked:
        found["gpu"] = _gpu(job.gpu_asked)
    return found


def _gpu(text: str) -> dict[str, Any]:
    """Return what ``-gpu`` says, item by item."""
    found: dict[str, Any] = {}
    for item in text.split(":"):
        name, _, value = item.partition("=")
        count, _, per = value.partition("/")
        if name == "num":
            found |= {"num": int(count)} | ({"per": per} if per else {})
            continue
        first, *words = value.split(",") if name == "mps" else (value,)
        found[name] = {"yes": True, "no": False}.get(first, first)
        if words:
            found["mps_options"] = words
    return found


def _roles(job: JobSpec, request: Request) -> dict[str, Any]:
    """Return the roles, each with what it asks for."""
    attached = [render_role(role, job) for role in job.roles if role.attach]
    placed = {role.name: role for role in job.roles if not role.attach}
    if not request.parts:
        role = next(iter(placed.values()))
        count = _tasks(request.tasks_min, request.tasks_max)
        return {"roles": [_part(job, role, count, request), *attached]}
    roles = [
        _part(
            job,
            placed.get(part.name, Role(part.name)),
            _tasks(part.tasks, max(part.tasks, part.tasks_max)),
            part.request,
        )
        for part in request.parts
    ]
    same = {"same": list(request.same)} if request.same else {}
    return {"roles": [*roles, *attached], **same}


def _tasks(least: int, most: int) -> int | str:
    return least if least == most else f"{least}-{most}"


def _part(job: JobSpec, role: Role, count: int | str, request: Request) -> dict[str, Any]:
    tree = tree_of(request)
    text = role.resreq or ("" if tree == ast.Simple() else render_requirement(tree))
    return {**render_role(role, job), "count": count, **({"resreq": text} if text else {})}


def render_role(role: Role, job: JobSpec) -> dict[str, Any]:
    """Return a role of a job as JSON values, but for its count and resource requirement."""
    found: dict[str, Any] = {"name": role.name}
    if role.command:
        found["command"] = role.command
    if role.env:
        found["env"] = dict(item.split("=", 1) for item in role.env)
    if role.launch is not (LaunchType.TASKS if job.runs_by_roles else LaunchType.SCRIPT):
        found["launch"] = role.launch.value
    if role.cwd:
        found["cwd"] = role.cwd
    if role.attach:
        found |= {"attach": list(role.attach), "per": "host"}
    if role.ready is not None:
        found["ready"] = _probe(role.ready)
    found |= {name: path for name, path in (("output", role.output), ("error", role.error)) if path}
    return found


def _probe(probe: Probe) -> dict[str, Any]:
    found: dict[str, Any] = {probe.kind: probe.target}
    plain = Probe(probe.kind, probe.target)
    if probe.period_us != plain.period_us:
        found["period"] = _span(probe.period_us)
    if probe.timeout_us != plain.timeout_us:
        found["timeout"] = _span(probe.timeout_us)
    if probe.failures_max:
        found["failures"] = probe.failures_max
    return found


def render_relation(relation: Relation) -> dict[str, Any]:
    """Return a relation as JSON values, its parameters beside the other keys."""
    found: dict[str, Any] = {"kind": relation.kind.value}
    for name, subjects in (
        ("from", relation.source),
        ("to", relation.target),
        ("roles", relation.roles),
    ):
        if subjects:
            found[name] = subjects[0] if len(subjects) == 1 else list(subjects)
    if relation.scope:
        found["scope"] = relation.scope
    if relation.kind.value in ("colocate", "spread", "exchange"):
        found["strength"] = "required" if relation.required else "preferred"
    found |= {name: int(value) if value.isdigit() else value for name, value in relation.params}
    return found


def _span(span_us: Micros) -> str:
    whole, rest = divmod(span_us, SECOND_US)
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    return f"{whole}{fraction}s" if span_us else ""


def _seconds(us: Micros) -> int | float:
    """Return microseconds in seconds; a whole number where it is one."""
    return us / SECOND_US if us % SECOND_US else us // SECOND_US


def _kib(kib: int) -> str:
    return f"{kib}K" if kib % 1024 or not kib else f"{kib // 1024}M"
