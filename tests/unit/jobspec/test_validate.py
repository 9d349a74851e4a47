import pytest
from specs import asked, with_relations

from xce.jobspec.compile import compile_spec
from xce.jobspec.document import read_spec
from xce.model.errors import ConfigError
from xce.testing.builders import config


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        asked(text)
    return str(error.value)


@pytest.mark.parametrize(
    ("relations", "words"),
    [
        (
            ("kind: colocate, roles: a, scope: host", "kind: spread, roles: a"),
            "relation 2 (spread a) allows 1 of a in one host, and relation 1 (colocate a",
        ),
        (
            ("kind: colocate, roles: [a, b], scope: switch",
             "kind: spread, roles: [a, b], scope: block, max_per_domain: 3"),
            "puts all 4 tasks into one",
        ),
        (
            ("kind: colocate, roles: [a, c], scope: switch",
             "kind: colocate, roles: [b, c], scope: switch",
             "kind: spread, roles: [a, b], scope: switch, max_per_domain: 3"),
            "they contradict each other",
        ),
        (
            ("kind: exchange, from: a, to: b, channel: shm",
             "kind: spread, roles: [a, b], scope: host"),
            "they contradict each other",
        ),
        (
            ("kind: colocate, from: a, to: 'job:1', scope: switch",
             "kind: spread, from: a, to: 'job:1', scope: block"),
            "contradict each other",
        ),
        (
            ("kind: colocate, from: a, to: 'group:g', scope: host",
             "kind: isolate, roles: a, scope: block"),
            "wants none there",
        ),
    ],
)  # fmt: skip
def test_contradictions_are_refused_by_the_name_of_the_relation(relations, words):
    assert words in refused(with_relations(*relations))


@pytest.mark.parametrize(
    "relations",
    [
        ("kind: colocate, roles: a, scope: block", "kind: spread, roles: a, scope: switch"),
        ("kind: colocate, roles: a, scope: host, strength: preferred", "kind: spread, roles: a"),
        ("kind: colocate, roles: a, scope: host, relax_after: 9s", "kind: spread, roles: a"),
        ("kind: colocate, roles: a, scope: host", "kind: spread, roles: a, max_per_domain: 2"),
        ("kind: colocate, roles: a, scope: host", "kind: spread, roles: b"),
        ("kind: colocate, from: a, to: 'job:1', scope: block",
         "kind: spread, from: a, to: 'job:1', scope: switch"),
    ],
)  # fmt: skip
def test_what_may_hold_is_taken(relations):
    assert asked(with_relations(*relations)).request.constraints


def test_spans_count_too():
    text = (
        "version: 1\ncommand: x\nroles:\n"
        "  - {{name: a, count: 4, resreq: '{}'}}\nrelations:\n  - {{kind: spread, roles: a}}"
    )
    assert "span[hosts=1] of role a" in refused(text.format("span[hosts=1]"))
    assert "puts 2 tasks on a host" in refused(text.format("span[ptile=2]"))
    assert "puts 4 tasks on a host" in refused(text.format("span[block=4]"))
    assert asked(text.format("span[ptile=1]"))


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("kind: colocate, roles: [a, d]", "'d', which is no role of this job"),
        ("kind: colocate, roles: a, scope: rack", "'rack' is no scope"),
        ("kind: exchange, from: a, to: b, channel: shm, scope: switch", "needs one host"),
        (
            "kind: exchange, from: a, to: b, channel: shm, strength: preferred",
            "cannot be preferred",
        ),
        ("kind: isolate, roles: a, strength: preferred", "cannot be preferred"),
        ("kind: colocate, roles: a, scope: nvlink", "'a', which asks for no whole GPUs"),
        ("kind: spread, roles: a, scope: nvlink", "spread has no scope nvlink"),
    ],
)
def test_names_and_scopes_are_checked(relation, words):
    assert words in refused(with_relations(relation))


def test_a_level_in_which_no_host_lies_is_refused():
    spec = read_spec(with_relations("kind: colocate, roles: a, scope: zone"))
    with pytest.raises(ConfigError, match="no host of this cluster lies in a zone"):
        compile_spec(spec, config(["h1"]), unit="MB")


def test_a_required_relation_must_hold_for_every_alternative():
    text = (
        "version: 1\ncommand: x\n"
        "resreq: '{1*{a: order[mem]} + 1*{b: order[mem]}} || {2*{a: order[mem]}}'\n"
        "relations:\n  - {kind: colocate, roles: [a, b], scope: switch, strength: %s}"
    )
    assert "'b', which alternative 2 does not have" in refused(text % "required")
    assert asked(text % "preferred").request.constraints


def test_roles_that_wait_for_each_other_are_refused():
    cycle = (
        "kind: ready-after, from: a, to: b",
        "kind: after, from: b, to: c",
        "kind: init-of, from: a, to: c",
    )
    text = refused(with_relations(*cycle))
    assert "nobody could begin" in text
    assert "relation 1 (ready-after a -> b)" in text
    assert asked(with_relations(*cycle[:2]))
    assert "nobody could begin" in refused(
        with_relations("kind: with, roles: [a, b]", "kind: ready-after, from: a, to: b")
    )


def test_attached_roles_lie_where_their_parents_do():
    roles = "roles: [{name: a}, {name: m, attach: %s, command: y}]"
    text = f"version: 1\ncommand: x\n{roles}\nrelations: [%s]"
    assert "'z', which is no role" in refused(text % ("z", ""))
    assert "lies where a lie" in refused(text % ("a", "{kind: colocate, roles: [a, m]}"))
    assert asked(text % ("a", "{kind: sidecar-of, from: m, to: a}")).request.parts == ()
