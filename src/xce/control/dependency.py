"""The condition of ``-w`` as submit takes it: parsed, names resolved, what is past folded in."""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from xce.model.dependency import COUNTS, EACH, WHOLE, And, Condition, Dependency, Not, Or, Test
from xce.model.ids import Index, JobId
from xce.model.job import ArraySpec, Outcome
from xce.model.permission import Actor, Permission
from xce.model.refusal import Refusal, RefusalCode
from xce.resreq.dependency import (
    Verdict,
    evaluate,
    parse_dependency,
    resolve_dependency,
    subjects_of,
)
from xce.resreq.elements import arrays_of
from xce.resreq.errors import DependencySyntaxError, UnknownJobError
from xce.state.cluster import ClusterState
from xce.state.names import Named, jobs_of
from xce.state.view import probe

Past: TypeAlias = dict[tuple[JobId, Index], tuple[int, int]]
"""``(outcome, exit code)`` of what only the history knows."""


def decide_dependency(
    state: ClusterState,
    text: str,
    user: str,
    actor: Actor,
    past_jobs: Iterable[tuple[JobId, int, int]] = (),
    past_elements: Iterable[tuple[JobId, Index, int, int]] = (),
    *,
    array: ArraySpec | None = None,
) -> Dependency | Refusal | None:
    """Return the resolved condition, or None when there is none or it holds already.

    Args:
        state: Knows the jobs that the condition may be about.
        text: As given with ``-w``.
        user: Whose job names count.
        actor: Who asks; what he may not see is not there.
        past_jobs: What the history told about jobs that have left the state.
        past_elements: What it told about elements of such jobs.
        array: The elements that shall wait for it; None: no array does.
    """
    if not text:
        return None
    past: Past = {(job, WHOLE): (outcome, code) for job, outcome, code in past_jobs}
    past |= {(job, at): (outcome, code) for job, at, outcome, code in past_elements}
    tree = _resolve(state, text, user, actor, past)
    if isinstance(tree, Refusal):
        return tree
    missing = _missing_element(state, past, tree)
    if missing:
        text = f"-w: {missing}"
        is_array = "is no array" in missing
        lsf = "Job array does not exist" if is_array else "No matching job found"
        return Refusal(RefusalCode.DEPENDENCY_UNKNOWN_JOB, text, lsf=lsf)
    refusal = _refuse_pairs(state, tree, array)
    if refusal is not None:
        return refusal
    tree = _fold_past(tree, past)
    if arrays_of(tree):
        return tree

    def ask(condition: Condition, job: JobId, index: int) -> tuple[bool, bool]:
        return probe(state, condition, job, index)

    return None if evaluate(tree, ask) is Verdict.HOLDS else tree


def _resolve(
    state: ClusterState, text: str, user: str, actor: Actor, past: Past
) -> Dependency | Refusal:
    """Return a condition with ids for names, or why it cannot be read or is about no job."""

    def lookup(name: str) -> list[JobId]:
        return matching_jobs(state.names.get(user, {}), name)

    sees = state.rights.filter(actor, Permission.JOB_VIEW)

    def exists(job: JobId) -> bool:
        """A job that may not be seen is not there; of past ones the apiserver has seen to it."""
        found = state.jobs.get(job)
        if found is None:
            return (job, WHOLE) in past
        key = state.key(found)
        return sees is None or sees(found.owner.user, key.queue, key.project)

    try:
        return resolve_dependency(parse_dependency(text), lookup, exists)
    except DependencySyntaxError as error:
        return Refusal(
            RefusalCode.BAD_DEPENDENCY,
            f"-w: {error.message}",
            lsf=error.lsf,
            column=error.column,
        )
    except UnknownJobError as error:
        return Refusal(
            RefusalCode.DEPENDENCY_UNKNOWN_JOB, f"-w: {error.message}", lsf="No matching job found"
        )


def judge_condition(
    state: ClusterState,
    text: str,
    actor: Actor,
    past_jobs: Iterable[tuple[JobId, int, int]] = (),
    past_elements: Iterable[tuple[JobId, Index, int, int]] = (),
) -> Verdict | Refusal:
    """Return whether a condition holds now, may hold later or never can, for one who waits for it.

    Args:
        state: Knows the jobs.
        text: As given with ``-w``.
        actor: Whose job names count; what he may not see is not there.
        past_jobs: As in `decide_dependency`.
        past_elements: As in `decide_dependency`.
    """
    found = decide_dependency(state, text, actor.user, actor, past_jobs, past_elements)
    if found is None or isinstance(found, Refusal):
        return found or Verdict.HOLDS

    def ask(condition: Condition, job: JobId, index: int) -> tuple[bool, bool]:
        return probe(state, condition, job, index)

    return evaluate(found, ask)


def find_circle(state: ClusterState, job_id: JobId, tree: Dependency) -> str:
    """Return how a job would wait for itself if it waited for ``tree``; empty: it would not."""
    before: dict[JobId, JobId] = dict.fromkeys(subjects_of(tree), job_id)
    rest = list(before)
    while rest:
        here = rest.pop()
        if here == job_id:
            way = [here]
            while before[way[-1]] != job_id:
                way.append(before[way[-1]])
            return " <- ".join(map(str, [*way, job_id]))
        job = state.jobs.get(here)
        if job is None or job.dependency is None or not job.is_conditional:
            continue
        for subject in subjects_of(job.dependency):
            if subject not in before:
                before[subject] = here
                rest.append(subject)
    return ""


