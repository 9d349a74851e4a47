"""Processors: those of a plan where they still hold, and what a worker is told of them."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from xce.model.device import GpuWish
from xce.model.ids import HostNumber
from xce.model.processor import Binding, join_words, mask_of, numbers_in, render_list
from xce.resreq.affinity import bound_to, parse_affinity
from xce.sched.certify_processors import find_processor_faults
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Column
from xce.state.job import Attempt
from xce.state.processors import split_sets


def fitting_processors(
    state: ClusterState,
    free: Column,
    found: RequestClass,
    host: HostNumber,
    each: Sequence[list[int]],
) -> list[int]:
    """Return which single-host attempts have processors on a host that are free for them.

    Args:
        state: The state.
        free: What is free, along rows and hosts.
        found: Their class.
        host: The host.
        each: The processors of each attempt.
    """
    request, row = found.key.request, state.hosts.word_row
    left = join_words(free[row:, host].tolist())
    fitting = []
    for place, processors in enumerate(each):
        columns = [host], [request.tasks_max], (), [processors]
        if find_processor_faults((request,), *columns, state.hosts):
            continue
        held, _ = split_sets(processors, request.tasks_max)
        if held & left == held:
            left ^= held
            fitting.append(place)
    return fitting


def take_processors(
    state: ClusterState,
    free: Column,
    found: RequestClass,
    host: HostNumber,
    each: Sequence[list[int]],
) -> None:
    """Take the processors of attempts out of what is free."""
    row, tasks = state.hosts.word_row, found.key.request.tasks_max
    for processors in each:
        words = len(processors) // (tasks + 1)
        free[row : row + words, host] -= processors[:words]


def bindings_of(state: ClusterState, attempt: Attempt) -> tuple[Binding, ...]:
    """Return the processors of an attempt, for each of the hosts that a launch names."""
    found = state.classes[attempt.cls]
    roles = found.forms[attempt.alternative].roles
    parts = attempt.parts or [0] * len(attempt.hosts)
    rows = zip(attempt.hosts, parts, attempt.tasks, attempt.processors, strict=True)
    bindings = []
    for host, same in groupby(rows, key=itemgetter(0)):
        sets: list[int] = []
        policies: list[str] = []
        layout = state.hosts.processors.layout(host)
        for _, part, tasks, processors in same:
            if not processors:
                # Tasks of a part that asks for none run on any.
                sets += [layout.all if layout is not None else 0] * tasks
                policies += [""] * tasks
                continue
            wish = parse_affinity(roles[part].affinity)
            sets += [bound_to(wish, layout, units) for units in split_sets(processors, tasks)[1]]
            policies += [wish.membind] * tasks
        bindings.append(_binding(state, host, sets, policies))
    return tuple(bindings)


def near_gpus(state: ClusterState, attempt: Attempt) -> tuple[Binding, ...]:
    """Return the processors near to the GPUs of an attempt that asks for these (``aff=yes``).

    There is one for each of the hosts that a launch names; nothing, where nobody asks.
    """
    if not attempt.devices:
        return ()
    roles = state.classes[attempt.cls].forms[attempt.alternative].roles
    parts = attempt.parts or [0] * len(attempt.hosts)
    if not any(gpu is not None and gpu.is_near for gpu in (roles[part].gpu for part in parts)):
        return ()
    rows = zip(attempt.hosts, parts, attempt.tasks, attempt.devices, strict=True)
    bindings = []
    for host, same in groupby(rows, key=itemgetter(0)):
        sets: list[int] = []
        for _, part, tasks, places in same:
            sets += _near_sets(state, host, roles[part].gpu, tasks, places)
        bindings.append(_binding(state, host, sets, [""] * len(sets)))
    return tuple(bindings)


def _near_sets(
    state: ClusterState, host: HostNumber, wish: GpuWish | None, tasks: int, places: Sequence[int]
) -> list[int]:
    """Return the processors of each task: all where nobody said what is near its GPUs."""
    layout = state.hosts.processors.layout(host)
    if layout is None:
        return [0] * tasks
    if wish is None or not wish.is_near:
        return [layout.all] * tasks
    devices = state.hosts.devices.hosts[host].devices
    size = wish.count if wish.per == "task" else 0
    found = []
    for task in range(tasks):
        mine = places[task * size : (task + 1) * size] if size else places
        numas = {devices[place].numa for place in mine}
        near = (item.number for item in layout.processors if item.numa in numas)
        found.append((0 if -1 in numas else mask_of(near)) or layout.all)
    return found


def _binding(
    state: ClusterState, host: HostNumber, sets: Sequence[int], policies: Sequence[str]
) -> Binding:
    """Return what tasks with these processors, and these words of ``membind=``, are bound to."""
    layout = state.hosts.processors.layout(host)
    nodes = [
        render_list(layout.numbers(bound, "numa")) if policy and layout is not None else ""
        for bound, policy in zip(sets, policies, strict=True)
    ]
    local_only = tuple(policy == "localonly" for policy in policies)
    return Binding(
        tuple(render_list(numbers_in(bound)) for bound in sets),
        tuple(nodes),
        is_local_only=all(local_only),
        is_told_only=layout is None or layout.is_told_only,
        local_only=local_only if len(set(local_only)) > 1 else (),
    )
