"""``submit``: a command or a script."""

import argparse
import base64
import calendar
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from xce.cli.lsf.advice_text import render_plan
from xce.cli.lsf.bsub import exit_status
from xce.cli.lsf.script import unify_line_ends
from xce.cli.lsf.submission import submission_directory
from xce.cli.lsf.values import BadValueError, parse_duration_s, parse_size_kib, parse_tasks
from xce.cli.xcecli.render import render_json
from xce.cli.xcecli.session import OK, BadUsageError, Session, code_of
from xce.cli.xcecli.show import wait_for
from xce.client.rest import make_key

_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_SPAN_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN_MAX_S: Final = 10 * 366 * 86_400
SPEC_ENDINGS: Final = (".yaml", ".yml", ".json")
"""Files with such names are jobspecs."""
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?)?(Z?)")


def run_submit(session: Session, options: argparse.Namespace) -> int:
    """Submit a job, and wait for its end where that is asked for."""
    try:
        body = build_body(session, options)
    except BadValueError as error:
        raise BadUsageError(str(error)) from None
    answer = session.api.call("POST", "/jobs", (), body, key=make_key())
    (result,) = answer["results"]
    if result.get("warning"):
        session.tell(f"xcecli: warning: {result['warning']}")
    if options.json:
        session.say(render_json(result))
    else:
        session.say(f"Job {result['jobid']} is submitted to queue {result['queue']}.")
    session.out.flush()
    if not options.wait:
        return OK
    row = wait_for(session, str(result["jobid"]), None)
    assert row is not None
    return exit_status(row)


def run_plan(session: Session, options: argparse.Namespace) -> int:
    """Tell what would become of a job; submit nothing."""
    if options.wait:
        raise BadUsageError("--wait has no meaning here: nothing is submitted")
    try:
        body = build_body(session, options)
    except BadValueError as error:
        raise BadUsageError(str(error)) from None
    answer = session.api.call("POST", "/plan", (), body)
    if options.json:
        session.say(render_json(answer))
    if not answer["accepted"]:
        if not options.json:
            session.tell(f"xcecli: the job would be refused: {answer['error']['detail']}")
        return code_of(answer["error"]["code"])
    if options.json:
        return OK
    if answer["warning"]:
        session.tell(f"xcecli: warning: {answer['warning']}")
    for line in render_plan(answer, time.time()):
        session.say(line)
    return OK


def build_body(session: Session, options: argparse.Namespace) -> dict[str, Any]:
    """Return the body of the request.

    Raises:
        BadUsageError: The options do not go together.
        BadValueError: A value cannot be taken.
    """
    body = _program(session, options)
    texts = {
        "queue": options.queue,
        "hosts": options.hosts,
        "project": options.project,
        "name": options.job_name,
        "array": options.array,
        "input": options.input,
        "output": options.output,
        "error": options.error,
        "dependency": options.after,
        "resreq": options.resreq,
        "priority": options.priority,
        "placement_group": options.placement_group,
    }
    body.update((name, value) for name, value in texts.items() if value is not None)
    body.update({name: True for name in ("exclusive", "hold") if getattr(options, name)})
    if options.rerunnable is not None:
        body["rerunnable"] = options.rerunnable
    if options.tasks is not None:
        body["tasks"] = parse_tasks(options.tasks)
    if options.run_limit is not None:
        body["run_limit_s"] = parse_run_limit_s(options.run_limit)
    if options.memory is not None:
        body["mem_limit_kib"] = _memory_kib(options.memory)
    if options.begin is not None:
        body["begin_at"] = parse_begin(options.begin, time.time())
    _add_surroundings(session, options, body)
    return body


