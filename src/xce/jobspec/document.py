"""A jobspec's text to values, each problem with its line and key."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from xce.config.document import (
    Key,
    Place,
    Table,
    each_item,
    each_pair,
    open_document,
    read_mapping,
    scalar_text,
)
from xce.config.report import Problem, Report, render_allowed
from xce.config.values import (
    read_choice,
    read_count,
    read_flag,
    read_name,
    read_span,
)
from xce.jobspec.relations import read_relation
from xce.jobspec.values import (
    MANNER,
    TEXT_MAX,
    read_gpu,
    read_instant,
    read_kib,
    read_line,
    read_requirements,
    read_seconds,
    read_text,
    read_texts,
)
from xce.model.errors import TextError
from xce.model.relation import (
    LIFECYCLE,
    RELATIONS_MAX,
    ROLE_NAME,
    ROLES_MAX,
    LaunchType,
    Probe,
    Relation,
    Role,
)
from xce.model.request import TASKS_MAX

VERSION: Final = "1"
UNITS: Final = ("KB", "MB", "GB", "TB", "classic", "cluster")
"""Units of bare sizes in ``resreq``; ``cluster``: what the cluster is set to."""
SPEC_BYTES_MAX: Final = 256 * 1024
ENV_MAX: Final = 1_000
_PART: Final = re.compile(r"part\d+")
_RANGE: Final = re.compile(r"(\d{1,9})\s*[-,]\s*(\d{1,9})")
_PORT: Final = r"(?:\d{1,5}|\$\w{1,128}|\$\{\w{1,128}\})"
_TCP: Final = re.compile(_PORT)
_HTTP: Final = re.compile(rf"{_PORT}(?:/[!-~]*)?")


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What a jobspec says."""

    fields: dict[str, Any] = {}
    """Members of a submission, as REST names them."""
    env: tuple[str, ...] = ()
    """``NAME=value``, beside those of the submitter."""
    roles: tuple[Role, ...] = ()
    tasks: tuple[int, int] | None = None
    """Of the only role, when its count is a range; with ``resreq`` as ``-n``."""
    resreq: tuple[str, ...] = ()
    """The requirement of the whole job as with ``-R``, in place of those of roles."""
    same: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    places: tuple[Place, ...] = ()
    """Where the roles stand, then where the relations do."""
    runs_by_roles: bool = False
    """Its roles run commands of their own, as its relations say."""

    def role_place(self, number: int) -> Place:
        """Return where a role stands in the document."""
        return self.places[number]

    def relation_place(self, number: int) -> Place:
        """Return where a relation stands in the document."""
        return self.places[len(self.roles) + number]


def read_spec(text: str, *, file: str = "jobspec") -> Spec:
    """Return what a jobspec says.

    Args:
        text: YAML or JSON.
        file: What to call it where something is wrong.

    Raises:
        ConfigError: It cannot be read; every problem is named with its line.
    """
    report = Report()
    if len(text.encode("utf-8", "surrogatepass")) > SPEC_BYTES_MAX:
        report.add(Problem(file, 0, "", f"is larger than {SPEC_BYTES_MAX // 1024} KiB"))
        report.raise_if_any()
    top = open_document(file, text, report)
    report.raise_if_any()
    if top is None:
        report.add(Problem(file, 0, "", "is empty: expected at least version, roles, command"))
        report.raise_if_any()
        raise AssertionError
    spec = _read_top(top)
    report.raise_if_any()
    return spec


class _Read(NamedTuple):
    """A role as it was read."""

    role: Role
    tasks: tuple[int, int] | None
    """Where its count is a range."""
    has_launch: bool


