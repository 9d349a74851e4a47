"""Workers of hosts that were not upgraded yet."""

import msgspec
import pytest

from xce.control.effects import owed
from xce.model.effect import Hook, Launch, SetLimits, Terminate
from xce.model.job import JobSpec, Owner
from xce.model.process_limits import ProcessLimits
from xce.net.earlier import find_lacking, split_launches
from xce.testing.builders import cluster, place, submission, submit

PLAIN = Launch(
    7, [0, 1], [1, 2], JobSpec(command="x"), Owner("ann", 1001, 100), "normal", "p", "c",
    (("h1", 1),), 1, 0, 0, 0, 0,
)  # fmt: skip


def with_spec(**fields):
    return msgspec.structs.replace(PLAIN, spec=msgspec.structs.replace(PLAIN.spec, **fields))


def limited(**fields):
    return msgspec.structs.replace(with_spec(**fields), run_limit_us=9)


def test_what_an_older_worker_knows_is_told_and_what_it_does_not_know_is_not():
    end, limits = Terminate(7, 0, 1, 0), SetLimits(7, 0, 1, 0, 0, 0)
    assert split_launches((PLAIN, end, limits), 1, "h1") == ((PLAIN, end), None)
    assert split_launches((PLAIN, end, limits), 2, "h1") == ((PLAIN, end, limits), None)


def test_a_launch_that_it_would_do_by_half_is_not_done_and_says_why():
    launch = msgspec.structs.replace(PLAIN, hooks=(Hook("pre", "true", "job"),))
    told, undone = split_launches((launch, PLAIN), 1, "h1")
    assert told == (PLAIN,)
    assert [(one.job, one.index, one.attempt) for one in undone.ended] == [(7, 0, 1), (7, 1, 2)]
    assert {one.detail for one in undone.ended} == {
        "host h1: its worker is of a release without commands before and after jobs: upgrade it"
    }
    assert split_launches((launch,), 2, "h1") == ((launch,), None)


@pytest.mark.parametrize(
    ("launch", "lacking"),
    [
        (PLAIN, ""),
        (msgspec.structs.replace(PLAIN, devices=[()], bindings=[(), ()]), ""),
        (msgspec.structs.replace(PLAIN, fence_us=1), "self_fence"),
        (with_spec(limits=ProcessLimits(cpu_us=1)), "limits of processes"),
        (with_spec(login_shell="/bin/sh"), "login shells"),
        (with_spec(warning_signal=10, warning_us=5), ""),
        (limited(warning_signal=10, warning_us=5), "a warning before the end"),
        (limited(warning_command="date", warning_us=5), "a warning before the end"),
        (msgspec.structs.replace(PLAIN, warning_in_us=5), "a warning before the end"),
        (limited(warning_us=5), ""),
        (with_spec(description="for people", deadline_us=5, mail_to="ann"), ""),
    ],
)
def test_only_what_the_worker_has_to_do_counts(launch, lacking):
    assert find_lacking(launch) == lacking


def test_the_job_is_placed_anew_and_avoids_the_host():
    controller = cluster({"h1": 1, "h2": 1})
    given = submission()
    spec = msgspec.structs.replace(given.spec, pre_exec="true")
    submit(controller, msgspec.structs.replace(given, spec=spec))
    place(controller, 1)
    _, undone = split_launches(owed(controller.state, 0), 1, "h1")
    controller.tell(undone, by="host h1", basis="component")
    job = controller.state.jobs[1]
    assert (job.pending, job.live, job.avoid) == (((0, 0),), None, (0,))
    assert "host h1: its worker is of a release without" in job.requeues[0].detail
    controller.tell(undone, by="host h1", basis="component")
    assert controller.state.jobs[1].requeues[0].pre_times == 1, "said twice it counts once"
