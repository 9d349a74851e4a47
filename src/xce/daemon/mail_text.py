"""Mail to users as messages: what stands in their heads and bodies.

Names of jobs, paths and commands are users' texts: they come into a head without control
characters, so that no line of a head can be made by them.
"""

import time
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Final

from xce.journal.mail_spool import Letter
from xce.journal.past import PastAttempt, PastJob
from xce.model.effect import Launch
from xce.model.ids import SECOND_US, Micros
from xce.model.job import EndCause, Outcome
from xce.model.mail import MailConfig, Notice, is_address
from xce.model.observation import AttemptEnded
from xce.worker.dates import render_date
from xce.worker.report import Around, render_mail, render_start, report_subject
from xce.worker.streams import working_directory

SUBJECT_MAX: Final = 400
SENDER: Final = "xce"


def recipients_of(past: PastJob, config: MailConfig) -> list[str]:
    """Return the addresses that mail about a job goes to; none: its owner's name is no address."""
    named = [one for one in past.spec.mail_to.split(",") if one] or [past.owner.user]
    return [with_domain(one, config) for one in named if is_address(one)]


def with_domain(address: str, config: MailConfig) -> str:
    """Return an address with the configured domain, if it has none."""
    return f"{address}@{config.domain}" if config.domain and "@" not in address else address


def sender_of(config: MailConfig) -> str:
    """Return whom mail is from."""
    return with_domain(config.sender or SENDER, config)


def find_attempt(past: PastJob, letter: Letter) -> PastAttempt | None:
    """Return the attempt that a message is about, or None when the history has it not yet."""
    mine = [one for one in past.attempts if one.index == letter.index]
    if letter.notice is not Notice.START:
        mine = [one for one in mine if one.ended.attempt == letter.attempt and not one.is_live]
    return mine[-1] if mine else None


def compose(
    past: PastJob, attempt: PastAttempt, letter: Letter, config: MailConfig, cluster: str
) -> EmailMessage:
    """Return a message.

    Args:
        past: The job, with its attempts.
        attempt: The one that it is about.
        letter: What happened.
        config: Whom it is from.
        cluster: The cluster's name.
    """
    now_us, past = time.time_ns() // 1_000, past.at(letter.index)
    launch, end = _launch(past, attempt, cluster), _end(past, attempt, now_us)
    host = attempt.hosts[0][0] if attempt.hosts else ""
    cwd, _ = working_directory(launch, attempt.index, host)
    is_start = letter.notice is Notice.START
    render = render_start if is_start else render_mail
    text = render(launch, end, Around(past.spec.command, cwd, past.spec.home, now_us, render_date))
    subject = report_subject(launch, end)
    if is_start:
        subject = f"{subject.rpartition(' ')[0]} Started"
    message = EmailMessage(policy=SMTP)
    message["From"] = sender_of(config)
    message["To"] = ", ".join(recipients_of(past, config))
    message["Subject"] = plain(subject)[:SUBJECT_MAX]
    message["Date"] = formatdate(now_us / SECOND_US, localtime=True)
    message["Message-ID"] = f"<{past.job}.{letter.index}.{letter.number}.{letter.at_us}@xce>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(plain(text, keep="\n\t"), charset="utf-8", cte="quoted-printable")
    return message


def plain(text: str, *, keep: str = "") -> str:
    """Return a text without control characters and without what cannot be sent."""
    shown = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(one if one.isprintable() or one in keep else "?" for one in shown)


def _launch(past: PastJob, attempt: PastAttempt, cluster: str) -> Launch:
    """Return what was started, as far as a report tells it."""
    return Launch(
        job=past.job,
        indices=[attempt.index],
        attempts=[attempt.ended.attempt],
        spec=past.spec,
        owner=past.owner,
        queue=past.key.queue,
        project=past.key.project,
        cluster=cluster,
        hosts=attempt.hosts,
        tasks_max=past.key.request.tasks_asked,
        submit_at_us=past.submit_at_us,
        run_limit_us=past.key.run_limit_us,
        term_grace_us=0,
        kill_interval_us=0,
        resreq=past.resreq,
        group=past.key.group,
        # The cluster has said that it ended well.
        success_codes=(attempt.ended.exit_code,) if attempt.ended.outcome == Outcome.DONE else (),
    )


def _end(past: PastJob, attempt: PastAttempt, now_us: Micros) -> AttemptEnded:
    """Return how it ended, with ages from now."""
    ended = attempt.ended
    started_at_us = ended.started_at_us or attempt.placed_at_us
    return AttemptEnded(
        past.job,
        attempt.index,
        ended.attempt,
        exit_code=ended.exit_code,
        signal=ended.signal,
        cause=EndCause(ended.cause),
        started_age_us=max(0, now_us - started_at_us),
        ended_age_us=max(0, now_us - (ended.ended_at_us or now_us)),
        user_us=ended.cpu_us,
        max_mem_kib=ended.max_mem_kib,
    )
