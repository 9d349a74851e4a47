"""Addresses as people write them."""

import pytest

from xce.model.address import Address, is_loopback, parse_address
from xce.model.errors import TextError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:7820", "10.0.0.1", 7820),
        (" head.site.org:1 ", "head.site.org", 1),
        ("[::1]:65535", "::1", 65535),
        ("[fe80::1]:80", "fe80::1", 80),
    ],
)
def test_an_address_is_read_and_written(text, host, port):
    found = parse_address(text)
    assert found == Address(host, port)
    assert str(found) == text.strip()


@pytest.mark.parametrize(
    "text",
    ["", ":", "host", "host:", ":80", "host:0", "host:65536", "host:x", "a b:80", "::1:80",
     "[::1]", "[::1:80", "[host]:80", "host:\uff180", "-x:80", "x" * 300 + ":1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text):
    with pytest.raises(TextError, match="is no address"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "is_so"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True),
     ("10.0.0.1", False), ("0.0.0.0", False), ("head", False), ("::ffff:10.0.0.1", False)],
)  # fmt: skip
def test_what_only_its_own_machine_can_reach(host, is_so):
    assert is_loopback(host) is is_so
