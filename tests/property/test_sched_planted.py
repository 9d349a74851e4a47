"""A placement is hidden in a cluster of up to 32 hosts that has room for little else.

It is found, but for one in a hundred, whose reason is that the bound of the search was hit. Beyond
what brute force can try: up to eight roles, three levels, relations at several of them.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relations import QUEUE

from xce.model.config import HostConfig
from xce.model.constraint import Colocate, Constraint, Spread
from xce.model.reason import ReasonCode
from xce.model.request import Amount, Part, Request
from xce.sched.session import run_session
from xce.testing.builders import cluster, submission, submit
from xce.testing.recorded import accept_plan

LEVELS = ("switch", "block", "rack")


class Hidden:
    """A cluster and a request that fits into it."""

    def __init__(self, rng: random.Random) -> None:
        count = rng.randint(4, 32)
        self.labels = [self._label(rng, number) for number in range(count)]
        names = "abcdefgh"[: rng.randint(1, 8)]
        self.memory = {name: rng.choice([0, 0, 1, 3, 4]) for name in names}
        self.lie = {name: self._lay(rng, count) for name in names}
        self.names = list(names)
        self.hosts = self._hosts(rng, count)
        self.request = self._request(rng)

    def _label(self, rng: random.Random, number: int) -> dict[str, str]:
        switch = number // 3
        return {"switch": f"s{switch}", "block": f"b{switch // 2}", "rack": f"r{switch // 5}"}

    def _lay(self, rng: random.Random, count: int) -> dict[int, int]:
        """Return the tasks of a role by host, near a host of its own."""
        first = rng.randrange(count)
        near = range(max(0, first - 2), min(count, first + 3))
        tasks: dict[int, int] = {}
        for _ in range(rng.randint(1, 6)):
            host = rng.choice(list(near))
            tasks[host] = tasks.get(host, 0) + 1
        return tasks

    def _hosts(self, rng: random.Random, count: int) -> list[HostConfig]:
        slots, memory = [0] * count, [0] * count
        for name, tasks in self.lie.items():
            for host, size in tasks.items():
                slots[host] += size
                memory[host] += size * self.memory[name]
        for host in range(count):
            if rng.random() < 0.2:
                slots[host] += rng.randint(0, 2)
                memory[host] += rng.randint(0, 3)
        return [
            HostConfig(name=f"h{at}", slots=slots[at], mem_mib=memory[at], labels=self.labels[at])
            for at in range(count)
        ]

    def _domains(self, names: list[str], level: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for name in names:
            for host, size in self.lie[name].items():
                domain = f"h{host}" if level == "host" else self.labels[host][level]
                found[domain] = found.get(domain, 0) + size
        return found

    def _request(self, rng: random.Random) -> Request:
        parts = []
        for name in self.names:
            size = sum(self.lie[name].values())
            amounts = (Amount("mem", self.memory[name]),) if self.memory[name] else ()
            parts.append(Part(name, size, Request(size, size, amounts=amounts)))
        found: list[Constraint] = []
        for number in range(rng.randint(1, 8)):
            names = rng.sample(self.names, rng.randint(1, min(3, len(self.names))))
            level = rng.choice(["host", *LEVELS])
            domains = self._domains(names, level)
            if len(domains) == 1:
                found.append(Colocate(number, tuple(sorted(names)), (level,)))
            else:
                most = max(domains.values()) + rng.choice([0, 0, 1])
                found.append(Spread(number, tuple(sorted(names)), level, most))
        total = sum(part.tasks for part in parts)
        return Request(total, total, parts=tuple(parts), constraints=tuple(found))


def finds(seed: int) -> bool:
    """Return whether it is found; else the bound of the search must have been hit."""
    hidden = Hidden(random.Random(seed))
    controller = cluster(hidden.hosts, queues=[QUEUE], levels=LEVELS)
    job = submit(controller, submission(asks=hidden.request))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    if controller.job(job).live:
        return True
    reason = controller.state.classes[controller.job(job).cls].reason
    assert reason.code is ReasonCode.SEARCH, reason
    return False


def test_hardly_any_of_them_is_missed():
    assert sum(not finds(seed) for seed in range(150)) <= 3


@pytest.mark.long
@pytest.mark.timeout(7_200)
@settings(max_examples=3_000, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 32))
def test_nothing_is_said_to_be_impossible_that_is_not(seed: int):
    finds(seed)
