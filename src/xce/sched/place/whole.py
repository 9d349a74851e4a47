"""All parts of a compound request: with relations or without, on a certain first host or any."""

import copy
from typing import Final

import numpy as np

from xce.sched.ground import Ground
from xce.sched.place.capacity import room_on
from xce.sched.place.compound import Candidates, Laid, find_compound
from xce.sched.place.domains import Trail
from xce.sched.place.related import find_related
from xce.sched.place.search import Steps
from xce.sched.place.simple import most_of
from xce.sched.shape import Shape
from xce.sched.ties import preferred_wishes, required_wish
from xce.state.hosts import Flags

LEADS_MAX: Final = 32
"""So many of the hosts that may be the first one are tried, the best ones."""
CUTS_MAX: Final = 3
"""After so many of them for which the search gave up no other one is tried: each takes long."""


def find_whole(
    whole: Shape, ground: Ground, places: Candidates, trail: Trail, steps: Steps | None = None
) -> Laid | None:
    """Return a placement of all parts, or None: of the last one as few tasks as it may have.

    Args:
        whole: What is placed.
        ground: What is free, and where other jobs are.
        places: Where the parts may go.
        trail: Hears of a search that gave up.
        steps: The bound, where several searches share it; None: this one has its own.
    """
    if whole.tasks_min < whole.tasks_max:
        whole = sized(whole, whole.tasks_min)
    if whole.leads is None:
        return _find(whole, ground, places, trail, steps)
    ranked = places.ranked[0]
    leads = ranked[(places.masks[0] & whole.leads)[ranked]]
    cuts = 0
    for number in leads[:LEADS_MAX].tolist():
        own = Trail()
        is_first = np.zeros_like(whole.leads)
        is_first[number] = True
        usable = ~whole.leads | is_first
        masks = tuple(mask & usable for mask in places.masks)
        within = Candidates(masks, places.ranked)
        found = _find(_led_by(whole, is_first), ground, within, own, steps)
        if found is not None:
            return found
        trail.is_cut = trail.is_cut or own.is_cut
        cuts += own.is_cut
        if cuts == CUTS_MAX:
            break
    trail.is_cut = trail.is_cut or len(leads) > LEADS_MAX
    return None


def most_in_all(whole: Shape, ground: Ground, places: Candidates) -> int:
    """Return a number of tasks that a request with a range cannot exceed.

    Its last part has no more than it could have alone, nor all parts more than there are slots.
    """
    last, own = whole.inner[-1], Trail()
    usable = np.logical_or.reduce(places.masks)
    most = min(whole.tasks_max, int(ground.free[0, usable].clip(min=0).sum()))
    alone = most_of(last, room_on(last, ground.free, places.masks[-1], places.ranked[-1]), own)
    if not own.is_cut:
        most = min(most, alone + sum(part.tasks_min for part in whole.inner[:-1]))
    return max(most, whole.tasks_min)


def sized(whole: Shape, tasks: int) -> Shape:
    """Return a request of so many tasks: the last part has what the others leave."""
    found, last = copy.copy(whole), copy.copy(whole.inner[-1])
    last.tasks_min = last.tasks_max = tasks - sum(part.tasks_min for part in whole.inner[:-1])
    found.tasks_min = found.tasks_max = tasks
    found.inner = (*whole.inner[:-1], last)
    return found


def _led_by(whole: Shape, is_first: Flags) -> Shape:
    """Return a request whose first part begins on a certain host."""
    inner = [copy.copy(part) for part in whole.inner]
    for place, part in enumerate(inner):
        part.leads = None if place else is_first
    found = copy.copy(whole)
    found.inner = tuple(inner)
    return found


def _find(
    whole: Shape, ground: Ground, places: Candidates, trail: Trail, steps: Steps | None
) -> Laid | None:
    fabric = whole.fabric
    if fabric is None:
        return find_compound(whole, ground.free, places, trail, steps or Steps())
    wishes = required_wish(fabric, ground), preferred_wishes(fabric, ground)
    return find_related(whole, fabric, ground.free, places, wishes, trail, steps)
