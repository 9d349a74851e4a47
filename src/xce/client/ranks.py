"""The ranks of the job that a process belongs to, and the environment of each. Standard library."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from xce.step.environment import own_devices

NO_ROLE: Final = "-"


class RankFileError(Exception):
    """The file of the job's ranks is missing or makes no sense."""


class Rank(NamedTuple):
    """One task of a job."""

    rank: int
    host: str
    place: int
    """Among the tasks on its host."""
    role: str
    """Empty: the job has no roles."""
    number: int
    """Among the tasks of its role."""


def load_ranks(environ: Mapping[str, str] = os.environ) -> list[Rank]:
    """Return the tasks of the job in rank order.

    Raises:
        RankFileError: They cannot be known.
    """
    path = environ.get("XCE_RANKFILE", "")
    if not path:
        if "XCE_JOBID" not in environ:
            raise RankFileError("this is not within a job")
        return [Rank(0, environ.get("HOSTNAME", ""), 0, environ.get("XCE_ROLE", ""), 0)]
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs a start twice
            lines = file.read().splitlines()
    except OSError as error:
        raise RankFileError(f"cannot read {path}: {error.strerror}") from error
    try:
        return [_parse(line) for line in lines]
    except ValueError as error:
        raise RankFileError(f"{path} has a line that is no rank: {error}") from error


def _parse(line: str) -> Rank:
    rank, host, place, role, number = line.split()
    return Rank(int(rank), host, int(place), "" if role == NO_ROLE else role, int(number))


def render_ranks(ranks: Sequence[Rank]) -> str:
    """Return the file of some ranks, as `load_ranks` reads it."""
    return "".join(
        f"{one.rank} {one.host} {one.place} {one.role or NO_ROLE} {one.number}\n" for one in ranks
    )


def rank_environment(
    rank: Rank, ranks: Sequence[Rank], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of one task: the job's, and what tells it apart."""
    found = dict(environ)
    mates = [one for one in ranks if one.host == rank.host]
    found["XCE_RANK"] = str(rank.rank)
    found["XCE_NTASKS"] = str(len(ranks))
    found["XCE_HOST_NTASKS"] = str(len(mates))
    found["XCE_HOST_TASK_INDEX"] = str(rank.place)
    if rank.role:
        found["XCE_ROLE"], found["XCE_ROLE_INDEX"] = rank.role, str(rank.number)
    return found | own_devices(environ, str(rank.place))


def hosts_of(ranks: Sequence[Rank]) -> list[str]:
    """Return the hosts of a job, in the order in which they come first."""
    return list(dict.fromkeys(rank.host for rank in ranks))