def _read_top(top: Place) -> Spec:
    found = read_mapping(top, _TOP)
    read: list[_Read] = found.pop("roles", [])
    relations: list[Relation] = found.pop("relations", [])
    ranges = [one for one in read if one.tasks is not None]
    tasks = found.pop("tasks", None)
    resreq: tuple[str, ...] = found.pop("resreq", ())
    _check_whole(top, found, resreq, tasks, has_roles=bool(read))
    if ranges and len(read) > 1:
        top.problem(f"role {ranges[0].role.name!r} has a range of tasks: only a job of one "
                    "role may have one")  # fmt: skip
    _check_roles(top, [one.role for one in read])
    if ranges and tasks is None:
        tasks = ranges[0].tasks
    has_command = not {"command", "script"}.isdisjoint(found)
    if has_command and len(read) == 1 and read[0].role.command:
        top.problem("the command stands twice: with the job and with its only role")
    unit = found.pop("unit", "MB" if resreq else "cluster")
    if not read:
        found |= _whole_fields(resreq, tasks, unit)
    env = found.pop("env", ())
    same = found.pop("same", ())
    fields = {name: value for name, value in found.items() if name != "version"}
    by_roles = _runs_by_roles([one.role for one in read], relations, has_command=has_command)
    if len(read) == 1 and not by_roles:
        env = _joined(env, read[0].role.env)
        fields |= _own_fields(read[0].role)
    return Spec(
        env=env,
        same=same,
        fields=fields,
        roles=tuple(_launched(one, by_roles=by_roles) for one in read),
        tasks=tasks,
        resreq=resreq,
        relations=tuple(relations),
        places=(*_items(top, "roles"), *_items(top, "relations")),
        runs_by_roles=by_roles,
    )


def _check_whole(
    top: Place,
    found: Mapping[str, Any],
    resreq: tuple[str, ...],
    tasks: tuple[int, int] | None,
    *,
    has_roles: bool,
) -> None:
    """Report what is said of the whole job and belongs to its roles, and the other way round."""
    if has_roles and (resreq or tasks is not None):
        top.problem("give either roles, or resreq and tasks of the whole job")
    taken = [name for name in ("nodes", "gpu", "unit") if name in found]
    if has_roles and taken:
        top.problem(f"{taken[0]!r} is of a job without roles: say it in their resreq")
    if not has_roles and found.get("same"):
        top.problem("'same' is of jobs with roles: say same[] in resreq")


def _check_roles(top: Place, roles: list[Role]) -> None:
    """Report roles that cannot be beside each other."""
    names: set[str] = set()
    tasks = 0
    for role, place in zip(roles, _items(top, "roles"), strict=False):
        if role.name in names:
            place.problem(f"two roles are called {role.name!r}")
        names.add(role.name)
        tasks += role.count
        if tasks > TASKS_MAX:
            place.problem(f"the roles have more than {TASKS_MAX} tasks")
            break
    if roles and all(role.attach for role in roles):
        top.problem("all roles are attached: one must have an allocation")


def _whole_fields(
    resreq: tuple[str, ...], tasks: tuple[int, int] | None, unit: str
) -> dict[str, Any]:
    """Return the members of a submission that ask for what a job without roles needs."""
    found: dict[str, Any] = {}
    if resreq:
        found["resreq"] = list(resreq)
    if unit != "cluster":
        found["unit_for_limits"] = unit
    if tasks is not None:
        found["tasks"] = list(tasks)
    return found


def _runs_by_roles(roles: list[Role], relations: list[Relation], *, has_command: bool) -> bool:
    """Return whether roles run commands of their own: one command for all is the job's."""
    if any(relation.kind in LIFECYCLE for relation in relations):
        return bool(roles)
    if any(role.attach or role.ready is not None for role in roles):
        return True
    if len(roles) < 2:
        return False
    commands = [number for number, role in enumerate(roles) if role.command]
    is_one = len(commands) + has_command < 2 and commands in ([], [0])
    return not is_one or any(role.env or role.cwd or role.output or role.error for role in roles)


def _launched(one: _Read, *, by_roles: bool) -> Role:
    """Return a role with its launch type: what runs by roles starts every task."""
    if one.has_launch or not by_roles:
        return one.role
    return msgspec.structs.replace(one.role, launch=LaunchType.TASKS)


def _joined(env: tuple[str, ...], over: tuple[str, ...]) -> tuple[str, ...]:
    """Return variables with others over them."""
    named = {item.partition("=")[0] for item in over}
    kept = [item for item in env if item.partition("=")[0] not in named]
    return tuple(sorted([*kept, *over]))


def _own_fields(role: Role) -> dict[str, Any]:
    """Return what the only role says of the job."""
    given = {"cwd_given": role.cwd, "output": role.output, "error": role.error}
    return {name: value for name, value in given.items() if value}


