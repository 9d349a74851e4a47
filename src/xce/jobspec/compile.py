"""A jobspec to what is submitted: the request with its constraints, the roles, the relations."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
import yaml

from xce.config.document import Place
from xce.config.report import Report
from xce.jobspec.built import find_unbuilt
from xce.jobspec.constraints import compile_relations
from xce.jobspec.document import Spec
from xce.jobspec.lifecycle import check_lifecycle
from xce.jobspec.validate import check_spec
from xce.model.config import ClusterConfig
from xce.model.constraint import Constraint
from xce.model.errors import ConfigError, TextError
from xce.model.relation import GROUP_NAME, PLACING, Relation, RelationKind, Role
from xce.model.request import Part, Request
from xce.resreq import ast
from xce.resreq.built import refuse_not_built
from xce.resreq.compile import PARTS_MAX, compile_request, compile_tree, with_hosts
from xce.resreq.errors import HostListError, LanguageError, NotBuiltError, ResreqError
from xce.resreq.hosts import AskedHosts, parse_hosts
from xce.resreq.merge import merge_requirements, settle_same
from xce.resreq.schema import Schema

PLAIN_ROLE: Final = "part0"
"""The only role of a job that names none."""


class Asked(msgspec.Struct, frozen=True):
    """What a jobspec asks for."""

    request: Request
    roles: tuple[Role, ...]
    relations: tuple[Relation, ...]
    runs_by_roles: bool = False
    """Its roles run commands of their own."""


def compile_spec(
    spec: Spec,
    config: ClusterConfig,
    *,
    unit: str,
    hosts: str = "",
    exclusive: bool = False,
    group: str = "",
    request: Request | None = None,
) -> Asked:
    """Return what a jobspec asks for.

    Args:
        spec: What was read.
        config: The resources and levels there are.
        unit: The unit of a bare ``mem`` in requirements.
        hosts: As ``-m``.
        exclusive: As ``-x``.
        group: As ``--placement-group``; empty: none.
        request: What a job without roles asks for, hosts and all; None: read it from the jobspec.

    Raises:
        ConfigError: It makes no sense; every problem is named.
        LanguageError: A requirement or host list cannot be read, or is not built.
    """
    what, where = find_unbuilt(spec)
    if what:
        raise NotBuiltError(f"{what} is not built yet ({where})")
    if request is None:
        request = _request(spec, config, unit)
        missing = refuse_not_built(request, config=config, texts=spec.resreq)
        if missing is not None:
            raise missing
        if hosts or exclusive:
            asked = parse_hosts(hosts) if hosts else AskedHosts()
            request = with_hosts(request, asked, exclusive=exclusive)
    if group:
        spec = _with_group(spec, read_group(group, part_names(request, spec.roles)))
    check_spec(spec, request, config)
    check_lifecycle(spec)
    for place in spec.places[:1]:
        place.report.raise_if_any()
    constraints = compile_relations(spec.relations, config)
    whole = constrain(request, constraints)
    return Asked(whole, spec.roles, spec.relations, spec.runs_by_roles)


def compile_group(group: str, request: Request, config: ClusterConfig) -> Asked:
    """Return what a job without jobspec asks for that joins a placement group.

    Args:
        group: As `read_group` takes it.
        request: What the job asks for otherwise.
        config: The levels there are.

    Raises:
        ConfigError: It makes no sense.
        TextError: It cannot be read.
    """
    spec = _with_group(Spec(), read_group(group, part_names(request, ())))
    check_spec(spec, request, config)
    spec.places[0].report.raise_if_any()
    constraints = compile_relations(spec.relations, config)
    return Asked(constrain(request, constraints), (), spec.relations)


def read_group(text: str, names: tuple[str, ...]) -> Relation:
    """Return the relation of ``NAME[,pack|spread][,hard|soft][,LEVEL]``.

    Args:
        text: What was given.
        names: The roles of the job.

    Raises:
        TextError: It cannot be read.
    """
    name, *words = [word.strip() for word in text.split(",")]
    if not re.fullmatch(GROUP_NAME, name):
        raise TextError(
            f"{name[:80]!r} is no name of a placement group: expected {GROUP_NAME}, and behind it "
            "perhaps ,pack or ,spread and ,hard or ,soft and ,LEVEL"
        )
    modes = [word for word in words if word in ("pack", "spread")]
    strengths = [word for word in words if word in ("hard", "soft")]
    scopes = [word for word in words if word not in (*modes, *strengths)]
    if max(len(modes), len(strengths), len(scopes)) > 1 or "" in words:
        raise TextError(
            f"{text[:80]!r}: expected NAME, then at most one of pack and spread, one of hard and "
            "soft, and one level"
        )
    kind = RelationKind.SPREAD if modes == ["spread"] else RelationKind.COLOCATE
    return Relation(
        kind=kind,
        source=names,
        target=(f"group:{name}",),
        scope="".join(scopes),
        required=strengths != ["soft"],
    )


def part_names(request: Request, roles: Sequence[Role]) -> tuple[str, ...]:
    """Return the names of the roles that have an allocation."""
    forms = [one.request for one in request.alternatives] or [request]
    named = [role.name for role in roles if not role.attach]
    named = named or [part.name for form in forms for part in form.parts]
    return tuple(dict.fromkeys(named)) or (PLAIN_ROLE,)


def _with_group(spec: Spec, relation: Relation) -> Spec:
    place = Place("--placement-group", "", yaml.ScalarNode("", ""), Report())
    if spec.places:
        place = place._replace(report=spec.places[0].report)
    return msgspec.structs.replace(
        spec, relations=(*spec.relations, relation), places=(*spec.places, place)
    )


def constrain(request: Request, constraints: tuple[Constraint, ...]) -> Request:
    """Return a request with constraints: then it is compound, each way to run it too.

    Raises:
        NotBuiltError: It wants whole hosts.
    """
    if not constraints:
        return request
    replace = msgspec.structs.replace
    alternatives = tuple(
        replace(one, request=_compound(one.request)) for one in request.alternatives
    )
    whole = request if alternatives else _compound(request)
    return replace(whole, alternatives=alternatives, constraints=constraints)


def _compound(request: Request) -> Request:
    if request.parts:
        return request
    if request.whole_hosts:
        raise NotBuiltError(
            "-nnodes together with relations is not built yet: use span[ptile=n] and -n, which"
            " have a fixed number of tasks"
        )
    low, high = request.tasks_min, request.tasks_max
    whole = Request(
        tasks_min=low,
        tasks_max=high,
        parts=(Part(PLAIN_ROLE, low, request, high if high > low else 0),),
    )
    return whole.on_hosts_of(request)


def _request(spec: Spec, config: ClusterConfig, unit: str) -> Request:
    """Return the request of roles, or of the requirement of the whole job."""
    placed = [(number, role) for number, role in enumerate(spec.roles) if not role.attach]
    if not placed:
        return compile_request(spec.resreq, config=config, tasks=spec.tasks, unit=unit)
    if len(placed) > PARTS_MAX:
        raise ResreqError(f"a job may have {PARTS_MAX} roles with an allocation")
    schema = Schema(config)
    trees = [_tree(spec, number, role, schema, unit) for number, role in placed]
    is_plain = not any(relation.kind in PLACING for relation in spec.relations)
    if len(placed) == 1 and is_plain and not spec.same:
        role = placed[0][1]
        request = compile_tree(trees[0], spec.tasks or (role.count, role.count))
    else:
        # Only the one role of a job may have a range, which stands with the job.
        parts = tuple(
            ast.CompoundPart(role.count if spec.tasks is None else 0, tree, role.name)
            for (_, role), tree in zip(placed, trees, strict=True)
        )
        request = compile_tree(ast.Compound(parts, _same(spec, schema)), spec.tasks)
    return request


def _same(spec: Spec, schema: Schema) -> tuple[str, ...]:
    """Return the attributes that have one value over all roles."""
    try:
        return settle_same(spec.same, schema)
    except ResreqError as error:
        raise ConfigError(f"same: {error.message}") from error


def _tree(spec: Spec, number: int, role: Role, schema: Schema, unit: str) -> ast.Simple:
    """Return the requirement of a role."""
    if not role.resreq:
        return ast.Simple()
    place = spec.role_place(number).inner("resreq", spec.role_place(number).node)
    try:
        tree = merge_requirements([role.resreq], schema, unit)
    except (NotBuiltError, HostListError):
        raise
    except (LanguageError, TextError) as error:
        column = f" (column {error.column})" if error.column else ""
        place.problem(f"{error.message}{column}")
        place.report.raise_if_any()
        raise ConfigError(error.message) from error
    groups = tree.rusage.groups if isinstance(tree, ast.Simple) and tree.rusage else ((),)
    if not isinstance(tree, ast.Simple) or len(groups) > 1:
        place.problem(
            f"role {role.name!r} has parts or alternatives of its own: they belong to the whole "
            "job, whose 'resreq' takes them"
        )
        place.report.raise_if_any()
        raise AssertionError
    return tree
