"""``-R``, ``-n``, ``-m`` and ``-x``: what they come down to."""

from typing import Final

import msgspec

from xce.cli.explain.cluster import Cluster
from xce.config.names import SIZE_COUNTERS
from xce.model.config import ClusterConfig, ResourceConfig
from xce.model.request import Request
from xce.resreq import ast
from xce.resreq.built import refuse_not_built
from xce.resreq.compile import compile_tree, on_whole_hosts, told_in
from xce.resreq.errors import NotBuiltError
from xce.resreq.hosts import parse_hosts
from xce.resreq.merge import merge_requirements
from xce.resreq.render import render_requirement
from xce.resreq.schema import Schema

REFUSED: Final = "a submit of this release refuses it: "


class Role(msgspec.Struct, frozen=True):
    """One part of a compound request."""

    name: str
    n: int
    resreq: str


class Choice(msgspec.Struct, frozen=True):
    """One alternative, in the order in which they are tried."""

    n: tuple[int, int]
    resreq: str
    delay_min: int
    roles: list[Role]


class Reading(msgspec.Struct, frozen=True):
    """What the requirement says."""

    n: tuple[int, int]
    """Fewest and most tasks."""
    resreq: str
    """In canonical text: sizes in MiB, counters in their own unit."""
    roles: list[Role]
    alternatives: list[Choice]
    warnings: list[str]


def read_requirement(
    texts: list[str], tasks: tuple[int, int] | None, unit: str, cluster: Cluster, nodes: int = 0
) -> Reading:
    """Return what requirement texts say; resources that do not exist are only warned of.

    Args:
        texts: Those of ``-R``.
        tasks: Those of ``-n``; None: not said.
        unit: The unit of a bare ``mem``.
        cluster: What there is.
        nodes: ``-nnodes``; 0: not said.

    Raises:
        ResreqError: A text cannot be read, or does not fit together.
    """
    schema = Schema(cluster.config, is_open=True)
    tree = merge_requirements(texts, schema, unit)
    warnings: list[str] = []
    if not cluster.trouble:
        for name, section in schema.unknown.items():
            what = "topology level" if section == "cu" else "resource"
            warnings.append(f"no {what} is called {name!r}, as {section}[] says")
    missing: NotBuiltError | None = None
    try:
        with told_in(texts):
            request = compile_tree(tree, tasks)
            if nodes:
                on_whole_hosts(request, nodes)
        missing = refuse_not_built(request, config=_assumed(cluster), texts=texts)
    except NotBuiltError as error:
        request, missing = Request(*(tasks or (1, 1))), error
    if missing is not None:
        warnings.append(REFUSED + missing.message)
    if isinstance(tree, ast.Compound):
        tree = _counted(tree, request)
    return Reading(
        n=(request.tasks_min, request.tasks_max),
        resreq=render_requirement(tree),
        roles=_roles(tree),
        alternatives=_choices(tree, tasks),
        warnings=warnings,
    )


def read_hosts(text: str, cluster: Cluster) -> tuple[list[str], list[str]]:
    """Return the names of ``-m`` as they were given, and what is wrong with them.

    Raises:
        HostListError: It is no host list.
    """
    warnings = []
    for name in parse_hosts(text).names:
        if not cluster.trouble and name not in cluster.hosts:
            warnings.append(f"no host is called {name!r}")
    return text.split(), warnings


def _assumed(cluster: Cluster) -> ClusterConfig:
    """Return the configuration; where no cluster answers, one with all that hosts may offer."""
    if not cluster.trouble:
        return cluster.config
    sizes = (ResourceConfig(name=name, kind="counter", unit="MB") for name in SIZE_COUNTERS)
    return msgspec.structs.replace(cluster.config, resources=(*cluster.config.resources, *sizes))


def _counted(compound: ast.Compound, request: Request) -> ast.Compound:
    """Return the tree with the number of a last part that left it out."""
    if not request.parts:
        return compound
    return msgspec.structs.replace(
        compound,
        parts=tuple(
            msgspec.structs.replace(part, count=0 if made.is_ranged else made.tasks)
            for part, made in zip(compound.parts, request.parts, strict=True)
        ),
    )


def _roles(tree: ast.Requirement) -> list[Role]:
    if not isinstance(tree, ast.Compound):
        return []
    return [
        Role(part.name or f"part{place}", part.count, render_requirement(part.simple))
        for place, part in enumerate(tree.parts)
    ]


def _choices(tree: ast.Requirement, tasks: tuple[int, int] | None) -> list[Choice]:
    if not isinstance(tree, ast.Alternatives):
        return []
    found = []
    for choice in tree.choices:
        inner = choice.requirement
        try:
            request = compile_tree(inner, tasks)
        except NotBuiltError:
            request = Request(*(tasks or (1, 1)))
        if isinstance(inner, ast.Compound):
            inner = _counted(inner, request)
        found.append(
            Choice(
                (request.tasks_min, request.tasks_max),
                render_requirement(inner),
                max(0, choice.delay_min),
                _roles(inner),
            )
        )
    return found
