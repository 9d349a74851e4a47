"""Mail to users leaves the cluster: by a program or by a server, each message at most once.

A message that certainly did not leave is tried again, later and later, for a day. One of which it
is not known (the server was lost in the middle of it) is told in the log and not sent again.
"""

import asyncio
import contextlib
import enum
import smtplib
import ssl
import time
from collections.abc import Sequence
from email.message import EmailMessage
from logging import Logger
from typing import Final

from xce.daemon.mail_text import compose, find_attempt, recipients_of, sender_of
from xce.journal.history_reader import HistoryReader
from xce.journal.history_store import HistoryError
from xce.journal.mail_spool import Letter, MailSpool
from xce.model.address import parse_address
from xce.model.ids import SECOND_US, Micros
from xce.model.mail import MailConfig

ROUND: Final = 50
"""So many messages are looked up at once."""
RETRY_S: Final = 60.0
"""To the second try; each further one takes twice as long, up to an hour."""
RETRY_MAX_S: Final = 3_600.0
GIVE_UP_S: Final = 86_400.0
TIMEOUT_S: Final = 60.0
LATER_CODES: Final = frozenset((69, 70, 71, 74, 75))
"""Exit statuses of a program (``sysexits.h``) that may go away: service, machine, load."""
_TEMPORARY: Final = 500
"""Answers of a server from this number on are final."""


class Outcome(enum.Enum):
    """What became of a try."""

    SENT = "sent"
    LATER = "later"
    """It certainly did not leave; another try may."""
    REFUSED = "refused"
    """It never will."""
    UNSURE = "unsure"
    """It may have left."""


Tried = tuple[Outcome, str]
"""And why, in words."""


def send_by_server(
    config: MailConfig, sender: str, recipients: Sequence[str], content: bytes
) -> Tried:
    """Give a message to a server; blocks."""
    address = parse_address(config.smtp)
    try:
        server = smtplib.SMTP(address.host, address.port, timeout=TIMEOUT_S)
    except (OSError, smtplib.SMTPException) as error:
        return Outcome.LATER, _words(error)
    with contextlib.closing(server):
        try:
            server.ehlo_or_helo_if_needed()
            if config.starttls:
                server.starttls(context=ssl.create_default_context())
                server.ehlo()
            taken, why = _address(server, sender, recipients)
        except (OSError, smtplib.SMTPException) as error:
            return Outcome.LATER, _words(error)
        if taken is not Outcome.SENT:
            return taken, why
        return _hand_over(server, content)


def _address(server: smtplib.SMTP, sender: str, recipients: Sequence[str]) -> tuple[Outcome, str]:
    """Tell the server whom a message is from and for; SENT: it takes it for somebody."""
    code, answer = server.mail(sender)
    if code >= _TEMPORARY:
        return Outcome.REFUSED, f"sender {sender}: {code} {_text(answer)}"
    if code >= 400:
        return Outcome.LATER, f"sender {sender}: {code} {_text(answer)}"
    answers = [(one, *server.rcpt(one)) for one in recipients]
    if any(code < 400 for _, code, _ in answers):
        return Outcome.SENT, ""
    why = "; ".join(f"{one}: {code} {_text(answer)}" for one, code, answer in answers)
    is_final = all(code >= _TEMPORARY for _, code, _ in answers)
    return Outcome.REFUSED if is_final else Outcome.LATER, why


def _hand_over(server: smtplib.SMTP, content: bytes) -> Tried:
    answer: bytes | str
    try:
        code, answer = server.data(content)
    except smtplib.SMTPDataError as error:
        code, answer = error.smtp_code, error.smtp_error
    except (OSError, smtplib.SMTPException) as error:
        return Outcome.UNSURE, _words(error)
    if code < 400:
        with contextlib.suppress(OSError, smtplib.SMTPException):
            server.quit()
        return Outcome.SENT, ""
    outcome = Outcome.REFUSED if code >= _TEMPORARY else Outcome.LATER
    return outcome, f"{code} {_text(answer)}"


async def send_by_program(
    config: MailConfig, sender: str, recipients: Sequence[str], content: bytes
) -> Tried:
    """Give a message to a program."""
    words = (config.sendmail, "-i", "-f", sender, "--", *recipients)
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
        )
    except OSError as error:
        return Outcome.LATER, f"{config.sendmail}: {_words(error)}"
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, answer = await process.communicate(content)
    except TimeoutError:
        process.kill()
        await process.wait()
        return Outcome.UNSURE, f"{config.sendmail}: did not end within {TIMEOUT_S:.0f} s"
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode == 0:
        return Outcome.SENT, ""
    why = f"{config.sendmail}: exit status {process.returncode}: {_text(answer[:400])}"
    return Outcome.LATER if process.returncode in LATER_CODES else Outcome.REFUSED, why


