"""What mail a submission asks for, and what is said where it will not come."""

from collections.abc import Sequence

from xce.apiserver.problems import refused
from xce.model.config import ClusterConfig
from xce.model.job import JobSpec
from xce.model.mail import NOTICE_WORDS, Notice, parse_recipients
from xce.model.refusal import RefusalCode


def read_notices(words: Sequence[str]) -> int:
    """Return what mail is wanted about, as bits."""
    found = Notice.NONE
    for word in words:
        found |= NOTICE_WORDS[word]
    return int(found)


def read_recipients(text: str) -> str:
    """Return the addresses that mail goes to, with commas between them.

    Raises:
        ProblemError: One is none, or there are too many.
    """
    if not text:
        return ""
    try:
        return ",".join(parse_recipients(text))
    except ValueError as error:
        raise refused(RefusalCode.BAD_REQUEST, f"Bad mail address: -u: {error}") from error


def warn_of_mail(spec: JobSpec, config: ClusterConfig) -> str:
    """Return what is said of mail that will not come; empty: nothing."""
    if spec.notices and not config.mail.is_on:
        return "no mail is sent by this cluster: the report goes to the output file"
    if spec.mail_to and not spec.notices:
        return "-u alone brings no mail: add -B, -N or -Ne"
    return ""
