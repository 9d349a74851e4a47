"""``hosts.yaml``: which hosts there are, and what each offers."""

from collections.abc import Iterable
from typing import Any

import msgspec

from xce.config.document import Key, Place, Reader, Table, each_item, each_pair, read_mapping
from xce.config.gpus import read_gpus
from xce.config.names import BUILT_IN_ATTRIBUTES, HOSTS_MAX, SIZE_COUNTERS
from xce.config.processors import read_processors
from xce.config.report import render_allowed
from xce.config.schema import HOST
from xce.config.topology import read_labels
from xce.config.values import AMOUNT_MAX, read_count, read_flag, read_line, read_thousandths
from xce.model.config import HostConfig, ResourceConfig
from xce.model.errors import TextError

_ATTRIBUTE_READERS: dict[str, Reader] = {
    "number": read_thousandths,
    "string": read_line(256),
    "boolean": read_flag,
}


def read_hosts(
    place: Place | None, resources: dict[str, ResourceConfig], levels: tuple[str, ...]
) -> dict[str, HostConfig]:
    """Return the hosts by name, patterns expanded."""
    hosts: dict[str, HostConfig] = {}
    if place is None:
        return hosts
    table = _host_table(resources, levels)
    for item in each_item(place, "host entries"):
        fields = read_mapping(item, table)
        names = fields.pop("names", ())
        fields["closed"] = fields.pop("state", "ok") == "closed"
        counters = {key.removeprefix("+"): fields.pop(key) for key in list(fields) if key[0] == "+"}
        again = [name for name in names if name in hosts]
        if again:
            item.problem(f"host {again[0]!r} stands in an earlier entry too")
        if len(hosts) + len(names) > HOSTS_MAX:
            item.problem(f"more than {HOSTS_MAX} hosts in all")
            break
        for name in names:
            hosts[name] = msgspec.convert(
                {"name": name, "counters": counters, **fields}, HostConfig
            )
    return hosts


def declare_sizes(
    hosts: Iterable[HostConfig], resources: dict[str, ResourceConfig]
) -> dict[str, ResourceConfig]:
    """Return the resources with ``swp`` and ``tmp`` where hosts offer them: in MiB, as ``mem``."""
    offered = {name for host in hosts for name in host.counters}
    sizes = [name for name in SIZE_COUNTERS if name in offered]
    return resources | {
        name: ResourceConfig(name=name, kind="counter", unit="MB") for name in sizes
    }


def _host_table(resources: dict[str, ResourceConfig], levels: tuple[str, ...]) -> Table:
    """Return the table of a host entry: the fixed keys, attributes, labels, and each declared
    counter.
    """

    def read_host_labels(value: Place) -> dict[str, str]:
        return read_labels(value, levels)

    def read_attributes(value: Place) -> dict[str, Any]:
        return _attributes(value, resources)

    amount = read_count(0, AMOUNT_MAX)
    keys = dict(HOST.keys)
    keys["attributes"] = Key("attributes", read_attributes)
    keys["gpus"] = Key("gpus", read_gpus)
    keys["processors"] = Key("processors", read_processors)
    keys["labels"] = Key("labels", read_host_labels)
    for name, resource in resources.items():
        if resource.kind in ("counter", ""):
            keys[name] = Key(f"+{name}", amount)
    return Table(HOST.noun, keys, HOST.required, HOST.not_built)


def _attributes(place: Place, resources: dict[str, ResourceConfig]) -> dict[str, Any]:
    """Return a host's attributes; each must be declared and fit its kind."""
    kinds = dict.fromkeys(BUILT_IN_ATTRIBUTES, "string")
    kinds.update(
        (name, resource.kind)
        for name, resource in resources.items()
        if resource.kind in _ATTRIBUTE_READERS
    )
    found: dict[str, Any] = {}
    for name, value in each_pair(place, "attributes"):
        if name not in kinds:
            value.problem(
                f"attribute {name!r} is not declared in resources.yaml; "
                f"{render_allowed(name, kinds)}"
            )
            continue
        try:
            found[name] = _ATTRIBUTE_READERS[kinds[name]](value)
        except TextError as error:
            value.problem(error.message)
    return found
