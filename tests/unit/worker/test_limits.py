"""The host state machine: limits of CPU time, swap, processes and threads."""

import pytest
from msgspec.structs import replace

from xce.model.effect import Launch, SetLimits, Terminate
from xce.model.job import EndCause, JobSpec, Owner
from xce.model.process_limits import ProcessLimits
from xce.model.task import HoldPart, PartSeen
from xce.worker.action import Ended, Lead, SetLimit, Signal, Started, Usage
from xce.worker.core import HostState
from xce.worker.ending import STEP_INT, STEP_WARN, XCPU
from xce.worker.parts import HOLD_US
from xce.worker.process_limits import limit_code, limited_command

S = 1_000_000
KEY = (1, 0, 1)


def launch(limits: ProcessLimits, *, hosts: int = 1) -> Launch:
    return Launch(
        1, [0], [1], JobSpec(command="x", limits=limits), Owner("u", 1000, 1000), "normal", "p",
        "c", tuple((f"h{n}", 1) for n in range(hosts)), hosts, 0, 0, 600 * S, 10 * S,
    )  # fmt: skip


def running(limits: ProcessLimits, *, hosts: int = 1) -> HostState:
    state = HostState()
    state.take_effects(1, [launch(limits, hosts=hosts)], 0)
    state.take_news([Started(*KEY, 77, 10 * S)], 10 * S)
    return state


def used(**now: int) -> Usage:
    return Usage(*KEY, 0, out_of_memory=False, **now)


def hold(**more: int) -> HoldPart:
    fields = {"number": 0, "signal": 0, "step": 0, "mem_limit_kib": 0, "wait_us": HOLD_US}
    return HoldPart(suspended=False, cause=EndCause.NONE, **(fields | more))


@pytest.mark.parametrize(
    ("limits", "within", "beyond", "cause"),
    [
        (ProcessLimits(swap_kib=10), {"swap_kib": 10}, {"swap_kib": 11}, EndCause.SWAP),
        (ProcessLimits(processes=2), {"processes": 2}, {"processes": 3}, EndCause.PROCESSLIMIT),
        (ProcessLimits(threads=5), {"threads": 5}, {"threads": 6}, EndCause.THREADLIMIT),
    ],
)
def test_beyond_a_limit_a_job_is_ended_as_by_a_kill(
    limits: ProcessLimits, within: dict[str, int], beyond: dict[str, int], cause: EndCause
) -> None:
    state = running(limits)
    assert state.take_news([used(**within, cpu_us=99 * S)], 11 * S) == []
    assert state.take_news([used(**beyond)], 12 * S) == [Signal(*KEY, 2, cause, STEP_INT)]
    assert state.take_news([used(**beyond)], 13 * S) == []
    assert state.next_due_us() == 22 * S


def test_at_its_cpu_limit_a_job_gets_xcpu_first_and_then_is_ended_as_by_a_kill() -> None:
    state = running(ProcessLimits(cpu_us=60 * S))
    assert state.take_news([used(cpu_us=60 * S - 1)], 70 * S) == []
    assert state.take_news([used(cpu_us=60 * S)], 71 * S) == [
        Signal(*KEY, XCPU, EndCause.CPULIMIT, STEP_WARN)
    ]
    assert state.next_due_us() == 81 * S
    assert state.tick(81 * S) == [Signal(*KEY, 2, EndCause.CPULIMIT, STEP_INT)]


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ({"signal": XCPU, "exit_code": 128 + XCPU, "user_us": 60 * S}, EndCause.CPULIMIT),
        ({"exit_code": 128 + XCPU, "user_us": 40 * S, "system_us": 20 * S}, EndCause.CPULIMIT),
        ({"exit_code": 128 + XCPU, "user_us": 51 * S}, EndCause.CPULIMIT),
        ({"exit_code": 128 + XCPU, "user_us": 20 * S}, EndCause.NONE),
        ({"exit_code": 1, "user_us": 60 * S}, EndCause.NONE),
    ],
)
def test_a_job_that_the_kernel_ended_for_its_cpu_time_ended_at_its_limit(
    end: dict[str, int], cause: EndCause
) -> None:
    state = running(ProcessLimits(cpu_us=60 * S))
    state.take_news([Ended(*KEY, 10 * S, 70 * S, **end)], 70 * S)
    reports = state.reports(70 * S)
    assert reports is not None
    assert [one.cause for one in reports.ended] == [cause]


