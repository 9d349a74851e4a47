"""From the options of ``bsub`` to the body of a submit request."""

from __future__ import annotations

import binascii
import os

from xce.cli.lsf.environment import choose_environment
from xce.cli.lsf.options import Parsed, UsageError
from xce.cli.lsf.process_limits import own_limits, parse_limits
from xce.cli.lsf.values import (
    BadValueError,
    parse_begin,
    parse_count,
    parse_deadline,
    parse_duration_s,
    parse_login_shell,
    parse_requeue,
    parse_size_kib,
    parse_tasks,
    split_job_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_FAMILIES = (("-o", "-oo"), ("-e", "-eo"), ("-i", "-is"), ("-r", "-rn"))
"""Options of which a command line takes one, and which together override a script's."""
_BARE_UNITS = {"KB": "K", "MB": "M", "GB": "G", "TB": "T", "CLASSIC": "K"}
"""``unit_for_limits`` -> the unit of a bare ``-M``; classic LSF means KB."""
PRIORITY_MAX = 1 << 31
PATH_MAX = 4096
PROJECT_MAX = 511
MAIL_TO_MAX = 511
_SWITCHES = (("-x", "exclusive"), ("-H", "hold"), ("-ti", "ends_as_orphan"))
BOTH_WARNINGS = "You must specify both a warning action and an action warning time"
HOOKS = (("-E", "pre_exec"), ("-Ep", "post_exec"))
TEXTS = (("-Jd", "description"), ("-outdir", "output_dir"))
DESCRIPTION_MAX = 4094
_MUST_NAME = (
    ("-E", "Bad pre-execution command: -E is empty"),
    ("-Ep", "Bad post-execution command: -Ep is empty"),
    ("-m", "Bad host specification: -m names no host"),
    ("-q", "Queue name must be specified: -q names no queue"),
    ("-app", "No such application profile: -app names none"),
    ("-w", "Dependency condition syntax error: -w is empty"),
    ("-outdir", "Bad output directory: -outdir names none"),
)
_CONDITIONS = ("(", "!", "done(", "ended(", "exit(", "started(", "post_done(", "post_err(", "num")


def merge_options(line: Parsed, script: Parsed) -> Parsed:
    """Return the options of a submission: what the command line says beats the script.

    Raises:
        BadValueError: Two options of one family stand on the same level.
    """
    given = dict(script.given)
    for level in (line, script):
        for family in _FAMILIES:
            present = [option for option in family if option in level.given]
            if len(present) > 1:
                raise BadValueError(f"{present[0]} and {present[1]} cannot be used together")
            if level is line and present:
                for option in family:
                    given.pop(option, None)
    given.update(line.given)
    return Parsed(given, line.rest)


def build_submission(
    options: Parsed,
    environ: Mapping[str, str],
    unit_for_limits: Callable[[], str],
    *,
    now_s: float,
) -> dict[str, Any]:
    """Return the body of a submit request, still without command, script and queue.

    ``options`` are those of command line and script, merged. ``unit_for_limits`` is asked only when
    a bare number must be understood.

    Raises:
        BadValueError: A value cannot be taken.
    """
    check_named(options)
    body = _identity(options, environ)
    body |= _size(options, environ, unit_for_limits)
    body |= _limits(options, unit_for_limits)
    if options.has("-ti") and not options.has("-w"):
        raise BadValueError("-ti belongs to -w")
    if options.has("-w"):
        body["dependency"] = parse_condition(options.value("-w"))
    if options.has("-m"):
        body["hosts"] = options.value("-m")
    if options.has("-b"):
        body["begin_at"] = parse_begin(options.value("-b"), now_s)
    if options.has("-t"):
        body["deadline_at"] = parse_deadline(options.value("-t"), now_s)
    if options.has("-sp"):
        body["priority"] = parse_priority(options.value("-sp"))
    body.update({member: True for option, member in _SWITCHES if options.has(option)})
    if options.has("-r") or options.has("-rn"):
        body["rerunnable"] = not options.has("-rn")
    body.update({member: options.value(option) for option, member in HOOKS if options.has(option)})
    add_warning(body, options)
    if options.has("-wa") != options.has("-wt"):
        raise BadValueError(BOTH_WARNINGS)
    if options.has("-Q"):
        body.update(parse_requeue(options.value("-Q")))
    add_files(body, options)
    body.update({member: options.value(option) for option, member in TEXTS if options.has(option)})
    _add_surroundings(body, options, environ)
    if options.has("-k"):
        from xce.cli.lsf.checkpoint import parse_checkpoints  # noqa: PLC0415 - of this option only

        body["checkpoints"] = parse_checkpoints(options.value("-k"), body["cwd"], environ)
    if options.has("-f"):
        body["transfers"] = read_transfers(options, body["cwd"])
    return body


def _limits(options: Parsed, unit_for_limits: Callable[[], str]) -> dict[str, Any]:
    """Return how long it may run, with how much memory, and its other limits."""
    body: dict[str, Any] = {}
    for option, member in (("-W", "run_limit_s"), ("-We", "estimate_s")):
        if options.has(option):
            body[member] = parse_duration_s(options.value(option), option=option)
    if options.has("-M"):
        body["mem_limit_kib"] = memory_kib(options.value("-M"), unit_for_limits)
    limits = parse_limits(options, lambda: bare_unit(unit_for_limits()), own_limits)
    return {**body, "limits": limits} if limits else body


def _unquoted(text: str) -> str:
    """Return a value without the quotes around it that no shell has taken away."""
    text = text.strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1].strip() if is_quoted else text


