"""``brestart``: submit a job anew that goes on from its last checkpoint."""

from __future__ import annotations

import os
import time

from xce.cli.lsf import bsub
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, MANY, VALUE, Options, Parsed, UsageError
from xce.cli.lsf.process_limits import OPTIONS as LIMITS
from xce.cli.lsf.submission import build_submission
from xce.cli.lsf.values import BadValueError, parse_job_id
from xce.client.rest import ProblemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

USAGE = """\
Usage: brestart [options] directory job_ID | "job_ID[index]"
  submits the job anew as it was; its erestart program says what runs then
  -f          tell that program that it is forced
  options of bsub that hold in place of the job's own:
  -q -m -R -x -P -G -W -We -M -b -t -w -B -N -Ne -c -v -p -T -S -D -F -C
"""
_TAKEN = (
    "-q", "-m", "-P", "-G", "-W", "-We", "-M", "-b", "-t", "-w", *LIMITS,
)  # fmt: skip
OPTIONS = Options(
    {
        **dict.fromkeys(_TAKEN, VALUE),
        **dict.fromkeys(("-x", "-B", "-N", "-Ne", "-f"), FLAG),
        "-R": MANY,
    },
    dict.fromkeys(
        ("-J", "-n", "-o", "-e", "-i", "-k", "-r", "-L", "-g", "-wa", "-wt", "-cwd"),
        "it is as the job had it",
    ),
    bundled=False,
    sticky=frozenset(("-R", "-W", "-We", "-M", "-c")),
)
_OF_HERE = ("cwd", "from_host", "home", "umask", "env")
"""What a submission says of where it was made: that of the job's own holds."""
_PROGRAM = ("command", "script", "script_data", "script_name", "args")
_PAST = frozenset(
    ("array", "dependency", "begin_at", "deadline_at", "hold", "ends_as_orphan", *_PROGRAM)
)
"""What of the job's own submission does not hold any more."""
_RESTART = """\
#!/bin/sh
export LSB_RESTART=Y LSB_OLD_JOBID={job} LSB_ERESTART_USRCMD={command}
directory={directory}
program=$LSB_ECHKPNT_METHOD_DIR/erestart.$LSB_ECHKPNT_METHOD
rm -f -- "$directory/.restart_cmd"
if ! LSB_CHKPNT_DIR=$directory "$program" {flags}"$directory"; then
  echo "brestart: $program has failed" >&2
  exit 1
fi
command=$(sed -n 's/^LSB_RESTART_CMD=//p' "$directory/.restart_cmd" 2>/dev/null)
if [ -z "$command" ]; then
  echo "brestart: $program has left no LSB_RESTART_CMD in $directory/.restart_cmd" >&2
  exit 1
fi
exec /bin/sh -c "$command"
"""
_SCRIPT = ".submission.sh"


def build_restart(stored: dict[str, Any], directory: str, job: str, *, forced: bool) -> str:
    """Return the script that goes on from the checkpoint of a job.

    Raises:
        BadValueError: Its own script cannot be written beside the checkpoint.
    """
    folder = os.path.join(directory, job)
    return _RESTART.format(
        job=job.partition("[")[0],
        command=quote(_command(stored, folder)),
        directory=quote(folder),
        flags="-f " if forced else "",
    )


def _command(stored: dict[str, Any], folder: str) -> str:
    """Return the command line that the job was started with."""
    if "command" in stored:
        return str(stored["command"])
    if "script" not in stored:
        raise BadValueError("Its script is not valid UTF-8: submit the job again")
    path = os.path.join(folder, _SCRIPT)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "w") as file:
            file.write(stored["script"])
    except OSError as error:
        raise BadValueError(f"Bad checkpoint directory: {path}: {error.strerror}") from None
    return " ".join(map(quote, [path, *stored.get("args", [])]))