def test_cpu_time_of_all_hosts_counts_together() -> None:
    first = running(ProcessLimits(cpu_us=60 * S), hosts=3)
    for host in ("h1", "h2"):
        assert isinstance(first.parts.lead(KEY, host), Lead)
    assert [one.hold.cpu_limit_us for one in first.parts.wanted()] == [60 * S] * 2
    first.take_news([used(cpu_us=20 * S)], 30 * S)
    assert first.parts.take_word(KEY, "h1", PartSeen(user_us=15 * S), 31 * S) == []
    gone = PartSeen(is_gone=True, user_us=10 * S, system_us=10 * S)
    assert first.parts.take_word(KEY, "h2", gone, 31 * S) == []
    (signal,) = first.parts.take_word(KEY, "h1", PartSeen(user_us=20 * S), 32 * S)
    assert (signal.number, signal.cause) == (XCPU, EndCause.CPULIMIT)


def test_a_part_tells_its_cpu_time_in_steps_and_is_not_ended_for_it() -> None:
    part = HostState()
    part.join_part(launch(ProcessLimits(cpu_us=100 * S), hosts=2), 0, 1, 0)
    assert part.take_news([used(cpu_us=90 * S)], 11 * S) == []
    assert part.parts.seen(KEY) == PartSeen(user_us=90 * S)
    part.take_news([used(cpu_us=91 * S)], 11 * S)
    assert part.parts.seen(KEY).user_us == 90 * S
    assert part.take_news([used(cpu_us=400 * S)], 11 * S) == []
    assert part.parts.seen(KEY).user_us == 400 * S
    held = part.parts.hold(KEY, hold(cpu_limit_us=900 * S), 12 * S)
    assert held == [SetLimit(*KEY, 0, (0, 0, 0, 900 * S))]


def test_another_cpu_limit_holds_from_the_next_look_on() -> None:
    state = running(ProcessLimits(cpu_us=60 * S, processes=9))
    state.take_effects(1, [SetLimits(*KEY, 0, 0, 0, 20 * S)], 11 * S)
    (signal,) = state.take_news([used(cpu_us=30 * S)], 12 * S)
    assert signal.cause == EndCause.CPULIMIT
    state.take_effects(1, [Terminate(*KEY, EndCause.OWNER)], 13 * S)
    state.take_news([Ended(*KEY, 10 * S, 14 * S)], 14 * S)
    reports = state.reports(14 * S)
    assert reports is not None
    assert [one.cause for one in reports.ended] == [EndCause.CPULIMIT]


def test_a_shell_sets_soft_limits_in_its_own_units() -> None:
    limits = ProcessLimits(cpu_us=1_500_000, stack_kib=8, core_kib=0, file_kib=3, processes=7)
    code = limit_code(limits)
    settings = [part for part in code.split(";") if part]
    assert [part.split(" 2>")[0] for part in settings] == [
        "ulimit -S -t 2", "ulimit -S -s 8", "ulimit -S -f 6", "ulimit -S -c 0",
    ]  # fmt: skip
    assert limit_code(ProcessLimits(processes=7)) == ""
    assert limited_command(["a", "b"], ProcessLimits()) == ["a", "b"]
    words = limited_command(["a", "b c"], replace(limits, core_kib=-1))
    assert words[:2] == ["/bin/sh", "-c"]
    assert words[3:] == ["/bin/sh", "a", "b c"]
