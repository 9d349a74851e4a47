"""Checks of members of a submission that need nothing but themselves."""

import os
from typing import Final

from xce.apiserver.problems import refused
from xce.apiserver.submission_body import SubmissionBody
from xce.model.checkpoint import CHECKPOINT
from xce.model.ids import Micros
from xce.model.job import Terminal
from xce.model.refusal import RefusalCode

SIGNAL_MAX: Final = 64


def check_word(what: str, text: str) -> None:
    """Check what stands in listings as a word.

    Raises:
        ProblemError: There are control characters in it.
    """
    if text.isprintable():
        return
    for at, character in enumerate(text):
        if character < " " or "\x7f" <= character <= "\x9f":
            raise refused(
                RefusalCode.BAD_REQUEST,
                f"{what} may not hold {character!r} (column {at + 1})",
                lsf="Bad project name" if what == "project" else "",
            )


def check_warning(signal: int, command: str, before_us: Micros, *, has_checkpoints: bool) -> None:
    """Check that a warning has both its signal, or command, and its time, and can be given.

    Raises:
        ProblemError: One is missing, there is no such signal, the job writes no checkpoints, or
            there are a signal and a command.
    """
    if signal > SIGNAL_MAX and signal != CHECKPOINT:
        raise refused(RefusalCode.BAD_REQUEST, f"there is no signal {signal}")
    if signal == CHECKPOINT and not has_checkpoints:
        raise refused(
            RefusalCode.BAD_REQUEST,
            "a checkpoint before the run limit is for jobs with -k",
            lsf="Job is not checkpointable",
        )
    if signal and command:
        raise refused(RefusalCode.BAD_REQUEST, "a warning is a signal or a command, not both")
    if bool(signal or command) != bool(before_us):
        raise refused(
            RefusalCode.BAD_REQUEST,
            "a warning needs both the signal or command and the time before the run limit",
            lsf="You must specify both a warning action and an action warning time",
        )


def read_terminal(body: SubmissionBody) -> Terminal | None:
    """Return how an interactive job is connected; None: it is not interactive.

    Raises:
        ProblemError: It cannot be.
    """
    given = body.terminal
    if given is None:
        return None
    if body.input and given.mode != "I":
        raise refused(
            RefusalCode.BAD_REQUEST,
            "a job with a pseudo-terminal reads from that, not from a file",
            lsf="Input file not allowed with pseudo-terminal",
        )
    if "\0" in given.kind:
        raise refused(RefusalCode.BAD_REQUEST, "TERM holds a NUL character")
    return Terminal(given.mode, given.rows, given.columns, given.kind)


def check_paths(body: SubmissionBody) -> None:
    """Check that what names files, or is a command, can do so.

    Raises:
        ProblemError: It cannot.
    """
    if not os.path.isabs(body.cwd):  # noqa: PTH117 - a text, not a path of this machine
        raise refused(RefusalCode.BAD_REQUEST, f"cwd {body.cwd!r} is no absolute path")
    for text in (
        body.cwd, body.cwd_given, body.home, body.input, body.output, body.error, body.script_name,
        body.pre_exec, body.post_exec, body.warning_command, body.output_dir, body.description,
        *(path for transfer in body.transfers for path in transfer),
    ):  # fmt: skip
        if "\0" in text:
            raise refused(RefusalCode.BAD_REQUEST, f"{text!r} holds a NUL character")
