"""The copies that a job asked for (``bsub -f``), as commands of its user's shell. Pure.

They are steps of the attempt like hooks: they run as its user in its control group, are written
down before they begin, and are begun again or known to have failed whoever is killed. Where the
first host does not see the directory of the submission a step asks the host that does: this says
there, too, which file is meant.
"""

import posixpath
import re
from shlex import quote
from typing import Final, NamedTuple

from xce.model.effect import Launch
from xce.model.transfers import AFTER, APPEND, BEFORE, render_transfer
from xce.step import file_copy
from xce.worker.launch_command import FILE_COPY
from xce.worker.shepherd.hooks import POST, PRE, TRANSFER
from xce.worker.streams import expand_path

_INDEX: Final = re.compile(r"%I")

Row = tuple[str, str, str]
"""``(kind, command, origin)`` of a step."""


class End(NamedTuple):
    """A local file, where the job was submitted."""

    way: str
    place: str
    path: str
    name: str
    """Of what is copied to it."""
    machine: str
    """`NAMED` where this host has the name of the one that the job was submitted from."""


def transfer_steps(launch: Launch, cwd: str, *, makes_cwd: bool) -> list[Row]:
    """Return the steps that are the first of the attempt, and those right behind the job.

    Args:
        launch: What is started.
        cwd: Where it runs.
        makes_cwd: Whether that is made where it is missing.
    """
    before: list[Row] = []
    after: list[Row] = []
    for number, transfer in enumerate(launch.spec.transfers):
        operator = transfer[1]
        origin = f"{TRANSFER} {render_transfer(transfer)}"
        if operator in BEFORE:
            made = f"mkdir -p -- {quote(cwd)}; " if makes_cwd else ""
            command = made + _command(file_copy.BEFORE, number, launch, cwd)
            before.append((PRE, command, origin))
        if operator in AFTER:
            command = _command(_way_back(operator), number, launch, cwd)
            after.append((POST, command, origin))
    return [*before, *after]


def end_of(launch: Launch, number: int, host: str, *, is_read: bool) -> End | None:
    """Return the local file of a transfer; None: the job has none that goes this way.

    Args:
        launch: One element.
        number: Which of its transfers.
        host: The host that is taken for the one of the submission.
        is_read: Whether it is copied to the job's host.
    """
    transfers = launch.spec.transfers
    if not 0 <= number < len(transfers):
        return None
    local, operator, remote, place = transfers[number]
    if operator not in (BEFORE if is_read else AFTER):
        return None
    way = file_copy.BEFORE if is_read else _way_back(operator)
    job, index = launch.job, launch.indices[0]
    path = posixpath.join(launch.spec.cwd, expand_path(local, job=job, index=index))
    name = posixpath.basename(expand_path(remote, job=job, index=index))
    names = (launch.spec.from_host, launch.spec.from_host.partition(".")[0])
    return End(way, place, path, name, file_copy.NAMED if host in names else "")


def _way_back(operator: str) -> str:
    return file_copy.APPEND if operator == APPEND else file_copy.AFTER


def _command(way: str, number: int, launch: Launch, cwd: str) -> str:
    local, _, remote, place = launch.spec.transfers[number]
    words = [*map(quote, (*FILE_COPY, "copy", str(number), way, place))]
    paths = [_path(local, launch.spec.cwd, launch), _path(remote, cwd, launch)]
    return " ".join(["exec", *words, *paths])


def _path(path: str, directory: str, launch: Launch) -> str:
    """Return a path as a word of the shell; elements differ by their variable."""
    above = "" if path.startswith("/") else quote(f"{directory}/")
    parts = [quote(expand_path(part, job=launch.job, index=0)) for part in _INDEX.split(path)]
    return above + '"$LSB_JOBINDEX"'.join(parts)
