"""Names of time zones."""

from xce.calendars.zones import is_zone


def test_zones_are_iana_names() -> None:
    assert is_zone("Europe/Berlin")
    assert not is_zone("Mars/Olympus")
    assert not is_zone("../etc/passwd")
