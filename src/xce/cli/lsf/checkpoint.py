"""Checkpoints of jobs: what ``-k`` asks for, and what ``brestart`` will need of a submission.

A job that is restarted is a new one, and much later: all that was submitted lies beside its
checkpoints, readable for its owner alone.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat

from xce.cli.lsf.values import BadValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from xce.client.rest import Api

_METHOD = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MINUTES = re.compile(r"\d{1,5}(?:\.\d)?")
SUBMISSION = ".submission.json"
_FORM = '"directory [init=minutes] [minutes] [method=name]"'


def parse_checkpoints(text: str, cwd: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what ``-k`` asks for; the directory from the root.

    Raises:
        BadValueError: It is no directory with periods and a method behind it.
    """
    words = text.split()
    if not words:
        raise BadValueError(f"Bad checkpoint directory: -k names none; expected {_FORM}")
    found: dict[str, Any] = {"directory": os.path.normpath(os.path.join(cwd, words[0]))}
    method = environ.get("LSB_ECHKPNT_METHOD", "")
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if equals and name == "method":
            method = value
        elif equals and name == "init":
            found["first_s"] = _seconds(value, text)
        elif not equals and "period_s" not in found:
            found["period_s"] = _seconds(word, text)
        else:
            raise BadValueError(f"Bad checkpoint period: -k {text}: expected {_FORM}")
    if "first_s" in found and "period_s" not in found:
        raise BadValueError(f"Bad checkpoint period: -k {text}: init belongs to a period")
    if method:
        if _METHOD.fullmatch(method) is None:
            raise BadValueError(f"Bad checkpoint method: -k {text}: {method!r} is no name of one")
        found["method"] = method
    return found


def _seconds(minutes: str, text: str) -> float:
    if _MINUTES.fullmatch(minutes) is None or not float(minutes):
        raise BadValueError(f"Bad checkpoint period: -k {text}: {minutes!r} are no minutes")
    return float(minutes) * 60


def make_directory(body: Mapping[str, Any]) -> None:
    """Make the directory of a job's checkpoints where it is missing, before the job is submitted.

    Raises:
        BadValueError: It cannot be made or written.
    """
    path = body["checkpoints"]["directory"]
    try:
        os.makedirs(path, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise BadValueError(f"Bad checkpoint directory: -k {path}: {error.strerror}") from None


def check_own(folder: str) -> None:
    """Check that the directory of a job's checkpoints is the caller's: their common directory may
    be one in which others make theirs, and ids of jobs can be foreseen.

    Raises:
        OSError: It is not, or not there.
    """
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is no directory of yours")


def store_submission(body: Mapping[str, Any], job: int, queue: str) -> str:
    """Keep what was submitted beside the job's checkpoints; return what went wrong, or nothing."""
    folder = os.path.join(body["checkpoints"]["directory"], str(job))
    content = json.dumps({**body, "queue": queue}).encode()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        check_own(folder)
        path = os.path.join(folder, SUBMISSION)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""


def load_submission(directory: str, job: str) -> dict[str, Any]:
    """Return what was submitted as ``job``.

    Raises:
        BadValueError: There is nothing of it in the directory.
    """
    folder = os.path.join(directory, job.partition("[")[0])
    path = os.path.join(folder, SUBMISSION)
    try:
        check_own(folder)
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as error:
        raise BadValueError(f"Bad checkpoint directory: {path}: {error.strerror}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("checkpoints"), dict):
        raise BadValueError(f"Bad checkpoint directory: {path} is no submission of a job")
    return found


def find_submission(api: Api, job: str) -> dict[str, Any]:
    """Return what was submitted as a job whose checkpoints are to be written otherwise.

    Raises:
        BadValueError: It writes none, or nothing of it is where they are written.
        ProblemError: There is no such job.
    """
    wanted = api.call("GET", f"/jobs/{job}")["checkpoints"]
    if wanted is None:
        raise BadValueError(
            f"Job <{job}> is not checkpointable: it was submitted without -k, and what brestart "
            "needs was not kept; submit it anew with -k"
        )
    return load_submission(wanted["directory"], job)
