"""Patterns in the paths of directories: ``-cwd`` and ``-outdir``."""

import re
from collections.abc import Mapping
from typing import Final

from xce.model.ids import Index, JobId

PATTERN: Final = re.compile(r"%(EJ|EI|JG|[JIUPHG])")


def directory_values(
    job: JobId, index: Index, *, user: str, project: str, group: str, user_group: str, host: str
) -> dict[str, str]:
    """Return what patterns in directories of an element stand for.

    Args:
        job: Its job's number.
        index: Its index; 0 without an array.
        user: Whose it is.
        project: Its project.
        group: The job group.
        user_group: The group that it is counted in.
        host: The first host that it runs on.
    """
    number, place = str(job), str(index)
    return {
        "J": number, "EJ": number, "I": place, "EI": place, "U": user, "P": project, "H": host,
        "JG": group, "G": user_group,
    }  # fmt: skip


def expand_patterns(path: str, values: Mapping[str, str]) -> str:
    """Return a path with the patterns filled in that have a value."""
    if "%" not in path:
        return path
    return PATTERN.sub(lambda match: values.get(match[1], match[0]), path)
