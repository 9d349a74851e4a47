"""Blocks, stripes, domains, parts, alternatives against brute force: what fits is found."""

import pytest
from hypothesis import given, settings
from placement import HostShape, alternatives, check_found, clusters, compound, loads, simple

from xce.model.request import Request

SHARE = settings(max_examples=300, derandomize=True, deadline=None)
LONG = settings(max_examples=10_000, deadline=None)


@SHARE
@given(shape=clusters(), load=loads, wanted=simple())
def test_a_job_starts_whenever_it_can_and_as_large_as_it_can(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)


@SHARE
@given(shape=clusters(3), load=loads, wanted=compound())
def test_all_parts_start_whenever_they_can(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)


@SHARE
@given(shape=clusters(3), load=loads, wanted=alternatives())
def test_the_first_alternative_that_fits_is_taken(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)


@pytest.mark.long
@pytest.mark.timeout(7200)
@LONG
@given(shape=clusters(), load=loads, wanted=simple())
def test_long_a_job_starts_whenever_it_can(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)


@pytest.mark.long
@pytest.mark.timeout(7200)
@LONG
@given(shape=clusters(3), load=loads, wanted=compound())
def test_long_all_parts_start_whenever_they_can(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)


@pytest.mark.long
@pytest.mark.timeout(7200)
@LONG
@given(shape=clusters(3), load=loads, wanted=alternatives())
def test_long_the_first_alternative_that_fits_is_taken(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)
