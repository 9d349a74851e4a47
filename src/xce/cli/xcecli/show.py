"""``info``, ``why``, ``output``, ``wait``: one job after the other."""

import argparse
import time
from typing import Any, Final

from xce.cli.lsf.advice_text import render_advice
from xce.cli.lsf.bsub import exit_status
from xce.cli.xcecli.listing import job_ref, moment
from xce.cli.xcecli.render import paint, render_json, render_yaml
from xce.cli.xcecli.roles import add_role_states, role_lines
from xce.cli.xcecli.session import (
    FAILED,
    OK,
    BadUsageError,
    FailedError,
    Session,
    code_of,
)
from xce.cli.xcecli.table import (
    gpus_text,
    hosts_text,
    instant,
    label,
    processors_text,
    run_time,
    span,
)
from xce.client.plain_text import plain
from xce.client.rest import ProblemError

WAIT_S: Final = 60
_STEP: Final = 1 << 20
POLL_S: Final = 0.2


def split_ref(text: str) -> tuple[str, str | None]:
    """Return the id and the index of ``12[3]``; the index is None for ``12``.

    Raises:
        BadUsageError: It is no job id, or names more than one element.
    """
    number, bracket, rest = job_ref(text).partition("[")
    index = rest.removesuffix("]")
    if bracket and not index.isdecimal():
        raise BadUsageError(f"{text}: name one element, like {number}[3]")
    return number, index if bracket else None


def run_info(session: Session, options: argparse.Namespace) -> int:
    """Show all about jobs."""
    at = moment(options.at)
    if options.spec:
        return _show_specs(session, options)
    found, code = _each(session, options.ids, "", at)
    for row in found if at is None else ():
        add_role_states(session, row)
    if options.output:
        render = render_json if options.output == "json" else render_yaml
        session.say(render(found[0] if len(options.ids) == 1 and found else found))
        return code
    now = time.time() if at is None else float(at)
    for place, row in enumerate(found):
        if place:
            session.say("")
        for line in _info_lines(row, now, colour=session.has_colour):
            session.say(line)
    return code


def _show_specs(session: Session, options: argparse.Namespace) -> int:
    """Show jobs as jobspecs, in YAML as separate documents."""
    if options.at:
        raise BadUsageError("--spec shows a job as it was submitted, which --at does not change")
    found, code = _each(session, options.ids, "/spec")
    if options.output == "json":
        session.say(render_json(found[0] if len(options.ids) == 1 and found else found))
        return code
    for place, spec in enumerate(found):
        if place:
            session.say("---")
        session.say(render_yaml(spec))
    return code


def _each(
    session: Session, ids: list[str], path: str, at: str | None = None
) -> tuple[list[Any], int]:
    """Return what is known of each job, and the exit status: that of the first trouble."""
    found: list[Any] = []
    code = OK
    for text in ids:
        number, index = split_ref(text)
        try:
            usage = "1" if not path and at is None else None
            found.append(session.get(f"/jobs/{number}{path}", index=index, at=at, usage=usage))
        except ProblemError as error:
            session.tell(f"xcecli: {error.text}")
            code = code or code_of(error.code)
    return found, code


_LINES: Final = (
    ("user", "User"), ("queue", "Queue"), ("project", "Project"), ("command", "Command"),
    ("description", "Description"), ("cwd", "Directory"), ("cwd_given", "Subdirectory"),
    ("input", "Input"), ("output_dir", "Output directory"),
    ("output", "Output"), ("error", "Error output"), ("resreq_asked", "Requirement"),
    ("gpu_asked", "GPUs asked"),
    ("dependency", "After"), ("hosts_asked", "Hosts asked"), ("from_host", "From host"),
    ("cause_text", "Ended because"), ("ended_by", "Ended by"), ("detail", "Detail"),
)  # fmt: skip


def _info_lines(row: dict[str, Any], now: float, *, colour: bool) -> list[str]:
    pairs: list[tuple[str, str]] = []
    elements = row.get("elements")
    if elements is None:
        stat = str(row["stat"])
        pairs.append(("Job", label(row)))
        pairs.append(("State", paint(stat, stat) if colour else stat))
    else:
        counted = ", ".join(f"{number} {name}" for name, number in elements.items() if number)
        limit = f", at most {row['array_limit']} at once" if row["array_limit"] else ""
        pairs.append(("Array", f"{row['jobid']}[{row['array']}]{limit}"))
        pairs.append(("Elements", counted))
    if row["named"]:
        pairs.append(("Name", row["name"]))
    pairs += [(title, plain(str(row[name]))) for name, title in _LINES if row.get(name)]
    least, most = row["tasks_min"], row["tasks_max"]
    pairs.append(("Tasks", str(least) if least == most else f"{least} to {most}"))
    if row["run_limit_s"]:
        pairs.append(("Run limit", span(row["run_limit_s"])))
    if row["mem_limit_kib"]:
        pairs.append(("Memory limit", f"{row['mem_limit_kib'] / 1024:.0f} MiB"))
    pairs.append(("Submitted", instant(row["submit_at"])))
    pairs += _run_lines(row, now)
    width = max(len(title) for title, _ in pairs)
    return [f"{title + ':':<{width + 1}} {text}" for title, text in pairs]


