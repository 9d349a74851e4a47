"""Signals by name and number."""

from __future__ import annotations

from xce.cli.lsf.options import UsageError

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

    Raises:
        UsageError: It is neither.
    """
    is_checkpoint = text.upper().removeprefix("SIG") == CHECKPOINT
    return CHECKPOINT_NUMBER if is_checkpoint else parse_signal(text, "-wa")


def signal_name(number: int) -> str:
    """Return the name of a signal; 0: empty."""
    if number == CHECKPOINT_NUMBER:
        return CHECKPOINT
    return SIGNALS[number - 1] if 1 <= number <= len(SIGNALS) else str(number or "")
