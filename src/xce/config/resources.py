"""``resources.yaml`` and ``supply.yaml``: which resources exist, and how much the pools hold."""

from typing import Any

import msgspec

from xce.config.document import Key, Place, Table, each_item, each_pair, read_mapping
from xce.config.names import RESERVED_RESOURCES, RESOURCE_NAME
from xce.config.schema import RESOURCE, SUPPLY
from xce.config.values import AMOUNT_MAX, read_count
from xce.model.config import PoolConfig, ResourceConfig
from xce.model.errors import TextError

RESOURCES_MAX = 500


def read_resources(place: Place | None) -> dict[str, ResourceConfig]:
    """Return the declared resources by name."""
    resources: dict[str, ResourceConfig] = {}
    if place is None:
        return resources
    for item in each_item(place, "resources"):
        fields = read_mapping(item, RESOURCE)
        name = fields.get("name")
        if name is None:
            continue
        if name in resources:
            item.problem(f"resource {name!r} is declared twice")
        # A name whose kind is wrong is known all the same: one mistake, one problem.
        resources[name] = msgspec.convert({"kind": "", **fields}, ResourceConfig)
        if len(resources) > RESOURCES_MAX:
            item.problem(f"more than {RESOURCES_MAX} resources")
            break
    return resources


def read_pools(
    place: Place | None, resources: dict[str, ResourceConfig], declared: Place | None
) -> dict[str, PoolConfig]:
    """Return the pools by name; each becomes a resource too, unless it is declared as one."""
    pools: dict[str, PoolConfig] = {}

    def read(value: Place) -> None:
        for name, amount in each_pair(value, "pools"):
            _read_pool(name, amount, resources, pools)

    if place is not None:
        keys = {**SUPPLY.keys, "pools": Key("pools", read)}
        read_mapping(place, Table(SUPPLY.noun, keys, SUPPLY.required, SUPPLY.not_built))
    for name, resource in resources.items():
        if resource.kind == "pool" and name not in pools and declared is not None:
            declared.problem(
                f"pool {name!r} has no amount: give supply.yaml 'pools: {{{name}: 10}}'"
            )
    for name in pools:
        resources.setdefault(name, ResourceConfig(name=name, kind="pool"))
    return pools


def _read_pool(
    name: str, amount: Place, resources: dict[str, ResourceConfig], pools: dict[str, PoolConfig]
) -> None:
    if not RESOURCE_NAME.fullmatch(name) or name.lower() in RESERVED_RESOURCES:
        amount.problem(f"{name[:80]!r} cannot be the name of a pool")
        return
    if name in resources and resources[name].kind not in ("pool", ""):
        amount.problem(f"resource {name!r} is declared as {resources[name].kind}, not as pool")
        return
    try:
        total: Any = read_count(0, AMOUNT_MAX)(amount)
    except TextError as error:
        amount.problem(error.message)
        total = 0
    pools[name] = PoolConfig(name=name, total=total)
