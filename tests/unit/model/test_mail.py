"""Addresses of mail: plain ones, and nothing that a program could take for something else."""

import pytest

from xce.model.mail import RECIPIENTS_MAX, TEXT_MAX, is_address, parse_recipients


@pytest.mark.parametrize(
    "text", ["ann", "ann@x.org", "ann.b+c@mail.x.org", "a_b", "x@localhost", "4@5", "a" * 64]
)
def test_plain_addresses_and_names_are_taken(text):
    assert is_address(text)
    assert parse_recipients(text) == (text,)


@pytest.mark.parametrize(
    "text",
    [
        "", "-oQ", "--", "-a@x", "a b", "a\n@x", "a@x\r\nBcc: b", "<a@x>", '"a"@x', "a@", "@x",
        "a@x y", "a@-x", "a|b", "a;b", "é@x", "a@x.org\x00", "a" * 65, "a@" + "x" * 254, "a-",
    ],
)  # fmt: skip
def test_anything_else_is_none(text):
    assert not is_address(text)


def test_several_stand_between_blanks_and_commas_each_once():
    assert parse_recipients(" a@x, b  a@x,,c ") == ("a@x", "b", "c")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" , ", "names nobody"),
        ("a b|c", "'b|c' is no mail address"),
        (" ".join(f"u{number}" for number in range(RECIPIENTS_MAX + 1)), "21 addresses"),
        ("a" * (TEXT_MAX + 1), "512 characters"),
    ],
)
def test_what_is_wrong_is_said(text, why):
    with pytest.raises(ValueError, match=why.replace("|", r"\|")):
        parse_recipients(text)
