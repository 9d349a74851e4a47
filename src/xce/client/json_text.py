"""JSON for the commands, without the standard ``json`` package.

``json`` pulls in ``re`` and ``enum``: 6 ms of CPU at each start of a command, as much as the bare
interpreter. Its C scanner alone costs nothing; where an interpreter lacks it, ``json`` is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    from _json import encode_basestring_ascii, make_scanner
except ImportError:  # pragma: no cover - an interpreter without the C scanner
    from json.encoder import encode_basestring_ascii
    from json.scanner import make_scanner


class _Settings:
    """What the scanner reads about how to parse."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_SCAN = make_scanner(_Settings())  # type: ignore[arg-type]


def parse_json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value that ``text`` holds.

    Raises:
        ValueError: The text is no JSON.
    """
    start = 0
    while text[start : start + 1] in {" ", "\t", "\r", "\n"}:
        start += 1
    try:
        value, end = _SCAN(text, start)
    except StopIteration as error:
        raise ValueError(f"no JSON at character {error.value}") from None
    if text[end:].strip(" \t\r\n"):
        raise ValueError(f"more than one JSON value, the second at character {end}")
    return value


def render_string(text: str) -> str:
    """Return ``text`` as a JSON string in ASCII."""
    return encode_basestring_ascii(text)


def render_json(value: object) -> str:
    """Return ``value`` (dicts, lists, texts, numbers, booleans, None) as JSON in ASCII."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        items = [f"{encode_basestring_ascii(name)}:{render_json(value[name])}" for name in value]
        return "{" + ",".join(items) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([render_json(item) for item in value]) + "]"
    raise TypeError(f"{type(value).__name__} has no JSON form")
