"""No GPU is given to a process while another one has it: judged by what runs, host by host."""

from collections import Counter
from collections.abc import Iterable, Mapping

from xce.model.device import WHOLE
from xce.model.effect import Launch
from xce.worker.action import Key
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
