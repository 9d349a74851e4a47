"""Constraints that are given up bit by bit while a job waits."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from xce.model.constraint import Colocate, Constraint, Exclusive, Near
from xce.model.ids import Micros


def relaxed(constraints: Sequence[Constraint], waited_us: Micros) -> tuple[Constraint, ...]:
    """Return what is still asked for after a wait: a wider level, or nothing."""
    found: list[Constraint] = []
    for item in constraints:
        steps = _steps(item, waited_us)
        if not steps:
            found.append(item)
        elif isinstance(item, Colocate | Near) and item.levels[steps:]:
            found.append(replace(item, levels=item.levels[steps:]))
    return tuple(found)


def _steps(item: Constraint, waited_us: Micros) -> int:
    if isinstance(item, Exclusive) or not item.required or not item.relax_after_us:
        return 0
    return waited_us // item.relax_after_us


def delays_of_constraints(constraints: Sequence[Constraint]) -> Iterator[Micros]:
    """Yield so long after the submission each gives way."""
    for item in constraints:
        if isinstance(item, Exclusive) or not item.required or not item.relax_after_us:
            continue
        count = len(item.levels) if isinstance(item, Colocate | Near) else 1
        yield from (step * item.relax_after_us for step in range(1, count + 1))
