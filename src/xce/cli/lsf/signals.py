"""Signals by name and number."""

from __future__ import annotations

from xce.cli.lsf.options import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIGNALS = (
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU",
    "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
)  # fmt: skip
"""Linux's signals from 1 on."""
_SIGNAL_MAX = 64
CHECKPOINT = "CHKPNT"
CHECKPOINT_NUMBER = 100
"""`xce.model.checkpoint.CHECKPOINT`: what -wa has beside signals."""


def parse_signal(text: str, option: str = "-s") -> int:
    """Return the number of a signal: ``9``, ``KILL``, ``SIGKILL``.

    Raises:
        UsageError: There is no such signal; ``option`` named it.
    """
    if text.isascii() and text.isdigit() and 1 <= int(text) <= _SIGNAL_MAX:
        return int(text)
    name = text.upper().removeprefix("SIG")
    if name not in SIGNALS:
        raise UsageError(f"{option} {text}: Signal not supported; 'bkill -l' lists their names")
    return SIGNALS.index(name) + 1


def parse_warning(text: str) -> int:
    """Return the number of what ``-wa`` has sent: a signal, or a request for a checkpoint.

    0: it is a command. A word in capitals is taken for a signal, so that no slip is run.

    Raises:
        UsageError: There is no such signal.
    """
    if text.upper().removeprefix("SIG") == CHECKPOINT:
        return CHECKPOINT_NUMBER
    name = text.upper().removeprefix("SIG")
    if name in SIGNALS or (text.isalnum() and text == text.upper()):
        return parse_signal(text, "-wa")
    return 0


def signal_name(number: int) -> str:
    """Return the name of a signal; 0: empty."""
    if number == CHECKPOINT_NUMBER:
        return CHECKPOINT
    return SIGNALS[number - 1] if 1 <= number <= len(SIGNALS) else str(number or "")


def warning_action(row: dict[str, Any]) -> str:
    """Return what ``-wa`` of a job said; empty: nothing."""
    command = str(row.get("warning_command") or "").replace("\n", ";")
    return command or signal_name(row.get("warning_signal") or 0)
