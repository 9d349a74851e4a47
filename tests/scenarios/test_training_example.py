"""The training example on a partly used cluster: its ranks follow the fabric."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from xce.cli.xceadmin.scenario_words import CommandWords
from xce.control.effects import render_part
from xce.daemon.config_directory import load_texts
from xce.model.effect import Launch
from xce.sim.scenario_file import parse_scenario
from xce.sim.scenario_run import ScenarioRun
from xce.worker.step_plan import plan_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "training"
HOSTS = yaml.safe_load((EXAMPLE / "hosts.yaml").read_text())
SWITCH = {"g1": "s1", "g2": "s1", "g3": "s2", "g4": "s2", "g5": "s3", "g6": "s3"}
USED = {"g1": 2, "g2": 2, "g5": 1, "g6": 3}
"""A pair is left on both hosts of s1; s3 has as many GPUs left, of which two are no pair."""


class Rank(NamedTuple):
    role: str
    host: str
    gpu: int

    @property
    def pair(self) -> tuple[str, int]:
        """The NVLink domain."""
        return self.host, self.gpu // 2

    @property
    def switch(self) -> str:
        return SWITCH[self.host]


def place(spec: str, used: dict[str, int]) -> Launch:
    """Return the launch of a jobspec of the example, with GPUs of some hosts in use."""
    jobs: list[dict[str, object]] = [
        {"id": f"on-{host}", "at": 0, "submit": f"bsub -m {host} -gpu num={count}", "runtime": "9s"}
        for host, count in used.items()
    ]
    text = (EXAMPLE / spec).read_text()
    jobs.append({"id": "train", "at": 1, "runtime": "1s", "spec": yaml.safe_load(text)})
    document = {"cluster": {"hosts": HOSTS}, "jobs": jobs}
    scenario = parse_scenario(yaml.safe_dump(document), file="x", name="x", load_texts=load_texts)
    run = ScenarioRun(scenario, CommandWords())
    found: list[Launch] = []

    def look() -> None:
        launch = render_part(run.state, run.ids["train"], 0)
        found.extend([launch] if launch is not None else [])

    run.at(2_500_000, look)
    run.run()
    (launch,) = found
    return launch


def ranks_of(launch: Launch) -> list[Rank]:
    """Return the tasks in rank order."""
    plan = plan_of(launch, 0, "")
    found = {
        task.rank: Rank(role.name, plan.hosts[task.host], int(dict(task.env)["XCE_GPUS"]))
        for role in plan.roles
        for task in role.tasks
    }
    return [found[rank] for rank in range(len(found))]


def runs(ranks: list[Rank], what: Callable[[Rank], object]) -> list[list[Rank]]:
    """Return the ranks in groups of one value, each of which stands together."""
    found: list[list[Rank]] = [[ranks[0]]]
    for before, rank in pairwise(ranks):
        if what(rank) != what(before):
            found.append([])
        found[-1].append(rank)
    values = [what(group[0]) for group in found]
    assert len(set(values)) == len(values), f"ranks of one value stand apart: {values}"
    return found


@pytest.mark.parametrize("used", [{}, USED], ids=["empty", "partly used"])
def test_tensor_parallel_in_nvlink_pipeline_in_a_switch_replicas_across(
    used: dict[str, int],
) -> None:
    ranks = ranks_of(place("dp-pp-tp.yaml", used))
    assert len(ranks) == 8
    stages = runs(ranks, lambda rank: rank.role)
    assert [len(stage) for stage in stages] == [2] * 4
    for stage in stages:
        assert len({rank.pair for rank in stage}) == 1, "one NVLink domain holds a stage"
        assert len({rank.gpu for rank in stage}) == 2, "a GPU for each of its ranks"
    replicas = runs(ranks, lambda rank: rank.role[:2])
    for replica in replicas:
        assert len({rank.switch for rank in replica}) == 1, "one switch holds a replica"
    assert len({replica[0].switch for replica in replicas}) == 2, "replicas have a switch each"
    if used:
        assert {rank.switch for rank in ranks} == {"s1", "s2"}, "in s3 there is one pair"
        assert {rank.host for rank in ranks if rank.switch == "s1"} == {"g1", "g2"}


def test_under_torchrun_each_replica_has_a_host_at_a_switch_of_its_own() -> None:
    launch = place("torchrun.yaml", {"g1": 1, "g3": 1})
    hosts = [host for host, _ in launch.hosts]
    assert len(hosts) == 2
    assert len({SWITCH[host] for host in hosts}) == 2
    assert not {"g1", "g3"} & set(hosts), "whole hosts"
