"""Where a job runs and where its streams go: patterns in paths, what joins what. Pure."""

import posixpath
import re
from typing import Final, NamedTuple, TypeAlias

from xce.model.effect import Launch
from xce.model.ids import Index
from xce.model.job import Files

_PATTERN: Final = re.compile(r"%(EJ|EI|JG|[JIUPHG])")

Target: TypeAlias = tuple[str, bool]
"""A path from the working directory, and whether it is appended to."""


class Streams(NamedTuple):
    """What an element's streams are connected to."""

    input: str
    """Empty: the null device."""
    output: Target | None
    """None: kept by the cluster."""
    error: Target | None
    """None: with the output."""


def expand_path(path: str, *, job: int, index: int) -> str:
    """Return a stream's path with ``%J`` and ``%I`` filled in; the index is 0 without an array."""
    if "%" not in path:
        return path
    values = {"J": str(job), "I": str(index)}
    return _PATTERN.sub(lambda match: values.get(match[1], match[0]), path)


def working_directory(launch: Launch, index: Index, host: str) -> tuple[str, bool]:
    """Return where an element runs, and whether that is to be made where it is missing.

    Only a directory that was asked for by ``-cwd`` is made, as LSF does it.
    """
    spec = launch.spec
    if not spec.cwd_asked:
        return spec.cwd, False
    values = {
        "J": str(launch.job), "EJ": str(launch.job), "I": str(index), "EI": str(index),
        "U": launch.owner.user, "P": launch.project, "H": host, "JG": launch.group,
        "G": spec.user_group,
    }  # fmt: skip
    asked = _PATTERN.sub(lambda match: values[match[1]], spec.cwd_asked)
    return posixpath.join(spec.cwd, asked), True


def streams_of(files: Files, *, cwd: str, job: int, index: int, input_path: str) -> Streams:
    """Return what the streams of one element are connected to.

    Args:
        files: As submitted.
        cwd: Where it runs.
        job: Its job's number.
        index: Its index; 0 without an array.
        input_path: The spooled input (``-is``) on this host; empty: there is none.
    """

    def target(path: str, *, append: bool) -> Target | None:
        return (expand_path(path, job=job, index=index), append) if path else None

    output = target(files.output, append=files.output_append)
    error = target(files.error, append=files.error_append)
    if output is not None and error is not None and is_same_file(cwd, output[0], error[0]):
        error = None
    source = input_path or expand_path(files.input, job=job, index=index)
    return Streams(source, output, error)


def has_index(launch: Launch) -> bool:
    """Whether paths differ between the elements of a launch."""
    files = launch.spec.files
    return any("%I" in path for path in (files.input, files.output, files.error))


def cwd_has_index(launch: Launch) -> bool:
    """Whether the working directory differs between the elements of a launch."""
    return "%I" in launch.spec.cwd_asked or "%EI" in launch.spec.cwd_asked


def is_same_file(cwd: str, one: str, other: str) -> bool:
    """Return whether two paths of streams, as submitted or expanded, name one file."""
    return posixpath.normpath(posixpath.join(cwd, one)) == posixpath.normpath(
        posixpath.join(cwd, other)
    )
