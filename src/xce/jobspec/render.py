"""A job back to its jobspec, whichever way it was submitted: what `read_spec` takes again."""

from collections.abc import Mapping
from typing import Any, Final

from xce.model.ids import SECOND_US, Micros
from xce.model.job import JobSpec
from xce.model.relation import LaunchType, Probe, Relation, Role
from xce.model.request import ClassKey, Request
from xce.resreq import ast
from xce.resreq.render import render_requirement
from xce.resreq.tree import tree_of

VERSION: Final = 1
PLAIN_ROLE: Final = "part0"


def render_spec(job: JobSpec, key: ClassKey, *, script: str = "") -> dict[str, Any]:
    """Return the jobspec of a job as JSON values, keys in the order of the documentation.

    Args:
        job: What runs.
        key: Its request, queue, project and limits.
        script: The text that runs; empty: it is not kept any more, and what listings show counts.
    """
    found: dict[str, Any] = {"version": VERSION}
    text = script.rstrip("\n")
    is_script = bool(job.args) or "\n" in text
    own = next((role for role in job.roles if not role.attach), None)
    if is_script:
        found["script"] = script
    elif own is None or own.command != (text or job.command) or _leave_to_job(job):
        found["command"] = text or job.command
    given: Mapping[str, Any] = {
        "args": list(job.args),
        "name": job.name,
        "queue": key.queue,
        "project": key.project,
        "cwd": job.cwd_asked,
        "input": job.files.input,
        "output": job.files.output,
        "error": job.files.error,
        "run_limit": _span(key.run_limit_us),
        "estimate": _span(key.estimate_us),
        "mem_limit": f"{-(-job.mem_limit_kib // 1024)}M" if job.mem_limit_kib else "",
        "dependency": job.dependency,
        "priority": key.priority,
        "array": job.array,
        "hosts": job.hosts_asked,
        "exclusive": key.request.exclusive,
        "rerunnable": job.rerunnable,
    }
    found |= {name: value for name, value in given.items() if value}
    found |= {
        name: False
        for name, path, append in (
            ("output_append", job.files.output, job.files.output_append),
            ("error_append", job.files.error, job.files.error_append),
        )
        if path and not append
    }
    found |= _asked(job, key.request)
    if job.relations:
        found["relations"] = [render_relation(relation) for relation in job.relations]
    return found


def _leave_to_job(job: JobSpec) -> bool:
    """Whether roles run the job's command, so that it must be said."""
    return job.runs_by_roles and any(not role.command for role in job.roles)


def _asked(job: JobSpec, request: Request) -> dict[str, Any]:
    """Return the roles, or the requirement of a job that has alternatives."""
    if request.alternatives:
        found: dict[str, Any] = {"resreq": render_requirement(tree_of(request))}
        simple = [one.request for one in request.alternatives if not one.request.parts]
        if simple:
            found["tasks"] = _tasks(request.tasks_min, request.tasks_max)
        return found
    attached = [render_role(role, job) for role in job.roles if role.attach]
    placed = {role.name: role for role in job.roles if not role.attach}
    if not request.parts:
        role = next(iter(placed.values()), Role(PLAIN_ROLE))
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
    text = "" if tree == ast.Simple() else render_requirement(tree)
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
    return f"{-(-span_us // SECOND_US)}s" if span_us else ""
