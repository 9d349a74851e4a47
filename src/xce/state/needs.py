"""What attempts of a class take, laid out along the rows of the host table.

A *form* is one way to run a request: the request itself, or one of its alternatives. A *role* is
one part of a compound form; any other form has the one role 0. Amounts with a duration come back
at fixed times after the start: *stage* k is what is held after the k-th of these times.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from xce.model.device import GpuWish
from xce.model.ids import HostNumber, Micros
from xce.model.request import Amount, Request
from xce.state.hosts import Column
from xce.state.processors import add_held
from xce.state.relaxing import delays_of_constraints, relaxed

DECAY_STEPS: Final = 8
"""Most steps in which an amount that decays comes back (decision X-27)."""


class Need(NamedTuple):
    """What one role takes."""

    per_task: Column
    per_host: Column
    """Once on each of its hosts, beside the tasks."""
    per_job: Column
    """Once, on its first host."""
    task_pools: tuple[tuple[str, int], ...]
    job_pools: tuple[tuple[str, int], ...]
    """Amounts of pools for each task, and for each attempt."""
    gpu: GpuWish | None = None
    """GPUs; which ones is said for each attempt."""
    device_row: int = 0
    """The row of the first device."""
    word_row: int = 0
    """The first row that is a word of a set of processors."""

    def on_host(self, tasks: int, *, is_first: bool = True) -> Column:
        """Return what the role takes on a host on which it has ``tasks`` tasks, along the rows.

        Args:
            tasks: Tasks on that host, at least 1.
            is_first: Whether it is the role's first host.
        """
        amounts: Column = self.per_task * tasks + self.per_host
        return amounts + self.per_job if is_first else amounts


class Form(NamedTuple):
    """One way to run a request."""

    request: Request
    """Whole: what the outer request says of hosts is in it."""
    roles: tuple[Request, ...]
    """A simple request for each role."""
    offsets: tuple[Micros, ...]
    """So long after the start amounts come back, rising."""
    stages: tuple[tuple[Need, ...], ...]
    """What each role takes: at first, and after each of ``offsets``."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What each role takes at first."""
        return self.stages[0]


def without_waited(request: Request, waited_us: Micros) -> Request:
    """Return a request without the wishes that are given up after so long."""
    if request.constraints:
        request = replace(request, constraints=relaxed(request.constraints, waited_us))
    if request.cu is not None and 0 < request.cu.max_wait_us <= waited_us:
        return replace(request, cu=None)
    return request


def open_form(found: Request, forms: Sequence[Form], number: int, waited_us: Micros) -> Form | None:
    """Return a form as it may be placed after so long; None: it may not yet, or is none.

    Args:
        found: The whole request.
        forms: Its forms.
        number: Which one.
        waited_us: The longest delay in the request that has passed.
    """
    if not 0 <= number < len(forms):
        return None
    if found.alternatives and found.alternatives[number].delay_us > waited_us:
        return None
    form = forms[number]
    return form._replace(
        request=without_waited(form.request, waited_us),
        roles=tuple(without_waited(role, waited_us) for role in form.roles),
    )


def delays_of(request: Request) -> tuple[Micros, ...]:
    """Return so long after the submission a request asks for less, rising."""
    wishes = [role.cu for form in forms_of(request) for role in roles_of(form)]
    delays = {alternative.delay_us for alternative in request.alternatives}
    delays.update(cu.max_wait_us for cu in wishes if cu is not None)
    delays.update(delays_of_constraints(request.constraints))
    return tuple(sorted(delays - {0}))


def forms_of(request: Request) -> tuple[Request, ...]:
    """Return each way to run a request, as a whole simple or compound request."""
    if not request.alternatives:
        return (request,)
    return tuple(_within(alternative.request, request) for alternative in request.alternatives)


def roles_of(form: Request) -> tuple[Request, ...]:
    """Return the simple request of each role of a form."""
    if not form.parts:
        return (form,)
    thresholds = set(form.thresholds)
    return tuple(
        replace(
            part.request.on_hosts_of(form),
            tasks_min=part.tasks,
            tasks_max=max(part.tasks, part.tasks_max),
            thresholds=tuple(sorted(thresholds.union(part.request.thresholds))),
            # The first host of the job is that of its first part.
            hosts_first=() if place else form.hosts_first,
        )
        for place, part in enumerate(form.parts)
    )


def _within(inner: Request, outer: Request) -> Request:
    """Return an alternative with what the outer request says of hosts and the range of tasks."""
    low = max(inner.tasks_min, outer.tasks_min)
    high = min(inner.tasks_max, outer.tasks_max)
    if low > high or inner.parts:
        low, high = inner.tasks_min, inner.tasks_max
    return replace(
        inner.on_hosts_of(outer), tasks_min=low, tasks_max=high, constraints=outer.constraints
    )


def compile_forms(
    request: Request, rows: Mapping[str, int], width: int = 0, word_row: int = 0
) -> tuple[Form, ...]:
    """Return the forms of a request.

    Args:
        request: The request.
        rows: Which resource each row of hosts is.
        width: How many rows there are in all, those of devices too; 0: there are no others.
        word_row: The first of them that is a word of a set of processors.
    """
    return _compile_forms(request, tuple(rows.items()), width or len(rows), word_row)


