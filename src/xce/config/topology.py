"""``topology.yaml`` and the ``labels`` of hosts: in which domains of each level hosts lie."""

from itertools import pairwise
from typing import Any, Final

from xce.config.document import Place, each_item, each_pair, scalar_text
from xce.config.names import RESOURCE_NAME
from xce.config.report import render_allowed
from xce.model.config import LEVELS, HostConfig
from xce.model.errors import TextError

LEVELS_MAX: Final = 16
OWN_LEVEL: Final = "host"
LABEL_MAX: Final = 128


def read_levels(place: Place) -> tuple[str, ...]:
    """Return the levels of domains, the narrowest first.

    Raises:
        TextError: One is no name, stands twice, or there are too many.
    """
    levels = [scalar_text(item) for item in each_item(place, "levels")]
    for level in levels:
        if not RESOURCE_NAME.fullmatch(level):
            raise TextError(
                f"{level[:80]!r} is no name of a level: expected {RESOURCE_NAME.pattern}"
            )
        if level == OWN_LEVEL:
            raise TextError(f"{OWN_LEVEL!r} is always there, as the level of hosts themselves")
    if len(set(levels)) != len(levels):
        raise TextError("a level stands twice")
    if not 1 <= len(levels) <= LEVELS_MAX:
        raise TextError(f"has {len(levels)} levels: expected 1 to {LEVELS_MAX}")
    return tuple(levels)


def check_topology(place: Place | None, fields: dict[str, Any]) -> None:
    """Report a default level that is none of the levels."""
    levels = fields.get("levels", LEVELS)
    default = fields.get("default_level", levels[0])
    if place is not None and default not in (OWN_LEVEL, *levels):
        place.problem(f"default_level {default!r} is no level; {render_allowed(default, levels)}")


def read_labels(place: Place, levels: tuple[str, ...]) -> dict[str, str]:
    """Return in which domain of each level a host lies; what is wrong is reported."""
    found: dict[str, str] = {}
    for level, value in each_pair(place, "labels"):
        if level not in levels:
            value.problem(
                f"{level!r} is no level of topology.yaml; {render_allowed(level, levels)}"
            )
            continue
        try:
            text = scalar_text(value)
        except TextError as error:
            value.problem(error.message)
            continue
        if not text.strip() or len(text) > LABEL_MAX:
            value.problem(f"expected the name of a {level} of 1 to {LABEL_MAX} characters")
        found[level] = text
    return found


def check_nesting(
    place: Place | None, hosts: dict[str, HostConfig], levels: tuple[str, ...]
) -> None:
    """Report a domain that lies in two domains of the next level."""
    outer: dict[tuple[str, str, str], tuple[str, str]] = {}
    for host in hosts.values():
        inner = [(level, host.labels[level]) for level in levels if level in host.labels]
        for (level, label), (wider, around) in pairwise(inner):
            known, first = outer.setdefault((level, label, wider), (around, host.name))
            if known != around and place is not None:
                place.problem(
                    f"{level} {label!r} lies in {wider} {known!r} by the labels of {first}, and "
                    f"in {around!r} by those of {host.name}"
                )
                return