def _items(top: Place, key: str) -> tuple[Place, ...]:
    """Return where the items of a list stand."""
    if isinstance(top.node, yaml.MappingNode):
        for key_node, value_node in top.node.value:
            if getattr(key_node, "value", None) == key and isinstance(
                value_node, yaml.SequenceNode
            ):
                inner = top.inner(key, value_node)
                return tuple(
                    inner.inner(f"[{number}]", node)
                    for number, node in enumerate(value_node.value, start=1)
                )
    return ()


def _read_version(place: Place) -> str:
    text = scalar_text(place)
    if text != VERSION:
        raise TextError(f"version {text[:20]!r} is not known: this release reads version {VERSION}")
    return text


def _read_env(place: Place) -> tuple[str, ...]:
    found = []
    for name, value in each_pair(place, "variables"):
        text = read_text(value)
        if not name or "=" in name or any(mark.isspace() or mark == "\0" for mark in name):
            value.problem(f"{name[:60]!r} is no name of a variable")
        found.append(f"{name}={text}")
    if len(found) > ENV_MAX:
        raise TextError(f"has {len(found)} variables: at most {ENV_MAX} are allowed")
    return tuple(sorted(found))


def _read_same(place: Place) -> tuple[str, ...]:
    if not isinstance(place.node, yaml.SequenceNode):
        return tuple(sorted(part.strip() for part in scalar_text(place).split(":")))
    return tuple(sorted(scalar_text(item) for item in each_item(place, "attributes")))


def _read_tasks(place: Place) -> tuple[int, int]:
    """Read ``4``, ``2-4`` or ``[2, 4]``."""
    if isinstance(place.node, yaml.SequenceNode):
        read = read_count(1, TASKS_MAX)
        found = [read(item) for item in each_item(place, "two numbers")]
        if len(found) != 2:
            raise TextError("expected two numbers, the smaller one first")
        least, most = found
    else:
        match = _RANGE.fullmatch(scalar_text(place).strip())
        if match is None:
            least = most = read_count(1, TASKS_MAX)(place)
        else:
            least, most = int(match[1]), int(match[2])
    if not 1 <= least <= most <= TASKS_MAX:
        raise TextError(f"{least} to {most}: expected 1 to {TASKS_MAX}, the smaller one first")
    return least, most


def _read_roles(place: Place) -> list[_Read]:
    found: list[_Read] = []
    for item in each_item(place, "roles"):
        read = _read_role(item, len(found))
        if read is not None:
            found.append(read)
    if len(found) > ROLES_MAX:
        raise TextError(f"has {len(found)} roles: at most {ROLES_MAX} are allowed")
    return found


def _read_role(place: Place, number: int) -> _Read | None:
    fields = read_mapping(place, _ROLE)
    per_host = fields.pop("per", "") == "host"
    count = fields.pop("count", None)
    name = fields.get("name", "")
    has_launch = "launch" in fields
    if not name:
        return None
    if _PART.fullmatch(name) and name != f"part{number}":
        place.problem(f"{name!r}: names of the form part<number> are those of roles without name")
    attach = fields.get("attach", ())
    if attach:
        if count is not None:
            place.problem(f"role {name!r} is attached, so it has no count: one task on each host")
        if fields.get("resreq"):
            place.problem(
                f"role {name!r} is attached, so it shares the allocation and has no resreq"
            )
        return _Read(Role(**fields, count=0), None, has_launch)
    if per_host:
        place.problem(f"role {name!r}: per: host is for attached roles; give it attach: [...]")
    least, most = count or (1, 1)
    tasks = (least, most) if least < most else None
    return _Read(Role(**fields, count=most), tasks, has_launch)


def _read_names(place: Place) -> tuple[str, ...]:
    if not isinstance(place.node, yaml.SequenceNode):
        return (scalar_text(place),)
    return tuple(dict.fromkeys(scalar_text(item) for item in each_item(place, "names of roles")))


def _read_launch(place: Place) -> LaunchType:
    return LaunchType(read_choice(*LaunchType)(place))


