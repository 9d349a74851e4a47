from specs import site

from xce.jobspec.constraints import levels_of, scope_of, weight_of
from xce.model.relation import Relation, RelationKind


def relation(kind: RelationKind, scope: str = "", **params: str) -> Relation:
    return Relation(kind, roles=("a",), scope=scope, params=tuple(sorted(params.items())))


def test_scopes_have_defaults():
    config = site()
    assert levels_of(config) == ("host", "switch", "block")
    assert scope_of(relation(RelationKind.COLOCATE), config) == "switch"
    assert scope_of(relation(RelationKind.SPREAD), config) == "host"
    assert scope_of(relation(RelationKind.ISOLATE), config) == "host"
    assert scope_of(relation(RelationKind.EXCHANGE, channel="localdisk"), config) == "host"
    assert scope_of(relation(RelationKind.EXCHANGE), config) == "switch"
    assert scope_of(relation(RelationKind.EXCHANGE, channel="sharedfs"), config) == ""
    assert scope_of(relation(RelationKind.EXCHANGE, "block", channel="sharedfs"), config) == "block"
    assert scope_of(relation(RelationKind.FATE), config) == ""


def test_weights_grow_with_what_goes_over():
    assert weight_of(relation(RelationKind.EXCHANGE)) == 1
    assert weight_of(relation(RelationKind.EXCHANGE, bandwidth="1G")) == 11
    assert weight_of(relation(RelationKind.EXCHANGE, bandwidth="2G")) == 12
    assert weight_of(relation(RelationKind.EXCHANGE, bandwidth="2G", rdma="true")) == 24
    assert weight_of(relation(RelationKind.EXCHANGE, bandwidth="2G", weight="3")) == 3
    assert weight_of(relation(RelationKind.EXCHANGE, bandwidth="9T", volume="9999T")) == 59
