"""What a step looks at before anything begins: can the tasks of a role meet where they must?

Every host of such a role reaches the host of its first task at the port that is kept for it, and
has the GPUs that a task was given there. All roles and hosts are looked at side by side.
"""

import os
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from xce.client import tasks
from xce.client.preflight import PROBE, REACH_S
from xce.client.tasks import Task, TaskEvent
from xce.step import core
from xce.step.environment import Meeting
from xce.step.plan import Plan, TaskPlan

_SAID_MAX: Final = 1000


class Desk(Protocol):
    """What the step does for its preflight."""

    def question(self, host: int, word: Mapping[str, object], heard: Callable[[str], None]) -> None:
        """Ask the companion of a host; ``heard`` is given why not, empty: all is well."""
        ...

    def run_beside(self, argv: list[str], number: int, member: TaskPlan) -> Task:
        """Start a process where a member of a role will be, with what that has."""
        ...

    def tell(self, event: core.Event) -> None:
        """Let the step hear something."""
        ...


class Preflight:
    """Looks at the hosts of all roles whose tasks meet.

    Args:
        plan: What will run.
        meeting: Where the hosts are found; all have said so by now.
        desk: Carries it out.
    """

    def __init__(self, plan: Plan, meeting: Meeting, desk: Desk) -> None:
        self._plan = plan
        self._meeting = meeting
        self._desk = desk
        self._word = os.urandom(8).hex()
        self._left = plan.meetings()
        """The hosts of each role that are not done with it."""
        self._unseen = plan.meetings()
        """Those that have not reached its door."""
        self._lookers: dict[Task, tuple[int, int]] = {}
        self._said: dict[Task, bytes] = {}

    def begin(self) -> None:
        """Have all doors opened."""
        for number in list(self._left):
            self._ask(number, "open", self._look)

    def take(self, event: TaskEvent) -> None:
        """Take what happened to one of our processes; others are of no concern."""
        found = self._lookers.get(event.task)
        if found is None:
            return
        number, host = found
        match event.kind:
            case tasks.OUT:
                self._said[event.task] = (self._said[event.task] + event.content)[-_SAID_MAX:]
            case tasks.OVER:
                said = self._said[event.task].decode(errors="replace").strip()
                self._note(number, host, (said or f"exit code {event.code}") if event.code else "")
            case tasks.FAILED:
                self._note(number, host, event.content.decode(errors="replace"))
            case _:
                pass

    def _lead(self, number: int) -> int:
        return self._plan.roles[number].tasks[0].host

    def _ask(self, number: int, kind: str, then: Callable[[int], None]) -> None:
        """Have something done to the door of a role, and go on if it was."""
        host = self._lead(number)

        def heard(why: str) -> None:
            if why:
                self._desk.tell(core.HostChecked(host, why))
            else:
                then(number)

        port = self._meeting.doors[number]
        self._desk.question(host, {"kind": kind, "port": port, "word": self._word}, heard)

    def _look(self, number: int) -> None:
        """Try the door of a role from all its hosts."""
        address = self._meeting.addresses[self._lead(number)]
        port = str(self._meeting.doors[number])
        arguments = [address, port, self._word, str(REACH_S)]
        role = self._plan.roles[number]
        first: dict[int, TaskPlan] = {}
        for member in (*role.members, *role.tasks):
            first.setdefault(member.host, member)
        for member in first.values():
            argv = ["/bin/sh", "-c", PROBE, "probe", *arguments]
            looker = self._desk.run_beside(argv, number, member)
            self._lookers[looker] = (number, member.host)
            self._said[looker] = b""

    def _note(self, number: int, host: int, why: str) -> None:
        if why:
            self._desk.tell(core.HostChecked(host, why))
            return
        self._unseen[number].discard(host)
        if not self._unseen[number]:
            # Before anything begins: no task shall find us at its door.
            self._ask(number, "close", self._be_done)

    def _be_done(self, number: int) -> None:
        hosts = self._left.pop(number)
        for host in hosts - set().union(*self._left.values()):
            self._desk.tell(core.HostChecked(host, ""))
