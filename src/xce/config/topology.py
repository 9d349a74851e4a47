"""``topology.yaml`` and the ``labels`` of hosts: in which domains of each level hosts lie."""

from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from xce.config.document import Key, Place, Table, each_item, each_pair, read_mapping, scalar_text
from xce.config.gpus import read_gpus
from xce.config.names import RESOURCE_NAME
from xce.config.report import render_allowed
from xce.config.values import read_host_pattern
from xce.model.config import LEVELS, HostConfig
from xce.model.device import Device
from xce.model.errors import TextError

LEVELS_MAX: Final = 16
OWN_LEVEL: Final = "host"
LABEL_MAX: Final = 128
_HOSTS: Final = Key("hosts", read_host_pattern)


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


def read_later(place: Place) -> None:
    """Leave a key to `read_lay`, which needs the levels."""


def check_topology(place: Place | None, fields: dict[str, Any]) -> None:
    """Report a default level that is none of the levels."""
    levels = fields.get("levels", LEVELS)
    default = fields.get("default_level", levels[0])
    if place is not None and default not in (OWN_LEVEL, *levels):
        place.at("default_level").problem(
            f"{default!r} is no level; {render_allowed(default, levels)}"
        )


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


class Lay(NamedTuple):
    """What ``topology.yaml`` says of a host; its own entry says more."""

    labels: dict[str, str]
    gpus: tuple[Device, ...] | None


def read_lay(place: Place | None, levels: tuple[str, ...]) -> dict[str, Lay]:
    """Return what ``domains`` and ``gpus`` of ``topology.yaml`` say, by host."""
    found: dict[str, Lay] = {}

    def read_host_labels(value: Place) -> dict[str, str]:
        return read_labels(value, levels)

    for key, what, read in (
        ("domains", "labels", read_host_labels),
        ("gpus", "gpus", read_gpus),
    ):
        section = _section(place, key)
        if section is None:
            continue
        own = Key(what, read)
        table = Table(f"an item of {key}", {"hosts": _HOSTS, what: own}, ("hosts", what))
        for item in each_item(section, key):
            fields = read_mapping(item, table)
            for name in fields.get("hosts", ()):
                before = found.get(name, Lay({}, None))
                if key == "domains":
                    found[name] = before._replace(labels={**before.labels, **fields["labels"]})
                else:
                    found[name] = before._replace(gpus=fields["gpus"])
    return found


def _section(place: Place | None, key: str) -> Place | None:
    if place is None:
        return None
    return next((value for name, value in each_pair(place, "keys") if name == key), None)


def lay_hosts(
    place: Place | None, hosts: dict[str, HostConfig], lay: dict[str, Lay]
) -> dict[str, HostConfig]:
    """Return hosts with what ``topology.yaml`` says of them and they do not say themselves."""
    unknown = [name for name in lay if name not in hosts]
    if unknown and place is not None:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        place.problem(f"host {unknown[0]!r}{more} is not in hosts.yaml")
    found = dict(hosts)
    for name, item in lay.items():
        host = hosts.get(name)
        if host is not None:
            found[name] = msgspec.structs.replace(
                host,
                labels={**item.labels, **host.labels},
                gpus=item.gpus if host.gpus is None else host.gpus,
            )
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
