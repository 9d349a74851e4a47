"""No GPU or processor is given out while another job has it: judged by what runs on each host."""

from collections import Counter
from collections.abc import Iterable, Mapping

from xce.model.device import WHOLE
from xce.model.effect import Launch
from xce.model.processor import parse_list
from xce.worker.action import Key
from xce.worker.bindings import bindings_at
from xce.worker.gpus import grants_at


def overfull_devices(
    host: str, running: Mapping[Key, tuple[str, Launch]], without: Iterable[Key] = ()
) -> list[str]:
    """Return the GPUs of a host of which more than all is in use, in words.

    Args:
        host: The host.
        running: What runs where, by attempt.
        without: Attempts that count for nothing.
    """
    left_out = set(without)
    used: Counter[str] = Counter()
    for key, (where, launch) in running.items():
        if where == host and key not in left_out:
            for grant in grants_at(launch, key[1]):
                used[grant.name] += grant.milli
    return [f"GPU {name} of host {host}" for name, milli in used.items() if milli > WHOLE]


def shared_processors(
    host: str, running: Mapping[Key, tuple[str, Launch]], without: Iterable[Key] = ()
) -> list[str]:
    """Return the processors of a host to which several tasks are bound, in words.

    The arguments are those of `overfull_devices`.
    """
    left_out = set(without)
    used: Counter[int] = Counter()
    for key, (where, launch) in running.items():
        is_near = launch.gpu is not None and launch.gpu.is_near
        # What is bound near to its GPUs has no processors of its own.
        if where == host and key not in left_out and not is_near:
            for binding in bindings_at(launch, key[1])[:1]:
                for processors in binding.tasks:
                    used.update(parse_list(processors))
    return [f"processor {number} of host {host}" for number, times in used.items() if times > 1]
