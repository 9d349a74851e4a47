"""The shell's clock: never back, forward at once, half as fast while the wall clock is behind."""

from hypothesis import given
from hypothesis import strategies as st

from xce.control.clock import has_jumped, next_now_us
from xce.model.ids import HOUR_US, SECOND_US

spans = st.integers(0, 10**12)


@given(spans, spans, spans)
def test_it_never_goes_back(last_us, elapsed_us, wall_us):
    assert next_now_us(last_us, elapsed_us=elapsed_us, wall_us=wall_us) >= last_us


def test_it_follows_the_wall_clock_forward_at_once():
    assert next_now_us(5, elapsed_us=1, wall_us=HOUR_US) == HOUR_US


def test_it_goes_half_as_fast_until_a_wall_clock_that_was_set_back_has_caught_up():
    now_us = HOUR_US
    wall_us = 0
    seconds = 0
    while now_us != wall_us:
        seconds += 1
        wall_us += SECOND_US
        later_us = next_now_us(now_us, elapsed_us=SECOND_US, wall_us=wall_us)
        assert later_us > now_us
        now_us = later_us
    assert seconds == 2 * 3600


def test_a_clock_has_jumped_when_it_shows_more_than_has_passed_or_nobody_looked_for_long():
    second = 1_000_000
    assert not has_jumped(0, 3 * second, elapsed_us=3 * second)
    assert not has_jumped(0, 3 * second, elapsed_us=second)
    assert has_jumped(0, 4 * second, elapsed_us=second)
    assert has_jumped(0, 6 * second, elapsed_us=6 * second)
