"""Scenario files: YAML to a `Scenario`; every problem is told with file, line and key."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import yaml

from xce.config.document import (
    Key,
    Place,
    Table,
    each_item,
    each_pair,
    open_document,
    read_mapping,
    scalar_text,
)
from xce.config.names import expand_names
from xce.config.parse import read_config
from xce.config.report import Report, render_allowed
from xce.config.schema import FILES, FILES_NOT_BUILT
from xce.config.values import read_seconds
from xce.model.config import ClusterConfig
from xce.model.errors import ConfigError, TextError
from xce.model.ids import SECOND_US
from xce.sim.scenario import (
    ZERO_US,
    Expectation,
    PlannedEvent,
    PlannedJob,
    Scenario,
)
from xce.sim.scenario_keys import (
    EVENT,
    JOB,
    expectation_table,
    instant_reader,
    read_interval,
    read_zero,
)

Texts = Callable[[Path], Mapping[str, str]]
"""Reads the files of a configuration directory."""


class Base(NamedTuple):
    """A cluster that a file changes."""

    config: ClusterConfig
    texts: Mapping[str, str]
    """Its configuration files; a part of a file's ``cluster`` stands in for one of them."""


_PARTS: Final = {name.removesuffix(".yaml"): name for name in FILES}
_NOT_BUILT: Final = frozenset(name.removesuffix(".yaml") for name in FILES_NOT_BUILT)
_TOP: Final = ("cluster", "jobs", "events", "until", "expect", "epoch")
_Struct = TypeVar("_Struct", PlannedJob, PlannedEvent, Expectation)


