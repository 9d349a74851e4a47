import pytest

from xce.config.names import HOSTS_MAX, expand_names
from xce.model.errors import TextError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("h1", ("h1",)),
        ("g[01-03]", ("g01", "g02", "g03")),
        ("g[8-11]", ("g8", "g9", "g10", "g11")),
        ("a,b[1-3]", ("a", "b1", "b2", "b3")),
        ("a b", ("a", "b")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("n[1-2,5,07]", ("n1", "n2", "n5", "n07")),
        ("h[1-2].site.org", ("h1.site.org", "h2.site.org")),
    ],
)
def test_a_pattern_means_its_names_in_order(text: str, names: tuple[str, ...]) -> None:
    assert expand_names(text) == names


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no host"),
        (",,", "names no host"),
        ("g[1-", "do not match"),
        ("g]1[", "do not match"),
        ("g[[1]]", "do not match"),
        ("g[]", "no range"),
        ("g[a-b]", "no range"),
        ("g[3-1]", "runs backwards"),
        ("g[1,1]", "'g1' twice"),
        ("a,a", "'a' twice"),
        ("all", "cannot be a host's name"),
        ("-x", "no host name"),
        ("h/1", "no host name"),
        ("h" * 64, "no host name"),
        (f"g[1-{HOSTS_MAX + 1}]", "more than"),
        ("g[1-999999999]", "more than"),
        ("g[1-1000][1-1000]", "more than"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(TextError, match=complaint):
        expand_names(text)
