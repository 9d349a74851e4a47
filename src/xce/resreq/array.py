"""Job names with index lists, and job ids with index lists.

``name[1-10:2,15]%5`` names an array; ``12[1-3,7]`` names elements of one.
"""

import re
from typing import Final

from xce.model.ids import Index, JobId
from xce.model.job import NAME_MAX, ArraySpec
from xce.resreq.errors import JobNameError, JobRefError

ID_MAX: Final = (1 << 63) - 1
RUNS_MAX: Final = 20_000
"""Most runs that an index list may come down to."""
_MIXED_MAX: Final = 1 << 24
"""Widest stretch over which runs of several strides may overlap."""
_INDEX_MAX: Final = (1 << 31) - 2
"""Largest index that any array may have, as in LSF."""

_ARRAY: Final = re.compile(r"(?P<name>[^\[]*)\[(?P<list>[^\[\]]*)\](?:%(?P<limit>[0-9]{1,12}))?")
_ITEM: Final = re.compile(
    r"\s*(?P<first>[0-9]{1,12})\s*(?:-\s*(?P<last>[0-9]{1,12})\s*(?::\s*(?P<step>[0-9]{1,12})\s*)?)?"
)
_INDEX_ERROR: Final = "Job array index error"
_TOO_LARGE: Final = "Job array index too large"

_Run = tuple[Index, Index, int]


def parse_job_name(text: str, *, max_size: int) -> tuple[str, ArraySpec | None, str]:
    """Return the name, the array and the index list as given (empty: no array) of a ``-J`` text.

    Args:
        text: A name, perhaps with ``[index list]`` and ``%limit``.
        max_size: Bounds both the number of elements and the largest index.

    Raises:
        JobNameError: It is no job name, or its index list cannot be used.
    """
    if len(text) > NAME_MAX:
        raise JobNameError(
            f"a job name may have {NAME_MAX} characters, this one has {len(text)}",
            text=text,
            column=NAME_MAX + 1,
        )
    for at, character in enumerate(text):
        if character < " " or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\udfff":
            raise JobNameError(
                f"a job name may not hold {character!r} (column {at + 1})", text=text, column=at + 1
            )
    match = _ARRAY.fullmatch(text)
    name = text if match is None else match["name"]
    bracket = text.find("[")
    if not name.strip():
        raise JobNameError("a job name needs a character", text=text, column=1, expected="a name")
    if match is None:
        if bracket >= 0:
            raise _index_error(text, bracket + 1, "expected [index list] and perhaps %limit")
        return text, None, ""
    runs = _parse_runs(match["list"], text, match.start("list"), max_size)
    limit = int(match["limit"] or 0)
    if match["limit"] is not None and limit == 0:
        raise _index_error(text, match.start("limit") + 1, "expected a limit of 1 or more after %")
    return name, ArraySpec(runs, limit), match["list"]


