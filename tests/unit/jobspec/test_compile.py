import pytest
from specs import asked, site, with_relations

from xce.jobspec.compile import compile_group, part_names, read_group
from xce.model.constraint import Colocate, Exclusive, Near, Spread
from xce.model.errors import ConfigError, TextError
from xce.model.relation import RelationKind
from xce.model.request import Request
from xce.resreq.compile import compile_request
from xce.resreq.errors import NotBuiltError


def constraints(*relations: str) -> tuple:
    return asked(with_relations(*relations)).request.constraints


def test_relations_become_constraints_with_their_place():
    found = constraints(
        "kind: colocate, roles: [b, a], scope: switch",
        "kind: spread, roles: a, scope: block, max_per_domain: 2, strength: preferred, weight: 7",
        "kind: isolate, roles: c",
    )
    assert found == (
        Colocate(0, ("a", "b"), ("switch",)),
        Spread(1, ("a",), "block", 2, required=False, weight=7),
        Exclusive(2, ("c",), "host"),
    )


def test_channels_imply_scopes():
    assert constraints("kind: exchange, from: a, to: b, channel: shm") == (
        Colocate(0, ("a", "b"), ("host",)),
    )
    assert constraints("kind: exchange, from: a, to: b, channel: sharedfs") == ()
    (network,) = constraints("kind: exchange, from: a, to: b, bandwidth: 200G, rdma: true")
    assert network == Colocate(0, ("a", "b"), ("switch", "block"), required=False, weight=38)
    (much,) = constraints("kind: exchange, from: a, to: b, volume: 1T")
    assert much.weight == 22


def test_what_may_be_given_up_knows_the_wider_levels():
    (found,) = constraints("kind: colocate, roles: a, scope: host, relax_after: 30s")
    assert found == Colocate(0, ("a",), ("host", "switch", "block"), relax_after_us=30_000_000)


def test_a_relation_to_a_job_or_group_is_near_it_and_together():
    assert constraints("kind: colocate, from: a, to: 'job:trainer', scope: switch") == (
        Colocate(0, ("a",), ("switch",)),
        Near(0, ("a",), "job:trainer", ("switch",)),
    )
    assert constraints("kind: spread, from: a, to: 'group:g', scope: switch") == (
        Near(0, ("a",), "group:g", ("switch",), is_apart=True),
    )


def test_roles_are_parts_and_a_single_one_is_plain():
    request = asked(with_relations("kind: colocate, roles: a")).request
    assert [(part.name, part.tasks) for part in request.parts] == [("a", 2), ("b", 2), ("c", 1)]
    plain = asked("version: 1\ncommand: x\nroles: [{name: w, count: 2-4, resreq: 'rusage[mem=3]'}]")
    assert plain.request == compile_request(["rusage[mem=3]"], config=site(), tasks=(2, 4))
    assert plain.request.is_serial is False
    assert asked("version: 1\ncommand: x").request.is_serial


@pytest.mark.parametrize(
    ("name", "why"),
    [("nosuch", "no resource is called 'nosuch'"), ("mem", "mem is consumed"), ("''", "called ''")],
)
def test_same_names_attributes_that_exist(name: str, why: str):
    with pytest.raises(ConfigError, match=f"^same: .*{why}"):
        asked(f"version: 1\ncommand: x\nroles: [{{name: a, count: 2}}]\nsame: [{name}]")
    text = "version: 1\ncommand: x\nroles: [{name: a, count: 2}]\nsame: [type, model, type]"
    assert asked(text).request.same == ("model", "type")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "version: 1\nroles: [{name: a, launch: mpi}, {name: b}]",
            "launch type mpi beside another",
        ),
    ],
)
def test_what_is_not_built_is_refused_by_name(text: str, what: str):
    with pytest.raises(NotBuiltError) as error:
        asked(text)
    assert what in error.value.message


def test_a_role_with_a_range_of_tasks_has_relations():
    text = "version: 1\nroles: [{name: a, count: 2-3}]\nrelations: [{kind: spread, roles: a}]"
    request = asked(text).request
    assert (request.tasks_min, request.tasks_max) == (2, 3)
    assert [(part.name, part.tasks, part.tasks_max) for part in request.parts] == [("a", 2, 3)]
    plain = compile_request([], config=site(), tasks=(1, 4))
    grouped = compile_group("exp", plain, site()).request
    assert (grouped.tasks_min, grouped.tasks_max, grouped.parts[0].is_ranged) == (1, 4, True)
    whole = compile_request([], config=site(), whole_hosts=2)
    with pytest.raises(NotBuiltError, match="-nnodes"):
        compile_group("exp", whole, site())


def test_a_group_packs_or_spreads_all_roles():
    found = read_group("exp,spread,soft,block", ("a", "b"))
    assert (found.kind, found.target, found.scope) == (RelationKind.SPREAD, ("group:exp",), "block")
    assert not found.required
    plain = compile_group("exp", Request(), site())
    assert [part.name for part in plain.request.parts] == ["part0"]
    assert plain.request.constraints == (
        Colocate(0, ("part0",), ("switch",)),
        Near(0, ("part0",), "group:exp", ("switch",)),
    )
    assert len(asked(with_relations("kind: spread, roles: a"), group="exp").relations) == 2
    for text in ("", "a b", "x,hard,soft", "x,pack,spread", "x,switch,block", "x,"):
        with pytest.raises(TextError):
            read_group(text, ("a",))


def test_parts_of_alternatives_have_all_names():
    text = "{1*{a: order[mem]} + 1*{b: order[mem]}} || {2*{c: order[mem]}}"
    assert part_names(compile_request([text], config=site()), ()) == ("a", "b", "c")
