"""``jobs``, ``hosts``, ``queues``: lists."""

import argparse
import time
from collections.abc import Sequence
from typing import Any, Final

from xce.cli.lsf.values import BadValueError, parse_job_id
from xce.cli.xcecli.render import Column, render_json, render_table, render_yaml
from xce.cli.xcecli.session import NOT_FOUND, OK, BadUsageError, Session
from xce.cli.xcecli.table import HOST_COLUMNS, JOB_FIELDS, QUEUE_COLUMNS, job_columns, label
from xce.client.moment import FORMS, parse_moment

PAGE: Final = 20_000
WATCH_S: Final = 1.0
_CLEAR: Final = "\033[H\033[2J"


def run_jobs(session: Session, options: argparse.Namespace) -> int:
    """List jobs, once or again and again."""
    if not options.watch:
        return _list_jobs(session, options)
    if options.at is not None:
        raise BadUsageError("--watch shows what is now; --at does not go with it")
    shown = ""
    while True:
        rows, answer, _ = _find_jobs(session, options)
        text = _render(job_columns(answer["now"]), rows, label, options.output, session)
        if session.out.isatty():
            session.out.write(_CLEAR + text)
        elif text != shown:
            session.out.write(text + "\n")
        session.out.flush()
        shown = text
        time.sleep(WATCH_S)


def _list_jobs(session: Session, options: argparse.Namespace) -> int:
    rows, answer, missing = _find_jobs(session, options)
    if options.ids and not rows and options.output not in ("json", "yaml"):
        text = ""
    else:
        text = _render(job_columns(answer["now"]), rows, label, options.output, session)
    if not rows and not options.ids and options.output in (None, "wide"):
        session.tell("No job." if options.all else "No unfinished job.")
    else:
        session.out.write(text)
    for item in missing:
        session.tell(f"xcecli: no job has the id {item}")
    return NOT_FOUND if missing else OK


def _find_jobs(session: Session, options: argparse.Namespace) -> tuple[list[Any], Any, list[str]]:
    is_whole = options.output in ("json", "yaml")
    rows, answer = session.rows(
        "/jobs",
        "jobs",
        ids=",".join(job_ref(item) for item in options.ids) or None,
        user=options.user,
        queue=options.queue,
        host=options.host,
        name=options.pattern,
        state=options.state,
        finished=1 if options.all else None,
        fields=None if is_whole else JOB_FIELDS,
        limit=PAGE,
        at=moment(options.at),
    )
    return rows, answer, answer["missing"]


def moment(text: str | None) -> str | None:
    """Return the instant that ``--at`` names as REST takes it.

    Raises:
        BadUsageError: It names none.
    """
    if text is None:
        return None
    found = parse_moment(text, now_s=time.time())
    if found is None:
        raise BadUsageError(f"--at {text!r} is no instant: {FORMS}")
    return f"{found:.6f}"


def job_ref(text: str) -> str:
    """Return a job id in its one form.

    Raises:
        BadUsageError: It is none.
    """
    try:
        return parse_job_id(text)
    except BadValueError:
        raise BadUsageError(f"{text!r} is no job id: expected 12 or 12[3]") from None


def run_hosts(session: Session, options: argparse.Namespace) -> int:
    """List the hosts."""
    rows = session.get("/hosts", at=moment(options.at))["hosts"]
    session.out.write(_render(HOST_COLUMNS, rows, _name, options.output, session))
    return OK


def run_queues(session: Session, options: argparse.Namespace) -> int:
    """List the queues."""
    rows = session.get("/queues", at=moment(options.at))["queues"]
    session.out.write(_render(QUEUE_COLUMNS, rows, _name, options.output, session))
    return OK


def _name(row: dict[str, Any]) -> str:
    return str(row["name"])


def _render(
    columns: Sequence[Column], rows: list[Any], name: Any, form: str | None, session: Session  # noqa: ANN401
) -> str:  # fmt: skip
    """Return rows in the form that was asked for, with a newline at the end."""
    match form:
        case "json":
            return render_json(rows) + "\n"
        case "yaml":
            return render_yaml(rows) + "\n"
        case "name":
            return "".join(f"{name(row)}\n" for row in rows)
        case _:
            wide = form == "wide"
            lines = render_table(columns, rows, wide=wide, colour=session.has_colour)
            return "\n".join(lines) + "\n"
