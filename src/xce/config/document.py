"""YAML text to nodes that know their line, and mappings read by a table of keys.

Only what has one meaning is taken: no aliases, tags or merge keys, no key twice. A scalar is its
own text; what it means (number, flag, size) is settled by the key's reader, never guessed by YAML.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from xce.config.report import Problem, Report, render_allowed
from xce.model.errors import TextError

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
DEPTH_MAX: Final = 16
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str int float bool null timestamp map seq merge").split()  # noqa: SIM905 - so many names read better as text
)


class Place(NamedTuple):
    """A node of a file: where it stands, and where problems with it go."""

    file: str
    key: str
    node: yaml.Node
    report: Report

    def problem(self, text: str) -> None:
        """Report that something is wrong here."""
        self.report.add(Problem(self.file, self.line, self.key, text))

    @property
    def line(self) -> int:
        """The line of the node, counted from 1."""
        return self.node.start_mark.line + 1 if self.node.start_mark else 0

    def inner(self, step: str, node: yaml.Node) -> "Place":
        """Return the place of a node below this one."""
        glue = "" if not self.key or step.startswith("[") else "."
        return Place(self.file, f"{self.key}{glue}{step}", node, self.report)

    def at(self, key: str) -> "Place":
        """Return the place of a key's value in this mapping; of one that is not given: here."""
        pairs = self.node.value if isinstance(self.node, yaml.MappingNode) else ()
        nodes = [value for name, value in pairs if name.value == key]
        return self.inner(key, nodes[0] if nodes else self.node)


Reader: TypeAlias = Callable[[Place], Any]
"""Reads one value. Raises `TextError` with what is wrong, or reports several problems itself."""


class Key(NamedTuple):
    """A key that a mapping may have."""

    field: str
    """Field of the struct that takes the value."""
    read: Reader


class Table(NamedTuple):
    """The keys of one kind of mapping."""

    noun: str
    keys: Mapping[str, Key]
    required: tuple[str, ...] = ()
    not_built: frozenset[str] = frozenset()
    """Keys of the design that this release does not have; refused by name."""


def open_document(file: str, text: str, report: Report) -> Place | None:
    """Return the top of a file, or None when it is empty or broken (which is then reported)."""
    if len(text.encode("utf-8", "surrogatepass")) > FILE_BYTES_MAX:
        report.add(Problem(file, 0, "", f"is larger than {FILE_BYTES_MAX // 1024} KiB"))
        return None
    try:
        found = _ambiguity(text)
        if found is not None:
            report.add(Problem(file, found[0], "", found[1]))
            return None
        node = yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or " ".join(str(error).split())
        line = mark.line + 1 if mark else 0
        report.add(Problem(file, line, "", f"is no valid YAML: {what}"))
        return None
    if node is None or is_null(node):
        return None
    return Place(file, "", node, report)


def _ambiguity(text: str) -> tuple[int, str] | None:
    """Return line and name of what could be read in two ways or would be costly to read."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            return line, "aliases (*name) are not allowed: write the value out"
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_MAX:
                return line, f"is nested more than {DEPTH_MAX} deep"
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!" and tag not in _PLAIN_TAGS:
            return line, f"tags ({tag}) are not allowed"
    return None


def is_null(node: yaml.Node) -> bool:
    """Return whether a node is an unquoted nothing."""
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value in _NULLS


def scalar_text(place: Place) -> str:
    """Return the text of a scalar.

    Raises:
        TextError: The node is a list, a mapping or nothing.
    """
    if not isinstance(place.node, yaml.ScalarNode):
        kind = "list" if isinstance(place.node, yaml.SequenceNode) else "mapping"
        raise TextError(f"is a {kind}: expected one value")
    if is_null(place.node):
        raise TextError("has no value: give one or remove the key")
    text: str = place.node.value
    if "\0" in text:
        raise TextError("holds a NUL byte")
    return text


def each_item(place: Place, what: str) -> Iterator[Place]:
    """Yield the items of a list; reports when the node is none."""
    if not isinstance(place.node, yaml.SequenceNode):
        place.problem(f"is no list: expected {what}, each beginning with '- '")
        return
    for number, node in enumerate(place.node.value, start=1):
        yield place.inner(f"[{number}]", node)


def each_pair(place: Place, what: str) -> Iterator[tuple[str, Place]]:
    """Yield keys and values of a mapping, no key twice; reports when the node is none."""
    if not isinstance(place.node, yaml.MappingNode):
        place.problem(f"is no mapping: expected {what}, as 'key: value'")
        return
    seen: dict[str, int] = {}
    for key_node, value_node in place.node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            place.inner("?", key_node).problem("a key must be one word")
            continue
        key: str = key_node.value
        if key in seen:
            place.inner(key, key_node).problem(f"stands twice; the first is in line {seen[key]}")
            continue
        seen[key] = key_node.start_mark.line + 1
        yield key, place.inner(key, value_node)


def read_mapping(place: Place, table: Table) -> dict[str, Any]:
    """Return the fields that a mapping gives by its table; what is wrong is reported and left out.

    A missing required field is left out too, so callers test for it.
    """
    fields: dict[str, Any] = {}
    keys_seen: set[str] = set()
    for key, value in each_pair(place, f"the keys of {table.noun}"):
        keys_seen.add(key)
        if key in table.not_built:
            value.problem(f"{key!r} is not built yet in this release; remove it")
        elif key not in table.keys:
            value.problem(f"{table.noun} has no key {key!r}; {render_allowed(key, table.keys)}")
        else:
            entry = table.keys[key]
            try:
                fields[entry.field] = entry.read(value)
            except TextError as error:
                value.problem(error.message)
    if isinstance(place.node, yaml.MappingNode):
        for name in table.required:
            if name not in keys_seen:
                place.problem(f"{table.noun} needs the key {name!r}")
    return fields
