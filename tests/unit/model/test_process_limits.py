from xce.model.process_limits import (
    NO_LIMITS,
    ProcessLimits,
    fill,
    find_above,
    render_limit,
    without,
)

QUEUE = ProcessLimits(cpu_us=3_600_000_000, processes=10, core_kib=0)


def test_what_is_not_said_is_as_others_have_it() -> None:
    asked = ProcessLimits(processes=3, stack_kib=5)
    filled = fill(asked, QUEUE)
    assert filled == ProcessLimits(cpu_us=3_600_000_000, processes=3, stack_kib=5, core_kib=0)
    assert fill(asked, NO_LIMITS) is asked
    assert without(filled, QUEUE) == asked
    assert without(QUEUE, QUEUE) == NO_LIMITS


def test_the_first_limit_above_a_ceiling_is_named() -> None:
    assert find_above(ProcessLimits(processes=10, threads=99), QUEUE) is None
    above = find_above(ProcessLimits(core_kib=1), QUEUE)
    assert above is not None
    assert (above.option, render_limit(QUEUE, above)) == ("-C", "core limit 0 KiB")
    above = find_above(ProcessLimits(cpu_us=3_600_000_001), QUEUE)
    assert above is not None
    assert (above.option, render_limit(QUEUE, above)) == ("-c", "CPU limit 1h")
    assert not ProcessLimits(stack_kib=1).is_counted
    assert QUEUE.is_counted
