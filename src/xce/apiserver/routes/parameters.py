"""Parameters of routes: those that stand behind the question mark of several of them."""

from typing import Final

import msgspec


class Parameter(msgspec.Struct, frozen=True):
    """A parameter behind the question mark."""

    name: str
    text: str
    kind: str = "string"


INDEX: Final = Parameter("index", "the element of an array", "integer")
AT: Final = Parameter("at", "seconds since the epoch: as it was at that instant")
USAGE: Final = Parameter("usage", "1: running jobs say what they use now", "integer")
FILTERS: Final = (
    Parameter("user", "a user, or `all`; without it and without ids: the caller"),
    Parameter("name", "job name, * stands for anything"),
    Parameter("finished", "1: also jobs that have ended", "integer"),
)

PAST: Final = (
    Parameter("ids", "12,13[1-5]: only these"),
    Parameter("user", "a user, or `all`; without it and without ids: the caller"),
    Parameter("queue", "only jobs of this queue"),
    Parameter("name", "job name, * stands for anything"),
    Parameter("project", "only jobs of this project"),
    Parameter("host", "only what ran on this host"),
    Parameter("group", "only jobs of this job group, not of those below it"),
    Parameter("submitted", "from,to in seconds since the epoch"),
    Parameter("dispatched", "from,to"),
    Parameter("ended", "from,to"),
)
PAGES: Final = (
    Parameter("limit", "most rows", "integer"),
    Parameter("cursor", "`next` of the page before"),
)
