"""Sizes, spans and LSF's durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xce.model.errors import TextError
from xce.model.ids import HOUR_US, MINUTE_US, SECOND_US
from xce.model.units import (
    parse_lsf_minutes,
    parse_size_kib,
    parse_size_mib,
    parse_span_us,
    parse_supply_mib,
    render_span,
)


@pytest.mark.parametrize(
    ("text", "kib"),
    [("1", 1024), ("1K", 1), ("1KB", 1), ("1KiB", 1), ("2g", 2 * 1024**2), ("0.5M", 512),
     (".5G", 512 * 1024), ("1.", 1024), ("1T", 1024**3), (" 3 MB ", 3 * 1024)],
)  # fmt: skip
def test_sizes_are_read_in_kib(text, kib):
    assert parse_size_kib(text) == kib


@pytest.mark.parametrize("text", ["", "M", "-1", "1X", "1e3", "1,5G", "1 2", "0x10"])
def test_what_is_no_size_is_refused_by_name(text):
    with pytest.raises(TextError) as caught:
        parse_size_kib(text)
    assert repr(text) in str(caught.value)


@given(st.integers(0, 10**9))
def test_requests_are_rounded_up_and_supplies_down(kib):
    text = f"{kib}K"
    assert parse_size_mib(text) == -(-kib // 1024)
    assert parse_supply_mib(text) == kib // 1024


def test_the_unit_of_a_bare_number_may_be_said():
    assert parse_size_kib("500", default_unit="K") == 500
    assert parse_size_mib("500", default_unit="K") == 1
    assert parse_size_mib("2", default_unit="G") == 2048


@pytest.mark.parametrize(
    ("text", "span_us"),
    [("30", 30 * MINUTE_US), ("1:30", 90 * MINUTE_US), ("0.5", 30 * SECOND_US), ("0", 0),
     ("100:00", 100 * HOUR_US)],
)  # fmt: skip
def test_lsf_durations_are_hours_and_minutes(text, span_us):
    assert parse_lsf_minutes(text) == span_us


@pytest.mark.parametrize("text", ["", "1:2:3", "x", "-1", "1h", ":5"])
def test_what_is_no_lsf_duration_is_refused(text):
    with pytest.raises(TextError):
        parse_lsf_minutes(text)


@pytest.mark.parametrize(
    ("text", "span_us"),
    [("90s", 90 * SECOND_US), ("10m", 10 * MINUTE_US), ("1.5h", 90 * MINUTE_US),
     ("1d", 24 * HOUR_US), ("5ms", 5_000), ("7us", 7)],
)  # fmt: skip
def test_spans_carry_a_unit(text, span_us):
    assert parse_span_us(text) == span_us


@pytest.mark.parametrize("text", ["", "10", "s", "1.5", "-1s", "1 week"])
def test_a_span_without_a_unit_is_refused(text):
    with pytest.raises(TextError):
        parse_span_us(text)


@pytest.mark.parametrize(
    ("span_us", "text"),
    [(0, "0s"), (-5, "0s"), (42 * SECOND_US, "42s"), (65 * MINUTE_US, "1h 5m"),
     (25 * HOUR_US + 1, "1d 1h"), (HOUR_US + 5 * SECOND_US, "1h 5s")],
)  # fmt: skip
def test_spans_are_shown_in_their_two_largest_units(span_us, text):
    assert render_span(span_us) == text