@functools.lru_cache(maxsize=1024)
def _compile_forms(
    request: Request, given_rows: tuple[tuple[str, int], ...], width: int, word_row: int
) -> tuple[Form, ...]:
    """Return the same; nobody writes into its vectors."""
    forms = []
    rows = dict(given_rows)
    for form in forms_of(request):
        roles = roles_of(form)
        offsets = sorted(
            {at_us for role in roles for item in role.amounts for at_us, _ in _profile(item)[1:]}
        )
        stages = tuple(
            tuple(
                _compile_need(role, rows, width, since_us)._replace(word_row=word_row)
                for role in roles
            )
            for since_us in (0, *offsets)
        )
        forms.append(Form(form, roles, tuple(offsets), stages))
    return tuple(forms)


def _profile(amount: Amount) -> tuple[tuple[Micros, int], ...]:
    """Return since when after the start how much of an amount is held, falling.

    What a later phase needs is held from the start, since nobody could promise it later.
    """
    phases = [(amount.value, amount.duration_us, amount.decay)]
    phases += [(phase.value, phase.duration_us, phase.decay) for phase in amount.phases]
    found = [(0, amount.value)]
    since_us = 0
    for place, (value, duration_us, decays) in enumerate(phases):
        if not duration_us:
            break
        following = phases[place + 1][0] if place + 1 < len(phases) else 0
        steps = max(1, min(DECAY_STEPS, value - following)) if decays else 1
        found += [
            (since_us + duration_us * step // steps, value - (value - following) * step // steps)
            for step in range(1, steps + 1)
        ]
        since_us += duration_us
    falling: list[tuple[Micros, int]] = []
    most = 0
    for at_us, value in reversed(found):
        most = max(most, value)
        if falling and falling[-1][1] == most:
            falling.pop()
        falling.append((at_us, most))
    return tuple(reversed(falling))


def _held(amount: Amount, since_us: Micros) -> int:
    """Return what is left of an amount so long after the start."""
    return [value for at_us, value in _profile(amount) if at_us <= since_us][-1]


def _compile_need(role: Request, rows: Mapping[str, int], width: int, since_us: Micros) -> Need:
    vectors = {per: np.zeros(width, np.int64) for per in ("task", "host", "job")}
    vectors["task"][0] = 1
    pools: dict[str, list[tuple[str, int]]] = {"task": [], "host": [], "job": []}
    for amount in role.amounts:
        value = _held(amount, since_us)
        if amount.resource in rows:
            vectors[amount.per][rows[amount.resource]] += value
        elif value:
            pools[amount.per].append((amount.resource, value))
    for vector in vectors.values():
        vector.setflags(write=False)
    return Need(
        vectors["task"],
        vectors["host"],
        vectors["job"],
        tuple(pools["task"]),
        # A pool has no host: once for each host means once for the job.
        tuple(pools["job"] + pools["host"]),
        role.gpu,
        len(rows),
    )


def on_hosts(
    needs: Sequence[Need],
    hosts: Sequence[HostNumber],
    tasks: Sequence[int],
    parts: Sequence[int],
    devices: Sequence[Sequence[int]] = (),
    processors: Sequence[Sequence[int]] = (),
    headless: Sequence[int] = (),
) -> dict[HostNumber, Column]:
    """Return what an attempt takes on each of its hosts.

    Args:
        needs: What each role takes.
        hosts: In rank order; of a compound form a host may stand in several entries.
        tasks: Tasks of each entry.
        parts: The role of each entry; empty: there is one role.
        devices: The devices of each entry; empty: there are none.
        processors: The processors of each entry, likewise.
        headless: Roles whose first host is none of these any more.
    """
    amounts: dict[HostNumber, Column] = {}
    if len(hosts) == 1 and not (devices or processors or headless):
        return {hosts[0]: needs[parts[0] if parts else 0].on_host(tasks[0])}
    begun: set[int] = set(headless)
    for place, (host, size) in enumerate(zip(hosts, tasks, strict=True)):
        part = parts[place] if parts else 0
        needed = needs[part].on_host(size, is_first=part not in begun)
        begun.add(part)
        if devices:
            _add_devices(needed, needs[part], devices[place])
        if processors:
            add_held(needed, needs[part].word_row, processors[place], size)
        amounts[host] = amounts[host] + needed if host in amounts else needed
    return amounts


def of_pools(needs: Sequence[Need], tasks: Sequence[int], parts: Sequence[int]) -> dict[str, int]:
    """Return what one attempt takes of each pool; the arguments are as those of `on_hosts`."""
    taken: dict[str, int] = {}
    for part, need in enumerate(needs):
        size = sum(
            count for place, count in enumerate(tasks) if (parts[place] if parts else 0) == part
        )
        for name, value in need.task_pools:
            taken[name] = taken.get(name, 0) + value * size
        for name, value in need.job_pools:
            taken[name] = taken.get(name, 0) + value
    return taken


def _add_devices(amounts: Column, need: Need, devices: Sequence[int]) -> None:
    """Add what a role takes of devices on one host."""
    if need.gpu is None:
        return
    for device in devices:
        amounts[need.device_row + device] += need.gpu.milli
