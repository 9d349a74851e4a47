"""``bsub``: submit a job."""

from __future__ import annotations

import binascii
import os
import sys
import time

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, MANY, VALUE, Options, Parsed
from xce.cli.lsf.process_limits import OPTIONS as LIMITS
from xce.cli.lsf.script import directive_lines, parse_directives, unify_line_ends
from xce.cli.lsf.submission import bare_unit, build_submission, merge_options, read_all, read_file
from xce.cli.lsf.values import BadValueError
from xce.client.rest import ProblemError, make_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from xce.cli.lsf.interactive import Session

USAGE = """\
Usage: bsub [options] command [argument ...]
       bsub [options] < script        (lines "#BSUB options" count, the command line wins)
       bsub [options] script          (the same, when the file has such lines)
  -J "name[1-10:2]%5"   name; array with at most 5 elements running at once
  -q queue              queue, or several "q1 q2" that are tried in order
  -n min[,max]          tasks
  -nnodes n             n whole hosts, with at least the tasks of -n
  -R "request"          resource request; may be repeated
  -W [hours:]minutes    run limit            -We [hours:]minutes  estimate of the run time
  -M size               memory limit, e.g. 500MB
  -c [hours:]minutes    limit of CPU time       -v size   of memory and swap together
  -p n  -T n            of processes, of threads
  -S -D -F -C size      of stack, data, files and core dumps of each process
  -ul                   limits of processes as they are here
  -o file  -oo file     append / overwrite output; %J is the job id, %I the array index
  -e file  -eo file     append / overwrite error output
  -i file  -is file     input file; -is copies it now
  -f "local op remote"  copy files: > before the start, < (<< adds to it) after the end, <> both
  -w "condition"        start only when e.g. done(12) && ended(name)
  -ti                   with -w: end at once when the condition can never hold
  -b [[[year:]month:]day:]hour:minute   start not before
  -t [[[year:]month:]day:]hour:minute   end by then; do not start what cannot end by then
  -m "hosts"  -x        hosts to use; no other job beside it
  -cwd directory        working directory of the job
  -outdir directory     made before the job; relative -o and -e lie in it
  -Jd text              description, for people
  -env "all, ~A, B=1"   variables of the job; several add up
  -P project  -sp n     project, priority
  -app profile          application profile: what jobs of an application need
  -g /group             job group, which is made if it is not there
  -H  -K                hold until bresume; wait for the end
  -Q "codes"            start anew when it ends with such an exit status, e.g. "1 5", "all ~3";
                        "9 EXCLUDE(7)": with 7 on another host
  -E command            run before the job: if it fails, the job is tried again elsewhere or later
  -wa signal|"command" -wt [hours:]minutes   send or run it so long before the run limit
  -Ep command           run after the job, however it ended
  -k "directory [init=minutes] [minutes] [method=name]"    write checkpoints, so often
  -I  -Ip  -Is          be at the job: its streams, or a pseudo-terminal (-Is: for a shell)
  -L shell              read this shell's login files before
  -G group              be counted in this group of the queue's shares
  -r  -rn               start anew when the host fails, or never; without: as the queue has it
  --explain             print what was understood as JSON, and submit nothing
  --plan                tell whether, where and when it would run, and submit nothing
"""
_PLAIN = "write the job's options on the command line or as #BSUB lines"
_CSM = "it is of IBM's CSM only; use -n with -R"
_INSTEAD = {
    "-sla": "there are no service classes; use a queue",
    "-hl": "leave it out; -M is meant for each host as it is",
    **dict.fromkeys(("-ptl", "-eptl"), "nobody is alarmed by a job that waits; use bjobs -p"),
    "-mig": "use bchkpnt -k and brestart -m",
    "-a": "there are no esub programs",
    **dict.fromkeys(("-ext", "-extsched"), "there are no external schedulers; use -R"),
    "-s": "what a closing window suspends is stopped as a whole",
    "-U": "there are no advance reservations",
    "-hostfile": "use -m and -n",
    **dict.fromkeys(("-data", "-datagrp", "-datachk", "-stage"), "there is no data manager"),
    "-Lp": "there is no licence scheduler; use rusage[] of a pool",
    **dict.fromkeys(("-ar", "-rnc"), "the size of a running job is fixed"),
    "-Zs": "leave it out; the text of a script is always kept at submission",
    "-clusters": "there is one cluster",
    **dict.fromkeys(
        (
            "-ln_slots", "-ln_mem", "-cn_cu", "-cn_mem", "-alloc_flags", "-core_isolation", "-smt",
            "-step_cgroup", "-csm", "-jsm",
        ),
        _CSM,
    ),
    "-network": "networks are not given out",
    "-freq": "the speed of CPUs is not set",
    "-jobaff": "use -m, or cu[] in -R",
    "-rcacct": "there are no providers yet",
}  # fmt: skip
"""Options of LSF that XCE has not, and what to use instead."""
OPTIONS = Options(
    {
        **dict.fromkeys(
            (
                "-H", "-x", "-K", "-r", "-rn", "-I", "-Ip", "-Is", "-ti", "-B", "-N", "-Ne", "-ul",
                "--plan",
            ),
            FLAG,
        ),
        **dict.fromkeys(
            (
                "-J", "-o", "-oo", "-e", "-eo", "-i", "-is", "-q", "-n", "-W", "-We", "-M", "-w",
                "-b", "-t", "-cwd", "-m", "-P", "-app", "-sp", "-gpu", "-g", "-Q", "-nnodes", "-L",
                "-G", "-E", "-Ep", "-u", "-wa", "-wt", "-Jd", "-outdir",
                "-k", *LIMITS,
            ),
            VALUE,
        ),
        **dict.fromkeys(("-R", "-env", "-f"), MANY),
    },
    {
        "-notify": "use -B, -N or -Ne: there is mail about the beginning and the end",
        **dict.fromkeys(("-IS", "-ISp", "-ISs"), "connections are secured by XCE itself; use -Is"),
        **dict.fromkeys(("-IX", "-XF"), "X11 is not forwarded; use ssh -X to the job's host"),
        "-tty": "what is written to a file is not shown; use tee in the job",
        **dict.fromkeys(
            ("-pack", "-json", "-yaml", "-jsdl", "-jsdl_strict"),
            f"{_PLAIN}; many jobs at once: an array (-J)",
        ),
        **_INSTEAD,
    },
    bundled=False,
    sticky=frozenset(("-n", "-R", "-W", "-We", "-M", "-J", "-sp", "-gpu", "-c")),
)  # fmt: skip
_SCRIPT_MAX = 1 << 24
"""Bytes up to which a file named as first word is looked into for directives."""
_WAIT_S = "60"


