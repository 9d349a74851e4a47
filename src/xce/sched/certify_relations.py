"""Does a placement keep what relations ask? Checked entry by entry with names of domains.

It shares no code with the search, so that a mistake in one is seen by the other. The controller
asks it about every placement of a plan whose request has constraints.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from xce.model.config import LEVELS, ClusterConfig
from xce.model.constraint import Colocate, Constraint, Exclusive, Near, Proof, Spread
from xce.model.ids import HostNumber
from xce.state.hosts import HostTable
from xce.state.needs import Form

OWN_LEVEL: Final = "host"
LINK_LEVEL: Final = "nvlink"
LISTED_MAX: Final = 64
"""Most domains that a certificate lists for a constraint."""


class Placed(NamedTuple):
    """A placement, and what is around it."""

    form: Form
    numbers: Sequence[HostNumber]
    """Hosts in rank order."""
    tasks: Sequence[int]
    parts: Sequence[int]
    alone: Sequence[HostNumber]
    """Hosts that it says it has for itself."""
    proofs: Sequence[Proof]
    table: HostTable
    config: ClusterConfig
    where: Mapping[str, Collection[HostNumber]]
    """By job or group that a constraint names: its hosts; one that waits has none; one that is
    over, and a group without members, is not there."""
    busy: Collection[HostNumber]
    """Hosts on which another job runs."""
    devices: Sequence[Sequence[int]] = ()
    """The GPUs of each entry; empty: none."""


def find_relation_faults(placed: Placed) -> list[str]:
    """Return which constraints do not hold, and what is wrong with the certificate."""
    faults: list[str] = []
    expected: list[Proof] = []
    names = [part.name for part in placed.form.request.parts]
    for constraint in placed.form.request.constraints:
        places = [place for place, name in enumerate(names) if name in constraint.roles]
        if not places:
            continue
        proof, faulty = _examine(constraint, places, placed)
        expected.append(proof)
        faults += [f"relation {constraint.relation + 1}: {text}" for text in faulty]
    if list(placed.proofs) != expected:
        faults.append("the certificate does not say what is so")
    if sorted(placed.alone) != _alone(names, placed):
        faults.append("other hosts are kept for it than its relations ask")
    return faults + _faults_of_order(placed)


def _domain(number: HostNumber, level: str, placed: Placed) -> str:
    if level == OWN_LEVEL:
        return placed.table.names[number]
    return placed.table.config[number].labels.get(level, "")


def _examine(constraint: Constraint, places: list[int], placed: Placed) -> tuple[Proof, list[str]]:
    """Return what the certificate must say of a constraint, and why it does not hold."""
    entries = [
        (number, size)
        for number, size, part in zip(placed.numbers, placed.tasks, placed.parts, strict=True)
        if part in places
    ]
    levels = constraint.levels if isinstance(constraint, Colocate | Near) else (constraint.level,)
    required = isinstance(constraint, Exclusive) or constraint.required
    links = _links(places, placed) if LINK_LEVEL in levels else []
    chosen, faults = levels[0], _faults_at(constraint, levels[0], entries, placed)
    if chosen == LINK_LEVEL:
        faults = _faults_of_links(links, entries)
    is_met = not faults
    for level in levels[1:] if not is_met and not required else ():
        if not _faults_at(constraint, level, entries, placed):
            chosen, is_met = level, True
            break
    counts: Counter[str] = Counter()
    if chosen == LINK_LEVEL:
        counts.update(links)
    else:
        for number, size in entries:
            counts[_domain(number, chosen, placed)] += size
    listed, most = list(counts), 0
    if isinstance(constraint, Spread):
        listed.sort(key=lambda name: -counts[name])
        most = max(counts.values())
    proof = Proof(
        constraint.relation, _kind(constraint), chosen, tuple(listed[:LISTED_MAX]), most, is_met
    )
    return proof, faults if required else []


def _links(places: list[int], placed: Placed) -> list[str]:
    """Return the NVLink domain of each GPU of some parts; one in none has one of its own."""
    found: list[str] = []
    rows = zip(placed.numbers, placed.parts, placed.devices, strict=bool(placed.devices))
    for number, part, devices in rows if placed.devices else ():
        known = placed.table.devices.hosts[number].devices
        for place in devices if part in places else ():
            link = known[place].link
            name = f"{placed.table.names[number]}/{link}"
            found.append(name if link >= 0 else f"{name}/{place}")
    return found


def _faults_of_links(links: Sequence[str], entries: Sequence[tuple[HostNumber, int]]) -> list[str]:
    if len(set(links)) != 1 or len({number for number, _ in entries}) != 1:
        return ["GPUs lie in more than one NVLink domain, or there are none"]
    return []


def _kind(constraint: Constraint) -> str:
    match constraint:
        case Colocate():
            return "colocate"
        case Spread():
            return "spread"
        case Near():
            return "near"
        case Exclusive():
            return "exclusive"


def _faults_at(
    constraint: Constraint,
    level: str,
    entries: Sequence[tuple[HostNumber, int]],
    placed: Placed,
) -> list[str]:
    domains = [_domain(number, level, placed) for number, _ in entries]
    match constraint:
        case Colocate():
            if "" in domains or len(set(domains)) != 1:
                return [f"tasks lie in more than one {level}, or in none"]
        case Spread(max_per_domain=most):
            sums: Counter[str] = Counter()
            for (_, size), domain in zip(entries, domains, strict=True):
                sums[domain] += size
            if "" in sums or max(sums.values()) > most:
                return [f"more than {most} tasks in one {level}, or one in none"]
        case Near(subject=subject, is_apart=is_apart):
            return _faults_of_near(subject, level, domains, placed, is_apart=is_apart)
        case Exclusive():
            if "" in domains:
                return [f"a task lies in no {level}"]
            shared = {_domain(number, level, placed) for number in placed.busy} & set(domains)
            if shared:
                return [f"another job is in {level} {min(shared)}"]
    return []


def _faults_of_near(
    subject: str, level: str, domains: Sequence[str], placed: Placed, *, is_apart: bool
) -> list[str]:
    others = placed.where.get(subject)
    if others is None:
        return []
    theirs = {_domain(number, level, placed) for number in others} - {""}
    if is_apart:
        if theirs & set(domains) or (others and "" in domains):
            return [f"{subject} is in the same {level}"]
        return []
    if not set(domains) <= theirs:
        return [f"{subject} is not in that {level}"]
    return []


def _alone(names: Sequence[str], placed: Placed) -> list[HostNumber]:
    """Return the hosts that nobody else may have, rising."""
    found: set[HostNumber] = set()
    for constraint in placed.form.request.constraints:
        if not isinstance(constraint, Exclusive):
            continue
        used = {
            _domain(number, constraint.level, placed)
            for number, part in zip(placed.numbers, placed.parts, strict=True)
            if names[part] in constraint.roles
        }
        found.update(
            number
            for number in range(placed.table.count)
            if _domain(number, constraint.level, placed) in used - {""}
        )
    return sorted(found)


def _faults_of_order(placed: Placed) -> list[str]:
    """Return at which levels ranks of one domain do not stand together.

    It may be so where a role's first host carries more than others: that one stays in front then.
    """
    needs = placed.form.needs
    has_first = any(need.per_job.any() for need in needs) or any(
        role.gpu is not None for role in placed.form.roles
    )
    if has_first and list(placed.parts) == sorted(placed.parts):
        return []
    levels = (OWN_LEVEL, *(placed.config.levels or LEVELS))
    rows = [[_domain(number, level, placed) for level in levels] for number in placed.numbers]
    faults = []
    for depth, level in enumerate(levels):
        around: dict[str, set[tuple[str, ...]]] = {}
        for row in rows:
            around.setdefault(row[depth], set()).add(tuple(row[depth + 1 :]))
        column = [row[depth] for row in rows]
        nested = all(len(outer) == 1 for outer in around.values())
        runs = 1 + sum(one != other for one, other in pairwise(column))
        if nested and runs != len(set(column)):
            faults.append(f"ranks of one {level} do not stand together")
    return faults