def load_scenario(path: Path, load_texts: Texts, *, base: Base | None = None) -> Scenario:
    """Read a scenario file.

    Args:
        path: The file.
        load_texts: Reads a configuration directory, where the file names one.
        base: What holds where the file says nothing of the cluster; None: it must.

    Raises:
        ConfigError: Something is wrong; each line of the message is one problem.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_scenario(text, file=str(path), name=path.stem, load_texts=load_texts, base=base)


def parse_scenario(
    text: str, *, file: str, name: str, load_texts: Texts, base: Base | None = None
) -> Scenario:
    """Return what the text of a scenario file says.

    Raises:
        ConfigError: As `load_scenario`.
    """
    report = Report()
    top = open_document(file, text, report)
    report.raise_if_any()
    if top is None:
        raise ConfigError(f"{file}: is empty: expected the keys {', '.join(_TOP)}")
    parts: dict[str, Place] = {}
    for key, value in each_pair(top, "the parts of a scenario"):
        if key in _TOP:
            parts[key] = value
        else:
            value.problem(f"a scenario has no key {key!r}; {render_allowed(key, _TOP)}")
    if "cluster" not in parts and base is None:
        top.problem("a scenario needs the key 'cluster'")
    report.raise_if_any()
    return _Reading(Path(file), report, load_texts, base).read(parts, name)


class _Reading:
    """One file while it is read."""

    def __init__(self, path: Path, report: Report, load_texts: Texts, base: Base | None) -> None:
        self._path = path
        self._report = report
        self._load_texts = load_texts
        self._base = base
        self._down: set[str] = set()
        self._interval_us = SECOND_US
        self._grace_us = 0

    def read(self, parts: dict[str, Place], name: str) -> Scenario:
        """Return the scenario.

        Raises:
            ConfigError: Something is wrong.
        """
        given_zero = self._value(parts.get("epoch"), read_zero)
        read_at = instant_reader(given_zero)
        jobs = self._structs(parts.get("jobs"), "jobs", _with_instant(JOB, read_at), PlannedJob)
        for place, job in jobs:
            if bool(job.submit) == bool(job.spec):
                place.problem("a job needs either the key 'submit' or the key 'spec'")
        events = self._structs(
            parts.get("events"), "events", _with_instant(EVENT, read_at), PlannedEvent
        )
        table = _with_instant(expectation_table(read_at), read_at)
        expect = self._structs(parts.get("expect"), "expectations", table, Expectation)
        until_us = self._value(parts.get("until"), read_at)
        if self._base is not None and "cluster" not in parts:
            config = self._base.config
        else:
            config = self._config(parts["cluster"])
        _check_names(parts, jobs, events, expect, config)
        self._report.raise_if_any()
        return Scenario(
            name=name,
            config=config,
            down=frozenset(self._down),
            zero_us=ZERO_US if given_zero is None else given_zero,
            interval_us=self._interval_us,
            jobs=tuple(item for _, item in jobs),
            events=tuple(item for _, item in events),
            until_us=until_us,
            expect=tuple(item for _, item in expect),
        )

    def _value(self, place: Place | None, read: Callable[[Place], Any]) -> Any:  # noqa: ANN401 - whatever is read
        if place is None:
            return None
        try:
            return read(place)
        except TextError as error:
            place.problem(error.message)
            return None

    def _structs(
        self, place: Place | None, what: str, table: Table, kind: type[_Struct]
    ) -> list[tuple[Place, _Struct]]:
        """Return the items of a list by their table; what is wrong is reported and left out."""
        found: list[tuple[Place, _Struct]] = []
        if place is None:
            return found
        for item in each_item(place, what):
            before = len(self._report.problems)
            fields = read_mapping(item, table)
            if len(self._report.problems) > before:
                continue
            fields["line"] = item.node.start_mark.line + 1
            if kind is Expectation:
                fields["text"] = _flat(item.node)
            for several in ("runtime", "element_of"):
                fields |= fields.pop(several, {})
            found.append((item, msgspec.convert(fields, kind)))
        return found

    def _config(self, place: Place) -> ClusterConfig:
        """Return the cluster: written here, or in the directory that is named."""
        tops: dict[str, Place | None] = dict.fromkeys(FILES)
        if self._base is not None:
            for name, text in self._base.texts.items():
                if name in tops:
                    tops[name] = open_document(name, text, self._report)
        if isinstance(place.node, yaml.ScalarNode):
            directory = self._path.parent / scalar_text(place)
            if not directory.is_dir():
                place.problem(f"{directory} is no directory")
            else:
                for name, text in self._load_texts(directory).items():
                    if name in tops:
                        tops[name] = open_document(str(directory / name), text, self._report)
                    else:
                        place.problem(f"{directory / name}: {render_allowed(name, FILES)}")
        else:
            for key, value in each_pair(place, "the parts of a cluster"):
                if key in _PARTS:
                    tops[_PARTS[key]] = value
                elif key in _NOT_BUILT:
                    value.problem(f"{key!r} is not built yet in this release; remove it")
                else:
                    value.problem(f"a cluster has no {key!r}; {render_allowed(key, _PARTS)}")
        self._take_scenario_keys(tops)
        config = read_config(tops, self._report)
        return msgspec.structs.replace(config, host_grace_us=self._grace_us)

    def _take_scenario_keys(self, tops: dict[str, Place | None]) -> None:
        """Read what only scenarios have, and take it out of the nodes."""
        settings, hosts = tops["xce.yaml"], tops["hosts.yaml"]
        if settings is not None and isinstance(settings.node, yaml.MappingNode):
            for key_node, value_node in list(settings.node.value):
                if key_node.value == "session_interval_s":
                    settings.node.value.remove((key_node, value_node))
                    found = self._value(
                        settings.inner("session_interval_s", value_node), read_interval
                    )
                    self._interval_us = found or SECOND_US
                elif key_node.value == "host_grace_s":
                    # Nothing is restarted in a scenario: any grace will do, and there is none.
                    settings.node.value.remove((key_node, value_node))
                    place = settings.inner("host_grace_s", value_node)
                    self._grace_us = self._value(place, read_seconds) or 0
        if hosts is not None and isinstance(hosts.node, yaml.SequenceNode):
            for number, node in enumerate(hosts.node.value, 1):
                if isinstance(node, yaml.MappingNode):
                    self._take_down(hosts.inner(f"[{number}]", node))

    def _take_down(self, host: Place) -> None:
        """Note the hosts of an entry with ``state: down``."""
        pairs = [pair for pair in host.node.value if isinstance(pair[0], yaml.ScalarNode)]
        values = {key.value: value for key, value in pairs}
        state, names = values.get("state"), values.get("names")
        if not isinstance(state, yaml.ScalarNode) or state.value != "down" or names is None:
            return
        state.value = "ok"
        texts = names.value if isinstance(names, yaml.SequenceNode) else [names]
        for text in texts:
            if not isinstance(text, yaml.ScalarNode):
                return  # the reader of hosts tells it
            try:
                self._down.update(expand_names(text.value))
            except TextError:
                return  # the reader of hosts tells it


def _with_instant(table: Table, read_at: Callable[[Place], int]) -> Table:
    return table._replace(keys={**table.keys, "at": Key("at_us", read_at)})


def _flat(node: yaml.Node) -> str:
    """Return a node as it could stand on one line."""
    if isinstance(node, yaml.MappingNode):
        return "{" + ", ".join(f"{key.value}: {_flat(value)}" for key, value in node.value) + "}"
    if isinstance(node, yaml.SequenceNode):
        return "[" + ", ".join(map(_flat, node.value)) + "]"
    return f'"{node.value}"' if getattr(node, "style", None) else str(node.value)


def _check_names(
    parts: dict[str, Place],
    jobs: list[tuple[Place, PlannedJob]],
    events: list[tuple[Place, PlannedEvent]],
    expect: list[tuple[Place, Expectation]],
    config: ClusterConfig,
) -> None:
    """Report names that are twice or nowhere."""
    ids: set[str] = set()
    for place, job in jobs:
        if job.id in ids:
            place.problem(f"a second job has the id {job.id!r}")
        ids.add(job.id)
    hosts = {host.name for host in config.hosts}
    pools = {pool.name for pool in config.pools}
    for place, event in events:
        kinds = [word for word in (event.state, event.command, event.pool) if word]
        if len(kinds) + (event.load is not None) != 1:
            place.problem("an event is one of host with state or load, do, or pool with total")
        for name in event.hosts:
            if name not in hosts:
                place.problem(f"no host is called {name!r}; {render_allowed(name, hosts)}")
        if event.pool and event.pool not in pools:
            place.problem(f"no pool is called {event.pool!r}; {render_allowed(event.pool, pools)}")
    for place, item in expect:
        if (item.job == "") == (item.summary is None):
            place.problem("an expectation is about a job or about the summary")
        if item.job and item.job not in ids:
            place.problem(f"no job has the id {item.job!r}; {render_allowed(item.job, ids)}")
        if item.summary is not None and item.at_us is not None:
            place.problem("the summary is of the whole run: leave 'at' out")
