"""``bmod``: change a job that was submitted."""

from __future__ import annotations

import binascii
import time

from xce.cli.lsf import bsub
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, MANY, VALUE, Options, Parsed, UsageError
from xce.cli.lsf.process_limits import MEMBERS as LIMITS
from xce.cli.lsf.process_limits import parse_limits
from xce.cli.lsf.script import split_words
from xce.cli.lsf.submission import (
    HOOKS,
    TEXTS,
    add_files,
    add_warning,
    bare_unit,
    check_named,
    memory_kib,
    parse_condition,
    parse_gpu_wish,
    parse_mail_to,
    parse_priority,
    read_file,
    read_transfers,
    submission_directory,
)
from xce.cli.lsf.values import (
    BadValueError,
    parse_begin,
    parse_count,
    parse_deadline,
    parse_duration_s,
    parse_job_id,
    parse_login_shell,
    parse_requeue,
    parse_tasks,
    split_job_name,
)
from xce.client.rest import ProblemError, make_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

USAGE = """\
Usage: bmod [options] job_ID | "job_ID[index_list]"
  options of bsub with new values; with an n behind an option (-Wn) it is as if not given:
  -J name  -J "%5"      name; at most 5 elements of an array at once (%0: any number)
  -q -n -R -m -x -P -app -sp -g        where, with how much and in which order it may run
  -W -We -M -b -t -w -r -rn -Q -E -Ep -wa -wt   limits, estimate, begin, deadline, dependency
  -c -v -p -T -S -D -F -C               limits of CPU time, swap, processes, sizes
  -gpu -nnodes -G -ti   GPUs, whole hosts, group of shares, end of orphans
  -k "directory [init=minutes] [minutes] [method=name]"   where and when checkpoints are written
  -Jd -B -N -Ne -u -L -outdir           description, mail, login shell, output directory
  -Z "command"  -Zs "script [argument ...]"  -cwd -i -is -o -oo -e -eo -f   what runs, and its files
  a job that has started: -W -We -M -c -r -rn -q -Jd only
"""
_UNSET = {
    "-Jn": "name", "-qn": "queue", "-nn": "tasks", "-Rn": "resreq", "-mn": "hosts",
    "-xn": "exclusive", "-Pn": "project", "-spn": "priority", "-Wn": "run_limit_s",
    "-Wen": "estimate_s", "-Mn": "mem_limit_kib", "-bn": "begin_at", "-tn": "deadline_at",
    "-wn": "dependency",
    "-gn": "group", "-appn": "app", "-En": "pre_exec", "-Epn": "post_exec",
    "-wan": "warning_signal", "-wtn": "warning_s",
    "-on": "output", "-en": "error", "-in": "input", "-isn": "input",
    "-cwdn": "cwd_given", "-Qn": "requeue_codes", "-Jdn": "description", "-outdirn": "output_dir",
    "-fn": "transfers",
    "-un": "mail_to", "-Ln": "login_shell", "-Gn": "user_group", "-gpun": "gpu",
    "-kn": "checkpoints",
    "-nnodesn": "nodes", "-tin": "ends_as_orphan", "-rnn": "rerunnable", "-oon": "output",
    "-eon": "error",
    **{f"{option}n": member for option, member in LIMITS.items()},
}  # fmt: skip
"""Option -> what is as if it had not been said."""
_SWITCHES = {
    "-x": {"exclusive": True},
    "-r": {"rerunnable": True},
    "-rn": {"rerunnable": False},
    "-ti": {"ends_as_orphan": True},
    "-B": {"mail_start": True},
    "-Bn": {"mail_start": False},
    "-N": {"mail_done": True, "mail_exit": True},
    "-Nn": {"mail_done": False, "mail_exit": False},
    "-Ne": {"mail_done": False, "mail_exit": True},
    "-Nen": {"mail_exit": False},
}
"""Option -> what it changes."""
_KNOWN = {
    **dict.fromkeys(_SWITCHES, FLAG),
    **dict.fromkeys(_UNSET, FLAG),
    **dict.fromkeys(
        (
            "-J", "-o", "-oo", "-e", "-eo", "-i", "-is", "-q", "-n", "-W", "-We", "-M", "-w", "-b",
            "-t", "-cwd", "-m", "-P", "-app", "-sp", "-g", "-Q", "-E", "-Ep", "-wa", "-wt", "-Z",
            "-Zs", *LIMITS, "-Jd", "-outdir", "-u", "-L", "-G", "-gpu", "-nnodes", "-k",
        ),
        VALUE,
    ),
    **dict.fromkeys(("-R", "-f"), MANY),
}  # fmt: skip
_SETTLED = "it cannot be changed after the submission"
_REFUSED = {
    **dict.fromkeys(bsub.OPTIONS.known, _SETTLED),
    **bsub.OPTIONS.refused,
    "-H": "use bstop and bresume",
    "-aps": "use btop and bbot, or -sp",
    "-Wep": "use -We",
}
OPTIONS = Options(
    _KNOWN,
    {
        option: text
        for known, text in _REFUSED.items()
        for option in (known, f"{known}n")
        if option not in _KNOWN and known[:2] not in ("--", "-V") and known not in ("-h", "-help")
    },
    bundled=False,
    sticky=frozenset(("-n", "-R", "-W", "-We", "-M", "-J", "-sp")),
)