async def deliver(config: MailConfig, recipients: Sequence[str], message: EmailMessage) -> Tried:
    """Send a message in the configured way."""
    sender, content = sender_of(config), message.as_bytes()
    if config.sendmail:
        content = content.replace(b"\r\n", b"\n")
        return await send_by_program(config, sender, recipients, content)
    return await asyncio.to_thread(send_by_server, config, sender, recipients, content)


def _text(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return " ".join(text.split())[:400]


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:400]


class Mailer:
    """Sends what the spool has, one message after the other.

    Args:
        spool: What is to be sent.
        reader: The history, which knows the jobs.
        log: Where things are told.
        retry_s: To the second try.
        give_up_s: So long after an event its message is tried no more.
    """

    def __init__(
        self,
        spool: MailSpool,
        reader: HistoryReader,
        log: Logger,
        *,
        retry_s: float = RETRY_S,
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        self._spool = spool
        self._reader = reader
        self._log = log
        self._retry_s = retry_s
        self._give_up_s = give_up_s
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Hear that there may be new messages."""
        self._news.set()

    async def run(self) -> None:
        """Send for ever."""
        while not self._has_begun():  # noqa: ASYNC110 - nobody tells when the store is back
            await asyncio.sleep(self._retry_s)
        while True:
            self._news.clear()
            pause_s = await self._send_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._news.wait()

    def _has_begun(self) -> bool:
        """Forget what was leaving when the daemon ended; return whether that could be done."""
        try:
            leaving = self._spool.forget_leaving()
        except HistoryError as error:
            self._log.error("mail-not-kept", extra={"why": str(error)})
            return False
        for letter in leaving:
            self._tell("mail-unsure", letter, "the daemon ended while it was sent")
        return True

    async def _send_due(self) -> float | None:
        """Send what is due; return for how long there is nothing to do, None: for ever."""
        try:
            while self._spool.config.is_on:
                letters = self._spool.due(_now_us(), ROUND)
                for letter in letters:
                    if await self._send_safely(letter) is Outcome.LATER:
                        # Most likely nothing leaves now.
                        return self._retry_s
                if not letters:
                    break
            next_at_us = self._spool.next_at_us() if self._spool.config.is_on else None
        except HistoryError as error:
            self._log.error("mail-not-kept", extra={"why": str(error)})
            return self._retry_s
        if next_at_us is None:
            return None
        return min(RETRY_MAX_S, max(0.05, (next_at_us - _now_us()) / SECOND_US))

    async def _send_safely(self, letter: Letter) -> Outcome:
        """Send a message; one that cannot be made or sent at all keeps no other from leaving."""
        try:
            return await self._send(letter)
        except HistoryError:
            raise
        except Exception:  # noqa: BLE001 - told, and of one message only
            self._log.exception("mail-fault", extra={"job": letter.job, "index": letter.index})
            self._spool.remove(letter)
            return Outcome.REFUSED

    async def _send(self, letter: Letter) -> Outcome:
        spool, config = self._spool, self._spool.config
        past = self._reader.course(letter.job, ((letter.index, letter.index),))
        attempt = find_attempt(past, letter) if past is not None else None
        if past is None or attempt is None:
            return self._try_later(letter, "the history does not have it yet")
        recipients = recipients_of(past, config)
        if not recipients:
            spool.remove(letter)
            self._tell("mail-not-sent", letter, f"{past.owner.user!r} is no mail address")
            return Outcome.REFUSED
        message = compose(past, attempt, letter, config, spool.cluster)
        spool.leave(letter)
        outcome, why = await deliver(config, recipients, message)
        if outcome is Outcome.LATER:
            return self._try_later(letter, why)
        spool.remove(letter)
        if outcome is Outcome.SENT:
            self._log.info("mail-sent", extra={"job": letter.job, "index": letter.index})
        else:
            what = "mail-unsure" if outcome is Outcome.UNSURE else "mail-not-sent"
            self._tell(what, letter, why)
        return outcome

    def _try_later(self, letter: Letter, why: str) -> Outcome:
        now_us = _now_us()
        if now_us - letter.at_us > self._give_up_s * SECOND_US:
            self._spool.remove(letter)
            self._tell("mail-not-sent", letter, why)
            return Outcome.REFUSED
        pause_s = min(RETRY_MAX_S, self._retry_s * 2 ** min(letter.tries, 20))
        self._spool.put_back(letter, now_us + round(pause_s * SECOND_US))
        self._tell("mail-delayed", letter, why)
        return Outcome.LATER

    def _tell(self, what: str, letter: Letter, why: str) -> None:
        told = {"job": letter.job, "index": letter.index, "tries": letter.tries + 1, "why": why}
        self._log.warning(what, extra=told)


def _now_us() -> Micros:
    return time.time_ns() // 1_000
