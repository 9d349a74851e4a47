"""Blocks, stripes, domains, parts, alternatives against brute force: what fits is found."""

import pytest
from hypothesis import given, settings
from placement import (
    HostShape,
    alternatives,
    build,
    clusters,
    compound,
    forms,
    largest,
    loads,
    names_that_are_there,
    simple,
    start,
)

from xce.model.reason import ReasonCode
from xce.model.request import Request

SHARE = settings(max_examples=300, derandomize=True, deadline=None)
LONG = settings(max_examples=10_000, deadline=None)


def check_found(shape: list[HostShape], load: list[tuple[int, int]], wanted: Request) -> None:
    """A job starts if and only if brute force finds a place, by the first form and as large."""
    wanted = names_that_are_there(wanted, shape)
    controller = build(shape, load)
    sizes = []
    for form in forms(controller, wanted):
        sizes.append(largest(controller, form))
        if sizes[-1]:
            break

    job = start(controller, wanted)

    live = controller.job(job).live
    if live and forms(controller, wanted)[live[0].alternative].request.whole_hosts:
        # The best hosts, not the largest ones.
        assert sizes[-1]
    else:
        assert (sum(live[0].tasks) if live else 0) == sizes[-1]
    if live:
        assert live[0].alternative == len(sizes) - 1
        return
    reason = controller.state.classes[controller.job(job).cls].reason
    assert reason.code not in (ReasonCode.NEW, ReasonCode.SEARCH)
    idle = build(shape, [])
    assert reason.unsatisfiable != any(largest(idle, form) for form in forms(idle, wanted))


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
