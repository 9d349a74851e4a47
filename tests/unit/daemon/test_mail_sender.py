"""Mail to users: what leaves, once, whatever the server or program does."""

import asyncio
import email
import logging
import stat

import msgspec
import pytest
from smtp_sink import SmtpSink

from xce.daemon.mail_sender import Mailer, Outcome
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.mail_spool import MailSpool
from xce.model.mail import ENDS, MailConfig, Notice
from xce.testing.builders import (
    cluster,
    place,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
)

LOG = logging.getLogger("mail-test")


class Story:
    """A cluster with a history, a spool and a mailer behind it."""

    def __init__(self, folder, config):
        self.controller = cluster({"h1": 4}, mail=config)
        self.folder = folder
        self.writer = HistoryWriter(folder / "history.db")
        self.reader = HistoryReader(folder / "history.db")
        self.spool = MailSpool(folder / "mail.db")
        self.told = 0

    def submit(self, notices=ENDS, mail_to="", **more):
        wanted = submission(**more)
        spec = msgspec.structs.replace(wanted.spec, notices=int(notices), mail_to=mail_to)
        return submit(self.controller, msgspec.structs.replace(wanted, spec=spec))

    def keep(self):
        """Store what has happened since."""
        fresh = self.controller.entries[self.told :]
        self.told += len(fresh)
        self.spool.take(fresh)
        self.spool.commit()
        self.writer.take(fresh, crc=None, epoch=1)
        self.writer.commit()

    def again(self):
        """Let the daemon begin anew."""
        self.spool.close()
        self.spool = MailSpool(self.folder / "mail.db")

    def delayed(self):
        """Return the messages that were tried in vain."""
        return [letter for letter in self.spool.due(1 << 62, 10) if letter.tries]

    async def send(self, *, retry_s=300.0, give_up_s=1e12):
        """Send until there is nothing left, or it is to be tried later."""
        mailer = Mailer(self.spool, self.reader, LOG, retry_s=retry_s, give_up_s=give_up_s)
        task = asyncio.create_task(mailer.run())
        try:
            async with asyncio.timeout(30.0):
                while self.spool.next_at_us() is not None and not self.delayed():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def close(self):
        self.writer.close()
        self.reader.close()
        self.spool.close()


def play(folder, story, **config):
    async def run():
        async with SmtpSink() as sink:
            found = Story(folder, MailConfig(smtp=sink.address, **config))
            try:
                await story(found, sink)
            finally:
                found.close()

    asyncio.run(run())


def parsed(message):
    _, _, content = message
    return email.message_from_bytes(content.removesuffix(b".\r\n"))


def test_a_report_goes_to_the_owner_when_the_job_has_ended(tmp_path):
    async def story(mail, sink):
        job = mail.submit(name="sum")
        run_job(mail.controller, job, exit_code=3)
        mail.keep()
        await mail.send()
        (message,) = sink.messages
        assert message[:2] == ("<xce@example.org>", ["<alice@example.org>"])
        found = parsed(message)
        assert found["Subject"] == f"Job {job}: <sum> in cluster <xce> Exited"
        assert found["To"] == "alice@example.org"
        assert found["Auto-Submitted"] == "auto-generated"
        text = found.get_payload(decode=True).decode()
        assert "Exited with exit code 3." in text
        assert "Resource usage summary:" in text
        assert f"xcecli output {job}" in text

    play(tmp_path, story, domain="example.org")


@pytest.mark.parametrize(
    ("notices", "exit_code", "count"),
    [
        (Notice.START, 0, 1), (Notice.DONE, 0, 1), (Notice.EXIT, 0, 0), (Notice.EXIT, 1, 1),
        (Notice.START | ENDS, 1, 2), (Notice.NONE, 0, 0),
    ],
)  # fmt: skip
def test_mail_comes_about_what_was_asked_for(tmp_path, notices, exit_code, count):
    async def story(mail, sink):
        job = mail.submit(notices)
        run_job(mail.controller, job, exit_code=exit_code)
        mail.keep()
        await mail.send()
        assert len(sink.messages) == count
        if notices & Notice.START:
            assert parsed(sink.messages[0])["Subject"].endswith("Started")

    play(tmp_path, story)


def test_what_was_sent_is_not_sent_again_whoever_begins_anew(tmp_path):
    async def story(mail, sink):
        job = mail.submit()
        run_job(mail.controller, job)
        mail.keep()
        await mail.send()
        mail.again()
        mail.spool.take(mail.controller.entries)
        mail.spool.commit()
        await mail.send()
        assert len(sink.messages) == 1

    play(tmp_path, story)


def test_what_was_leaving_when_the_daemon_died_is_not_sent_again(tmp_path, caplog):
    async def story(mail, sink):
        run_job(mail.controller, mail.submit())
        mail.keep()
        (letter,) = mail.spool.due(1 << 62, 10)
        mail.spool.leave(letter)
        mail.again()
        await mail.send()
        assert not sink.messages
        assert "mail-unsure" in caplog.text

    play(tmp_path, story)


