"""How good the hosts were that a request could have: for traces, never for a decision."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from xce.model.trace import Candidate, Sifted
from xce.sched.columns import HostColumns, HostFacts
from xce.sched.filter import Sieve
from xce.sched.ground import Ground
from xce.sched.place import bulk
from xce.sched.place.capacity import room_on
from xce.sched.policy import Policy, sift
from xce.sched.shape import Shape
from xce.state.hosts import Column

LISTED_MAX: Final = 16
"""Hosts that are listed though they get nothing."""
CHOSEN_MAX: Final = 64
"""Hosts that are listed in all."""
LEFT: Final = "left"


class Form(NamedTuple):
    """A simple request, or a part or alternative of one, before anything of it was placed."""

    label: str
    part: int
    """Its place among the parts of its compound request."""
    alternative: int
    sieve: Sieve
    ranked: Column
    """The hosts that are left, the best one first."""
    free: Column
    """Slots, by host."""
    fits: Column
    """Tasks, by host."""
    scores: Column
    """Along keys and hosts."""
    keys: tuple[str, ...]


def look_at(shape: Shape, ground: Ground, facts: HostFacts, policy: Policy) -> list[Form]:
    """Return what a request finds on a ground, form by form."""
    return [
        _look_at_one(label, part, simple, ground, facts, policy)
        for label, part, simple in _simple_forms(shape, "")
    ]


def _simple_forms(shape: Shape, label: str) -> Iterator[tuple[str, int, Shape]]:
    if not shape.is_whole:
        yield label, 0, shape
    for place, inner in enumerate(shape.inner):
        if shape.request.alternatives:
            yield from _simple_forms(inner, f"alternative {inner.alternative + 1}")
        else:
            name = shape.request.parts[place].name
            yield f"{label}, {name}" if label else name, place, inner


def _look_at_one(
    label: str, part: int, shape: Shape, ground: Ground, facts: HostFacts, policy: Policy
) -> Form:
    sieve = sift(shape, ground, facts, policy, shape.unit)
    ranked = policy.ranking(shape, ground, facts)
    ranked = ranked[sieve.left[ranked]]
    fits = np.zeros(facts.table.count, np.int64)
    if shape.request.is_serial:
        fits = bulk.attempts_on_hosts(shape, ground, sieve.left) * shape.tasks_max
    else:
        room = room_on(shape, ground.free, sieve.left, ranked)
        fits[room.numbers] = room.most
    keys, scores = _scores(shape, ground, facts)
    return Form(
        label, part, shape.alternative, sieve, ranked, ground.free[0].copy(), fits, scores, keys
    )


def _scores(shape: Shape, ground: Ground, facts: HostFacts) -> tuple[tuple[str, ...], Column]:
    """Return what hosts are ordered by, and the numbers; see `xce.sched.score.rank_hosts`."""
    names: list[str] = []
    columns: list[Column] = []
    if shape.preference is not None:
        names.append("-preference")
        columns.append(shape.preference * 1000)
    look = HostColumns(facts, ground.free, ground.pools)
    for name, is_descending in shape.order or (("slots", True),):
        if look.kind(name) == "boolean":
            column = look.flag(name).astype(np.int64) * 1000
        else:
            column = look.number(name)[0]
        names.append(f"-{name}" if is_descending else name)
        columns.append(column)
    return tuple(names), np.stack(columns)


def sifted_of(step: int, form: Form) -> Iterator[Sifted]:
    """Yield what the filters took out."""
    for item in form.sieve.reasons:
        yield Sifted(step, form.label, item.code, item.hosts, item.resource, item.needed, item.best)
    yield Sifted(step, form.label, LEFT, len(form.ranked), keys=form.keys)


def candidates_of(
    step: int, form: Form, names: list[str], gets: dict[int, int]
) -> Iterator[Candidate]:
    """Yield the best hosts, and all that get tasks as far as they are listed.

    Args:
        step: Place of the step.
        form: What was looked at.
        names: Of hosts, by number.
        gets: Tasks by host number.
    """
    listed = form.ranked[:LISTED_MAX].tolist()
    known = np.zeros(len(names), np.int64)
    known[form.ranked] = np.arange(1, len(form.ranked) + 1)
    more = [number for number in gets if number not in listed]
    for number in (*listed, *more[: CHOSEN_MAX - len(listed)]):
        yield Candidate(
            step,
            form.label,
            int(known[number]),
            names[number],
            tuple(form.scores[:, number].tolist()),
            int(form.free[number]),
            int(form.fits[number]),
            gets.get(number, 0),
        )
