"""Values for tests: configurations, requests, arrays, submissions, with defaults that fit."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from xce.model.command import Selection
from xce.model.config import ClusterConfig, HostConfig, PoolConfig, QueueConfig, ResourceConfig
from xce.model.ids import Index, JobId, Micros
from xce.model.job import ArraySpec, JobSpec, Owner, Submission
from xce.model.request import Amount, HostChoice, Request

ALICE: Final = Owner("alice", 1001, 1001)
BOB: Final = Owner("bob", 1002, 1002)


def config(
    hosts: Mapping[str, int] | Sequence[str | HostConfig] = (),
    *,
    queues: Sequence[QueueConfig] = (),
    counters: Sequence[str] = (),
    pools: Mapping[str, int] | None = None,
    **settings: object,
) -> ClusterConfig:
    """Return a configuration; ``hosts`` maps names to slots, or lists names of 4 slots."""
    if isinstance(hosts, Mapping):
        found = [HostConfig(name=name, slots=slots) for name, slots in hosts.items()]
    else:
        found = [
            item if isinstance(item, HostConfig) else HostConfig(name=item, slots=4)
            for item in hosts
        ]
    given = ClusterConfig(
        hosts=tuple(found),
        resources=tuple(ResourceConfig(name=name, kind="counter") for name in counters),
        pools=tuple(PoolConfig(name=name, total=size) for name, size in (pools or {}).items()),
    )
    if queues:
        given = msgspec.structs.replace(given, queues=tuple(queues))
    return msgspec.structs.replace(given, **settings)


def request(
    tasks: int | tuple[int, int] = 1,
    *,
    mem_mib: int = 0,
    amounts: Sequence[Amount] = (),
    hosts: Sequence[str] = (),
    one_host: bool = False,
    ptile: int = 0,
    exclusive: bool = False,
    affinity: str = "",
) -> Request:
    """Return a compiled resource request; ``mem_mib`` is for each task."""
    tasks_min, tasks_max = (tasks, tasks) if isinstance(tasks, int) else tasks
    found = [*amounts, *([Amount("mem", mem_mib)] if mem_mib else [])]
    return Request(
        tasks_min=tasks_min,
        tasks_max=tasks_max,
        amounts=tuple(sorted(found)),
        hosts=tuple(HostChoice(name) for name in hosts),
        one_host=one_host,
        ptile=ptile,
        exclusive=exclusive,
        affinity=affinity,
    )


def array(text: str, limit: int = 0) -> ArraySpec:
    """Return the array that a text like ``1-10:2,15`` means."""
    runs = []
    for item in text.split(","):
        bounds, _, step = item.partition(":")
        first, _, last = bounds.partition("-")
        runs.append((int(first), int(last or first), int(step or 1)))
    return ArraySpec(tuple(runs), limit)


def submission(  # noqa: PLR0913 - a builder takes whatever a test wants to say
    command: str = "true",
    *,
    name: str = "",
    tasks: int | tuple[int, int] = 1,
    mem_mib: int = 0,
    after: str = "",
    elements: str = "",
    limit: int = 0,
    asks: Request | None = None,
    queue: str = "",
    project: str = "",
    hold: bool = False,
    begin_at_us: Micros = 0,
    run_limit_us: Micros = 0,
    mem_limit_kib: int = 0,
    priority: int = 0,
    rerunnable: bool | None = None,
) -> Submission:
    """Return one job as a submit command carries it.

    Args:
        command: Its command line; also its script's name.
        name: As ``-J`` without index list.
        tasks: As ``-n``.
        mem_mib: Memory to reserve for each task.
        after: As ``-w``.
        elements: The index list of an array; empty: none.
        limit: How many elements may run at once.
        asks: The whole request, instead of ``tasks`` and ``mem_mib``.
        queue: As ``-q``.
        project: As ``-P``.
        hold: As ``-H``.
        begin_at_us: As ``-b``.
        run_limit_us: As ``-W``.
        mem_limit_kib: As ``-M``.
        priority: As ``-sp``.
        rerunnable: As ``-r`` or ``-rn``; None: neither.
    """
    return Submission(
        spec=JobSpec(
            name=name,
            command=command,
            script=f"blob of {command}" if command else "",
            dependency=after,
            array=elements,
            mem_limit_kib=mem_limit_kib,
        ),
        request=asks or request(tasks, mem_mib=mem_mib),
        queue=queue,
        project=project,
        array=array(elements, limit) if elements else None,
        hold=hold,
        begin_at_us=begin_at_us,
        run_limit_us=run_limit_us,
        priority=priority,
        rerunnable=rerunnable,
    )


def chosen(*jobs: JobId | tuple[JobId, Index, Index]) -> Selection:
    """Return the selection that names jobs, or ``(job, first, last)`` runs of elements."""
    named: list[tuple[JobId, tuple[tuple[Index, Index], ...]]] = []
    for item in jobs:
        named.append((item, ()) if isinstance(item, int) else (item[0], ((item[1], item[2]),)))
    return Selection(jobs=tuple(named))
