"""How soon the next session may run, when plans are refused again and again. Pure.

A plan that no longer holds is made anew at once: the state has moved on. When nothing of plan after
plan holds, the session and the controller disagree, which is a fault of ours; then the next one
waits, ever longer, so that the journal does not fill and the cluster has its time for the rest.
"""

from typing import Final

from xce.model.entry import Entry
from xce.model.ids import Micros
from xce.model.record import ReasonsChanged, ReservationsChanged, SessionRan

AT_ONCE: Final = 8
"""So many refused plans in a row are taken for chance."""
_FIRST_US: Final = 20_000
LONGEST_US: Final = 2_000_000


class Pace:
    """Counts plans of which nothing held."""

    def __init__(self) -> None:
        self.refused = 0
        """How many the last ones in a row were."""

    def note(self, entry: Entry) -> None:
        """Hear of an entry."""
        ran = [record for record in entry.records if isinstance(record, SessionRan)]
        if not ran:
            return
        idle = SessionRan | ReasonsChanged | ReservationsChanged
        is_refused = ran[-1].stale > 0 and all(isinstance(one, idle) for one in entry.records)
        self.refused = self.refused + 1 if is_refused else 0

    @property
    def wait_us(self) -> Micros:
        """How long the next session is to wait."""
        over = self.refused - AT_ONCE
        return min(_FIRST_US << min(over, 20), LONGEST_US) if over >= 0 else 0
