"""Jobs that run by roles, as users of a world submit them."""

from random import Random
from typing import Final

import msgspec

from xce.model.ids import SECOND_US
from xce.model.job import JobSpec
from xce.model.relation import LaunchType, Probe, Relation, RelationKind, Role
from xce.model.request import Part, Request
from xce.sim.starter import LEAD

TASKS_MAX: Final = 3
"""Most tasks with slots: every world has room for so many."""
SLOTS_MIN: Final = 2
"""Every host has so many slots."""
_LAUNCHES: Final = (LaunchType.TASKS, LaunchType.TORCH, LaunchType.TASKS)
_K: Final = RelationKind


def draw_leader(rng: Random, command: str, request: Request, *, hosts: int) -> tuple[str, Request]:
    """Return a job as it is or, where it has several tasks, mostly one that starts them itself.

    Such a job is spread over the cluster's ``hosts``, so that it has others.
    """
    if request.tasks_max < 2 or rng.random() < 0.2:
        return command, request
    _, micros, code, *_ = command.split()
    span_us = rng.choice((50_000, 500_000, 2_000_000))
    way = rng.choice(("wait", "wait", "leave"))
    task_code = rng.choice((0, 0, 0, 4))
    found = f"{LEAD} {way} {micros} {code} {span_us} {task_code}"
    ptile = -(-request.tasks_min // hosts)
    if request.one_host or request.alternatives or request.affinity or ptile > SLOTS_MIN:
        return found, request
    return found, msgspec.structs.replace(request, ptile=ptile)


def draw_role_job(
    rng: Random, spec: JobSpec, *, is_spread: bool = False
) -> tuple[JobSpec, Request]:
    """Return a job with roles, and what it asks for: it waits for earlier roles only.

    Args:
        rng: The dice.
        spec: The rest of the job.
        is_spread: Each task of a role has a host of its own.
    """
    count = rng.randint(2, TASKS_MAX)
    sizes = [1] * count
    if count < TASKS_MAX:
        sizes[rng.randrange(count)] += 1
    names = [f"r{number}" for number in range(count)]
    roles = [
        Role(name, size, command=_command(rng), launch=launch)
        for name, size, launch in zip(names, sizes, _LAUNCHES, strict=False)
    ]
    if rng.random() < 0.4:
        beside = rng.choice(names[1:])
        roles.insert(0, Role("m", 0, command=_command(rng), attach=(beside,),
                             launch=LaunchType.TASKS))  # fmt: skip
    relations = _relations(rng, roles)
    if is_spread:
        relations = _bear_losses(rng, roles, relations)
    inits = {name for one in relations if one.kind is _K.INIT_OF for name in one.source}
    roles = [
        msgspec.structs.replace(role, ready=Probe("tcp", "80", SECOND_US // 4, SECOND_US, 9))
        if role.name not in inits and rng.random() < 0.4
        else role
        for role in roles
    ]
    parts = tuple(
        Part(name, size, Request(tasks_min=size, tasks_max=size, ptile=int(is_spread)))
        for name, size in zip(names, sizes, strict=True)
    )
    made = msgspec.structs.replace(
        spec, roles=tuple(roles), relations=relations, runs_by_roles=True
    )
    return made, Request(tasks_min=sum(sizes), tasks_max=sum(sizes), parts=parts)


def _command(rng: Random) -> str:
    micros = rng.choice((50_000, 500_000, 2_000_000))
    return f"run {micros} {rng.choice((0, 0, 0, 0, 2))}"


def _relations(rng: Random, roles: list[Role]) -> tuple[Relation, ...]:
    """Return relations in which roles wait for those before them, and the fates of some."""
    found: list[Relation] = []
    init: set[str] = set()
    beside: set[str] = set()
    waiting: set[str] = set()
    """What may never begin, so that it is done without as a sidecar."""
    for later in range(1, len(roles)):
        first, then = roles[rng.randrange(later)].name, roles[later].name
        kind = rng.choice((_K.INIT_OF, _K.SIDECAR_OF, _K.READY_AFTER, _K.AFTER, _K.WITH, None))
        is_taken = first in init or first in beside or first in waiting
        if kind is _K.INIT_OF and first not in beside:
            init.add(first)
            found.append(Relation(kind, (first,), (then,)))
        elif kind is _K.SIDECAR_OF and not is_taken and then not in beside:
            beside.add(first)
            params = (("restart", rng.choice(("always", "never", "on-failure"))),)
            found.append(Relation(kind, (first,), (then,), params=params))
        elif kind is _K.READY_AFTER and first not in init:
            found.append(Relation(kind, (then,), (first,), params=(("timeout", "3s"),)))
        elif kind is _K.AFTER and first not in beside:
            params = (("outcome", rng.choice(("done", "ended"))),)
            found.append(Relation(kind, (then,), (first,), params=params))
        elif kind is _K.WITH:
            found.append(Relation(kind, roles=(first, then)))
        waiting.add(then)
    for role in roles:
        if rng.random() < 0.4 and role.name not in init:
            found.append(_fate(rng, role.name))
    return tuple(found)


def _bear_losses(
    rng: Random, roles: list[Role], relations: tuple[Relation, ...]
) -> tuple[Relation, ...]:
    """Return relations of which most bear the loss of a host that only has a role's later tasks."""
    known = {name for one in relations if one.kind in (_K.FATE, _K.INIT_OF)
             for name in one.subjects}  # fmt: skip
    found = tuple(
        Relation(_K.FATE, roles=(role.name,), params=(("policy", "tolerate"),))
        for role in roles
        if role.count > 1 and role.name not in known and rng.random() < 0.7
    )
    return (*relations, *found)


def _fate(rng: Random, name: str) -> Relation:
    policy = rng.choice(("fail-together", "restart-member", "tolerate"))
    more = (("back_off", "1s"),) if policy == "restart-member" else ()
    return Relation(_K.FATE, roles=(name,), params=(*more, ("policy", policy)))