def _missing_element(state: ClusterState, past: Past, tree: Dependency) -> str:
    """Return what is wrong when the condition names an element that its array has not."""
    match tree:
        case Condition(test, subjects):
            for subject in subjects:
                job = state.jobs.get(subject.job)
                if test in COUNTS and (job is None or job.array is None):
                    return f"job {subject.job} is no array that has not left the cluster"
                if subject.index == EACH:
                    if job is None or job.array is None:
                        return f"job {subject.job} is no array that has not left the cluster"
                    continue
                if subject.index == WHOLE or (subject.job, subject.index) in past:
                    continue
                if job is None or job.position(subject.index) is None:
                    return f"job {subject.job} has no element {subject.index}"
            return ""
        case Not(part):
            return _missing_element(state, past, part)
        case And(parts) | Or(parts):
            return next(filter(None, (_missing_element(state, past, part) for part in parts)), "")


def _refuse_pairs(state: ClusterState, tree: Dependency, array: ArraySpec | None) -> Refusal | None:
    """Refuse ``[*]`` where elements cannot be told which other one they wait for."""
    sizes = {job: state.jobs[job].size for job in arrays_of(tree)}
    size = array.count if array is not None else 0
    lsf = "Dependent job arrays must be the same size"
    for job, other in sizes.items():
        if other != size:
            who = f"this one has {size}" if size else "only an array waits element by element"
            text = f"-w: array {job} has {other} elements; {who}"
            return Refusal(RefusalCode.BAD_DEPENDENCY, text, lsf=lsf)
    crowd = _shared_name(tree)
    if crowd:
        named = ", ".join(map(str, crowd))
        text = f"-w: several arrays have this name ({named}): name one by its id before [*]"
        return Refusal(RefusalCode.BAD_DEPENDENCY, text, lsf=lsf)
    return None


def _shared_name(tree: Dependency) -> tuple[JobId, ...]:
    """Return the arrays that one name with ``[*]`` stands for, when there are several."""
    match tree:
        case Condition(_, subjects):
            each = tuple(subject.job for subject in subjects if subject.index == EACH)
            return each if len(each) > 1 else ()
        case Not(part):
            return _shared_name(part)
        case And(parts) | Or(parts):
            return next(filter(None, map(_shared_name, parts)), ())


def matching_jobs(names: dict[str, Named], pattern: str) -> list[JobId]:
    """Return the ids of the jobs whose name matches ``pattern`` (``*`` stands for anything)."""
    if "*" not in pattern:
        named = names.get(pattern)
        return [] if named is None else list(jobs_of(named))
    found = [
        job for name, named in names.items() if matches(name, pattern) for job in jobs_of(named)
    ]
    return sorted(found)


def matches(name: str, pattern: str) -> bool:
    """Return whether ``name`` matches a pattern in which only ``*`` is special."""
    pieces = pattern.split("*")
    if len(pieces) == 1:
        return name == pattern
    first, last = pieces[0], pieces[-1]
    if not name.startswith(first) or not name.endswith(last):
        return False
    if len(name) < len(first) + len(last):
        return False
    start, end = len(first), len(name) - len(last)
    for piece in pieces[1:-1]:
        found = name.find(piece, start, end)
        if found < 0:
            return False
        start = found + len(piece)
    return True


_TRUE: Dependency = And(())
_FALSE: Dependency = Or(())


def _fold_past(tree: Dependency, past: Past) -> Dependency:
    """Replace conditions on jobs that only the history knows by what they are for ever."""
    match tree:
        case Condition():
            there = tuple(s for s in tree.subjects if (s.job, s.index) not in past)
            gone = [(s.job, s.index) for s in tree.subjects if (s.job, s.index) in past]
            parts: list[Dependency] = [_past_truth(tree, *past[one]) for one in gone]
            if there:
                parts.append(msgspec.structs.replace(tree, subjects=there))
            return parts[0] if len(parts) == 1 else And(tuple(parts))
        case Not(part):
            return Not(_fold_past(part, past))
        case And(all_of):
            return And(tuple(_fold_past(part, past) for part in all_of))
        case Or(any_of):
            return Or(tuple(_fold_past(part, past) for part in any_of))


def _past_truth(condition: Condition, outcome: int, exit_code: int) -> Dependency:
    done = outcome == Outcome.DONE
    match condition.test:
        case Test.ENDED | Test.STARTED:
            return _TRUE
        case Test.DONE | Test.POST_DONE:
            return _TRUE if done else _FALSE
        case Test.EXIT:
            codes = {
                "": True,
                ">": exit_code > condition.code,
                ">=": exit_code >= condition.code,
                "<": exit_code < condition.code,
                "<=": exit_code <= condition.code,
                "==": exit_code == condition.code,
                "!=": exit_code != condition.code,
            }
            return _TRUE if outcome == Outcome.EXIT and codes[condition.op] else _FALSE
        case _:
            return _FALSE
