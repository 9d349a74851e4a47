import logging

import pytest

from xce.daemon.controller import check_allocations
from xce.model.command import ApplyConfig, ProposePlan
from xce.model.config import HostConfig
from xce.model.refusal import Refusal
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.testing.builders import (
    RecordedController,
    cluster,
    config,
    place,
    plan,
    submission,
    submit,
)

LOG = logging.getLogger("test-controller")


def running() -> RecordedController:
    controller = cluster({"h1": 4, "h2": 4})
    submit(controller, *[submission() for _ in range(3)])
    for job in (1, 2):
        place(controller, job)
    return controller


def test_what_is_given_out_and_runs_alike_is_let_alone(caplog: pytest.LogCaptureFixture) -> None:
    controller = running()
    check_allocations(controller, LOG)
    assert (controller.halted, caplog.records) == ("", [])


def test_a_difference_stops_all_starts_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    controller = running()
    controller.state.hosts.used[0, 0] += 1
    check_allocations(controller, LOG)
    assert controller.halted == (
        "nothing is started, since slots on host h1: 3 are given out, attempts hold 2"
    )
    (record,) = caplog.records
    assert record.getMessage() == "allocations-differ"
    (result,) = controller.tell(ProposePlan(plan(controller)), by="scheduler")
    assert isinstance(result, Refusal)
    assert result.text == controller.halted


def test_a_changed_configuration_makes_the_sums_anew_and_the_next_start_is_good() -> None:
    controller = running()
    hosts = [HostConfig(name="h1", slots=4), HostConfig(name="h2", slots=5)]
    controller.state.hosts.used[0, 0] += 1
    controller.tell(ApplyConfig("root", config(hosts), is_admin=True), by="root")
    replayed = ClusterState()
    for entry in controller.entries:
        apply(replayed, entry)
    for state in (controller.state, replayed):
        fresh = RecordedController(state)
        check_allocations(fresh, LOG)
        assert fresh.halted == ""
