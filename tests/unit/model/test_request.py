"""Which requests are placed in bulk."""

import pytest

from xce.testing.builders import request


@pytest.mark.parametrize(
    ("asks", "is_serial"),
    [
        (request(1), True),
        (request(4, one_host=True), True),
        (request(4), False),
        (request((1, 4)), False),
        (request((2, 4), one_host=True), False),
    ],
)
def test_a_request_is_serial_when_every_placement_is_one_host_and_one_count(asks, is_serial):
    assert asks.is_serial is is_serial