def execute(context: Context) -> int:
    """Submit, and wait where asked to."""
    try:
        return _submit(context)
    except BadValueError as error:
        context.err(f"{error}. Job not submitted.")
    except ProblemError as error:
        complain(context, error)
    return FAILED


def complain(context: Context, error: ProblemError) -> None:
    """Say why the job was refused."""
    context.err(f"{(error.lsf or error.text).rstrip('.')}. Job not submitted.")
    if error.lsf:  # the line above is LSF's, word for word; clients compare it
        context.err(f"  {error.text.rstrip('.')}.")


def _submit(context: Context) -> int:
    line = context.parsed
    body = _program(context)
    script = parse_directives(body.get("script", ""), OPTIONS)
    for option in ("-h", "-help", "-V", "--wait-daemon", "--plan"):
        if script.has(option):
            raise BadValueError(f"{option} does not stand in a script")
    options = merge_options(line, script)
    body.update(
        build_submission(
            options, context.environ, lambda: unit_for_limits(context), now_s=time.time()
        )
    )
    _encode_script(body)
    _drop_unreadable(context, body)
    mode = _terminal(context, body, options)
    queues = options.value("-q").split() or context.environ.get("LSB_DEFAULTQUEUE", "").split()
    if options.has("--plan"):
        if options.has("-K"):
            raise BadValueError("-K has no meaning with --plan")
        return _plan(context, body, queues)
    result = _send_with_directory(context, body, queues)
    job = int(result["jobid"])
    # Before anything is said: who reads that the job is there may interrupt it.
    session = _session(context, job, mode, body) if mode else None
    if result.get("warning"):
        context.err(f"Warning: {result['warning'].rstrip('.')}.")
    if not context.environ.get("BSUB_QUIET"):
        kind = "queue" if options.has("-q") else "default queue"
        context.out(f"Job <{result['jobid']}> is submitted to {kind} <{result['queue']}>.")
        context.flush()
    if session is not None:
        session.run()
        return exit_status(_wait_for_end(context, job))
    return _wait(context, job) if options.has("-K") else 0


