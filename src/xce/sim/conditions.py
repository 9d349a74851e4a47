"""What a job waits for by its own words, as the books of the simulator read it."""

from xce.model import record as r
from xce.model.dependency import EACH, And, Condition, Dependency, Not, Or
from xce.model.record_modify import JobModified


def names_each(tree: Dependency) -> bool:
    """Return whether a condition is about elements of arrays, one for each that waits."""
    match tree:
        case Condition():
            return any(subject.index == EACH for subject in tree.subjects)
        case Not():
            return names_each(tree.part)
        case And() | Or():
            return any(names_each(part) for part in tree.parts)


def condition_of(record: r.JobSubmitted | JobModified) -> tuple[bool, bool]:
    """Return whether a job waits for others as a whole, and whether element by element."""
    tree = record.dependency
    by_element = tree is not None and names_each(tree)
    return tree is not None and not by_element, by_element
