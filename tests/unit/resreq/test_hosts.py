"""The host list of -m."""

import pytest

from xce.model.request import HostChoice
from xce.resreq.errors import HostListError, HostListNotBuiltError
from xce.resreq.hosts import parse_hosts


@pytest.mark.parametrize(
    ("text", "choices", "others"),
    [
        ("a", [("a", 0)], False),
        ("a b+2 others", [("b", 2), ("a", 0)], True),
        ("  a+   b-1.x ", [("a", 1), ("b-1.x", 0)], False),
        ("a a+3 a+1", [("a", 3)], False),
        ("all", [], False),
    ],
)
def test_hosts_come_best_first(text, choices, others):
    assert parse_hosts(text) == (tuple(HostChoice(*choice) for choice in choices), others)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        (" ", 1),
        ("others", 1),
        ("a b,c", 3),
        ("a+x", 1),
        ("+2", 1),
        ("a" * 20_000, 16_385),
    ],
)
def test_a_wrong_list_is_refused(text, column):
    with pytest.raises(HostListError) as caught:
        parse_hosts(text)
    assert caught.value.column == column
    assert caught.value.lsf.startswith("Bad host")
    assert not isinstance(caught.value, HostListNotBuiltError)


@pytest.mark.parametrize(
    "text", ["a!", "a@other", "all ~a", "all a", "a others+2", "h[1-3]", "all+2 a"]
)
def test_what_is_not_honoured_yet_is_refused_by_name(text):
    with pytest.raises(HostListNotBuiltError, match="not built yet") as caught:
        parse_hosts(text)
    assert caught.value.lsf == ""
