"""The copies that a job asked for (``bsub -f``), as commands of its user's shell. Pure.

They are steps of the attempt like hooks: they run as its user in its control group, are written
down before they begin, and are begun again or known to have failed whoever is killed.
"""

import re
from shlex import quote
from typing import Final

from xce.model.effect import Launch
from xce.model.transfers import AFTER, APPEND, BEFORE, Transfer, render_transfer
from xce.step import file_copy
from xce.worker.launch_command import FILE_COPY
from xce.worker.shepherd.hooks import POST, PRE, TRANSFER
from xce.worker.streams import expand_path

_INDEX: Final = re.compile(r"%I")

Row = tuple[str, str, str]
"""``(kind, command, origin)`` of a step."""


def transfer_steps(launch: Launch, cwd: str, *, makes_cwd: bool) -> list[Row]:
    """Return the steps that are the first of the attempt, and those right behind the job.

    Args:
        launch: What is started.
        cwd: Where it runs.
        makes_cwd: Whether that is made where it is missing.
    """
    before: list[Row] = []
    after: list[Row] = []
    for transfer in launch.spec.transfers:
        operator = transfer[1]
        origin = f"{TRANSFER} {render_transfer(transfer)}"
        if operator in BEFORE:
            made = f"mkdir -p -- {quote(cwd)}; " if makes_cwd else ""
            command = made + _command(file_copy.BEFORE, transfer, launch, cwd)
            before.append((PRE, command, origin))
        if operator in AFTER:
            way = file_copy.APPEND if operator == APPEND else file_copy.AFTER
            after.append((POST, _command(way, transfer, launch, cwd), origin))
    return [*before, *after]


def _command(way: str, transfer: Transfer, launch: Launch, cwd: str) -> str:
    local, _, remote, place = transfer
    words = [*map(quote, (*FILE_COPY, way, place)), _path(local, launch.spec.cwd, launch)]
    return " ".join(["exec", *words, _path(remote, cwd, launch)])


def _path(path: str, directory: str, launch: Launch) -> str:
    """Return a path as a word of the shell; elements differ by their variable."""
    above = "" if path.startswith("/") else quote(f"{directory}/")
    parts = [quote(expand_path(part, job=launch.job, index=0)) for part in _INDEX.split(path)]
    return above + '"$LSB_JOBINDEX"'.join(parts)
