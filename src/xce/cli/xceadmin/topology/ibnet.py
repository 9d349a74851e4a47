"""The output of ``ibnetdiscover``: switches, and the hosts at their ports.

A host may be at several leaf switches (one for each rail): leaves that have most of their hosts in
common are one domain. The next domains are those that are connected by the switches next to the
leaves, and so on up to the core.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from xce.cli.xceadmin.topology.found import Found, FoundError
from xce.config.names import HOST_NAME

_HEAD: Final = re.compile(r'(Switch|Ca|Hca|Rt)\s+\d+\s+"([^"]+)"(?:\s*#\s*"([^"]*)")?')
_PORT: Final = re.compile(r'\[\d+\](?:\([^)]*\))?\s+"([^"]+)"\[\d+\](?:.*?#\s*"([^"]*)")?')
_NO_HOST: Final = re.compile(
    r"Aggregation Node|ConnectX|Mellanox Technologies|MT\d{4}|^ubuntu\b|^localhost\b|UFM",
    re.IGNORECASE,
)
LAYERS_MAX: Final = 8


def read_ibnet(text: str) -> Found:
    """Return in which domains the hosts of a fabric are.

    Raises:
        FoundError: It is no output of ibnetdiscover.
    """
    switches, hosts, links = _records(text)
    if not switches or not links:
        raise FoundError("no Switch with ports: expected the output of ibnetdiscover")
    at: dict[str, set[str]] = defaultdict(set)
    up: dict[str, set[str]] = defaultdict(set)
    unnamed: set[str] = set()
    for switch, other in links:
        if other in switches:
            up[switch].add(other)
            up[other].add(switch)
        elif other in hosts:
            at[hosts[other]].add(switch)
        else:
            unnamed.add(other)
    if not at:
        raise FoundError("no port leads to a host whose name can be told")
    notes = []
    if unnamed:
        notes.append(f"{len(unnamed)} adapters do not say at which host they are: left out")
    return Found(_domains(at, up, switches), notes=tuple(notes))


def _records(text: str) -> tuple[dict[str, str], dict[str, str], list[tuple[str, str]]]:
    """Return the names of switches, the hosts of adapters, and the links of switches."""
    switches: dict[str, str] = {}
    hosts: dict[str, str] = {}
    links: list[tuple[str, str]] = []
    kind = own = ""
    for line in text.splitlines():
        head, port = _HEAD.match(line), _PORT.match(line)
        if head is not None:
            kind, own = head[1], head[2]
            if kind == "Switch":
                switches[own] = _switch_name(own, head[3] or "")
            elif kind in ("Ca", "Hca"):
                _note_host(hosts, own, head[3] or own)
        elif port is not None and own:
            other, described = port[1], port[2]
            if kind == "Switch":
                links.append((own, other))
                if other.startswith("H-") and described:
                    _note_host(hosts, other, described)
    return switches, hosts, links


def _switch_name(own: str, described: str) -> str:
    """Return a switch's name: ``MF0;B09-LEAF-01:MQM9701/U1`` is called B09-LEAF-01."""
    name = described.split(";", 1)[-1].split(":", 1)[0].strip()
    return name if name and " " not in name else own


def _note_host(hosts: dict[str, str], adapter: str, described: str) -> None:
    """Note at which host an adapter is: the first word of its description, if it is a name."""
    word = described.split(maxsplit=1)[0] if described.split() else ""
    if HOST_NAME.fullmatch(word) and not _NO_HOST.search(described):
        hosts.setdefault(adapter, word)


def _domains(
    at: dict[str, set[str]], up: dict[str, set[str]], names: dict[str, str]
) -> dict[str, tuple[str, ...]]:
    chains: dict[str, list[str]] = {host: [] for host in at}
    leaves = _rails(at)
    layer = dict.fromkeys(leaves, 0)
    edge = set(leaves)
    _add_level(chains, at, leaves, names)
    last = leaves
    for depth in range(1, LAYERS_MAX):
        group = _connected(leaves, layer, up)
        # A level at which nothing comes together says nothing.
        if _sets(group) != _sets(last):
            _add_level(chains, at, group, names)
            last = group
        edge = {other for switch in edge for other in up.get(switch, ()) if other not in layer}
        if not edge:
            break
        layer.update(dict.fromkeys(edge, depth))
    return {host: tuple(chain) for host, chain in sorted(chains.items())}


def _sets(group: dict[str, str]) -> set[frozenset[str]]:
    """Return which leaves are together."""
    members: dict[str, set[str]] = defaultdict(set)
    for leaf, first in group.items():
        members[first].add(leaf)
    return set(map(frozenset, members.values()))


def _rails(at: dict[str, set[str]]) -> dict[str, str]:
    """Return for each leaf the first leaf of its domain."""
    members: Counter[str] = Counter(leaf for leaves in at.values() for leaf in leaves)
    shared: Counter[tuple[str, str]] = Counter()
    for leaves in at.values():
        ordered = sorted(leaves)
        for place, one in enumerate(ordered):
            for other in ordered[place + 1 :]:
                shared[one, other] += 1
    joined = [
        pair for pair, count in shared.items() if 2 * count >= min(members[leaf] for leaf in pair)
    ]
    return _unite(members, joined)


def _connected(
    leaves: dict[str, str], layer: dict[str, int], up: dict[str, set[str]]
) -> dict[str, str]:
    """Return for each leaf the first leaf that is connected to it by the layers seen so far."""
    pairs = [(switch, other) for switch in layer for other in up.get(switch, ()) if other in layer]
    pairs += list(leaves.items())
    whole = _unite(layer, pairs)
    return {leaf: whole[leaf] for leaf in leaves}


def _unite(items: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the smallest member of each item's set, when pairs are in one set."""
    root = {item: item for item in items}

    def find(item: str) -> str:
        while root[item] != item:
            root[item] = root[root[item]]
            item = root[item]
        return item

    for one, other in pairs:
        low, high = sorted((find(one), find(other)))
        root[high] = low
    return {item: find(item) for item in root}


def _add_level(
    chains: dict[str, list[str]],
    at: dict[str, set[str]],
    group: dict[str, str],
    names: dict[str, str],
) -> None:
    members: dict[str, list[str]] = defaultdict(list)
    for leaf, first in group.items():
        members[first].append(names[leaf])
    label = {
        first: min(leaves) + (f"+{len(leaves) - 1}" if len(leaves) > 1 else "")
        for first, leaves in members.items()
    }
    for host, leaves in at.items():
        # Where most of its ports are.
        votes = Counter(group[leaf] for leaf in leaves)
        first = min(votes, key=lambda one: (-votes[one], one))
        chains[host].append(label[first])
