"""Which host has the local files of ``bsub -f``, and what is said where none has."""

from msgspec.structs import replace

from xce.control.transfers import describe_unreachable, find_file_host
from xce.model.job import JobSpec
from xce.model.refusal import Refusal, RefusalCode
from xce.testing.builders import cluster, modify, submission, submit, try_submit

BOOT = "0b8a8a0c-5b0e-4e39-9d0e-6f4f3c1f2a3b"
OTHER = BOOT.replace("0b8a", "1c9d")


def spec_of(*places, from_host=""):
    transfers = tuple(("/in", ">", "in", place) for place in places)
    return JobSpec(cwd="/", transfers=transfers, from_host=from_host)


def state_with(*boots):
    state = cluster({f"h{number}": 1 for number in range(1, len(boots) + 1)}).state
    state.hosts.boot_ids[:] = boots
    return state


def test_it_is_the_machine_where_the_place_was_noted_and_else_the_submissions():
    spec = spec_of(f"1 {BOOT} 1 2", "2 nfs4 nas:/v /x", "nonsense", from_host="h3.site")
    for boots, hosts in (
        (["", "", ""], ["h3", "h3", "h3"]),
        (["", BOOT, OTHER], ["h2", "h3", "h3"]),
        (["", BOOT, BOOT], ["h3", "h3", "h3"]),
    ):
        state = state_with(*boots)
        assert [find_file_host(state, spec, number) for number in range(3)] == hosts
        assert [find_file_host(state, spec, number) for number in (-1, 3)] == ["", ""]


def test_a_machine_that_is_none_here_is_known_by_its_boot_only():
    spec = spec_of(f"1 {BOOT} 1 2", "1 nfs4 nas:/v /x", from_host="login")
    state = state_with(OTHER, "")
    assert [find_file_host(state, spec, number) for number in (0, 1)] == ["", ""]
    assert find_file_host(state_with(OTHER, BOOT), spec, 0) == "h2"


def test_a_file_that_no_host_can_have_is_told_at_once():
    state = state_with(OTHER)
    assert describe_unreachable(state, spec_of(f"1 {OTHER} 1 2")) == ""
    # Some host may have mounted it.
    assert describe_unreachable(state, spec_of("1 nfs4 nas:/v /x")) == ""
    assert "no host of the cluster" in describe_unreachable(state, spec_of(f"1 {BOOT} 1 2"))


def test_who_submits_is_refused_or_warned_while_a_host_may_still_be_that_machine():
    asked = submission()
    transfers = spec_of(f"1 {BOOT} 1 2").transfers
    asked = replace(asked, spec=replace(asked.spec, transfers=transfers))
    for boots, is_refused in ((("b1", "b2"), True), (("b1", ""), False)):
        controller = cluster({"h1": 1, "h2": 1})
        controller.state.hosts.boot_ids[:] = boots
        (found,) = try_submit(controller, asked)
        text = found.text if is_refused else found.warning
        assert text.startswith("/in of -f is on a disk of a machine that is no host")
        assert isinstance(found, Refusal) is is_refused


def test_a_job_is_not_changed_to_copy_what_no_host_has():
    controller = cluster({"h1": 1})
    job = submit(controller)
    controller.state.hosts.boot_ids[:] = [OTHER]
    found = modify(controller, job, transfers=spec_of(f"1 {BOOT} 1 2").transfers)
    assert (found.code, found.job) == (RefusalCode.UNKNOWN_HOST, job)
    assert "-is FILE" in found.text
    assert modify(controller, job, transfers=spec_of(f"1 {OTHER} 1 2").transfers).job == job
