"""Conditions with ``[*]``: each element of the array that waits has one of its own.

The elements for which a condition holds are told as sets, so that a million of them cost what few
do. Elements of two arrays belong together that stand at the same place of each.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

from xce.model.dependency import EACH, And, Condition, Dependency, Not, Or
from xce.model.ids import JobId
from xce.model.ranges import EMPTY, Ranges, intersect, subtract, unite
from xce.resreq.dependency import Probe

Split: TypeAlias = tuple[Ranges, Ranges]
"""The elements of which something is true now, and those of which that is final."""
ElementProbe: TypeAlias = Callable[[Condition, JobId, Ranges], Split]
"""``(condition, job, elements)`` -> of which elements of that job it is true, and final."""


def arrays_of(tree: Dependency) -> tuple[JobId, ...]:
    """Return the ids of the arrays that a resolved condition names with ``[*]``, rising."""
    return tuple(sorted({job for job, is_each in _subjects(tree) if is_each}))


def is_by_element(tree: Dependency, job: JobId) -> bool:
    """Return whether a condition asks about a job only with ``[*]``."""
    return all(is_each for one, is_each in _subjects(tree) if one == job)


def _subjects(tree: Dependency) -> Iterable[tuple[JobId, bool]]:
    match tree:
        case Condition(_, subjects):
            for subject in subjects:
                yield subject.job, subject.index == EACH
        case Not(part):
            yield from _subjects(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _subjects(part)
        case _:
            assert_never(tree)


def split_elements(
    tree: Dependency, among: Ranges, probe: Probe, probe_elements: ElementProbe
) -> tuple[Ranges, Ranges]:
    """Return for which elements a resolved condition holds, and for which it never can.

    Args:
        tree: The condition.
        among: The elements that wait for it.
        probe: Says what is true of a job or of one element.
        probe_elements: Says of which elements of a job it is true.
    """

    def split(part: Dependency) -> Split:
        match part:
            case Condition(_, subjects):
                return _every(among, (subject_split(part, s.job, s.index) for s in subjects))
            case Not(inner):
                true, final = split(inner)
                return subtract(among, true), final
            case And(parts):
                return _every(among, map(split, parts))
            case Or(parts):
                # a || b is !(!a && !b).
                pairs = map(split, parts)
                inverted = ((subtract(among, true), final) for true, final in pairs)
                true, final = _every(among, inverted)
                return subtract(among, true), final
            case _:
                assert_never(part)

    def subject_split(condition: Condition, job: JobId, index: int) -> Split:
        if index == EACH:
            return probe_elements(condition, job, among)
        value, is_final = probe(condition, job, index)
        return among if value else EMPTY, among if is_final else EMPTY

    true, final = split(tree)
    return true, subtract(final, true)


def _every(among: Ranges, splits: Iterable[Split]) -> Split:
    """Return where all are true, and where that is final: by one final no, or by all."""
    holds = certain = among
    refuted = EMPTY
    for true, final in splits:
        refuted = unite(refuted, subtract(final, true))
        holds, certain = intersect(holds, true), intersect(certain, final)
    return holds, unite(certain, refuted)
