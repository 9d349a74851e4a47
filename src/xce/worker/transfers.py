"""The copies that a job asked for (``bsub -f``), as commands of its user's shell. Pure.

They are steps of the attempt like hooks: they run as its user in its control group, are written down
before they begin, and are begun again or known to have failed whoever is killed.
"""

import re
from shlex import quote
from typing import Final

from xce.model.effect import Launch
from xce.model.transfers import AFTER, APPEND, BEFORE, Transfer, render_transfer
from xce.worker.shepherd.hooks import POST, PRE, TRANSFER
from xce.worker.streams import expand_path

_INDEX: Final = re.compile(r"%E?I")
_COPY: Final = """\
s={source}; d={target}
[ -f "$s" ] && [ -r "$s" ] || exit {unreadable}
if [ -d "$d" ]; then d=$d/${{s##*/}}; fi
if [ "$s" -ef "$d" ]; then exit 0; fi
{copy} || exit {unwritable}"""
UNREADABLE: Final = 66
UNWRITABLE: Final = 73
"""Exit statuses that `xce.worker.shepherd.hooks` has words for."""

Row = tuple[str, str, str]
"""``(kind, command, origin)`` of a step."""


def transfer_steps(launch: Launch, cwd: str, *, makes_cwd: bool) -> tuple[list[Row], list[Row]]:
    """Return the steps before the first hook, and those right behind the job.

    Args:
        launch: What is started.
        cwd: Where it runs.
        makes_cwd: Whether that is made where it is missing.
    """
    before: list[Row] = []
    after: list[Row] = []
    for transfer in launch.spec.transfers:
        local, operator, remote = transfer
        source = _path(local, launch.spec.cwd, launch)
        target = _path(remote, cwd, launch)
        origin = f"{TRANSFER} {render_transfer(transfer)}"
        if operator in BEFORE:
            made = f"mkdir -p -- {quote(cwd)}; " if makes_cwd else ""
            before.append((PRE, made + _copy(source, target, transfer), origin))
        if operator in AFTER:
            after.append((POST, _copy(target, source, transfer), origin))
    return before, after


def _path(path: str, directory: str, launch: Launch) -> str:
    """Return a path as a word of the shell; elements differ by their variable."""
    whole = path if path.startswith("/") else f"{directory}/{path}"
    parts = [
        quote(expand_path(part.replace("%EJ", "%J"), job=launch.job, index=0)) if part else ""
        for part in _INDEX.split(whole)
    ]
    return '"$LSB_JOBINDEX"'.join(parts)


def _copy(source: str, target: str, transfer: Transfer) -> str:
    copy = 'cat -- "$s" >> "$d"' if transfer[1] == APPEND else 'cp -- "$s" "$d"'
    return _COPY.format(
        source=source, target=target, copy=copy, unreadable=UNREADABLE, unwritable=UNWRITABLE
    )
