"""Relations to constraints on placement."""

from collections.abc import Sequence
from typing import Final

from xce.jobspec.relations import WEIGHT_MAX, bandwidth_mbit, is_outside, span_us
from xce.model.config import LEVELS, ClusterConfig
from xce.model.constraint import Colocate, Constraint, Exclusive, Near, Spread
from xce.model.relation import PLACING, Relation, RelationKind
from xce.model.units import parse_size_mib

OWN_LEVEL: Final = "host"
NVLINK: Final = "nvlink"
_LOCAL: Final = frozenset({"shm", "localdisk"})


def levels_of(config: ClusterConfig) -> tuple[str, ...]:
    """Return all levels of domains, the narrowest first, from hosts on."""
    return (OWN_LEVEL, *(config.levels or LEVELS))


def scope_of(relation: Relation, config: ClusterConfig) -> str:
    """Return the level that a relation is about; empty: it asks nothing of placement."""
    match relation.kind:
        case RelationKind.COLOCATE:
            return relation.scope or config.domain_level("")
        case RelationKind.SPREAD | RelationKind.ISOLATE:
            return relation.scope or OWN_LEVEL
        case RelationKind.EXCHANGE if relation.param("channel", "network") in _LOCAL:
            return OWN_LEVEL
        case RelationKind.EXCHANGE if relation.param("channel", "network") == "network":
            return relation.scope or config.domain_level("")
        case RelationKind.EXCHANGE:
            return relation.scope
        case _:
            return ""


def compile_relations(
    relations: Sequence[Relation], config: ClusterConfig
) -> tuple[Constraint, ...]:
    """Return what relations ask of placement, in their order.

    Args:
        relations: Checked by `xce.jobspec.validate`.
        config: Knows the levels.
    """
    found: list[Constraint] = []
    for number, relation in enumerate(relations):
        if relation.kind in PLACING:
            found += _compile(number, relation, config)
    return tuple(found)


def _compile(number: int, relation: Relation, config: ClusterConfig) -> list[Constraint]:
    scope = scope_of(relation, config)
    roles = tuple(sorted(name for name in relation.subjects if not is_outside(name)))
    outside = [name for name in relation.subjects if is_outside(name)]
    relax_us = span_us(relation.param("relax_after", "0s"))
    weight, required = weight_of(relation), relation.required
    if not scope:
        return []
    if relation.kind is RelationKind.ISOLATE:
        return [Exclusive(number, roles, scope)]
    levels: tuple[str, ...] = (scope,)
    if relax_us or not required:
        levels = levels_of(config)
        levels = levels[levels.index(scope) :] if scope in levels else (scope, *levels)
    if relation.kind is RelationKind.SPREAD and outside:
        return [
            Near(number, roles, outside[0], (scope,), True, required, weight, relax_us),
        ]
    if relation.kind is RelationKind.SPREAD:
        most = int(relation.param("max_per_domain", "1"))
        return [Spread(number, roles, scope, most, required, weight, relax_us)]
    together = Colocate(number, roles, levels, required, weight, relax_us)
    if not outside:
        return [together]
    return [together, Near(number, roles, outside[0], levels, False, required, weight, relax_us)]


def weight_of(relation: Relation) -> int:
    """Return how much a preferred relation weighs: as given, else by how much data goes.

    Each doubling of bandwidth (from 1 Mbit/s) or volume (from 1 MiB) weighs one more; RDMA twice.
    """
    given = relation.param("weight")
    if given:
        return int(given)
    weight = 1
    if relation.param("bandwidth"):
        weight += bandwidth_mbit(relation.param("bandwidth")).bit_length()
    if relation.param("volume"):
        weight += parse_size_mib(relation.param("volume")).bit_length()
    if relation.param("rdma") == "true":
        weight *= 2
    return min(weight, WEIGHT_MAX)
