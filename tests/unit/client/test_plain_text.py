"""What a user's texts look like in other people's listings."""

import pytest

from xce.client.plain_text import make_plain, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("naïve ☃ 日本\xa0“q”", "naïve ☃ 日本\xa0“q”"),
        ("two\nlines", "two;lines"),
        ("a\tb", "a b"),
        ("\x1b[2Jgone", "?[2Jgone"),
        ("\x9b31mred\x7f\r\u2028", "?31mred???"),
        ("not UTF-8: \udcff", "not UTF-8: \udcff"),
        ("", ""),
    ],
)
def test_control_characters_are_shown_as_marks(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_rows_are_made_plain_as_deep_as_they_go() -> None:
    rows = [
        {"jobid": 1, "output": "a\nb", "hosts": [["h1", 4]], "reason": {"text": "c\x1bd"}},
        {"events": [{"detail": "e\rf"}, {"detail": "g"}], "empty": [], "none": None},
    ]
    make_plain(rows)
    assert rows == [
        {"jobid": 1, "output": "a;b", "hosts": [["h1", 4]], "reason": {"text": "c?d"}},
        {"events": [{"detail": "e?f"}, {"detail": "g"}], "empty": [], "none": None},
    ]