def build_change(options: Parsed, context: Context) -> dict[str, Any]:
    """Return what a command line changes.

    Raises:
        BadValueError: A value cannot be taken.
    """
    check_named(options)
    change: dict[str, Any] = {}
    if options.has("-J"):
        _add_name(change, options.value("-J"))
    _add_place(change, options, context)
    _add_limits(change, options, context)
    if options.has("-w"):
        change["dependency"] = parse_condition(options.value("-w"))
    change.update({name: options.value(option) for option, name in HOOKS if options.has(option)})
    add_warning(change, options)
    if options.has("-k"):
        from xce.cli.lsf.checkpoint import parse_checkpoints  # noqa: PLC0415 - of this option only

        where = submission_directory(context.environ)
        change["checkpoints"] = parse_checkpoints(options.value("-k"), where, context.environ)
    if options.has("-cwd"):
        change["cwd_given"] = options.value("-cwd")
    if options.has("-Q"):
        change.update(parse_requeue(options.value("-Q")))
    for option, members in _SWITCHES.items():
        if options.has(option):
            change |= members
    _add_words(change, options)
    add_files(change, options)
    if options.has("-f"):
        change["transfers"] = read_transfers(options, submission_directory(context.environ))
    _add_program(change, options)
    unset = [member for option, member in _UNSET.items() if options.has(option)]
    if unset:
        change["unset"] = sorted(set(unset))
    return change


def _add_place(change: dict[str, Any], options: Parsed, context: Context) -> None:
    """Add where, with how much and in which order the job may run."""
    for option, member in (
        ("-q", "queue"), ("-P", "project"), ("-m", "hosts"), ("-g", "group"), ("-app", "app"),
    ):  # fmt: skip
        if options.has(option):
            change[member] = options.value(option)
    if options.has("-R"):
        change["resreq"] = options.given["-R"]
        if context.environ.get("LSF_UNIT_FOR_LIMITS"):
            change["unit_for_limits"] = bsub.unit_for_limits(context)
    if options.has("-n"):
        change["tasks"] = parse_tasks(options.value("-n"))
    if options.has("-sp"):
        change["priority"] = parse_priority(options.value("-sp"))
    if options.has("-gpu"):
        unit = lambda: bsub.unit_for_limits(context)  # noqa: E731 - asked for sizes only
        change["gpu"] = parse_gpu_wish(options.value("-gpu"), unit)
    if options.has("-nnodes"):
        change["nodes"] = parse_count(options.value("-nnodes"), option="-nnodes")
    if options.has("-G"):
        change["user_group"] = options.value("-G")


def _add_words(change: dict[str, Any], options: Parsed) -> None:
    """Add description, output directory, addresses and login shell."""
    change.update({name: options.value(option) for option, name in TEXTS if options.has(option)})
    if options.has("-u"):
        change["mail_to"] = parse_mail_to(options.value("-u"))
    if options.has("-L"):
        change["login_shell"] = parse_login_shell(options.value("-L"))


def _add_limits(change: dict[str, Any], options: Parsed, context: Context) -> None:
    """Add when it may run, for how long and with how much memory."""
    for option, member in (("-W", "run_limit_s"), ("-We", "estimate_s")):
        if options.has(option):
            change[member] = parse_duration_s(options.value(option), option=option)
    if options.has("-M"):
        change["mem_limit_kib"] = memory_kib(
            options.value("-M"), lambda: bsub.unit_for_limits(context)
        )
    limits = parse_limits(options, lambda: bare_unit(bsub.unit_for_limits(context)))
    if limits:
        change["limits"] = limits
    if options.has("-b"):
        change["begin_at"] = parse_begin(options.value("-b"), time.time())
    if options.has("-t"):
        change["deadline_at"] = parse_deadline(options.value("-t"), time.time())


