"""Is this placement what the request asks for? Checked entry by entry with plain integers.

It shares no code with the allocators, so that a mistake in one is seen by the other. The
controller asks it about every parallel placement of a plan (how tasks lie on hosts and domains;
amounts it checks itself); tests ask for all of it by handing over what is free.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from xce.model.config import ClusterConfig
from xce.model.ids import HostNumber
from xce.model.request import CuWish, Request
from xce.sched.certify_devices import count_wanted
from xce.state.hosts import Column, HostTable
from xce.state.needs import Form, Need

OWN_LEVEL: Final = "host"
"""The level of which each host is a domain."""


class _Entry(NamedTuple):
    host: HostNumber
    tasks: int


def find_faults(
    form: Form,
    numbers: Sequence[HostNumber],
    sizes: Sequence[int],
    parts: Sequence[int],
    table: HostTable,
    config: ClusterConfig,
) -> list[str]:
    """Return what is wrong with how tasks lie on hosts; nothing: it is as asked.

    Args:
        form: What was asked for.
        numbers: Hosts in rank order.
        sizes: Tasks of each entry.
        parts: Of a compound form, the part of each entry; else empty or zeros.
        table: The hosts.
        config: Knows the levels of domains.
    """
    owners = list(parts) or [0] * len(numbers)
    if not numbers or not len(numbers) == len(sizes) == len(owners):
        return ["the columns do not fit together"]
    if min(sizes) < 1 or not 0 <= min(numbers) <= max(numbers) < table.count:
        return ["no such host, or no task on one"]
    if sorted(set(owners)) != list(range(len(form.roles))):
        return ["the parts are not all there"]
    if owners != sorted(owners) and not form.request.constraints:
        return ["the parts do not stand one after the other"]
    faults = _faults_of_all(form, numbers, sizes, table)
    for place, role in enumerate(form.roles):
        entries = [
            _Entry(number, size)
            for number, size, owner in zip(numbers, sizes, owners, strict=True)
            if owner == place
        ]
        faults += [
            f"part {place}: {text}"
            for text in _faults_of_role(
                role, entries, table, config, is_grouped=bool(form.request.constraints)
            )
        ]
    return faults


def find_shortages(
    form: Form,
    numbers: Sequence[HostNumber],
    sizes: Sequence[int],
    parts: Sequence[int],
    free: Column,
) -> list[str]:
    """Return on which hosts there is less than the placement takes; the arguments as above.

    Args:
        form: What was asked for.
        numbers: Hosts in rank order.
        sizes: Tasks of each entry.
        parts: The part of each entry.
        free: What is free, along rows and hosts.
    """
    owners = list(parts) or [0] * len(numbers)
    left = [[int(value) for value in row] for row in free]
    asked: set[HostNumber] = set()
    begun: set[int] = set()
    for number, size, owner in zip(numbers, sizes, owners, strict=True):
        need: Need = form.needs[owner]
        for row, column in enumerate(left):
            wanted = int(need.per_task[row]) * size + int(need.per_host[row])
            wanted += int(need.per_job[row]) if owner not in begun else 0
            column[number] -= wanted
            if wanted and column[number] < 0:
                asked.add(number)
        begun.add(owner)
    return [f"host {number} has less than that" for number in sorted(asked)]


def _faults_of_all(
    form: Form, numbers: Sequence[HostNumber], sizes: Sequence[int], table: HostTable
) -> list[str]:
    """Return what is wrong with all parts together."""
    request, faults = form.request, []
    if not request.tasks_min <= sum(sizes) <= request.tasks_max:
        faults.append(f"{sum(sizes)} tasks")
    if request.hosts and not request.other_hosts:
        named = set(map(attrgetter("host"), request.hosts))
        if any(named.isdisjoint(_names_of(number, table)) for number in numbers):
            faults.append("a host that -m does not name")
    if any(not _names_of(one, table).isdisjoint(request.hosts_excluded) for one in numbers):
        faults.append("a host that -m leaves out")
    faults += _faults_of_first(request, numbers, table)
    if request.hosts_max and len(set(numbers)) > request.hosts_max:
        faults.append("more hosts than allowed")
    if len(form.roles) > 1:
        faults += _faults_of_same(request, numbers, table)
    return faults


def _faults_of_first(
    request: Request, numbers: Sequence[HostNumber], table: HostTable
) -> list[str]:
    """Return whether a host that ``-m`` wants to be the first is another, or another the first."""
    if not request.hosts_first:
        return []
    first, *others = dict.fromkeys(numbers)
    if _names_of(first, table).isdisjoint(request.hosts_first):
        return ["another first host than -m names with !"]
    if any(not _names_of(one, table).isdisjoint(request.hosts_first) for one in others):
        return ["a host that -m names with ! is not the first"]
    return []


def _names_of(number: HostNumber, table: HostTable) -> set[str]:
    """Return the names under which ``-m`` may mean a host: its own, and those of its domains."""
    domains = {*table.config[number].labels.values()} - table.number.keys()
    return {table.names[number], *domains}


def _faults_of_role(
    role: Request,
    entries: list[_Entry],
    table: HostTable,
    config: ClusterConfig,
    *,
    is_grouped: bool,
) -> list[str]:
    numbers = [entry.host for entry in entries]
    total = sum(entry.tasks for entry in entries)
    faults = []
    if not role.tasks_min <= total <= role.tasks_max:
        faults.append(f"{total} tasks")
    if len(set(numbers)) != len(numbers):
        faults.append("a host twice")
    if len(numbers) > (1 if role.one_host else role.hosts_max or len(numbers)):
        faults.append("more hosts than allowed")
    faults += _faults_of_span(role, entries, table, is_grouped=is_grouped)
    faults += _faults_of_same(role, numbers, table)
    if role.cu is not None:
        faults += _faults_of_cu(role.cu, entries, table, config)
    return faults


def _faults_of_span(
    role: Request, entries: list[_Entry], table: HostTable, *, is_grouped: bool
) -> list[str]:
    sizes = [entry.tasks for entry in entries]
    if role.stripe > 0 and max(sizes) > role.stripe:
        return ["more than stripe= allows on a host"]
    tiles = [_tile(role, entry.host, table) for entry in entries]
    if not any(tiles):
        return []
    if role.block:
        odd = [place for place, size in enumerate(sizes) if size % role.block]
    else:
        odd = [place for place, size in enumerate(sizes) if tiles[place] and size != tiles[place]]
        if any(size > tile > 0 for size, tile in zip(sizes, tiles, strict=True)):
            return ["more than ptile= allows on a host"]
    if role.whole_hosts and (odd or len(sizes) != role.whole_hosts):
        return ["not so many whole hosts as -nnodes wants"]
    # Ranks of one domain stand together, which may put the remainder before the last host.
    may_stand = range(1, len(sizes)) if role.cu is not None else [len(sizes) - 1]
    if is_grouped:
        may_stand = range(len(sizes))
    if len(odd) > 1 or (odd and len(sizes) > 1 and odd[0] not in may_stand):
        return ["hosts that are not filled as span[] wants it"]
    return []


def _tile(role: Request, number: HostNumber, table: HostTable) -> int:
    """Return how many tasks ``span[]`` wants on a host, or blocks of how many; 0: any."""
    attributes = table.attributes(number)
    words = (attributes.get("type"), attributes.get("model"))
    for word, size in role.ptile_by_type:
        if word in words:
            return size
    if role.gtile and role.gpu is not None:
        return count_wanted(role.gpu, table.devices.hosts[number]) // role.gpu.count
    if role.ptile < 0:
        return int(table.total[0, number])
    return role.block or role.ptile


def _faults_of_same(role: Request, numbers: Sequence[HostNumber], table: HostTable) -> list[str]:
    faults = []
    for name in role.same:
        values = {_value_of(name, number, table) for number in numbers}
        if len(values) != 1 or None in values:
            faults.append(f"hosts that differ in {name}")
    return faults


def _value_of(name: str, number: HostNumber, table: HostTable) -> int | str | None:
    """Return what a host has of an attribute that ``same[]`` may name; None: nothing."""
    match name:
        case "hname":
            return table.names[number]
        case "cpuf" | "rexpri" | "server" | "status":
            return ""  # all hosts that take jobs have the same
        case "ncpus":
            return table.cpus[number]
        case "maxslots":
            return int(table.total[0, number])
        case "maxmem":
            return int(table.total[1, number])
        case "ngpus" | "ngpus_physical":
            own = table.devices.hosts[number]
            return sum(not own.is_split(place) for place in range(len(own.devices)))
        case _:
            return table.attributes(number).get(name)


def own_domains(
    form: Form, numbers: Sequence[HostNumber], table: HostTable, config: ClusterConfig
) -> list[HostNumber]:
    """Return the hosts that a placement must have for itself by ``cu[excl]``, rising."""
    wish = form.request.cu
    if wish is None or not wish.exclusive:
        return []
    level = config.domain_level(wish.level)
    if level == OWN_LEVEL:
        return sorted(set(numbers))
    used = {table.config[number].labels.get(level, "") for number in numbers}
    return [
        number for number, entry in enumerate(table.config) if entry.labels.get(level, "") in used
    ]


def _faults_of_cu(
    wish: CuWish, entries: list[_Entry], table: HostTable, config: ClusterConfig
) -> list[str]:
    level = config.domain_level(wish.level)
    domains = [
        table.names[entry.host]
        if level == OWN_LEVEL
        else table.config[entry.host].labels.get(level, "")
        for entry in entries
    ]
    if "" in domains:
        return [f"a host in no {level}"]
    faults = []
    changes = sum(one != other for one, other in pairwise(domains))
    if changes + 1 != len(set(domains)):
        faults.append(f"ranks of one {level} do not stand together")
    if wish.max_domains and len(set(domains)) > wish.max_domains:
        faults.append(f"more than {wish.max_domains} of {level}")
    shares: Counter[str] = Counter()
    for entry, domain in zip(entries, domains, strict=True):
        shares[domain] += entry.tasks
    if wish.balance and max(shares.values()) - min(shares.values()) > 1:
        faults.append(f"an uneven share of a {level}")
    return faults