def add_warning(body: dict[str, Any], options: Parsed) -> None:
    """Add the signal or the command before the run limit, and how long before.

    Raises:
        BadValueError: There is no such signal, or it is no time.
    """
    if options.has("-wa"):
        from xce.cli.lsf.signals import parse_warning  # noqa: PLC0415 - of this option only

        text = _unquoted(options.value("-wa"))
        try:
            number = parse_warning(text)
        except UsageError:
            raise BadValueError(
                f"Bad warning action: -wa {text} is no signal, and not CHKPNT; a program of this "
                f"name is run with its path, as in ./{text}"
            ) from None
        if not text:
            raise BadValueError("Bad warning action: -wa needs a signal, CHKPNT or a command")
        body |= {"warning_signal": number} if number else {"warning_command": text}
    if options.has("-wt"):
        body["warning_s"] = parse_duration_s(options.value("-wt").strip("'\" "), option="-wt")
        if not body["warning_s"]:
            raise BadValueError(f"The action warning time is not valid: -wt {options.value('-wt')}")


def _size(
    options: Parsed, environ: Mapping[str, str], unit_for_limits: Callable[[], str]
) -> dict[str, Any]:
    """Return the requirement, and how many tasks or hosts."""
    body: dict[str, Any] = {}
    requests = options.given.get("-R") or _default(environ, "LSB_DEFAULT_RESREQ")
    if requests:
        body["resreq"] = requests
        if environ.get("LSF_UNIT_FOR_LIMITS"):
            body["unit_for_limits"] = unit_for_limits()
    if options.has("-n"):
        body["tasks"] = parse_tasks(options.value("-n"))
    if options.has("-gpu"):
        body["gpu"] = parse_gpu_wish(options.value("-gpu"), unit_for_limits)
    if options.has("-nnodes"):
        body["nodes"] = parse_count(options.value("-nnodes"), option="-nnodes")
    return body


def check_named(options: Parsed) -> None:
    """Check that options which name something do not name nothing.

    Raises:
        BadValueError: One does; LSF's words begin the text.
    """
    for option, text in _MUST_NAME:
        if options.has(option) and not options.value(option).strip():
            raise BadValueError(text)
    if len(options.value("-Jd")) > DESCRIPTION_MAX:
        raise BadValueError(f"Bad job description: -Jd is over {DESCRIPTION_MAX} characters")