def test_a_server_that_is_away_for_a_while_is_tried_again(tmp_path):
    async def story(mail, sink):
        run_job(mail.controller, mail.submit())
        mail.keep()
        sink.answers["MAIL"] = "451 later"
        await mail.send()
        assert not sink.messages
        (letter,) = mail.delayed()
        mail.spool.put_back(letter, 0)
        sink.answers.clear()
        mail.delayed = list
        await mail.send()
        assert len(sink.messages) == 1

    play(tmp_path, story)


@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "DATA", "DATA-END"])
def test_what_a_server_refuses_for_good_is_told_and_forgotten(tmp_path, verb, caplog):
    async def story(mail, sink):
        run_job(mail.controller, mail.submit())
        mail.keep()
        sink.answers[verb] = "550 never"
        await mail.send()
        assert not sink.messages
        assert mail.spool.next_at_us() is None
        assert "mail-not-sent" in caplog.text

    play(tmp_path, story)


def test_a_server_that_is_lost_behind_a_message_is_not_given_it_again(tmp_path, caplog):
    async def story(mail, sink):
        run_job(mail.controller, mail.submit())
        mail.keep()
        sink.answers["DATA-END"] = ""
        await mail.send()
        await mail.send()
        assert len(sink.messages) == 1
        assert "mail-unsure" in caplog.text

    play(tmp_path, story)


def test_one_bad_address_of_several_does_not_keep_the_others_from_it(tmp_path):
    async def story(mail, sink):
        run_job(mail.controller, mail.submit(mail_to="a@x.org,b@x.org"))
        mail.keep()
        await mail.send()
        assert sink.messages[0][1] == ["<a@x.org>", "<b@x.org>"]

    play(tmp_path, story)


def test_tries_end_after_a_day(tmp_path, caplog):
    async def story(mail, sink):
        run_job(mail.controller, mail.submit())
        mail.keep()
        sink.answers["MAIL"] = "451 later"
        await mail.send(give_up_s=0.0)
        assert mail.spool.next_at_us() is None
        assert "mail-not-sent" in caplog.text

    play(tmp_path, story)


def test_a_job_that_pends_again_brings_no_report_until_it_has_ended(tmp_path):
    async def story(mail, sink):
        job = mail.submit(Notice.START | ENDS)
        place(mail.controller, job)
        report_started(mail.controller, job)
        report_ended(mail.controller, job, exit_code=1, host_fault=True)
        if not mail.controller.job(job).is_finished:
            run_job(mail.controller, job)
        mail.keep()
        await mail.send()
        subjects = [parsed(one)["Subject"].split()[-1] for one in sink.messages]
        assert subjects.count("Done") + subjects.count("Exited") == 1

    play(tmp_path, story)


def test_texts_of_users_make_no_line_of_a_head(tmp_path):
    name = "a\r\nBcc: victim@x.org\r\n\r\nbody"

    async def story(mail, sink):
        run_job(mail.controller, mail.submit(name=name, command="echo\n.\nRCPT TO:<x@y>"))
        mail.keep()
        await mail.send()
        (message,) = sink.messages
        assert message[1] == ["<alice>"]
        found = parsed(message)
        assert found["Bcc"] is None
        assert "a??Bcc: victim@x.org??" in "".join(found["Subject"].splitlines())

    play(tmp_path, story)


def test_an_owner_whose_name_is_no_address_gets_nothing(tmp_path, caplog):
    async def story(mail, sink):
        run_job(mail.controller, mail.submit(mail_to="-oQ/tmp,a b"))
        mail.keep()
        await mail.send()
        assert not sink.messages
        assert "mail-not-sent" in caplog.text

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("status", "outcome"), [(0, Outcome.SENT), (75, Outcome.LATER), (67, Outcome.REFUSED)]
)
def test_a_program_is_given_the_message_and_its_status_counts(tmp_path, status, outcome):
    program = tmp_path / "sendmail"
    program.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/words\ncat >>{tmp_path}/message\nexit {status}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    async def run():
        mail = Story(tmp_path, MailConfig(sendmail=str(program), sender="xce@x.org"))
        run_job(mail.controller, mail.submit(mail_to="me@x.org"))
        mail.keep()
        await mail.send()
        left = mail.spool.next_at_us()
        mail.close()
        assert (left is not None) == (outcome is Outcome.LATER)

    asyncio.run(run())
    words = (tmp_path / "words").read_text().splitlines()
    assert words[0] == "-i -f xce@x.org -- me@x.org"
    assert len(words) == 1
    assert b"\r" not in (tmp_path / "message").read_bytes()


def test_a_program_that_is_not_there_is_tried_again(tmp_path):
    async def run():
        mail = Story(tmp_path, MailConfig(sendmail=str(tmp_path / "none")))
        run_job(mail.controller, mail.submit())
        mail.keep()
        await mail.send()
        assert mail.spool.next_at_us() is not None
        mail.close()

    asyncio.run(run())
