import pytest
from specs import with_relations

from xce.jobspec.document import read_spec
from xce.jobspec.relations import KINDS, bandwidth_mbit
from xce.model.errors import ConfigError
from xce.model.relation import Relation, RelationKind


def read(text: str) -> Relation:
    (found,) = read_spec(with_relations(text)).relations
    return found


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        read(text)
    return str(error.value)


def test_flat_keys_and_params_mean_the_same():
    flat = read("kind: spread, roles: a, scope: host, max_per_domain: 2")
    assert flat == read("kind: spread, roles: [role:a], scope: host, params: {max_per_domain: 2}")
    assert flat.param("max_per_domain") == "2"
    assert flat.required


def test_data_over_one_host_is_required_and_over_the_network_preferred():
    assert read("kind: exchange, from: a, to: b, channel: shm").required
    assert not read("kind: exchange, from: a, to: b, channel: network").required
    assert not read("kind: exchange, from: a, to: b").required


def test_subjects_outside_are_jobs_and_groups():
    assert read("kind: colocate, from: a, to: 'group:exp'").target == ("group:exp",)
    assert read("kind: spread, from: a, to: 'job:12'").target == ("job:12",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("roles: a", "needs the key 'kind'"),
        ("kind: colocat, roles: a", "did you mean"),
        ("kind: share, roles: a", "'share' are not built yet"),
        ("kind: consumes, from: a, to: b", "'consumes' are not built yet"),
        ("kind: colocate, from: a, to: 'data:llama'", "data: as a subject of relations is not"),
        ("kind: colocate, from: a, to: 'claim:x'", "claim: as a subject of relations is not"),
        ("kind: colocate, from: a, to: 'node:x'", "'node' is no kind of subject"),
        ("kind: colocate, from: a, to: 'group:-'", "no name of a group"),
        ("kind: colocate, roles: a, to: x.y", "no name of a role"),
        ("kind: colocate, roles: a, from: b, to: c, strength: hard", "'hard' is not known"),
        ("kind: fate, roles: a, scope: host", "has no scope"),
        ("kind: fate, roles: a, strength: required", "has no strength"),
        ("kind: colocate, roles: a, max_per_domain: 2", "has no 'max_per_domain'"),
        ("kind: spread, roles: a, max_per_domain: 0", "out of range"),
        ("kind: spread, roles: a, weight: 2, params: {weight: 3}", "stands twice"),
        ("kind: exchange, roles: [a, b]", "needs from and to"),
        ("kind: exchange, from: a, to: [a, b]", "'a' stands on both sides"),
        ("kind: exchange, from: a, to: b, bandwidth: fast", "no bandwidth"),
        ("kind: init-of, from: a, to: 'job:12'", "is between roles"),
        ("kind: colocate", "needs roles, or from and to"),
        ("kind: colocate, from: 'group:x', to: 'group:x'", "names no role of this job"),
        ("kind: colocate, roles: [a, 'group:x', 'job:1']", "one group or job at a time"),
        ("kind: after, from: a, to: 'job:12'", "'dependency' waits for other jobs"),
    ],
)
def test_what_cannot_be_is_said(text: str, words: str):
    assert words in refused(text)


def test_every_kind_is_read_or_refused_by_name():
    missing = set(RelationKind) - set(KINDS)
    assert missing == {RelationKind.SHARE, RelationKind.CONSUMES, RelationKind.PRODUCES}


def test_bandwidths_are_in_bits():
    assert bandwidth_mbit("200G") == 200_000
    assert bandwidth_mbit("1") == 1