def _identity(options: Parsed, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return name, array, project, application profile and job group."""
    body: dict[str, Any] = {}
    if options.has("-J"):
        name, array = split_job_name(options.value("-J"))
        body.update({"name": name} if name else {}, **({"array": array} if array else {}))
    project = options.value("-P") or environ.get("LSB_DEFAULTPROJECT", "")
    if len(project) > PROJECT_MAX:
        raise BadValueError(
            f"Bad project name: it has {len(project)} characters; {PROJECT_MAX} are allowed"
        )
    if project:
        body["project"] = project
    app = options.value("-app") or environ.get("LSB_DEFAULT_APPLICATION", "")
    if app:
        body["app"] = app
    group = options.value("-g") or environ.get("LSB_DEFAULT_JOBGROUP", "")
    if group.strip("/ "):
        body["group"] = group
    return body


def _default(environ: Mapping[str, str], name: str) -> list[str]:
    value = environ.get(name, "")
    return [value] if value else []


def bare_unit(unit: str) -> str:
    """Return the letter of the unit of a bare limit.

    Raises:
        BadValueError: ``unit`` is none of the values that ``LSF_UNIT_FOR_LIMITS`` may have.
    """
    letter = _BARE_UNITS.get(unit.strip().upper())
    if letter is None:
        raise BadValueError(
            f"LSF_UNIT_FOR_LIMITS is {unit!r}; allowed are KB, MB, GB, TB and classic"
        )
    return letter


def memory_kib(text: str, unit_for_limits: Callable[[], str]) -> int:
    """Return the KiB of ``-M``; only a bare number needs the cluster's unit."""
    kib = parse_size_kib(text, option="-M")
    if kib is None:
        kib = parse_size_kib(text, option="-M", bare_unit=bare_unit(unit_for_limits()))
    return kib or 0


def parse_gpu_wish(text: str, unit_for_limits: Callable[[], str]) -> dict[str, Any]:
    """Return what ``-gpu`` asks for; only ``gmem`` needs the unit of limits."""
    from xce.cli.lsf.gpu_value import parse_gpu  # noqa: PLC0415 - of this option only

    unit = "M"
    if "gmem" in text:
        named = unit_for_limits()
        unit = "M" if named == "classic" else bare_unit(named)
    return dict(parse_gpu(text, unit))


def parse_condition(text: str) -> str:
    """Return a dependency condition without quotes that a caller left around all of it."""
    text = text.strip()
    if len(text) > 2 and text[0] == text[-1] == '"' and text[1:].lstrip().startswith(_CONDITIONS):
        inner = text[1:-1]
        if '"' not in inner and "(" in inner:
            return inner
    return text


def parse_priority(text: str) -> int:
    """Return the number of ``-sp``."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= PRIORITY_MAX:
        raise BadValueError(
            f"Bad user priority: -sp {text} is no whole number from 1 to {PRIORITY_MAX}"
        )
    return int(text)


def add_files(body: dict[str, Any], options: Parsed) -> None:
    """Add where the job's streams go."""
    for option, member, append in (
        ("-o", "output", True),
        ("-oo", "output", False),
        ("-e", "error", True),
        ("-eo", "error", False),
    ):
        if options.has(option):
            body[member] = _path(options, option)
            if not append:
                body[f"{member}_append"] = False
    if options.has("-i"):
        body["input"] = _path(options, "-i")
    if options.has("-is"):
        path = _path(options, "-is")
        content = _spool(path)
        body["input"] = path
        body["input_data"] = binascii.b2a_base64(content, newline=False).decode("ascii")


def read_transfers(options: Parsed, cwd: str) -> list[list[str]]:
    """Return the files that are to be copied before and after, each with its place here.

    Args:
        options: Some of ``-f`` among them.
        cwd: Where relative local paths begin; these become absolute.

    Raises:
        BadValueError: One is none.
    """
    from xce.model.errors import TextError  # noqa: PLC0415 - of this option only
    from xce.model.transfers import parse_transfer  # noqa: PLC0415
    from xce.step.file_copy import place_of  # noqa: PLC0415

    found = []
    for text in options.given["-f"]:
        try:
            local, operator, remote = parse_transfer(text)
            local = os.path.join(cwd, local)
            found.append([local, operator, remote, place_of(local)])
        except TextError as error:
            raise BadValueError(f"Bad file transfer: -f {error}") from None
        except OSError as error:
            raise BadValueError(
                f"Bad file transfer: -f {text}: {error.strerror or error}"
            ) from None
    return found


def _path(options: Parsed, option: str) -> str:
    path = options.value(option)
    if not path or "\0" in path:
        raise BadValueError(f"Bad file name: {option} names no file")
    if len(path) > PATH_MAX:
        raise BadValueError(
            f"Bad file name: {option} has {len(path)} characters; {PATH_MAX} are allowed"
        )
    return path


def _spool(path: str) -> bytes:
    """Return the content of a file that is copied at submission."""
    try:
        return read_file(path)
    except OSError as error:
        raise BadValueError(f"Bad input file: -is {path}: {error.strerror}") from None


def read_file(path: str) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: It cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_all(descriptor)
    finally:
        os.close(descriptor)


def read_all(descriptor: int) -> bytes:
    """Return everything up to the end of a stream."""
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _add_surroundings(body: dict[str, Any], options: Parsed, environ: Mapping[str, str]) -> None:
    """Add where the job was submitted, from where, and what it inherits."""
    body["cwd"] = submission_directory(environ)
    given = options.value("-cwd") or environ.get("LSB_JOB_CWD", "")
    if given:
        body["cwd_given"] = given
    body["from_host"] = os.uname().nodename
    if options.has("-L"):
        body["login_shell"] = parse_login_shell(options.value("-L"))
    _add_mail(body, options)
    group = options.value("-G") or environ.get("LSB_DEFAULT_USERGROUP", "")
    if group:
        body["user_group"] = group
    if environ.get("HOME"):
        body["home"] = environ["HOME"]
    mask = os.umask(0o077)
    os.umask(mask)
    body["umask"] = mask
    chosen = choose_environment(environ, options.given.get("-env", []))
    body["env"] = [f"{name}={value}" for name, value in chosen.items() if name]


def _add_mail(body: dict[str, Any], options: Parsed) -> None:
    """Add what mail is wanted about, and where it goes."""
    wanted = {"start": options.has("-B"), "done": options.has("-N")}
    wanted["exit"] = options.has("-N") or options.has("-Ne")
    if any(wanted.values()):
        body["notices"] = [word for word, is_wanted in wanted.items() if is_wanted]
    if options.has("-u"):
        body["mail_to"] = parse_mail_to(options.value("-u"))


def parse_mail_to(text: str) -> str:
    """Return the addresses of ``-u``."""
    if not text.strip():
        raise BadValueError("Bad mail address: -u names nobody")
    if len(text) > MAIL_TO_MAX:
        raise BadValueError(
            f"Bad mail address: -u has {len(text)} characters; {MAIL_TO_MAX} are allowed"
        )
    return text


def submission_directory(environ: Mapping[str, str]) -> str:
    """Return the working directory as the shell calls it, else as the kernel does.

    Raises:
        BadValueError: It was removed.
    """
    named = environ.get("PWD", "")
    try:
        here = os.stat(".")
        if named.startswith("/"):
            there = os.stat(named)
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                return named
    except OSError:
        named = ""
    try:
        return os.getcwd()
    except OSError as error:
        raise BadValueError(f"The working directory is gone: {error.strerror}") from None
