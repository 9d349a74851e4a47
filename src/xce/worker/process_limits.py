"""Limits of each process of a job, as the lines of a shell that sets them. Pure."""

from collections.abc import Iterator
from typing import Final

from xce.model.ids import SECOND_US
from xce.model.process_limits import ProcessLimits

SHELL: Final = "/bin/sh"
_BLOCKS_PER_KIB: Final = 2
"""``ulimit -c`` and ``-f`` count blocks of 512 bytes."""


def limit_code(limits: ProcessLimits) -> str:
    """Return what a shell does to hold itself, and what it starts, to limits; empty: nothing.

    The soft limits are set; one that is above the host's hard limit becomes that one.
    """
    return "".join(
        f"ulimit -S -{letter} {value} 2>/dev/null||ulimit -S -{letter} $(ulimit -H -{letter});"
        for letter, value in _settings(limits)
    )


def limited_command(argv: list[str], limits: ProcessLimits) -> list[str]:
    """Return a command that runs another one under limits."""
    code = limit_code(limits)
    return [SHELL, "-c", f'{code}exec "$@"', SHELL, *argv] if code else argv


def _settings(limits: ProcessLimits) -> Iterator[tuple[str, int]]:
    """Yield letters of ``ulimit`` with their values."""
    if limits.cpu_us:
        yield "t", -(-limits.cpu_us // SECOND_US)
    if limits.stack_kib:
        yield "s", limits.stack_kib
    if limits.data_kib:
        yield "d", limits.data_kib
    if limits.file_kib:
        yield "f", limits.file_kib * _BLOCKS_PER_KIB
    if limits.core_kib >= 0:
        yield "c", limits.core_kib * _BLOCKS_PER_KIB
