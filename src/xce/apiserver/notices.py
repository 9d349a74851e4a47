"""What mail a submission asks for, and what is said where it will not come."""

from typing import TypedDict

from xce.apiserver.problems import refused
from xce.apiserver.submission_body import SubmissionBody
from xce.model.config import ClusterConfig
from xce.model.job import JobSpec
from xce.model.mail import NOTICE_WORDS, Notice, parse_recipients
from xce.model.refusal import RefusalCode


class MailMembers(TypedDict):
    """Members of a `JobSpec`."""

    notices: int
    mail_to: str


def read_mail(body: SubmissionBody) -> MailMembers:
    """Return what mail is wanted about, and where it goes.

    Raises:
        ProblemError: An address is none, or there are too many.
    """
    found = Notice.NONE
    for word in body.notices:
        found |= NOTICE_WORDS[word]
    return {"notices": int(found), "mail_to": _read_recipients(body.mail_to)}


def _read_recipients(text: str) -> str:
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
