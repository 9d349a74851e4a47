"""What ``bsub -f`` asks for."""

import pytest

from xce.model.errors import TextError
from xce.model.transfers import parse_transfer, render_transfer


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a > b", ("a", ">", "b")),
        ("  /x/a   <<  b ", ("/x/a", "<<", "b")),
        ("a <", ("a", "<", "a")),
        ("a ><", ("a", "><", "a")),
        ("a <> /b", ("a", "<>", "/b")),
    ],
)
def test_a_missing_remote_path_is_the_local_one(text, found):
    assert parse_transfer(text) == found
    assert parse_transfer(render_transfer((*found, "place"))) == found


@pytest.mark.parametrize(
    "text", ["", "a", "a>b", "a >b", "> b", "a b", "a b >", "a > b c", "a > <", "a >> b", "a > b <"]
)
def test_the_operator_stands_second_with_blanks_around_it(text):
    with pytest.raises(TextError, match="LOCAL OPERATOR"):
        parse_transfer(text)