def _read_probe(place: Place) -> Probe | None:
    """Read ``{tcp: 8000, period: 1s, timeout: 1s, failures: 30}``."""
    fields = read_mapping(place, _PROBE)
    kinds = [kind for kind in ("exec", "tcp", "http") if kind in fields]
    if len(kinds) != 1:
        raise TextError("expected one of exec, tcp, http")
    target = fields.pop(kinds[0])
    form = {"tcp": _TCP, "http": _HTTP}.get(kinds[0])
    if form is not None and not form.fullmatch(target):
        path = ", perhaps with a path" if kinds[0] == "http" else ""
        raise TextError(f"{target[:60]!r}: expected a port or $VARIABLE{path}")
    return Probe(kinds[0], target, **fields)


def _read_relations(place: Place) -> list[Relation]:
    found: list[Relation] = []
    for item in each_item(place, "relations"):
        relation = read_relation(item)
        if relation is not None:
            found.append(relation)
    if len(found) > RELATIONS_MAX:
        raise TextError(f"has {len(found)} relations: at most {RELATIONS_MAX} are allowed")
    return found


_PROBE: Final = Table(
    noun="a probe",
    keys={
        "exec": Key("exec", read_text),
        "tcp": Key("tcp", read_line(128)),
        "http": Key("http", read_line(1024)),
        "period": Key("period_us", read_span),
        "timeout": Key("timeout_us", read_span),
        "failures": Key("failures_max", read_count(1, 10**6)),
    },
)
_ROLE: Final = Table(
    noun="a role",
    keys={
        "name": Key("name", read_name(re.compile(ROLE_NAME), "a role", ())),
        "count": Key("count", _read_tasks),
        "per": Key("per", read_choice("host")),
        "resreq": Key("resreq", read_text),
        "command": Key("command", read_text),
        "env": Key("env", _read_env),
        "launch": Key("launch", _read_launch),
        "cwd": Key("cwd", read_line(4096)),
        "attach": Key("attach", _read_names),
        "ready": Key("ready", _read_probe),
        "output": Key("output", read_line(4096)),
        "error": Key("error", read_line(4096)),
    },
    required=("name",),
)
_TOP: Final = Table(
    noun="a jobspec",
    keys={
        "version": Key("version", _read_version),
        "name": Key("name", read_line(1024)),
        "queue": Key("queue", read_line(1024)),
        "project": Key("project", read_line(511)),
        "command": Key("command", read_text),
        "script": Key("script", read_text),
        "script_name": Key("script_name", read_line(4096)),
        "args": Key("args", read_texts),
        "env": Key("env", _read_env),
        "cwd": Key("cwd_given", read_line(4096)),
        "input": Key("input", read_line(4096)),
        "output": Key("output", read_line(4096)),
        "error": Key("error", read_line(4096)),
        "output_append": Key("output_append", read_flag),
        "error_append": Key("error_append", read_flag),
        "run_limit": Key("run_limit_s", read_seconds),
        "estimate": Key("estimate_s", read_seconds),
        "mem_limit": Key("mem_limit_kib", read_kib),
        "begin_at": Key("begin_at", read_instant),
        "deadline_at": Key("deadline_at", read_instant),
        "dependency": Key("dependency", read_text),
        "hold": Key("hold", read_flag),
        "priority": Key("priority", read_count(-(1 << 31), 1 << 31)),
        "array": Key("array", read_line(TEXT_MAX)),
        "hosts": Key("hosts", read_text),
        "exclusive": Key("exclusive", read_flag),
        "rerunnable": Key("rerunnable", read_flag),
        **MANNER,
        "resreq": Key("resreq", read_requirements),
        "unit": Key("unit", read_choice(*UNITS)),
        "gpu": Key("gpu", read_gpu),
        "tasks": Key("tasks", _read_tasks),
        "nodes": Key("nodes", read_count(1, TASKS_MAX)),
        "same": Key("same", _read_same),
        "roles": Key("roles", _read_roles),
        "relations": Key("relations", _read_relations),
    },
    required=("version",),
    not_built=frozenset({"data", "claims", "service"}),
)
KEYS: Final[Mapping[str, Key]] = _TOP.keys
"""By key of a jobspec: the member of a submission that takes it."""


def known_keys(word: str) -> str:
    """Return what may stand instead of a key."""
    return render_allowed(word, _TOP.keys)
