"""Limits of CPU time, swap, processes and sizes, as REST takes and tells them."""

from collections.abc import Collection
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from xce.model.ids import SECOND_US
from xce.model.process_limits import NO_LIMITS, SHOWN, ProcessLimits, is_set

SPAN_S_MAX: Final = 10 * 366 * 86_400
COUNT_MAX: Final = 1_000_000_000
SIZE_KIB_MAX: Final = 1 << 50
Cpu = Annotated[float, Meta(ge=0, le=SPAN_S_MAX)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Size = Annotated[int, Meta(ge=0, le=SIZE_KIB_MAX)]
NAMES: Final = {
    "cpu_us": "cpu_limit_s",
    "swap_kib": "swap_limit_kib",
    "processes": "process_limit",
    "threads": "thread_limit",
    "stack_kib": "stack_limit_kib",
    "data_kib": "data_limit_kib",
    "file_kib": "file_limit_kib",
    "core_kib": "core_limit_kib",
}
"""Member of `ProcessLimits` -> what it is called here."""


class LimitsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a submission says of them; 0: nothing."""

    cpu_limit_s: Cpu = 0
    """CPU time of the whole job, and of each process."""
    swap_limit_kib: Size = 0
    """Memory and swap together, of all that it has on a host."""
    process_limit: Count = 0
    """Processes at once on a host."""
    thread_limit: Count = 0
    stack_limit_kib: Size = 0
    """Of each process."""
    data_limit_kib: Size = 0
    file_limit_kib: Size = 0
    """Of a file that is written."""
    core_limit_kib: Size | None = None
    """Of a core dump; 0: there is none; null: no limit."""


class LimitsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a change says of them; what is not named stays."""

    cpu_limit_s: Cpu | UnsetType = UNSET
    swap_limit_kib: Size | UnsetType = UNSET
    process_limit: Count | UnsetType = UNSET
    thread_limit: Count | UnsetType = UNSET
    stack_limit_kib: Size | UnsetType = UNSET
    data_limit_kib: Size | UnsetType = UNSET
    file_limit_kib: Size | UnsetType = UNSET
    core_limit_kib: Size | UnsetType = UNSET


def read_limits(body: LimitsBody) -> ProcessLimits:
    """Return the limits that a submission asks for."""
    given = {member: getattr(body, name) for member, name in NAMES.items()}
    return _limits({member: value for member, value in given.items() if value is not None})


def change_limits(
    change: LimitsChange, unset: Collection[str], before: ProcessLimits
) -> ProcessLimits:
    """Return limits as they shall be.

    Args:
        change: What is set.
        unset: What is as if it had not been said.
        before: How they are.
    """
    set_now = {member: getattr(change, name) for member, name in NAMES.items()}
    members = {
        member: getattr(before, member)
        for member, name in NAMES.items()
        if set_now[member] is UNSET and name not in unset
    }
    found = ProcessLimits(**members)
    given = {member: value for member, value in set_now.items() if value is not UNSET}
    return msgspec.structs.replace(found, **_values(given))


def limit_row(limits: ProcessLimits) -> dict[str, float]:
    """Return the limits that there are, by name."""
    if limits == NO_LIMITS:
        return {}
    found: dict[str, float] = {}
    for one in SHOWN:
        if is_set(limits, one.member):
            value = getattr(limits, one.member)
            found[NAMES[one.member]] = value / SECOND_US if one.member == "cpu_us" else value
    return found


def _limits(given: dict[str, Any]) -> ProcessLimits:
    found = ProcessLimits(**_values(given))
    return NO_LIMITS if found == NO_LIMITS else found


def _values(given: dict[str, Any]) -> dict[str, int]:
    """Return members with CPU time in microseconds, rounded up."""
    if "cpu_us" in given:
        return {**given, "cpu_us": -int(-given["cpu_us"] * SECOND_US // 1)}
    return given
