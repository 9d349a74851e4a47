from pathlib import Path

import pytest

from xce.model.errors import ConfigError
from xce.sim.scenario import ZERO_US, Scenario
from xce.sim.scenario_file import load_scenario, parse_scenario

CLUSTER = "cluster: {hosts: [{names: h1}]}\n"


def parse(text: str) -> Scenario:
    return parse_scenario(text, file="f.yaml", name="f", load_texts=lambda path: {})


def test_times_have_three_forms() -> None:
    text = CLUSTER + (
        "epoch: 2026-03-01T00:00:00Z\n"
        "jobs:\n"
        "  - {id: a, at: 1.5, submit: bsub}\n"
        "  - {id: b, at: 1:02:03, submit: bsub}\n"
        "  - {id: c, at: 2026-03-01T00:00:10+00:00, submit: bsub}\n"
    )
    scenario = parse(text)
    assert [job.at_us for job in scenario.jobs] == [1_500_000, 3_723_000_000, 10_000_000]
    assert scenario.zero_us == 1_772_323_200_000_000


def test_without_an_epoch_zero_is_a_midnight() -> None:
    assert ZERO_US % (86_400 * 1_000_000) == 0


def test_run_times_have_three_forms() -> None:
    text = CLUSTER + (
        "jobs:\n"
        "  - {id: a, at: 0, submit: bsub, runtime: 2m}\n"
        "  - {id: b, at: 0, submit: bsub, runtime: {unlimited: true}}\n"
        "  - {id: c, at: 0, submit: bsub, runtime: {between: [1, 3]}}\n"
        "  - {id: d, at: 0, submit: bsub}\n"
    )
    spans = [(job.least_us, job.most_us) for job in parse(text).jobs]
    assert spans == [
        (120_000_000, 120_000_000),
        (0, None),
        (1_000_000, 3_000_000),
        (0, None),
    ]


def test_hosts_may_be_down_from_the_start() -> None:
    text = "cluster: {hosts: [{names: 'h[1-2]', state: down}, {names: h3}]}\n"
    scenario = parse(text)
    assert scenario.down == {"h1", "h2"}
    assert [host.closed for host in scenario.config.hosts] == [False, False, False]


def test_the_session_interval_is_the_scenarios_own() -> None:
    text = "cluster: {hosts: [{names: h1}], xce: {session_interval_s: 30, clean_period_s: 5}}\n"
    scenario = parse(text)
    assert scenario.interval_us == 30_000_000
    assert scenario.config.clean_period_us == 5_000_000


def test_a_cluster_may_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    file = tmp_path / "s.yaml"
    file.write_text("cluster: site\n")
    scenario = load_scenario(file, lambda path: {"hosts.yaml": f"- {{names: {path.name}}}"})
    assert [host.name for host in scenario.config.hosts] == ["site"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f.yaml: is empty"),
        ("jobs: []\n", "f.yaml:1: a scenario needs the key 'cluster'"),
        (CLUSTER + "job: []\n", "f.yaml:2: job: a scenario has no key 'job'; did you mean 'jobs'"),
        ("cluster: {host: []}\n", "cluster.host: a cluster has no 'host'"),
        ("cluster: {services: []}\n", "'services' is not built yet"),
        ("cluster: {hosts: [{names: h1, slots: x}]}\n", "f.yaml:1: cluster.hosts[1].slots: 'x'"),
        ("cluster: nowhere\n", "nowhere is no directory"),
        (CLUSTER + "jobs: [{id: a, at: 0}]\n", "f.yaml:2: jobs[1]: a job needs either"),
        (
            CLUSTER + "jobs: [{id: a, at: 0, spec: {version: 1}, submit: bsub}]\n",
            "either the key 'submit' or the key 'spec'",
        ),
        (CLUSTER + "jobs: [{id: a, at: 0, spec: x.yaml}]\n", "expected a jobspec: a mapping"),
        (CLUSTER + "jobs: [{id: a, at: x, submit: bsub}]\n", "jobs[1].at: 'x' is no time"),
        (CLUSTER + "jobs: [{id: a, at: 2026-01-01, submit: bsub}]\n", "give the key 'epoch'"),
        (CLUSTER + "jobs: [{id: a, at: 0, submit: sleep 5}]\n", "expected a command line of bsub"),
        (
            CLUSTER + "jobs: [{id: a, at: 0, submit: bsub, runtime: {for: 3}}]\n",
            "allowed: unlimited",
        ),
        (
            CLUSTER + "jobs: [{id: a, at: 0, submit: bsub}, {id: a, at: 1, submit: bsub}]\n",
            "a second job has the id 'a'",
        ),
        (CLUSTER + "events: [{at: 0, host: h2, state: ok}]\n", "no host is called 'h2'"),
        (CLUSTER + "events: [{at: 0, host: h1, state: gone}]\n", "allowed: closed, down"),
        (CLUSTER + "events: [{at: 0, do: bmod a}]\n", "'bmod' is not built yet"),
        (CLUSTER + "events: [{at: 0, host: h1}]\n", "an event is one of"),
        (CLUSTER + "events: [{at: 0, pool: p, total: 1}]\n", "no pool is called 'p'"),
        (CLUSTER + "expect: [{job: z, state: RUN}]\n", "no job has the id 'z'"),
        (CLUSTER + "expect: [{state: RUN}]\n", "about a job or about the summary"),
        (CLUSTER + "expect: [{summary: {x: about 3}}]\n", "is no comparison"),
        (CLUSTER + "expect: [{summary: {x: 3}, at: 4}]\n", "leave 'at' out"),
    ],
)
def test_problems_are_told_with_file_line_and_key(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert expected in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    text = CLUSTER + "jobs:\n  - {id: 1, at: 0, submit: bsub}\n  - {id: a, at: -1, submit: bsub}\n"
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert len(str(caught.value).splitlines()) == 2