def _add_name(change: dict[str, Any], text: str) -> None:
    """Add a new name, a new limit of an array, or both."""
    head, percent, limit = text.rpartition("%")
    if percent and limit.isascii() and limit.isdigit():
        change["array_limit"] = int(limit)
        text = head
        if not text:
            return
    elif percent and not head:
        # A limit that is mistyped is no name to give to the whole array.
        raise BadValueError(f"Job array index error: -J {text}: no number stands behind %")
    name, array = split_job_name(text)
    if array:
        raise BadValueError(
            f"Job array index error: -J {text}: the elements of an array stay those they are"
        )
    change["name"] = name


def _add_program(change: dict[str, Any], options: Parsed) -> None:
    """Add another command or script."""
    if options.has("-Z") and options.has("-Zs"):
        raise BadValueError("-Z and -Zs cannot be used together")
    if options.has("-Z"):
        if not options.value("-Z").strip():
            raise BadValueError("Empty job")
        change["command"] = options.value("-Z")
    if not options.has("-Zs"):
        return
    words = split_words(options.value("-Zs"))
    if not words:
        raise BadValueError("Empty job")
    try:
        content = read_file(words[0])
    except OSError as error:
        raise BadValueError(f"Bad command file: -Zs {words[0]}: {error.strerror}") from None
    change["script_data"] = binascii.b2a_base64(content, newline=False).decode("ascii")
    change["script_name"] = words[0]
    if words[1:]:
        change["args"] = words[1:]


def _job(parsed: Parsed) -> str:
    """Return the job that is meant.

    Raises:
        UsageError: None is, or several are.
        BadValueError: It is no job id.
    """
    if not parsed.rest:
        raise UsageError("Job ID must be specified")
    if len(parsed.rest) > 1:
        raise UsageError(f"{parsed.rest[1]}: one job at a time")
    return parse_job_id(parsed.rest[0])


def _send(context: Context, job: str, change: dict[str, Any]) -> Any:  # noqa: ANN401 - an answer
    body = {"action": "modify", "select": {"jobs": [job]}, "change": change}
    return context.api.call("POST", "/jobs/actions", (), body, key=make_key(), repeatable=False)


def _send_with_directory(context: Context, job: str, change: dict[str, Any]) -> Any:  # noqa: ANN401
    """Change a job; what ``brestart`` needs of it goes to where its checkpoints will be."""
    if "checkpoints" not in change:
        return _send(context, job, change)
    from xce.cli.lsf.checkpoint import (  # noqa: PLC0415 - of this option only
        find_submission,
        make_directory,
        store_submission,
    )

    number = job.partition("[")[0]
    stored = find_submission(context.api, number) | {"checkpoints": change["checkpoints"]}
    make_directory(stored)
    answer = _send(context, job, change)
    if not any("error" in one for one in answer["results"]):
        trouble = store_submission(stored, int(number), stored["queue"])
        if trouble:
            context.err(f"Warning: brestart will not find this job: {trouble}.")
    return answer


def execute(context: Context) -> int:
    """Change the job."""
    try:
        job = _job(context.parsed)
        change = build_change(context.parsed, context)
        if not change:
            raise UsageError("there is nothing to change")
        answer = _send_with_directory(context, job, change)
    except BadValueError as error:
        context.err(f"{error}. Job not modified.")
        return FAILED
    except ProblemError as error:
        _complain(context, error.lsf, error.text)
        return FAILED
    status = 0
    for result in answer["results"]:
        refused = result.get("error")
        if refused is not None:
            _complain(context, refused.get("lsf") or "", refused.get("text") or "")
            status = FAILED
            continue
        if result.get("warning"):
            context.err(f"Warning: {result['warning'].rstrip('.')}.")
        context.out(f"Parameters of job <{result['job']}> are being changed")
    return status


def _complain(context: Context, lsf: str, text: str) -> None:
    """Say why nothing was changed, in LSF's words where it has some, and then in ours."""
    context.err(f"{(lsf or text).rstrip('.')}. Job not modified.")
    if lsf and text.rstrip(".") != lsf:
        context.err(f"  {text.rstrip('.')}.")


def main() -> NoReturn:
    """Run ``bmod``."""
    run_main(OPTIONS, USAGE, execute)
