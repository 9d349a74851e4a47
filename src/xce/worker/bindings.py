"""What a job's environment says of its processors, and what it is bound to. Pure."""

from collections.abc import Iterable

from xce.model.effect import Launch
from xce.model.ids import Index
from xce.model.processor import Binding, parse_list

_POLICY_NUMBERS = {True: 1, False: 2}
"""How the host file writes ``localonly`` and ``localprefer``."""


def bindings_at(launch: Launch, index: Index) -> tuple[Binding, ...]:
    """Return the processors of one element on each of the launch's hosts; none: on any."""
    if not launch.bindings:
        return ()
    place = launch.indices.index(index)
    return launch.bindings[place] if place < len(launch.bindings) else ()


def binding_environment(launch: Launch, index: Index, entry: int = 0) -> dict[str, str]:
    """Return the variables about processors of one element; a job that asks for none sees none.

    They are about one host, as it stands in the launch.
    """
    bindings = bindings_at(launch, index)
    if entry >= len(bindings):
        return {}
    mine = bindings[entry]
    found = {
        "LSB_BIND_CPU_LIST": _plain(mine.tasks),
        "XCE_BIND_KIND": "told-only" if mine.is_told_only else "applied",
    }
    found |= {f"RM_CPU_TASK{place}": _plain([one]) for place, one in enumerate(mine.tasks, 1)}
    nodes = _nodes_of_all(mine)
    if nodes:
        found["LSB_BIND_MEM_LIST"] = ",".join(map(str, nodes))
        found["LSB_BIND_MEM_POLICY"] = "localonly" if mine.is_local_only else "localprefer"
    return found


def affinity_hostfile(launch: Launch, index: Index) -> str:
    """Return a line for each task: its host, its processors, and what its memory is bound to."""
    lines = []
    for (host, _), binding in zip(launch.hosts, bindings_at(launch, index), strict=False):
        for task, (processors, nodes) in enumerate(zip(binding.tasks, binding.nodes, strict=True)):
            words = [host, _plain([processors])]
            if nodes:
                words += [_plain([nodes]), str(_POLICY_NUMBERS[binding.keeps_local(task)])]
            lines.append(" ".join(words) + "\n")
    return "".join(lines)


def binding_order(
    launch: Launch, index: Index, entry: int = 0
) -> tuple[list[int], list[int], bool] | None:
    """Return the processors and NUMA domains that one element is bound to on a host, and whether
    it may take memory of these alone; None: it is bound to none.
    """
    bindings = bindings_at(launch, index)
    if entry >= len(bindings) or bindings[entry].is_told_only:
        return None
    mine = bindings[entry]
    return _numbers(mine.tasks), _nodes_of_all(mine), mine.is_local_only


def _nodes_of_all(binding: Binding) -> list[int]:
    """Return the NUMA domains that memory is bound to where all tasks have one shell; none, if any
    of them has memory of any domain.
    """
    return _numbers(binding.nodes) if all(binding.nodes) else []


def _numbers(lists: Iterable[str]) -> list[int]:
    return sorted({number for text in lists for number in parse_list(text)})


def _plain(lists: Iterable[str]) -> str:
    return ",".join(map(str, _numbers(lists)))
