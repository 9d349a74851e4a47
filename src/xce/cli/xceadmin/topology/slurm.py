"""Slurm's ``topology.conf``: a tree of switches, or blocks."""

from typing import Final

from xce.cli.xceadmin.topology.found import Found, FoundError
from xce.config.names import expand_names
from xce.model.errors import TextError

DEPTH_MAX: Final = 16


class _Conf:
    """A file as it is read."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[str, ...]] = {}
        self.parent: dict[str, str] = {}
        self.blocks: list[str] = []
        self.sizes: list[int] = []
        self.notes: list[str] = []

    def take(self, words: dict[str, str], number: int) -> None:
        """Take the words of a line."""
        if "blocksizes" in words:
            self.sizes = [_count(item, number) for item in words["blocksizes"].split(",")]
            return
        name = words.get("switchname") or words.get("blockname")
        if name is None:
            raise FoundError(f"line {number}: expected SwitchName=, BlockName= or BlockSizes=")
        if "blockname" in words:
            self.blocks.append(name)
        if "nodes" in words:
            self.nodes[name] = _names(words["nodes"], number)
        for inner in _names(words["switches"], number) if "switches" in words else ():
            if inner in self.parent:
                self.notes.append(
                    f"{inner} is in {self.parent[inner]} and in {name}: the first counts"
                )
            self.parent.setdefault(inner, name)


def read_slurm(text: str) -> Found:
    """Return what a ``topology.conf`` says.

    Raises:
        FoundError: It is none.
    """
    conf = _Conf()
    for number, line in enumerate(_lines(text), 1):
        words = dict(_pair(word, number) for word in line.split())
        if words:
            conf.take(words, number)
    if not conf.nodes:
        raise FoundError("no switch and no block has nodes")
    if conf.blocks:
        return Found(_blocks(conf.nodes, conf.blocks, conf.sizes), notes=tuple(conf.notes))
    return _tree(conf)


def _tree(conf: _Conf) -> Found:
    parent, notes = conf.parent, conf.notes
    unknown = sorted(set(parent) - set(conf.nodes) - set(parent.values()))
    notes += [f"{name} is said to be in {parent[name]} and is not described" for name in unknown]
    domains: dict[str, tuple[str, ...]] = {}
    for switch, members in conf.nodes.items():
        chain = _chain(switch, parent)
        for host in members:
            if host in domains:
                notes.append(f"{host} is at {domains[host][0]} and at {switch}: the first counts")
            domains.setdefault(host, chain)
    roots = {chain[-1] for chain in domains.values()}
    if len(roots) > 1:
        notes.append(f"not connected: {len(roots)} trees, of {', '.join(sorted(roots)[:4])}")
    return Found(domains, notes=tuple(notes))


def _lines(text: str) -> list[str]:
    """Return lines without comments; a backslash at the end goes on in the next one."""
    joined = text.replace("\\\n", " ")
    return [line.split("#", 1)[0].strip() for line in joined.splitlines()]


def _pair(word: str, number: int) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not value:
        raise FoundError(f"line {number}: {word[:60]!r} is not of the form Name=value")
    return name.lower(), value


def _count(text: str, number: int) -> int:
    if not text.isdecimal() or not 1 <= len(text) <= 9:
        raise FoundError(f"line {number}: {text[:20]!r} is no number")
    return int(text)


def _names(text: str, number: int) -> tuple[str, ...]:
    try:
        return expand_names(text)
    except TextError as error:
        raise FoundError(f"line {number}: {error.message}") from error


def _chain(switch: str, parent: dict[str, str]) -> tuple[str, ...]:
    chain = [switch]
    while chain[-1] in parent and len(chain) <= DEPTH_MAX:
        chain.append(parent[chain[-1]])
    if len(chain) > DEPTH_MAX or len(set(chain)) < len(chain):
        raise FoundError(f"switches above {switch} go round in a circle, or are too many")
    return tuple(chain)


def _blocks(
    nodes: dict[str, tuple[str, ...]], blocks: list[str], sizes: list[int]
) -> dict[str, tuple[str, ...]]:
    """Return blocks, and blocks of blocks as ``BlockSizes`` says."""
    base = sizes[0] if sizes else 0
    # A level above all blocks would say nothing.
    steps = [size // base for size in sizes[1:] if base and size // base < 2 * len(blocks)]
    domains: dict[str, tuple[str, ...]] = {}
    for place, block in enumerate(blocks):
        chain = [block]
        for step in steps:
            first = place // step * step
            last = min(first + step, len(blocks)) - 1
            chain.append(f"{blocks[first]}..{blocks[last]}")
        for host in nodes.get(block, ()):
            domains.setdefault(host, tuple(chain))
    return domains