def _send_with_directory(
    context: Context, body: dict[str, Any], queues: list[str]
) -> dict[str, Any]:
    """Submit; what writes checkpoints has their directory before, and is kept there behind it."""
    if "checkpoints" not in body:
        return send(context, body, queues)
    from xce.cli.lsf.checkpoint import (  # noqa: PLC0415 - of this option only
        make_directory,
        store_submission,
    )

    make_directory(body)
    result = send(context, body, queues)
    trouble = store_submission(body, int(result["jobid"]), result["queue"])
    if trouble:
        context.err(f"Warning: brestart will not find this job: {trouble}.")
    return result


def _session(context: Context, job: int, mode: str, body: dict[str, Any]) -> Session:
    """Return the caller's terminal at an interactive job; signals are the job's from here on."""
    from xce.cli.lsf.interactive import Session  # noqa: PLC0415 - of these options only

    return Session(context, job, mode, takes_input="input" not in body)


def _terminal(context: Context, body: dict[str, Any], options: Parsed) -> str:
    """Add how an interactive job is connected; return its option, empty: it is not interactive."""
    given = [option for option in ("-I", "-Ip", "-Is") if options.has(option)]
    if not given:
        return ""
    if len(given) > 1:
        raise BadValueError(f"{given[0]} and {given[1]} cannot be used together")
    for option in ("-K", "--plan"):
        if options.has(option):
            raise BadValueError(f"{option} cannot be used together with {given[0]}")
    from xce.cli.lsf.interactive import window  # noqa: PLC0415 - of these options only

    body["terminal"] = window(context.environ.get("TERM", ""), given[0])
    return given[0]


def send(context: Context, body: dict[str, Any], queues: list[str]) -> dict[str, Any]:
    """Submit to the first of the queues that takes the job; to the default one where none is named.

    Raises:
        ProblemError: The last one refused, too.
    """
    refused: ProblemError | None = None
    for queue in queues or [""]:
        if queue:
            body["queue"] = queue
        try:
            answer = context.api.call("POST", "/jobs", (), body, key=make_key())
        except ProblemError as error:
            refused = error
            continue
        result: dict[str, Any] = answer["results"][0]
        if "error" not in result:
            return result
        refused = ProblemError(400, result["error"])
    raise refused or ProblemError(500, {"detail": "XCE's answer is empty"})


def _plan(context: Context, body: dict[str, Any], queues: list[str]) -> int:
    """Tell what would become of the job in the first queue that would take it."""
    from xce.cli.lsf.advice_text import render_plan  # noqa: PLC0415 - of this option only

    answer: dict[str, Any] = {}
    for queue in queues or [""]:
        if queue:
            body["queue"] = queue
        answer = context.api.call("POST", "/plan", (), body)
        if answer["accepted"]:
            break
    if not answer["accepted"]:
        raise ProblemError(400, answer["error"])
    if answer["warning"]:
        context.err(f"Warning: {answer['warning'].rstrip('.')}.")
    for line in render_plan(answer, time.time()):
        context.out(line)
    return 0


def _program(context: Context) -> dict[str, Any]:
    """Return what is to run: the command words, a named script, or the text on stdin."""
    words = context.parsed.rest
    if not words:
        return {"script": _decode(context, _stdin(context))}
    text = _named_script(context, words[0])
    if text is not None:
        body: dict[str, Any] = {"script": text, "script_name": words[0]}
        return {**body, "args": words[1:]} if words[1:] else body
    command = " ".join(words)
    if not command.strip():
        raise BadValueError("Empty job")
    if not _is_text(command):
        raise BadValueError("The command is not valid UTF-8; put it into a script")
    return {"command": command}


def _stdin(context: Context) -> bytes:
    """Return the text on stdin; at a terminal it is asked for line by line."""
    try:
        if not os.isatty(0):
            return read_all(0)
        parts: list[bytes] = []
        while True:
            if context.environ.get("BSUB_STDERR"):
                os.write(2, b"bsub> ")
            else:
                context.out_bytes(b"bsub> ")
            line = os.read(0, 1 << 16)
            if not line:
                context.err("")
                return b"".join(parts)
            parts.append(line)
    except OSError:
        return b""


def _named_script(context: Context, word: str) -> str | None:
    """Return the text of the file that the first word names, if it is a script with directives."""
    try:
        found = os.stat(word)
        if found.st_mode & 0o170000 != 0o100000 or found.st_size > _SCRIPT_MAX:
            return None
        content = read_file(word)
    except (OSError, ValueError):
        return None
    if b"\0" in content or b"#BSUB" not in content:
        return None
    text = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    if not directive_lines(text) or not _parses_scripts(context):
        return None
    return _decode(context, content)


