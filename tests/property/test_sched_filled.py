"""Hosts that are filled, and differ in size, against brute force: ``cu[balance]``, ``-nnodes``."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from placement import HostShape, check_found, clusters, loads, simple

from xce.model.request import TASKS_MAX, Amount, CuWish, Request

SHARE = settings(max_examples=150, derandomize=True, deadline=None)
LONG = settings(max_examples=10_000, deadline=None)


@st.composite
def balanced(draw: st.DrawFn) -> Request:
    """Return requests that fill hosts and want even shares of domains."""
    base = draw(simple().filter(lambda found: not found.whole_hosts))
    wish = base.cu or CuWish("rack")
    pref = "config" if wish.pref == "bestfit" else wish.pref
    low = draw(st.integers(2, 9))
    base = replace(
        base,
        cu=replace(wish, balance=True, min_slots=0, pref=pref),
        one_host=False, block=0, stripe=0, hosts_max=0, select="",
        tasks_min=low, tasks_max=low + draw(st.integers(0, 4)),
    )  # fmt: skip
    return base if base.ptile_by_type else replace(base, ptile=-1)


@st.composite
def whole(draw: st.DrawFn) -> Request:
    """Return requests for so many whole hosts, mostly with a pool that lasts for few tasks."""
    base, count = draw(simple()), draw(st.integers(1, 3))
    seats = draw(
        st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["task", "job"])), max_size=2)
    )
    return replace(
        base,
        cu=base.cu and replace(base.cu, balance=False),
        amounts=tuple(sorted({per: Amount("seats", n, per) for n, per in seats}.values())),
        one_host=False, block=0, stripe=0, hosts_max=0, ptile=-1, ptile_by_type=(),
        whole_hosts=count, tasks_min=max(count, draw(st.integers(1, 4))), tasks_max=TASKS_MAX,
    )  # fmt: skip


@SHARE
@given(shape=clusters(4), load=loads, wanted=whole())
def test_whole_hosts_for_which_pools_last_are_found_whenever_there_are_any(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)


@SHARE
@given(shape=clusters(5), load=loads, wanted=balanced())
def test_even_shares_of_filled_hosts_are_found_whenever_there_are_any(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)


@pytest.mark.long
@pytest.mark.timeout(7200)
@LONG
@given(shape=clusters(5), load=loads, wanted=balanced())
def test_long_even_shares_of_filled_hosts_are_found(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)


@pytest.mark.long
@pytest.mark.timeout(7200)
@LONG
@given(shape=clusters(4), load=loads, wanted=whole())
def test_long_whole_hosts_for_which_pools_last_are_found(
    shape: list[HostShape], load: list[tuple[int, int]], wanted: Request
) -> None:
    check_found(shape, load, wanted)
