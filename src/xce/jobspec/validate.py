"""Does a jobspec make sense? Each relation that does not is named, with the reason.

What is refused here could never hold, whatever the hosts do. What only does not fit today pends.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from xce.config.document import Place
from xce.config.report import render_allowed
from xce.jobspec.constraints import NVLINK, OWN_LEVEL, levels_of, scope_of
from xce.jobspec.document import Spec
from xce.jobspec.relations import is_outside
from xce.model.config import ClusterConfig
from xce.model.relation import LIFECYCLE, PLACING, Relation, RelationKind
from xce.model.request import Request


class _Check:
    """A jobspec under examination."""

    def __init__(self, spec: Spec, request: Request, config: ClusterConfig) -> None:
        self.spec, self.request, self.config = spec, request, config
        self.levels = levels_of(config)
        self.forms = [one.request for one in request.alternatives] or [request]
        self.parts = {part.name: part.request for form in self.forms for part in form.parts}
        self.attached = {role.name: role for role in spec.roles if role.attach}
        names = [role.name for role in spec.roles] or list(self.parts) or ["part0"]
        self.names = dict.fromkeys(names)
        if not self.parts:
            self.parts = dict.fromkeys(self.names, request)

    def tasks(self, name: str) -> int:
        """Return the fewest tasks of a role."""
        return min(
            (part.tasks for form in self.forms for part in form.parts if part.name == name),
            default=self.request.tasks_min,
        )

    def depth(self, scope: str) -> int:
        """Return how wide a level is: -1 for inside a host, 0 for hosts."""
        return -1 if scope == NVLINK else self.levels.index(scope)


def check_spec(spec: Spec, request: Request, config: ClusterConfig) -> None:
    """Report everything in a jobspec that can never hold.

    Args:
        spec: What was read.
        request: What its roles ask for.
        config: The levels of domains, and which hosts lie where.
    """
    check = _Check(spec, request, config)
    _check_attached(check)
    for number, relation in enumerate(spec.relations):
        _check_names(check, relation, spec.relation_place(number))
        _check_scope(check, relation, spec.relation_place(number))
    if any(place.report.problems for place in spec.places):
        return
    _check_alternatives(check)
    _check_contradictions(check)
    _check_outside(check)
    _check_cycles(check)


def title(number: int, relation: Relation) -> str:
    """Return how a relation is called: its place and what it says."""
    arrow = f"{', '.join(relation.source)} -> {', '.join(relation.target)}"
    who = ", ".join(relation.roles) if relation.roles else arrow
    scope = f" scope={relation.scope}" if relation.scope else ""
    return f"relation {number + 1} ({relation.kind.value} {who}{scope})"


def _check_attached(check: _Check) -> None:
    for number, role in enumerate(check.spec.roles):
        place = check.spec.role_place(number)
        for name in role.attach:
            if name not in check.names:
                place.problem(
                    f"role {role.name!r} is attached to {name!r}, which is no role; "
                    f"{render_allowed(name, check.names)}"
                )
            elif name in check.attached:
                place.problem(
                    f"role {role.name!r} is attached to {name!r}, which is attached itself"
                )


def _check_names(check: _Check, relation: Relation, place: Place) -> None:
    for name in relation.subjects:
        if is_outside(name):
            continue
        if name not in check.names:
            place.problem(
                f"{relation.kind.value} names {name!r}, which is no role of this job; "
                f"{render_allowed(name, check.names)}"
            )
        elif name in check.attached and relation.kind in PLACING:
            place.problem(
                f"{relation.kind.value} names {name!r}, which is attached and lies where "
                f"{', '.join(check.attached[name].attach)} lie"
            )
    inside = [name for name in relation.subjects if not is_outside(name)]
    lonely = relation.kind in (RelationKind.WITH, RelationKind.EXCHANGE)
    if lonely and len(inside) < 2:
        place.problem(f"{relation.kind.value} needs two roles")


def _check_scope(check: _Check, relation: Relation, place: Place) -> None:
    """Report a scope that is none, or in which no host lies."""
    if relation.kind not in PLACING:
        return
    scope = scope_of(relation, check.config)
    word = relation.kind.value
    if word == "exchange" and relation.param("channel", "network") in ("shm", "localdisk"):
        if relation.scope not in ("", OWN_LEVEL):
            place.problem(
                f"exchange over {relation.param('channel')} needs one host, not one {scope}"
            )
        if not relation.required:
            place.problem(
                f"exchange over {relation.param('channel')} works on one host only, so it cannot "
                "be preferred"
            )
    if relation.kind is RelationKind.ISOLATE and not relation.required:
        place.problem("isolate cannot be preferred: it is required, or not asked for")
    if not scope or scope == OWN_LEVEL:
        return
    if scope == NVLINK:
        _check_nvlink(check, relation, place)
        return
    if scope not in check.levels:
        place.problem(
            f"{word}: {scope!r} is no scope; {render_allowed(scope, (*check.levels, NVLINK))}"
        )
    elif not any(scope in host.labels for host in check.config.hosts):
        place.problem(f"{word}: no host of this cluster lies in a {scope}")


def _check_nvlink(check: _Check, relation: Relation, place: Place) -> None:
    """Report a relation to NVLink domains of what has no GPUs there."""
    if relation.kind is not RelationKind.COLOCATE:
        place.problem(f"{relation.kind.value} has no scope nvlink: only colocate has")
    for name in _inside(relation):
        request = check.parts.get(name)
        if request is not None and (request.gpu is None or not request.gpu.is_whole):
            place.problem(
                f"colocate scope=nvlink names {name!r}, which asks for no whole GPUs: give it "
                "rusage[gpu=n]"
            )


def _check_alternatives(check: _Check) -> None:
    """Report an alternative that lacks a role which a required relation names."""
    if len(check.forms) < 2:
        return
    for number, relation in enumerate(check.spec.relations):
        if relation.kind in PLACING and not relation.required:
            continue
        for place, form in enumerate(check.forms, 1):
            names = {part.name for part in form.parts} or {"part0"}
            for name in relation.subjects:
                if not is_outside(name) and name not in names | set(check.attached):
                    check.spec.relation_place(number).problem(
                        f"{title(number, relation)} is required and names {name!r}, which "
                        f"alternative {place} does not have"
                    )


# Contradictions.


def _required(check: _Check, *kinds: RelationKind) -> Iterator[tuple[int, Relation, str]]:
    """Yield the relations of some kinds that must hold for ever, with their scopes."""
    for number, relation in enumerate(check.spec.relations):
        if relation.kind in kinds and relation.required and not relation.param("relax_after"):
            scope = scope_of(relation, check.config)
            if scope:
                yield number, relation, scope


def _inside(relation: Relation) -> list[str]:
    return [name for name in relation.subjects if not is_outside(name)]


def _bundles(check: _Check, depth: int) -> list[tuple[set[str], str]]:
    """Return sets of roles that lie in one domain of a level, and by what."""
    found: list[tuple[set[str], str]] = []
    for number, relation, scope in _required(check, RelationKind.COLOCATE, RelationKind.EXCHANGE):
        if check.depth(scope) <= depth:
            found.append((set(_inside(relation)), title(number, relation)))
    for name, request in check.parts.items():
        if request.one_host or request.hosts_max == 1:
            found.append(({name}, f"span[hosts=1] of role {name}"))
        elif request.cu is not None and request.cu.max_domains == 1 and not request.cu.max_wait_us:
            level = check.config.domain_level(request.cu.level)
            if level in check.levels and check.depth(level) <= depth:
                found.append(({name}, f"cu[maxcus=1] of role {name}"))
    return _joined(found)


def _joined(found: Sequence[tuple[set[str], str]]) -> list[tuple[set[str], str]]:
    """Return the sets, those that share a role made one."""
    joined: list[tuple[set[str], str]] = []
    for roles, why in found:
        apart = []
        for others, other_why in joined:
            if roles & others:
                roles, why = roles | others, f"{other_why} with {why}"
            else:
                apart.append((others, other_why))
        joined = [*apart, (roles, why)]
    return joined


def _check_contradictions(check: _Check) -> None:
    """Report a spread that something which must lie together breaks."""
    for number, relation, scope in _required(check, RelationKind.SPREAD):
        if any(is_outside(name) for name in relation.subjects):
            continue
        most = int(relation.param("max_per_domain", "1"))
        mine = set(_inside(relation))
        place = check.spec.relation_place(number)
        for roles, why in _bundles(check, check.depth(scope)):
            tasks = sum(check.tasks(name) for name in roles & mine)
            if tasks > most:
                place.problem(
                    f"{title(number, relation)} allows {most} of {', '.join(sorted(roles & mine))} "
                    f"in one {scope}, and {why} puts all {tasks} tasks into one: they contradict "
                    "each other"
                )
                break
        for name in sorted(mine):
            request = check.parts.get(name)
            least = 0 if request is None else _least_on_host(request, check.tasks(name))
            if least > most:
                place.problem(
                    f"{title(number, relation)} allows {most} in one {scope}, and span[] of role "
                    f"{name} puts {least} tasks on a host: they contradict each other"
                )


def _least_on_host(request: Request, tasks: int) -> int:
    """Return how many tasks ``span[]`` puts on some host at least."""
    if request.block:
        return min(request.block, tasks)
    if request.ptile > 0 and not request.ptile_by_type:
        return min(request.ptile, tasks)
    return 1


def _check_outside(check: _Check) -> None:
    """Report what cannot be both near to something outside and apart from it."""
    near = [
        (number, relation, check.depth(scope), name)
        for number, relation, scope in _required(check, RelationKind.COLOCATE, RelationKind.SPREAD)
        for name in relation.subjects
        if is_outside(name)
    ]
    alone = [
        (number, relation, check.depth(scope))
        for number, relation, scope in _required(check, RelationKind.ISOLATE)
    ]
    for number, relation, depth, name in near:
        if relation.kind is RelationKind.SPREAD:
            continue
        place = check.spec.relation_place(number)
        for other, apart, wide, subject in near:
            shared = set(_inside(relation)) & set(_inside(apart))
            if apart.kind is RelationKind.SPREAD and subject == name and depth <= wide and shared:
                place.problem(
                    f"{title(number, relation)} and {title(other, apart)} contradict each other"
                )
        for other, isolate, wide in alone:
            if depth <= wide and set(_inside(relation)) & set(_inside(isolate)):
                place.problem(
                    f"{title(number, relation)} wants to be with another job, and "
                    f"{title(other, isolate)} wants none there: they contradict each other"
                )


# Order.


def _check_cycles(check: _Check) -> None:
    """Report roles that would wait for each other."""
    together = _starts_together(check.spec.relations)

    def one(name: str) -> str:
        return together.get(name, name)

    waits: dict[str, dict[str, int]] = {}
    for number, relation in enumerate(check.spec.relations):
        for first, then in _orders(relation):
            waits.setdefault(one(then), {}).setdefault(one(first), number)
    cycle = _find_cycle(waits)
    if cycle:
        numbers = [waits[then][first] for then, first in pairwise(cycle)]
        named = "; ".join(
            title(number, check.spec.relations[number]) for number in dict.fromkeys(numbers)
        )
        check.spec.relation_place(numbers[0]).problem(
            f"{' waits for '.join(cycle)}: nobody could begin ({named})"
        )


def _orders(relation: Relation) -> Iterator[tuple[str, str]]:
    """Yield who begins before whom."""
    if relation.kind not in LIFECYCLE:
        return
    pairs = [(source, target) for source in relation.source for target in relation.target]
    for source, target in pairs:
        if relation.kind in (RelationKind.INIT_OF, RelationKind.SIDECAR_OF):
            yield source, target
        elif relation.kind in (RelationKind.AFTER, RelationKind.READY_AFTER):
            yield target, source


def _starts_together(relations: Sequence[Relation]) -> dict[str, str]:
    """Return who stands for a role: the first of those that start together with it."""
    found: dict[str, str] = {}
    for relation in relations:
        if relation.kind is not RelationKind.WITH:
            continue
        names = [found.get(name, name) for name in relation.subjects]
        first = min(names)
        for name in relation.subjects:
            found.setdefault(name, first)
        found = {name: first if stand in names else stand for name, stand in found.items()}
    return found


def _find_cycle(waits: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return names that lead back to the first of them, or nothing."""
    done: set[str] = set()
    for start in waits:
        path: list[str] = []
        stack: list[tuple[str, Iterator[str]]] = [(start, iter(waits.get(start, ())))]
        path.append(start)
        while stack:
            name, others = stack[-1]
            found = next((other for other in others if other not in done), None)
            if found is None:
                done.add(name)
                stack.pop()
                path.pop()
            elif found in path:
                return [*path[path.index(found) :], found]
            else:
                path.append(found)
                stack.append((found, iter(waits.get(found, ()))))
    return []