def _parses_scripts(context: Context) -> bool:
    """Return whether directives of a named script count: ``lsf: {parse_script: ...}``."""
    named = context.environ.get("LSB_BSUB_PARSE_SCRIPT", "")
    if named:
        return named[0] in "Yy1"
    return bool(context.api.call("GET", "/cluster").get("parse_script", True))


def unit_for_limits(context: Context) -> str:
    """Return the unit of bare sizes: the environment's, else the cluster's."""
    named = context.environ.get("LSF_UNIT_FOR_LIMITS", "")
    if named:
        bare_unit(named)
        return named
    return str(context.api.call("GET", "/cluster").get("unit_for_limits") or "MB")


def _decode(context: Context, content: bytes) -> str:
    """Return a script's text with LF line ends; bytes that are no UTF-8 stay as surrogates.

    Raises:
        BadValueError: It is empty or no text.
    """
    if b"\0" in content:
        raise BadValueError(
            "The job script holds NUL bytes, so it is no text; name a program as the command"
        )
    text, changed = unify_line_ends(content.decode("utf-8", "surrogateescape"))
    if not text.strip():
        raise BadValueError("Empty job")
    if changed:
        context.err("Warning: the script's line ends were CRLF; the job runs it with LF.")
    return text


def _is_text(text: str) -> bool:
    """Return whether ``text`` holds no bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encode_script(body: dict[str, Any]) -> None:
    """Send a script that is not UTF-8 as bytes."""
    text = body.get("script")
    if text is not None and not _is_text(text):
        del body["script"]
        content = text.encode("utf-8", "surrogateescape")
        body["script_data"] = binascii.b2a_base64(content, newline=False).decode("ascii")


def _drop_unreadable(context: Context, body: dict[str, Any]) -> None:
    """Refuse bytes that are not UTF-8 where they matter; leave such variables out, and say so."""
    bad = [item for item in body["env"] if not _is_text(item)]
    if bad:
        names = ", ".join(sorted(item.partition("=")[0] for item in bad))
        shown = names.encode("utf-8", "backslashreplace").decode()
        context.err(f"Warning: not given to the job, since not valid UTF-8: {shown}.")
        body["env"] = [item for item in body["env"] if _is_text(item)]
    for member, value in body.items():
        texts = value if isinstance(value, list) else [value]
        if not all(_is_text(text) for text in texts if isinstance(text, str)):
            raise BadValueError(f"Its {member} is not valid UTF-8")


def _wait(context: Context, job: int) -> int:
    """Wait for the end of the job and return its exit code; 126 when it never ran."""
    context.err("<<Waiting for dispatch ...>>")
    try:
        row = _wait_for_end(context, job)
    except KeyboardInterrupt:
        context.err(f"Job {job} goes on; 'bkill {job}' ends it.")
        raise
    shown = f"Job {job}" if context.environ.get("LSB_SUBK_SHOW_JOBID") else "Job"
    context.err(f"<<{shown} is finished>>")
    return exit_status(row)


def _wait_for_end(context: Context, job: int) -> dict[str, Any]:
    """Return the job's row once it has ended; the host is told when it is known."""
    row: dict[str, Any] = {}
    show_host = bool(context.environ.get("LSB_SUBK_SHOW_EXEC_HOST"))
    while not row:
        pause = "1" if show_host else _WAIT_S
        answer = context.api.call("GET", f"/jobs/{job}/wait", [("timeout", pause)])
        if answer:
            row = answer
        if show_host:
            seen = row or context.api.call("GET", f"/jobs/{job}")
            if seen.get("hosts"):
                context.err(f"<<Starting on {seen['hosts'][0][0]}>>")
                show_host = False
    return row


def exit_status(row: dict[str, Any]) -> int:
    """Return the exit status of ``bsub -K`` for a job that has ended.

    For an array: 0 when all elements are done, else 1.
    """
    elements = row.get("elements")
    if elements is not None:
        return 1 if elements.get("exit") else 0
    if row.get("stat") == "DONE":
        return 0
    if row.get("start_at") is None:
        return 126
    if row.get("exit_code"):
        return int(row["exit_code"])
    return 128 + int(row["signal"]) if row.get("signal") else FAILED


def main() -> NoReturn:
    """Run ``bsub``."""
    if "--explain" in sys.argv:
        # By name: this way alone needs the packages beside XCE, and no other way may load them.
        explain = __import__("xce.cli.explain.main", fromlist=["main"])
        if explain.is_asked(sys.argv[1:]):
            explain.main()
    run_main(OPTIONS, USAGE, execute, until_word=True)
