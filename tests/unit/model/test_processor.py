"""Processors: sets of them as masks, words and lists; hosts that are made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xce.model.errors import TextError
from xce.model.processor import (
    join_words,
    layout_of,
    made_up,
    mask_of,
    numbers_in,
    parse_list,
    render_list,
    words_for,
    words_of,
)

sets = st.sets(st.integers(0, 1023), max_size=40)


@given(sets)
def test_a_set_is_the_same_as_mask_words_and_list(numbers: set[int]) -> None:
    mask = mask_of(numbers)
    assert set(numbers_in(mask)) == numbers
    words = words_of(mask, 18)
    assert all(0 <= word < 1 << 60 for word in words)
    assert join_words(words) == mask
    assert set(parse_list(render_list(numbers))) == numbers


def test_lists_are_written_as_the_kernel_does() -> None:
    assert render_list([8, 0, 1, 2, 3]) == "0-3,8"
    assert parse_list("0-3,8\n") == (0, 1, 2, 3, 8)
    assert parse_list("\n") == ()


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1024", "0-1024", "1" * 30])
def test_what_is_no_list_is_an_error(text: str) -> None:
    with pytest.raises(TextError):
        parse_list(text)


def test_a_host_that_is_made_up_is_numbered_as_kernels_do() -> None:
    found = made_up({"sockets": 2, "cores": 2, "threads": 2, "numa": 4})
    layout = layout_of(found)
    assert layout.domains["core"] == (0b1_0001, 0b10_0010, 0b100_0100, 0b1000_1000)
    assert layout.domains["socket"] == (0b11_0011, 0b1100_1100)
    assert layout.domains["numa"] == layout.domains["core"]
    assert layout.is_told_only
    assert words_for(found) == 1
    assert layout.around(0b1, "socket") == 0b11_0011
    assert layout.numbers(0b101, "socket") == [0, 1]
