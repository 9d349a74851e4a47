"""``mail`` in ``xce.yaml``: how mail to users leaves the cluster."""

import re
from typing import Any, Final

from xce.config.document import Place, scalar_text
from xce.model.errors import TextError
from xce.model.mail import MailConfig, is_address

MAIL_DOMAIN: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_PROGRAM: Final = re.compile(r"/[^\s\x00-\x1f\x7f]{1,4000}")


def read_program(place: Place) -> str:
    """Read the absolute path of a program, without arguments."""
    text = scalar_text(place)
    if _PROGRAM.fullmatch(text) is None:
        raise TextError(f"{text[:60]!r}: expected the absolute path of a program")
    return text


def read_mail_address(place: Place) -> str:
    """Read an address."""
    text = scalar_text(place)
    if not is_address(text):
        raise TextError(f"{text[:60]!r} is no mail address")
    return text


def make_mail(place: Place, fields: dict[str, Any]) -> MailConfig:
    """Return how mail is sent; both ways at once are a problem."""
    found = MailConfig(**fields)
    place = place.at("mail")
    if found.sendmail and found.smtp:
        place.problem("give either sendmail or smtp")
    if found.starttls and not found.smtp:
        place.at("starttls").problem("belongs to smtp")
    if fields and not found.is_on:
        place.problem("give sendmail or smtp, without which no mail is sent")
    return found
