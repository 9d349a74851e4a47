"""Plans of steps, and a step that a test drives by hand."""

from typing import Any

from xce.step import core as c
from xce.step.plan import Plan, ProbePlan, RolePlan, TaskPlan, Wait

SECOND = 1_000_000
PROBE = ProbePlan("tcp", "80", SECOND, SECOND, 3)


def role(name: str, *hosts: int, **more: Any) -> RolePlan:
    """Return a role with one task on each of these hosts (one on the first without)."""
    tasks = tuple(TaskPlan(host, rank) for rank, host in enumerate(hosts or (0,)))
    return RolePlan(name, f"run {name}", tasks, **more)


def plan(*roles: RolePlan, hosts: int = 2) -> Plan:
    """Return a plan in which each role begins by itself unless it is in a group."""
    placed = [
        one if one.group else one._replace(group=100 + number) for number, one in enumerate(roles)
    ]
    return Plan(tuple(f"h{n}" for n in range(hosts)), tuple(placed), 10 * SECOND, "7")


def wait(role_number: int, until: str, timeout_s: int = 0) -> Wait:
    return Wait(role_number, until, f"{until} {role_number}", timeout_s * SECOND)


class Driven:
    """A step, with what it wanted so far."""

    def __init__(self, made: Plan, *, answered: bool = True) -> None:
        self.step = c.Step(made)
        self.now_us = 0
        self.actions: list[c.Action] = []
        self._note(self.step.begin(0))
        for host in range(len(made.hosts)) if answered else ():
            self.tell(c.HostReady(host))

    def _note(self, actions: list[c.Action]) -> list[c.Action]:
        self.actions += actions
        return actions

    def tell(self, event: c.Event) -> list[c.Action]:
        return self._note(self.step.take(event, self.now_us))

    def after(self, seconds: float) -> list[c.Action]:
        """Let time pass, doing all that comes due meanwhile."""
        until_us = self.now_us + int(seconds * SECOND)
        found: list[c.Action] = []
        while (due_us := self.step.next_due_us()) is not None and due_us <= until_us:
            self.now_us = max(self.now_us, due_us)
            found += self._note(self.step.tick(self.now_us))
        self.now_us = until_us
        return found

    def started(self, number: int, task: int = 0) -> list[c.Action]:
        return self.tell(c.Started(number, task, self.run(number, task)))

    def exited(self, number: int, task: int = 0, code: int = 0, signal: int = 0) -> list[c.Action]:
        return self.tell(c.Exited(number, task, self.run(number, task), code, signal))

    def ready(self, number: int, task: int = 0, *, is_ready: bool = True) -> list[c.Action]:
        return self.tell(c.Probed(number, task, self.run(number, task), is_ready, "refused"))

    def run(self, number: int, task: int = 0) -> int:
        return self.step.roles[number].tasks[task].run

    def starts(self) -> list[tuple[str, int, int]]:
        """Return the starts so far, as (role, task, run)."""
        roles = self.step.plan.roles
        return [(roles[a.role].name, a.task, a.run) for a in self.actions if isinstance(a, c.Start)]

    def signals(self) -> list[tuple[str, int, int]]:
        """Return the signals so far, as (role, task, number)."""
        roles = self.step.plan.roles
        return [
            (roles[a.role].name, a.task, a.number) for a in self.actions if isinstance(a, c.Signal)
        ]

    @property
    def end(self) -> c.Finish | None:
        found = [action for action in self.actions if isinstance(action, c.Finish)]
        assert len(found) < 2
        return found[0] if found else None
