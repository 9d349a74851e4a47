"""Rows about processors: of hosts, and of what is bound to them."""

from collections.abc import Iterator

import msgspec

from xce.model.ids import HostNumber
from xce.model.processor import Layout, join_words, numbers_in, render_list
from xce.resreq.affinity import bound_to, parse_affinity
from xce.resreq.ast import Affinity
from xce.state.cluster import ClusterState
from xce.state.job import Attempt
from xce.state.processors import split_sets


class HostProcessorsRow(msgspec.Struct, frozen=True):
    """The processors of a host, as far as jobs may be bound to them."""

    cpus: str
    """Their numbers, as ``0-7``."""
    free: str
    """Of these, the ones that no job has by ``affinity[]``."""
    numa: int
    """How many NUMA domains there are; sockets and cores likewise."""
    sockets: int
    cores: int
    kind: str
    """``real``, or ``made-up``: jobs are told of them, and are not bound."""


class JobProcessorsRow(msgspec.Struct, frozen=True):
    """What a task has of the processors of its host."""

    host: str
    task: int
    """Which task on this host, from 0."""
    cpus: str
    """What it is bound to, as ``0-3,8``."""
    unit: str
    """``thread``, ``core``, ``socket`` or ``numa``."""
    level: str
    """The level of the binding."""
    exclusive: str
    """The level at which it shares with nobody else; empty: none beyond the unit."""
    ids: tuple[str, ...]
    """Where the units lie: ``/numa/socket/core/thread``, down to the unit."""
    memory: str
    """``localonly``, ``localprefer`` or empty."""
    nodes: str
    """The NUMA domains that it lies in."""
    kind: str
    """``applied``, or ``told-only``: the processors are made up."""


def host_processors_row(state: ClusterState, number: HostNumber) -> HostProcessorsRow | None:
    """Return the processors of a host; None: it does not tell of any."""
    table = state.hosts
    layout = table.processors.layout(number)
    if layout is None:
        return None
    row = table.word_row
    taken = join_words((table.used[row:, number] | table.held[row:, number]).tolist())
    return HostProcessorsRow(
        render_list(numbers_in(layout.all)),
        render_list(numbers_in(layout.all & ~taken)),
        len(layout.domains["numa"]),
        len(layout.domains["socket"]),
        len(layout.domains["core"]),
        "made-up" if layout.is_told_only else "real",
    )


def job_processors_rows(state: ClusterState, attempt: Attempt) -> tuple[JobProcessorsRow, ...]:
    """Return what each task of an attempt is bound to, in rank order."""
    return tuple(_each(state, attempt)) if attempt.processors else ()


def _each(state: ClusterState, attempt: Attempt) -> Iterator[JobProcessorsRow]:
    roles = state.classes[attempt.cls].forms[attempt.alternative].roles
    parts = attempt.parts or [0] * len(attempt.hosts)
    rows = zip(attempt.hosts, parts, attempt.tasks, attempt.processors, strict=True)
    for host, part, tasks, words in rows:
        if not words:
            continue
        wish = parse_affinity(roles[part].affinity)
        layout = state.hosts.processors.layout(host)
        for task, units in enumerate(split_sets(words, tasks)[1]):
            bound = bound_to(wish, layout, units)
            yield JobProcessorsRow(
                state.hosts.names[host],
                task,
                render_list(numbers_in(bound)),
                wish.unit,
                wish.cpubind or wish.unit,
                wish.exclusive,
                _ids(wish, layout, units) if layout is not None else (),
                wish.membind,
                render_list(layout.numbers(bound, "numa")) if layout is not None else "",
                "applied" if layout is not None and not layout.is_told_only else "told-only",
            )


def _ids(wish: Affinity, layout: Layout, units: int) -> tuple[str, ...]:
    depth = ("numa", "socket", "core", "thread").index(wish.unit) + 1
    paths = {
        (item.numa, item.socket, item.core, item.number)[:depth]
        for item in layout.processors
        if units >> item.number & 1
    }
    return tuple("/" + "/".join(map(str, path)) for path in sorted(paths))