def _program(session: Session, options: argparse.Namespace) -> dict[str, Any]:
    words = list(options.words)
    if words[:1] == ["--"]:
        words = words[1:]
    if options.file is None:
        if not words:
            raise BadUsageError("nothing to run: give command words, or a script with -f")
        return {"command": words[0] if len(words) == 1 else shlex.join(words)}
    if options.file.endswith(SPEC_ENDINGS):
        return _read_spec(options.file, words)
    try:
        if options.file == "-":
            content = sys.stdin.buffer.read()
        else:
            with open(options.file, "rb") as script:  # noqa: PTH123 - a name as typed
                content = script.read()
    except OSError as error:
        raise BadUsageError(f"{options.file}: {error.strerror}") from None
    body: dict[str, Any] = {"args": words} if words else {}
    if options.file != "-":
        body["script_name"] = options.file
    text, changed = unify_line_ends(content.decode("utf-8", "surrogateescape"))
    if changed:
        session.tell("xcecli: warning: the script's line ends were CRLF; the job runs it with LF")
    try:
        text.encode()
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogateescape")
        return {**body, "script_data": base64.b64encode(raw).decode()}
    return {**body, "script": text}


def _read_spec(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the body of a jobspec."""
    if words:
        raise BadUsageError(f"{name} is a jobspec, which says what runs: no words behind it")
    try:
        with open(name, encoding="utf-8") as spec:  # noqa: PTH123 - a name as typed
            return {"spec": spec.read(), "spec_name": name}
    except OSError as error:
        raise BadUsageError(f"{name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadUsageError(f"{name}: is no UTF-8 text") from None


def _add_surroundings(session: Session, options: argparse.Namespace, body: dict[str, Any]) -> None:
    """Add where the job was submitted, from where, and what it inherits."""
    body["cwd"] = submission_directory(session.environ)
    if options.cwd is not None:
        body["cwd_given"] = options.cwd
    body["from_host"] = os.uname().nodename
    if session.environ.get("HOME"):
        body["home"] = session.environ["HOME"]
    mask = os.umask(0o077)
    os.umask(mask)
    body["umask"] = mask
    chosen = choose_variables(session.environ, options.env or [])
    body["env"] = [f"{name}={value}" for name, value in chosen.items() if _is_text(name + value)]


def choose_variables(environ: Mapping[str, str], given: Sequence[str]) -> dict[str, str]:
    """Return the variables of a job; each option is ``all``, ``none``, ``NAME`` or ``NAME=value``.

    Without ``none``, and without ``NAME`` alone, all of the submitter's are the beginning.

    Raises:
        BadValueError: An item names no variable.
    """
    names_some = any("=" not in item and item not in ("all", "none") for item in given)
    is_empty = "none" in given or (names_some and "all" not in given)
    chosen = {} if is_empty else dict(environ)
    for item in given:
        name, equals, value = item.partition("=")
        if not name or any(mark.isspace() for mark in name):
            raise BadValueError(f"--env {item!r} names no variable")
        if equals:
            chosen[name] = value
        elif item in environ:
            chosen[item] = environ[item]
    return chosen


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_run_limit_s(text: str) -> float:
    """Return the seconds of ``90s``, ``10m``, ``1.5h``, ``2d``, or LSF's ``[hours:]minutes``.

    Raises:
        BadValueError: It is no span.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        return parse_duration_s(text, option="-W")
    span_s = float(match[1]) * _SPAN_S[match[2]]
    if span_s > _SPAN_MAX_S:
        raise BadValueError(f"-W {text}: longer than any job may run")
    return span_s


def _memory_kib(text: str) -> int:
    kib = parse_size_kib(text, option="-M")
    if kib is None:
        raise BadValueError(f"-M {text}: a size needs its unit, like {text.strip()}M")
    return kib


def parse_begin(text: str, now: float) -> float:
    """Return the instant of ``+10m``, or of a date in local time (in UTC with a Z behind it).

    Raises:
        BadValueError: It is neither.
    """
    text = text.strip()
    if text.startswith("+"):
        return now + parse_run_limit_s(text[1:])
    match = _DATE.fullmatch(text)
    if match is None:
        raise BadValueError(f"--begin {text}: expected 2026-01-31T12:00 or +10m")
    fields = tuple(int(part or 0) for part in match.groups()[:6])
    try:
        if match[7]:
            return float(calendar.timegm((*fields, 0, 0, 0)))
        return time.mktime(time.struct_time((*fields, 0, 0, -1)))
    except (OverflowError, ValueError):
        raise BadValueError(f"--begin {text}: there is no such instant") from None
