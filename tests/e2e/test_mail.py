"""Mail to users in a whole cluster: a program takes it, once, whatever daemon dies meanwhile."""

import email
import stat
from collections.abc import Iterator
from email.message import Message

import pytest
from live import Live, open_live, until


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with open_live() as found:
        program = found.home / "sendmail"
        program.write_text(f'#!/bin/sh\ncat >"{found.home}/mail.$$.part"\n'
                           f'mv "{found.home}/mail.$$.part" "{found.home}/mail.$$"\n')  # fmt: skip
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        found.xce("up", "--hosts", "h1", "--slots", "4", "--mem", "8G")
        found.configure(f"mail: {{sendmail: {program}, domain: example.org}}\n")
        found.xceadmin("apply")
        yield found


def mails(live: Live) -> list[Message]:
    paths = [path for path in live.home.glob("mail.*") if path.suffix != ".part"]
    return [email.message_from_bytes(path.read_bytes()) for path in sorted(paths)]


def about(live: Live, job: str) -> list[Message]:
    return [one for one in mails(live) if one["Subject"].startswith(f"Job {job}:")]


def submit(live: Live, *words: str) -> str:
    found = live.run("bsub", *words)
    assert not found.stderr
    return found.stdout.split("<")[1].split(">")[0]


def test_the_report_is_mailed_and_the_file_has_only_the_output(live: Live) -> None:
    job = submit(live, "-N", "-B", "-u", "me@x.org", "-o", "out", "echo hello")
    until(lambda: len(about(live, job)) == 2, "two mails")
    words = {str(one["Subject"]).split()[-1] for one in about(live, job)}
    assert words == {"Started", "Done"}
    report = next(one for one in about(live, job) if one["Subject"].endswith("Done"))
    assert report["To"] == "me@x.org"
    text = report.get_payload(decode=True)
    assert isinstance(text, bytes)
    assert b"Successfully completed." in text
    assert b"Read file <out> for stdout output of this job." in text
    assert (live.home / "out").read_text() == "hello\n"


def test_a_job_that_asks_for_none_has_its_report_in_the_file(live: Live) -> None:
    job = submit(live, "-o", "plain", "echo hello")
    live.run("xcecli", "wait", job)
    assert "Resource usage summary:" in (live.home / "plain").read_text()
    assert not about(live, job)


def test_each_message_comes_once_though_the_daemon_is_killed(live: Live) -> None:
    command = "sleep 0.1; exit $((LSB_JOBINDEX % 2))"
    job = submit(live, "-Ne", "-J", "many[1-6]", "-o", "/dev/null", command)
    dead = live.kill("history")
    live.until_replaced("history", dead)
    live.run("xcecli", "wait", job, status=None)
    until(lambda: len(mails_of_elements(live, job)) >= 3, "three mails")
    last = submit(live, "-N", "-o", "/dev/null", "true")
    until(lambda: about(live, last), "the last mail")
    subjects = mails_of_elements(live, job)
    assert sorted(subjects) == sorted(set(subjects))
    assert {one.split(":")[0] for one in subjects} == {f"Job {job}[{index}]" for index in (1, 3, 5)}


def mails_of_elements(live: Live, job: str) -> list[str]:
    return [str(one["Subject"]) for one in mails(live) if one["Subject"].startswith(f"Job {job}[")]


def test_without_a_way_out_it_is_said_and_the_report_is_in_the_file(live: Live) -> None:
    path = live.layout.config / "xce.yaml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("mail:")]
    path.write_text("\n".join([*kept, ""]))
    live.xceadmin("apply")
    found = live.run("bsub", "-N", "-o", "silent", "true")
    assert "no mail is sent by this cluster" in found.stderr
    job = found.stdout.split("<")[1].split(">")[0]
    live.run("xcecli", "wait", job)
    assert "Successfully completed." in (live.home / "silent").read_text()
    assert not about(live, job)
