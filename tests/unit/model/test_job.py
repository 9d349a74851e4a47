"""Arrays: positions and indices."""

import pytest
from hypothesis import given

from xce.model.job import AS_DONE, END_CAUSE_TEXT, ArraySpec, EndCause
from xce.testing.strategies import arrays


def indices(array):
    return [index for first, last, step in array.runs for index in range(first, last + 1, step)]


@given(arrays())
def test_positions_count_the_indices_in_order(array):
    found = indices(array)
    assert array.count == len(found)
    assert [array.index_of(position) for position in range(array.count)] == found
    for position, index in enumerate(found):
        assert array.has(index)
        assert array.position_from(index) == position


@given(arrays())
def test_the_position_from_an_index_is_that_of_the_next_element(array):
    found = indices(array)
    for index in range(found[-1] + 3):
        expected = sum(one < index for one in found)
        assert array.position_from(index) == expected
        assert array.has(index) == (index in found)


def test_there_is_no_element_behind_the_last():
    with pytest.raises(IndexError):
        ArraySpec(((1, 3, 1),)).index_of(3)


def test_every_end_cause_but_none_has_a_keyword_and_a_text():
    for cause in EndCause:
        assert (cause in END_CAUSE_TEXT) == (cause is not EndCause.NONE)
    told = dict(END_CAUSE_TEXT)
    as_done = [told.pop(done) == told[cause] for cause, done in AS_DONE.items()]
    keywords = [keyword for keyword, _ in told.values()]
    assert all(as_done)
    assert len(set(keywords)) == len(keywords)
    assert all(keyword.startswith("TERM_") for keyword in keywords)


def test_end_causes_fit_into_the_byte_that_stores_them():
    assert max(EndCause) < 256