def _run_lines(row: dict[str, Any], now: float) -> list[tuple[str, str]]:
    """Return the lines of one that was placed, or pends."""
    pairs = []
    if row.get("hosts"):
        pairs.append(("Hosts", hosts_text(row)))
    if row.get("hosts_lost"):
        pairs.append(("Hosts lost", " ".join(row["hosts_lost"])))
    if row.get("gpus"):
        pairs.append(("GPUs", gpus_text(row)))
    if row.get("processors"):
        pairs.append(("Processors", processors_text(row)))
    for role in row.get("roles") or ():
        places = " ".join(f"{host}*{tasks}" for host, tasks in role["hosts"])
        pairs.append((f"Role {role['role']}", places))
    pairs += role_lines(row)
    pairs += [
        (f"Relation {proof['relation']}", proof_text(proof)) for proof in row.get("relations") or ()
    ]
    if row.get("start_at") is not None:
        pairs.append(("Started", instant(row["start_at"])))
    if row.get("end_at") is not None:
        pairs.append(("Ended", instant(row["end_at"])))
    if row.get("start_at") is not None:
        pairs.append(("Run time", run_time(row, now)))
    pairs += _use_lines(row)
    if row.get("exit_code") is not None:
        pairs.append(("Exit code", str(row["exit_code"])))
    if row.get("reason"):
        pairs.append(("Pends", str(row["reason"]["text"])))
    return pairs


def _use_lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a job has used, or uses now."""
    if row.get("cpu_s") is not None:
        memory = f"{row['max_mem_mib']:.1f} MiB"
        return [("CPU time", f"{row['cpu_s']:.2f}s"), ("Max memory", memory)]
    use = row.get("usage")
    if use is None:
        return []
    pairs = [
        ("CPU time", f"{use['cpu_s']:.2f}s so far"),
        ("Memory", f"{use['mem_mib']:.1f} MiB, at most {use['max_mem_mib']:.1f} MiB"),
        ("Threads", str(use["threads"])),
    ]
    return [*pairs, ("Not known of", " ".join(use["unknown"]))] if use["unknown"] else pairs


def proof_text(proof: dict[str, Any]) -> str:
    """Return how a relation holds where a job runs."""
    where = ", ".join(proof["domains"])
    text = f"{proof['kind']} in {proof['level']} {where}"
    if proof["kind"] == "spread":
        text = f"spread, at most {proof['tasks']} in one {proof['level']}"
    elif proof["kind"] == "apart":
        text = f"apart from others, in {proof['level']} {where}"
    return text if proof["met"] else f"{proof['kind']} could not be met (it is preferred)"


def run_why(session: Session, options: argparse.Namespace) -> int:
    """Tell why jobs are where they are."""
    found, code = _each(session, options.ids, "/why")
    if options.output:
        render = render_json if options.output == "json" else render_yaml
        session.say(render(found[0] if len(options.ids) == 1 and found else found))
        return code
    now = time.time()
    for place, answer in enumerate(found):
        if place:
            session.say("")
        session.say(plain(answer["sentence"]))
        for line in answer["next"]:
            session.say(f"  {plain(line)}")
        advice = answer["advice"]
        lines = render_advice(advice, now) if advice is not None else []
        if lines:
            session.say("")
        if lines and advice["index"]:
            session.say(f"Of element {answer['jobid']}[{advice['index']}]:")
        for line in lines:
            session.say(line)
    return code


def run_output(session: Session, options: argparse.Namespace) -> int:
    """Print what a job wrote, or follow it."""
    number, index = split_ref(options.id)
    offset = 0
    while True:
        query = [("stream", "stderr" if options.stderr else "stdout"), ("offset", str(offset))]
        if index is not None:
            query.append(("index", index))
        answer = session.api.request("GET", f"/jobs/{number}/output", query)
        if answer.status >= 400:
            value = answer.value()
            document = value if isinstance(value, dict) else {}
            code = str(document.get("code") or "")
            if options.follow and code in ("wrong-state", "no-output") and not _is_over(
                session, number, index
            ):  # fmt: skip
                time.sleep(POLL_S)
                continue
            raise FailedError(str(document.get("detail") or answer.status), code_of(code))
        session.out.flush()
        session.out.buffer.write(answer.body)
        session.out.buffer.flush()
        offset = int(answer.headers.get("xce-offset", offset))
        size = int(answer.headers.get("xce-size", offset))
        is_final = answer.headers.get("xce-final") == "1"
        if is_final or (not options.follow and offset >= size):
            return OK
        if offset >= size:
            time.sleep(POLL_S)


def _is_over(session: Session, number: str, index: str | None) -> bool:
    row = session.get(f"/jobs/{number}", index=index)
    return row.get("end_at") is not None


def run_wait(session: Session, options: argparse.Namespace) -> int:
    """Wait for the end of jobs; return the first exit status that is not 0."""
    deadline = None if options.timeout is None else time.monotonic() + options.timeout
    code = OK
    for text in options.ids:
        number, index = split_ref(text)
        try:
            row = wait_for(session, number, index, deadline)
        except ProblemError as error:
            session.tell(f"xcecli: {error.text}")
            code = code or code_of(error.code)
            continue
        if row is None:
            session.tell(f"xcecli: job {text} has not ended in {options.timeout:g} s")
            return FAILED
        code = code or exit_status(row)
    return code


def wait_for(
    session: Session, number: str, index: str | None, deadline: float | None = None
) -> dict[str, Any] | None:
    """Return the row of a job that has ended, or None when it has not by the deadline."""
    while True:
        left = WAIT_S if deadline is None else deadline - time.monotonic()
        pause = max(0, min(WAIT_S, int(left) + (left > int(left))))
        row = session.get(f"/jobs/{number}/wait", index=index, timeout=str(pause))
        if row is not None:
            return dict(row)
        if deadline is not None and time.monotonic() >= deadline:
            return None
