import json

import pytest

from xce.client.json_text import parse_json, render_json

VALUES = [
    None,
    True,
    False,
    0,
    -12,
    3.25,
    1e300,
    "",
    'a"b\\c\n\t\u0000é😀/',
    [],
    {},
    [1, [2, {"a": None}]],
    {"ä": "ö", "n": {"x": [1.5, "y"]}},
]


@pytest.mark.parametrize("value", VALUES)
def test_rendering_and_parsing_agree_with_the_standard_library(value):
    text = render_json(value)
    assert json.loads(text) == value
    assert parse_json(text) == value
    assert parse_json(f" \n{json.dumps(value, indent=2)}\r\n ") == value
    assert text.isascii()


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "nope", "1 2", "{'a':1}", '{"a" 1}', '"x'])
def test_what_is_no_json_is_an_error(text):
    with pytest.raises(ValueError):  # noqa: PT011
        parse_json(text)


def test_what_has_no_json_form_is_an_error():
    with pytest.raises(TypeError):
        render_json(object())
