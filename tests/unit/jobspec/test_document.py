import pytest

from xce.jobspec.document import SPEC_BYTES_MAX, read_spec
from xce.model.errors import ConfigError
from xce.model.relation import LaunchType, Probe, RelationKind

WHOLE = """
version: 1
name: unit-1p3d
queue: normal
run_limit: 2h
mem_limit: 4G
env: {MODE: fast}
roles:
  - {name: router, count: 1, resreq: "select[ncpus > 1]", command: "router --port $XCE_PORT"}
  - {name: decode, count: 3, launch: torch, env: {A: "1"}, cwd: /data,
     ready: {tcp: 8000, failures: 3}}
  - {name: metrics, attach: [router, decode], per: host, command: exporter}
relations:
  - {kind: exchange, from: router, to: [decode], channel: network, params: {rdma: true}}
"""


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        read_spec(text, file="spec.yaml")
    return str(error.value).splitlines()


def test_all_keys_are_read():
    spec = read_spec(WHOLE)
    assert spec.fields == {
        "name": "unit-1p3d", "queue": "normal", "run_limit_s": 7200, "mem_limit_kib": 4 << 20,
    }  # fmt: skip
    assert spec.env == ("MODE=fast",)
    router, decode, metrics = spec.roles
    assert (router.name, router.count, router.resreq) == ("router", 1, "select[ncpus > 1]")
    assert (decode.count, decode.launch, decode.env) == (3, LaunchType.TORCH, ("A=1",))
    assert decode.ready == Probe("tcp", "8000", failures_max=3)
    assert (metrics.count, metrics.attach) == (0, ("router", "decode"))
    (relation,) = spec.relations
    assert relation.kind is RelationKind.EXCHANGE
    assert (relation.source, relation.target, relation.required) == (
        ("router",),
        ("decode",),
        False,
    )
    assert relation.params == (("channel", "network"), ("rdma", "true"))


def test_json_is_read_as_yaml_is():
    spec = read_spec('{"version": 1, "command": "x", "roles": [{"name": "w", "count": "2-4"}]}')
    assert spec.tasks == (2, 4)
    assert spec.fields == {"command": "x"}


def test_every_problem_is_told_with_its_line():
    text = "version: 2\nrolls: []\nroles:\n  - {count: 1}\n  - {name: a.b}\n  - {name: c, cpu: 1}\n"
    assert [line.split(": ")[0] for line in refused(text)] == [
        "spec.yaml:1", "spec.yaml:2", "spec.yaml:4", "spec.yaml:5", "spec.yaml:6",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("version: 1\ndata: []", "'data' is not built yet"),
        (
            "version: 1\nroles:\n  - {name: a}\n  - {name: a}",
            "4: roles[2]: two roles are called 'a'",
        ),
        ("version: 1\nroles: [{name: a, attach: a, command: x}]", "all roles are attached"),
        (
            "version: 1\nroles:\n" + "  - {name: a, count: 9000000}\n  - {name: b, count: 9000000}",
            "4: roles[2]: the roles have more than 10000000 tasks",
        ),
        ("version: 1\nroles: [{name: part1}]", "of the form part<number>"),
        ("version: 1\nroles: [{name: a, count: 2-3}, {name: b}]", "has a range of tasks"),
        ("version: 1\nroles: [{name: a, per: host}]", "per: host is for attached roles"),
        ("version: 1\nroles: [{name: a}, {name: m, attach: a, count: 2}]", "so it has no count"),
        ("version: 1\nroles: [{name: a}, {name: m, attach: a, resreq: x}]", "has no resreq"),
        ("version: 1\nroles: [{name: a}]\ntasks: 3", "either roles, or resreq"),
        ("version: 1\nroles: [{name: a, ready: {tcp: 1, http: 2}}]", "one of exec, tcp, http"),
        ("version: 1\nenv: {'A B': x}", "no name of a variable"),
        ("version: 1\nroles: [" + "{name: a}," * 65 + "]", "at most 64"),
        ("version: 1\ncommand: '" + "x" * SPEC_BYTES_MAX + "'", "is larger than 256 KiB"),
    ],
)
def test_what_cannot_be_is_said(text: str, words: str):
    assert words in "\n".join(refused(text))
