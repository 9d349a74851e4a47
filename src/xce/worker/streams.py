"""Where a job runs and where its streams go: patterns in paths, what joins what. Pure."""

import posixpath
from typing import NamedTuple, TypeAlias

from xce.model.effect import Launch
from xce.model.ids import Index
from xce.model.job import Files
from xce.model.path_pattern import directory_values, expand_patterns

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
    return expand_patterns(path, {"J": str(job), "I": str(index)})


def working_directory(launch: Launch, index: Index, host: str) -> tuple[str, bool]:
    """Return where an element runs, and whether that is to be made where it is missing.

    Only a directory that was asked for by ``-cwd`` is made, as LSF does it.
    """
    spec = launch.spec
    if not spec.cwd_asked:
        return spec.cwd, False
    return posixpath.join(spec.cwd, _expand_directory(spec.cwd_asked, launch, index, host)), True


def output_directory(launch: Launch, index: Index, host: str) -> str:
    """Return the directory of ``-outdir``, from the root; empty: none was asked for."""
    asked = launch.spec.output_dir
    if not asked:
        return ""
    cwd, _ = working_directory(launch, index, host)
    return posixpath.join(cwd, _expand_directory(asked, launch, index, host))


def _expand_directory(path: str, launch: Launch, index: Index, host: str) -> str:
    values = directory_values(
        launch.job, index, user=launch.owner.user, project=launch.project, group=launch.group,
        user_group=launch.spec.user_group, host=host,
    )  # fmt: skip
    return expand_patterns(path, values)


def streams_of(
    files: Files, *, cwd: str, job: int, index: int, input_path: str, output_dir: str = ""
) -> Streams:
    """Return what the streams of one element are connected to.

    Args:
        files: As submitted.
        cwd: Where it runs.
        job: Its job's number.
        index: Its index; 0 without an array.
        input_path: The spooled input (``-is``) on this host; empty: there is none.
        output_dir: Where relative paths of output and error lie; empty: where it runs.
    """

    def target(path: str, *, append: bool) -> Target | None:
        if not path:
            return None
        return posixpath.join(output_dir, expand_path(path, job=job, index=index)), append

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


def directory_has_index(launch: Launch) -> bool:
    """Whether working or output directory differ between the elements of a launch."""
    asked = (launch.spec.cwd_asked, launch.spec.output_dir)
    return any(pattern in path for path in asked for pattern in ("%I", "%EI"))


def is_same_file(cwd: str, one: str, other: str) -> bool:
    """Return whether two paths of streams, as submitted or expanded, name one file."""
    return posixpath.normpath(posixpath.join(cwd, one)) == posixpath.normpath(
        posixpath.join(cwd, other)
    )
