"""All parts of a compound request: with relations or without."""

from xce.sched.ground import Ground
from xce.sched.place.compound import Candidates, Laid, find_compound
from xce.sched.place.domains import Trail
from xce.sched.place.related import find_related
from xce.sched.shape import Shape
from xce.sched.ties import preferred_wishes, required_wish


def find_whole(whole: Shape, ground: Ground, places: Candidates, trail: Trail) -> Laid | None:
    """Return a placement of all parts, or None.

    Args:
        whole: What is placed.
        ground: What is free, and where other jobs are.
        places: Where the parts may go.
        trail: Hears of a search that gave up.
    """
    fabric = whole.fabric
    if fabric is None:
        return find_compound(whole, ground.free, places, trail)
    wishes = required_wish(fabric, ground), preferred_wishes(fabric, ground)
    return find_related(whole, fabric, ground.free, places, wishes, trail)
