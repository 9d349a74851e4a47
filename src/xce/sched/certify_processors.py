"""Are these the processors that ``affinity[]`` asks for? Checked one by one with sets of numbers.

Like `xce.sched.certify` it shares no code with the allocator. Whether they are free is told by the
sets that are held.
"""

from collections.abc import Sequence
from itertools import combinations

from xce.model.ids import HostNumber
from xce.model.processor import WORD_BITS, Processor
from xce.model.request import Request
from xce.resreq.affinity import parse_affinity
from xce.resreq.ast import Affinity
from xce.state.hosts import HostTable

Numbers = frozenset[int]
_WIDER = {"numa": 3, "socket": 2, "core": 1, "thread": 0}


def find_processor_faults(
    roles: Sequence[Request],
    numbers: Sequence[HostNumber],
    sizes: Sequence[int],
    parts: Sequence[int],
    processors: Sequence[Sequence[int]],
    table: HostTable,
) -> list[str]:
    """Return what is wrong with the processors of a placement; nothing: they are as asked.

    Args:
        roles: The simple request of each role.
        numbers: Hosts in rank order.
        sizes: Tasks of each entry.
        parts: The role of each entry; empty: there is one.
        processors: The processors of each entry, see `xce.model.plan.GangStart`.
        table: The hosts.
    """
    owners = list(parts) or [0] * len(numbers)
    if not any(role.affinity for role in roles):
        return ["processors that nobody asked for"] if any(processors) else []
    if len(processors) != len(numbers):
        return ["processors are not said for each entry"]
    faults: list[str] = []
    given: dict[HostNumber, Numbers] = {}
    units: dict[HostNumber, list[tuple[Affinity, Numbers]]] = {}
    for number, size, owner, words in zip(numbers, sizes, owners, processors, strict=True):
        text = roles[owner].affinity
        name = table.names[number]
        if not text:
            faults += [f"processors of host {name} that nobody asked for"] if words else []
            continue
        if (
            not words
            or len(words) % (size + 1)
            or not all(0 <= word < 1 << WORD_BITS for word in words)
        ):
            faults.append(f"processors of host {name} are not said for each task")
            continue
        held, *bound = _sets(words, size)
        if held & given.get(number, frozenset()):
            faults.append(f"processors of host {name} are given to two parts")
        given[number] = held | given.get(number, frozenset())
        there = table.processors.by_number(number)
        if not all(some <= there.keys() for some in (held, *bound)):
            faults.append(f"processors of host {name} are not there")
            continue
        wish = parse_affinity(text)
        units.setdefault(number, []).append((wish, frozenset().union(*bound)))
        why = _fault_of_entry(wish, held, bound, there)
        faults += [f"processors of host {name}: {why}"] if why else []
    for number, some in units.items():
        if _share_domains(some, table.processors.by_number(number)):
            faults.append(f"parts share what one has for itself on host {table.names[number]}")
    return faults


def _share_domains(
    entries: Sequence[tuple[Affinity, Numbers]], there: dict[int, Processor]
) -> bool:
    """Return whether a part of the job has units where another one wants to be without it."""
    for place, (wish, mine) in enumerate(entries):
        if wish.exclusive and wish.scope == "injob":
            own = _domains(mine, wish.exclusive, there)
            others = [units for at, (_, units) in enumerate(entries) if at != place]
            if any(own & _domains(units, wish.exclusive, there) for units in others):
                return True
    return False


def _sets(words: Sequence[int], tasks: int) -> list[Numbers]:
    each = len(words) // (tasks + 1)
    return [
        frozenset(
            WORD_BITS * place + bit
            for place in range(each)
            for bit in range(WORD_BITS)
            if words[first + place] >> bit & 1
        )
        for first in range(0, len(words), each)
    ]


def _fault_of_entry(
    wish: Affinity, held: Numbers, bound: Sequence[Numbers], there: dict[int, Processor]
) -> str:
    """Return what is wrong with what tasks have on one host; empty: nothing."""
    is_alone = bool(wish.exclusive) and wish.scope in ("alljobs", "")
    if is_alone:
        domains = {there[number].place(wish.exclusive) for number in frozenset().union(*bound)}
        own = {number for number, item in there.items() if item.place(wish.exclusive) in domains}
        if held != own:
            return f"a {wish.exclusive} is not held as a whole"
    elif held != frozenset().union(*bound):
        return "tasks have others than are held"
    for one, other in combinations(bound, 2):
        if one & other:
            return "two tasks have one processor"
        if (
            wish.exclusive
            and wish.scope != "intask"
            and _domains(one, wish.exclusive, there) & (_domains(other, wish.exclusive, there))
        ):
            return f"two tasks share a {wish.exclusive}"
    if wish.distribute_count:
        used = _domains(frozenset().union(*bound), wish.distribute_level, there)
        if len(used) > wish.distribute_count:
            return f"tasks lie in {len(used)} {wish.distribute_level} domains"
    for some in bound:
        why = _fault_of_task(wish, some, there)
        if why:
            return why
    return ""


def _domains(some: Numbers, level: str, there: dict[int, Processor]) -> set[int]:
    return {there[number].place(level) for number in some}


def _fault_of_task(wish: Affinity, some: Numbers, there: dict[int, Processor]) -> str:
    """Return what is wrong with what one task has; empty: nothing."""
    level = wish.unit
    whole: dict[int, set[int]] = {}
    for number, item in there.items():
        whole.setdefault(item.place(level), set()).add(number)
    units = [frozenset(whole[place]) for place in sorted(_domains(some, level, there))]
    if frozenset().union(*units) != some:
        return f"a task has a part of a {level}"
    if len(units) != wish.count * wish.repeat:
        return f"a task has {len(units)} {level} units, not {wish.count * wish.repeat}"
    if wish.same:
        if any(len(_domains(unit, wish.same, there)) > 1 for unit in units):
            return f"a {level} lies in several {wish.same} domains"
        if any(count % wish.count for count in _counts(units, wish.same, there)):
            return f"units of a group lie in several {wish.same} domains"
    is_apart = wish.scope == "intask" and _WIDER[wish.exclusive] > _WIDER[level]
    if is_apart and max(_counts(units, wish.exclusive, there)) > 1:
        return f"two units of a task share a {wish.exclusive}"
    return ""


def _counts(units: Sequence[Numbers], level: str, there: dict[int, Processor]) -> list[int]:
    """Return how many units lie in each domain in which any lies."""
    counts: dict[int, int] = {}
    for unit in units:
        for place in _domains(unit, level, there):
            counts[place] = counts.get(place, 0) + 1
    return list(counts.values())
