import pytest
from specs import asked, with_relations

from xce.jobspec.document import read_spec
from xce.model.errors import ConfigError
from xce.model.relation import LaunchType

ROLES = "a: 2, b: 2, c: 1"
TWO = "1*{a: order[mem]} + 1*{b: order[mem]}"


def refused(*relations: str, roles: str = ROLES) -> str:
    with pytest.raises(ConfigError) as error:
        asked(with_relations(*relations, roles=roles))
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "by_roles"),
    [
        ("roles: [{name: a, count: 2, command: x}]", False),
        ("command: x\nroles: [{name: a}, {name: b}]", False),
        ("roles: [{name: a, command: x}, {name: b}]", False),
        ("roles: [{name: a, command: x, env: {A: 1}, cwd: d}]", False),
        ("roles: [{name: a, command: x}, {name: b, command: y}]", True),
        ("command: x\nroles: [{name: a}, {name: b, command: y}]", True),
        ("command: x\nroles: [{name: a}, {name: b, env: {A: 1}}]", True),
        ("command: x\nroles: [{name: a}, {name: b, output: o}]", True),
        ("roles: [{name: a, command: x, ready: {tcp: 1}}]", True),
        ("roles: [{name: a, command: x}, {name: m, attach: a, command: y}]", True),
        ("command: x\nroles: [{name: a}]\nrelations: [{kind: fate, roles: a}]", True),
    ],
)
def test_a_job_runs_by_roles_where_there_is_more_than_one_command(text, by_roles):
    spec = read_spec(f"version: 1\n{text}")
    assert spec.runs_by_roles is by_roles
    expected = LaunchType.TASKS if by_roles else LaunchType.SCRIPT
    assert {role.launch for role in spec.roles} == {expected}
    assert asked(f"version: 1\n{text}").runs_by_roles is by_roles


def test_a_launch_type_that_is_given_stays():
    text = "version: 1\ncommand: x\nroles: [{name: a, launch: script}, {name: b, command: y}]"
    launches = [role.launch for role in read_spec(text).roles]
    assert launches == [LaunchType.SCRIPT, LaunchType.TASKS]


def test_what_the_only_role_says_is_said_of_the_job():
    spec = read_spec(
        "version: 1\nenv: {A: 1, B: 2}\ncwd: /x\n"
        "roles: [{name: a, command: x, env: {B: 3}, cwd: d, output: o}]"
    )
    assert spec.env == ("A=1", "B=3")
    assert (spec.fields["cwd_given"], spec.fields["output"]) == ("d", "o")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("command: x\nroles: [{name: a, command: y}]", "the command stands twice"),
        ("roles: [{name: a}, {name: b, command: y}]", "role 'a' has no command, and the job has"),
        ("roles: [{name: a, command: x, ready: {tcp: web}}]", "expected a port or $VARIABLE"),
        ("roles: [{name: a, command: x, ready: {http: 80x}}]", "perhaps with a path"),
        (
            f"command: x\nresreq: '{TWO}'\nrelations: [{{kind: init-of, from: a, to: b}}]",
            "relation 1 (init-of a -> b) needs roles",
        ),
    ],
)
def test_commands_and_probes_are_checked(text, words):
    with pytest.raises(ConfigError) as error:
        asked(f"version: 1\n{text}")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("relations", "words"),
    [
        (
            ("kind: sidecar-of, from: a, to: b", "kind: sidecar-of, from: b, to: c"),
            "relation 1 (sidecar-of a -> b) makes a sidecar of 'b', which is a sidecar itself by",
        ),
        (
            ("kind: sidecar-of, from: a, to: b", "kind: init-of, from: a, to: c"),
            "relation 1 (sidecar-of a -> b) wants 'a' to end behind its parents, and relation 2",
        ),
        (
            ("kind: sidecar-of, from: a, to: b", "kind: sidecar-of, from: a, to: c"),
            "'a' is a sidecar by relation 1 already",
        ),
        (
            ("kind: sidecar-of, from: a, to: b, restart: never, restarts_max: 2",),
            "never restarts, so it has no restarts_max",
        ),
        (
            ("kind: fate, roles: a, policy: tolerate", "kind: fate, roles: [a, b]"),
            "relation 2 (fate a, b) and relation 1 give 'a' two fates",
        ),
        (("kind: fate, roles: a, restarts_max: 2",), "only restart-member has a restarts_max"),
        (
            ("kind: fate, roles: a, policy: tolerate, back_off: 2s",),
            "only restart-member has a back_off",
        ),
        (
            ("kind: init-of, from: a, to: b", "kind: fate, roles: a, policy: tolerate"),
            "relation 2 (fate a) tolerates that 'a' fails, and relation 1 (init-of) needs",
        ),
        (
            ("kind: sidecar-of, from: a, to: b", "kind: after, from: c, to: a"),
            "waits for the end of 'a', which relation 1 (sidecar-of) puts behind its parents'",
        ),
        (
            ("kind: init-of, from: a, to: b", "kind: ready-after, from: c, to: a"),
            "relation 2 (ready-after c -> a) waits until 'a' is ready, which runs to its end",
        ),
        (
            ("kind: init-of, from: a, to: b", "kind: sidecar-of, from: [b, c], to: a"),
            "nobody could begin",
        ),
        (("kind: sidecar-of, from: a, to: z",), "'z', which is no role of this job"),
        (("kind: with, roles: a",), "with needs two roles"),
    ],
)
def test_what_can_never_hold_is_named_with_its_relation(relations, words):
    assert words in refused(*relations)


def test_something_must_be_left_whose_end_is_the_jobs():
    text = refused(
        "kind: sidecar-of, from: a, to: b", "kind: init-of, from: b, to: a", roles="a, b"
    )
    assert "nobody could begin" in text or "nothing is left whose end" in text


def test_an_init_role_has_no_probe():
    text = (
        "version: 1\ncommand: x\nroles: [{name: a, ready: {tcp: 1}}, {name: b}]\n"
        "relations: [{kind: init-of, from: a, to: b}]"
    )
    with pytest.raises(ConfigError, match="relation 1 .init-of. waits for its end"):
        asked(text)


@pytest.mark.parametrize("launch", ["script", "tasks", "torch", "mpi"])
def test_each_role_that_has_a_command_of_its_own_has_a_launch_type_of_its_own(launch):
    text = (
        f"version: 1\ncommand: x\nroles: [{{name: a, launch: {launch}}}, {{name: b, command: y}}]"
    )
    assert [role.launch.value for role in asked(text).roles] == [launch, "tasks"]


def test_roles_that_fit_together_are_taken():
    found = asked(
        with_relations(
            "kind: init-of, from: a, to: b",
            "kind: ready-after, from: c, to: b, timeout: 5m",
            "kind: fate, roles: [b, c], policy: restart-member, restarts_max: 2, back_off: 5s",
        )
    )
    assert found.runs_by_roles
    assert len(found.relations) == 3
