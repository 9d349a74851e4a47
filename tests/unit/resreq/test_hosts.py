"""The host list of -m."""

import pytest

from xce.model.request import HostChoice
from xce.resreq.errors import HostListError
from xce.resreq.hosts import NAMES_MAX, AskedHosts, parse_hosts


@pytest.mark.parametrize(
    ("text", "choices", "others"),
    [
        ("a", [("a", 0)], None),
        ("a b+2 others", [("b", 2), ("a", 0)], -1),
        ("a others+2", [("a", 0)], 2),
        ("  a+   b-1.x ", [("a", 1), ("b-1.x", 0)], None),
        ("a a+3 a+1", [("a", 3)], None),
        ("all", [], None),
        ("all+2", [], None),
        ("all a+1", [("a", 1)], 0),
        ("all+3 a+1", [("a", 1)], 3),
        ("n[8-10,02]x+1 b", [("n8x", 1), ("n9x", 1), ("n10x", 1), ("n02x", 1), ("b", 0)], None),
        ("r[1-2]n[01-02]", [("r1n01", 0), ("r1n02", 0), ("r2n01", 0), ("r2n02", 0)], None),
    ],
)
def test_hosts_come_best_first(text, choices, others):
    named = tuple(HostChoice(*choice) for choice in choices)
    expected = AskedHosts(named) if others is None else AskedHosts(named, True, others)
    assert parse_hosts(text) == expected


def test_hosts_are_left_out_of_all():
    assert parse_hosts("all ~n[2-3] ~b") == AskedHosts(excluded=("b", "n2", "n3"))
    found = parse_hosts("all a+1 ~b")
    assert found == AskedHosts((HostChoice("a", 1),), True, 0, ("b",))
    assert found.names == ("a", "b")


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
        ("a ~b", 3),
        ("~b", 1),
        ("a others ~b", 10),
        ("all ~b+1", 5),
        ("all ~all", 5),
        ("all a ~a", 7),
        ("all a others", 7),
        ("h[3-1]", 1),
        ("h[]", 1),
        ("h[1-2,]", 1),
        ("a h[1", 3),
        ("a@other", 1),
        ("a!!", 1),
        ("a!+2", 1),
        ("b a+2!", 3),
        ("b all!", 3),
        ("b others!", 3),
        ("a! a", 4),
        ("a! a+1", 4),
        ("all b ~a!", 7),
        ("all a! ~a", 8),
        (f"h[0-{NAMES_MAX}]", 1),
        (f"h[1-{NAMES_MAX}] h[1-2]x", 12 + len(str(NAMES_MAX)) - 5),
        ("h[1-999]n[1-999]", 1),
    ],
)
def test_a_wrong_list_is_refused(text, column):
    with pytest.raises(HostListError) as caught:
        parse_hosts(text)
    assert caught.value.column == column
    assert caught.value.lsf.startswith(("Bad host", '"'))


@pytest.mark.parametrize(
    ("text", "names", "first", "others"),
    [
        ("a!", ["a"], ["a"], None),
        ("b a[1-2]! c+1", ["c", "b", "a1", "a2"], ["a1", "a2"], None),
        ("b! others", ["b"], ["b"], -1),
        ("all b! c! ~d", ["b", "c"], ["b", "c"], 0),
    ],
)
def test_an_exclamation_mark_says_which_hosts_may_be_the_first(text, names, first, others):
    found = parse_hosts(text)
    assert [choice.host for choice in found.choices] == names
    assert found.first == tuple(first)
    assert found.others == (others is not None)
    assert found.others_preference == (-1 if others is None else others)


def test_lsf_tells_of_names_that_cannot_be_first():
    with pytest.raises(HostListError) as caught:
        parse_hosts("others!")
    assert caught.value.lsf == '"others" specified as first execution host'
