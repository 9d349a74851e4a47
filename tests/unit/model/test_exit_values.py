"""Lists of exit statuses in LSF's words."""

import pytest

from xce.model.errors import TextError
from xce.model.exit_values import parse_exit_values, render_exit_values


@pytest.mark.parametrize(
    ("text", "codes", "elsewhere"),
    [
        ("5 1", (1, 5), ()),
        ("all ~0 ~2", (1, *range(3, 256)), ()),
        ("all ~1 2", tuple(range(2, 256)), ()),
        ("1 2 EXCLUDE(7, 9)", (1, 2, 7, 9), (7, 9)),
        ("EXCLUDE(7 9)", (7, 9), (7, 9)),
        ("all ~1 ~2 EXCLUDE(9)", tuple(range(3, 256)), (9,)),
    ],
)
def test_a_list_names_exit_statuses_and_those_that_exclude_the_host(text, codes, elsewhere):
    assert parse_exit_values(text) == (codes, elsewhere)
    assert parse_exit_values(render_exit_values(codes, elsewhere)) == (codes, elsewhere)


@pytest.mark.parametrize(
    "text",
    ["", "~3", "0", "256", "x", "1-5", "EXCLUDE()", "EXCLUDE(7", "EXCLUDE(7) 8", "²", "12345"],
)
def test_what_names_no_exit_status_is_refused(text):
    with pytest.raises(TextError):
        parse_exit_values(text)


def test_many_are_told_by_those_that_are_missing():
    assert render_exit_values(tuple(range(2, 255))) == "all ~1 ~255"
    assert render_exit_values(()) == ""
