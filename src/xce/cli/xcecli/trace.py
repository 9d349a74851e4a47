"""``trace``: what sessions decided about jobs, and from what."""

import argparse
from pathlib import Path
from typing import Any, Final

import msgspec

from xce.cli.xcecli.render import render_json, render_yaml
from xce.cli.xcecli.session import FAILED, NOT_FOUND, OK, BadUsageError, FailedError, Session
from xce.cli.xcecli.trace_text import render_traces
from xce.journal.trace_rows import LIMIT_MAX, Wanted, find_traces
from xce.journal.trace_store import trace_files

LIMIT: Final = 10


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("job", nargs="?", metavar="JOB", help="only about this job")
    add("-u", "--user", default="", metavar="USER", help="only about this user's jobs")
    add("-q", "--queue", default="", metavar="QUEUE", help="only about this queue's jobs")
    add("--session", type=int, default=0, metavar="N", help="only this session")
    add("--limit", type=int, default=LIMIT, metavar="N", help=f"most sessions (default {LIMIT})")
    add("--now", action="store_true", help="of a session that is run for the answer only")
    add("--dir", type=Path, metavar="DIR", help="traces of a simulation or replay, no cluster")
    add("-o", "--output", choices=("json", "yaml"), help="how to print it")


def run_trace(session: Session, options: argparse.Namespace) -> int:
    """Show what sessions decided."""
    job = _job(options.job)
    if not 1 <= options.limit <= LIMIT_MAX:
        raise BadUsageError(f"--limit {options.limit}: expected a number from 1 to {LIMIT_MAX}")
    if options.session < 0:
        raise BadUsageError(f"--session {options.session}: sessions are numbered from 1")
    if options.now and (not job or options.session or options.dir):
        raise BadUsageError("--now goes with a JOB, without --session and --dir")
    answer = _read(options, job) if options.dir is not None else _ask(session, options, job)
    for line in answer["damaged"]:
        session.tell(f"xcecli: {line}")
    if options.output:
        session.say((render_json if options.output == "json" else render_yaml)(answer))
    else:
        for line in render_traces(answer):
            session.say(line)
    if answer["sessions"]:
        return OK
    session.tell(f"xcecli: {_nothing(options, job)}")
    return FAILED if answer["damaged"] else NOT_FOUND


def _job(text: str | None) -> int:
    if text is None:
        return 0
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 63):
        raise BadUsageError(f"{text!r} is no job id: expected a number, also for an array")
    return int(text)


def _ask(session: Session, options: argparse.Namespace, job: int) -> dict[str, Any]:
    answer: dict[str, Any] = session.get(
        "/trace",
        job=job or None,
        user=options.user,
        queue=options.queue,
        session=options.session or None,
        limit=options.limit,
        now=1 if options.now else None,
    )
    return answer


def _read(options: argparse.Namespace, job: int) -> dict[str, Any]:
    wanted = Wanted(job=job, user=options.user, queue=options.queue, session=options.session)
    try:
        if not trace_files(options.dir):
            raise FailedError(f"there are no traces in {options.dir}", NOT_FOUND)
    except OSError as error:
        raise FailedError(f"{options.dir}: {error.strerror}") from error
    answer: dict[str, Any] = msgspec.to_builtins(find_traces(options.dir, wanted, options.limit))
    return answer


def _nothing(options: argparse.Namespace, job: int) -> str:
    """Return what to say when nothing was found, and what to do about it."""
    asked = {
        "--session": options.session,
        "--queue": options.queue,
        "--user": options.user,
        "--job": job,
    }
    given = [(name, value) for name, value in asked.items() if value]
    about = ", ".join(f"{name[2:]} {value}" for name, value in given) or "anything"
    text = f"nothing was traced about {about}"
    if options.dir is not None or options.session:
        return text
    name, value = given[-1] if given else ("--next", 1)
    return f"{text}; 'xceadmin trace on {name} {value} --for 10m' has sessions tell of it"