def parse_index_list(text: str) -> tuple[tuple[Index, Index], ...]:
    """Return the runs ``(first, last)`` of an index list like ``1-3,7``, rising and apart.

    Raises:
        JobNameError: It is no index list.
    """
    runs = _parse_runs(text, text, 0, _INDEX_MAX)
    if sum(1 if step == 1 else (last - first) // step + 1 for first, last, step in runs) > RUNS_MAX:
        raise _index_error(text, 1, f"expected at most {RUNS_MAX} runs of indices")
    result: list[tuple[Index, Index]] = []
    for first, last, step in runs:
        if step == 1:
            result.append((first, last))
        else:
            result.extend((index, index) for index in range(first, last + 1, step))
    return tuple(result)


def parse_job_ref(text: str) -> tuple[JobId, tuple[tuple[Index, Index], ...]]:
    """Return the job id and the index runs (none: the whole job) of ``12`` or ``12[1-3,7]``.

    Raises:
        JobRefError: It names no job.
    """
    match = re.fullmatch(r"\s*([0-9]{1,19})(?:\[([^\[\]]*)\])?\s*", text)
    if match is None or not 1 <= int(match[1]) <= ID_MAX:
        raise JobRefError(
            f"{text!r} is no job: expected an id, perhaps with [index list]", text=text, column=1
        )
    if match[2] is None:
        return int(match[1]), ()
    try:
        return int(match[1]), parse_index_list(match[2])
    except JobNameError as error:
        raise JobRefError(error.message, text=text, column=error.column + match.start(2)) from error


def _parse_runs(items: str, text: str, start: int, max_size: int) -> tuple[_Run, ...]:
    """Return the runs of an index list that begins at ``start`` in ``text``."""
    runs: list[_Run] = []
    column = start + 1
    for item in items.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise _index_error(
                text, column, f"{item.strip()!r} is no index: expected n, n-m or n-m:s"
            )
        first = int(match["first"])
        last, step = int(match["last"] or first), int(match["step"] or 1)
        if not 1 <= first <= last or step < 1:
            raise _index_error(
                text, column, f"{item.strip()!r} is no index: they count from 1 and rise"
            )
        if last > max_size:
            raise JobNameError(
                f"index {last} is over the largest, {max_size}", text=text, column=column,
                lsf=_TOO_LARGE,
            )  # fmt: skip
        last -= (last - first) % step
        runs.append((first, last, 1 if first == last else step))
        column += len(item) + 1
    return _apart(sorted(runs), text, start + 1)


def _apart(runs: list[_Run], text: str, column: int) -> tuple[_Run, ...]:
    """Return sorted runs as runs that do not reach into one another."""
    result: list[_Run] = []
    group: list[_Run] = [runs[0]]
    reach = runs[0][1]
    for run in [*runs[1:], None]:
        if run is not None and run[0] <= reach:
            group.append(run)
            reach = max(reach, run[1])
            continue
        if len(group) > 1 and reach - group[0][0] > _MIXED_MAX and any(s > 1 for _, _, s in group):
            raise _index_error(text, column, "expected runs with a stride to overlap less")
        for part in _united(group, reach):
            last_run = result[-1] if result else None
            if last_run is not None and last_run[2] == part[2] == 1 and last_run[1] + 1 == part[0]:
                result[-1] = (last_run[0], part[1], 1)
            else:
                result.append(part)
        if len(result) > RUNS_MAX:
            raise _index_error(text, column, f"expected at most {RUNS_MAX} runs of indices")
        if run is not None:
            group, reach = [run], run[1]
    return tuple(result)


def _united(group: list[_Run], reach: Index) -> list[_Run]:
    """Return the union of runs that overlap, as runs that do not."""
    if len(group) == 1:
        return group
    base = group[0][0]
    if all(step == 1 for _, _, step in group) or (base, reach, 1) in group:
        return [(base, reach, 1)]
    present = bytearray(reach - base + 1)
    for first, last, step in group:
        present[first - base : last - base + 1 : step] = b"\x01" * ((last - first) // step + 1)
    return _runs_of(bytes(present), base)


def _runs_of(present: bytes, base: Index) -> list[_Run]:
    """Return the marked places as runs, each taken as far as its first stride goes."""
    runs: list[_Run] = []
    at = present.find(1)
    while at >= 0 and len(runs) <= RUNS_MAX:
        following = present.find(1, at + 1)
        if following < 0:
            runs.append((base + at, base + at, 1))
            break
        step = following - at
        # Possessive: it walks stride by stride in C and keeps nothing to go back to.
        stride = re.compile(b"(?:\\x00{%d}\\x01)*+" % (step - 1))
        end = stride.match(present, at + 1)
        assert end is not None, "a starred pattern always matches"
        last = end.end() - 1
        runs.append((base + at, base + last, step))
        at = present.find(1, last + 1)
    return runs


def _index_error(text: str, column: int, what: str) -> JobNameError:
    return JobNameError(f"{what} (column {column})", text=text, column=column, lsf=_INDEX_ERROR)