def _check_checkpoint(stored: dict[str, Any], directory: str, job: str) -> None:
    """Check that a job has written a checkpoint.

    Raises:
        BadValueError: It has not, or somebody else has made its directory, or it is an array.
    """
    from xce.cli.lsf.checkpoint import (  # noqa: PLC0415 - it loads what `-h` does not need
        check_own,
    )

    if "array" in stored and "[" not in job:
        raise BadValueError(f"Job <{job}> is an array: name an element, as {job}[1]")
    folder = os.path.join(directory, job)
    if not os.path.exists(os.path.join(folder, "echkpnt.out")):
        raise BadValueError(f"Job <{job}>: there is no checkpoint in {folder}")
    try:
        check_own(folder)
    except OSError as error:
        raise BadValueError(f"Bad checkpoint directory: {folder}: {error.strerror}") from None


def execute(context: Context) -> int:
    """Submit the job."""
    rest = context.parsed.rest
    if len(rest) != 2:
        raise UsageError("a checkpoint directory and a job ID must be specified")
    try:
        return _submit(context, os.path.abspath(rest[0]), parse_job_id(rest[1]))
    except BadValueError as error:
        context.err(f"{error}. Job not submitted.")
    except ProblemError as error:
        bsub.complain(context, error)
    return FAILED


def quote(text: str) -> str:
    """Return a text as one word of the shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fill_in(body: dict[str, Any], job: str) -> None:
    """Let paths that differ by element be those of the element that is restarted.

    What goes on from it is a job of its own, which is element 0 of nothing.
    """
    from xce.model.path_pattern import expand_patterns  # noqa: PLC0415 - of elements only

    index = job.partition("[")[2].rstrip("]")
    if not index:
        return
    for member in ("input", "output", "error"):
        if member in body:
            body[member] = expand_patterns(body[member], {"I": index})
    for member in ("cwd_given", "output_dir"):
        if member in body:
            body[member] = expand_patterns(body[member], {"I": index, "EI": index})
    if "transfers" in body:
        body["transfers"] = [
            [*(expand_patterns(path, {"I": index}) for path in transfer[:3]), *transfer[3:]]
            for transfer in body["transfers"]
        ]


def _note_places(body: dict[str, Any]) -> None:
    """Note anew which directories the local files are in, on the machine that has them.

    Raises:
        BadValueError: One is not there any more.
    """
    from xce.step.file_copy import place_of  # noqa: PLC0415 - of jobs with `-f` only

    if not body.get("transfers") or body.get("from_host") != os.uname().nodename:
        return
    for transfer in body["transfers"]:
        try:
            transfer[3] = place_of(os.path.join(body["cwd"], transfer[0]))
        except OSError as error:
            what = " ".join(transfer[:3])
            raise BadValueError(f"Bad file transfer: {what}: {error.strerror or error}") from None


def _submit(context: Context, directory: str, job: str) -> int:
    from xce.cli.lsf.checkpoint import (  # noqa: PLC0415 - it loads what `-h` does not need
        load_submission,
        make_directory,
        store_submission,
    )

    options = context.parsed
    stored = load_submission(directory, job)
    _check_checkpoint(stored, directory, job)
    given = Parsed({name: values for name, values in options.given.items() if name != "-f"}, [])
    asked = build_submission(given, {}, lambda: bsub.unit_for_limits(context), now_s=time.time())
    script = build_restart(stored, directory, job, forced=options.has("-f"))
    shown = stored.get("command") or stored.get("script_name") or f"restart of {job}"
    body = {name: value for name, value in stored.items() if name not in _PAST}
    body |= {name: value for name, value in asked.items() if name not in _OF_HERE}
    body |= {"script": script, "script_name": shown}
    body["checkpoints"] = {**stored["checkpoints"], "directory": directory}
    _fill_in(body, job)
    _note_places(body)
    make_directory(body)
    result = bsub.send(context, body, options.value("-q").split() or [stored["queue"]])
    kept = {name: value for name, value in body.items() if name not in _PROGRAM}
    kept |= {name: stored[name] for name in _PROGRAM if name in stored}
    trouble = store_submission(kept, int(result["jobid"]), result["queue"])
    if trouble:
        context.err(f"Warning: brestart will not find this job: {trouble}.")
    if result.get("warning"):
        context.err(f"Warning: {result['warning'].rstrip('.')}.")
    context.out(f"Job <{result['jobid']}> is submitted to queue <{result['queue']}>.")
    return 0


def main() -> NoReturn:
    """Run ``brestart``."""
    run_main(OPTIONS, USAGE, execute)
