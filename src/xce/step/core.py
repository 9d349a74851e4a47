"""The step state machine: which task begins when, and what becomes of the others. Pure.

Use: carry out the actions that `begin`, `take` and `tick` return, in their order; feed it what
happens (`take`) and the time (`tick`, not before `next_due_us`). The last action is `Finish`.

Rules:

1. Nothing begins before every host has answered, and has looked whether the tasks there can meet
   those that they must: all of the step starts, or it ends naming the host that is to blame.
2. A role begins when all that it waits for has happened, together with the roles of its group.
   Once begun it is not held back again.
3. At most one run of a task lives. A run that has ended badly is followed by another if its role
   says so, after a back-off; else the task has failed, and the job ends unless that is tolerated.
4. Sidecars end when all their parents are over, and behind them.
5. The first failure that ends the job is the one that is told.
"""

import heapq
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from xce.step.plan import Plan, Wait
from xce.step.task import Phase, Result, RoleState, Task

HOSTS_US: Final = 30_000_000
"""So long hosts may take to answer."""
TERM: Final = 15
KILL: Final = 9
FAILED_CODE: Final = 1
LOST_CODE: Final = 126
PREFLIGHT_CODE: Final = 125
"""The exit code of a job whose preflight has found something."""
GRACE_MIN_US: Final = 100_000


class OpenHost(NamedTuple):
    """Reach a host and say so: `HostReady`, else `HostLost`."""

    host: int


class CheckHost(NamedTuple):
    """Find out whether the tasks on a host can meet their own: `HostChecked`. All are ready now."""

    host: int


class Start(NamedTuple):
    """Start a run of a task: `Started` or `Failed`, at last `Exited`."""

    role: int
    task: int
    run: int


class Probe(NamedTuple):
    """Find out whether a task is ready: `Probed`."""

    role: int
    task: int
    run: int


class Signal(NamedTuple):
    """Send a signal to a run of a task; it may have ended just now."""

    role: int
    task: int
    run: int
    number: int


class Finish(NamedTuple):
    """Nothing is left to do: end with this exit code."""

    code: int
    detail: str
    """Who ended the job, for people; empty: it ended by itself, or was told to."""


class HostReady(NamedTuple):
    """A host answers."""

    host: int


class HostChecked(NamedTuple):
    """What a look at a host has found."""

    host: int
    why: str
    """What is wrong; empty: nothing is."""


class HostLost(NamedTuple):
    """A host cannot be reached, or cannot any more; what ran there counts as lost."""

    host: int
    why: str


class Started(NamedTuple):
    """A run has begun."""

    role: int
    task: int
    run: int


class Failed(NamedTuple):
    """A run could not begin, or nobody knows what became of it."""

    role: int
    task: int
    run: int
    why: str


class Exited(NamedTuple):
    """A run is over."""

    role: int
    task: int
    run: int
    code: int
    """128 + n when it died of signal n."""
    signal: int = 0


class Probed(NamedTuple):
    """What a probe has found."""

    role: int
    task: int
    run: int
    is_ready: bool
    why: str = ""


class EndAsked(NamedTuple):
    """The whole job is to end, by a signal that all its tasks have been sent."""

    signal: int


Action: TypeAlias = OpenHost | CheckHost | Start | Probe | Signal | Finish
Event: TypeAlias = (
    HostReady | HostChecked | HostLost | Started | Failed | Exited | Probed | EndAsked
)


class Step:
    """All tasks of a step."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.roles = [RoleState(number, role) for number, role in enumerate(plan.roles)]
        self._missing: set[int] = set()
        self._unchecked = set().union(*plan.meetings().values())
        self._lost: dict[int, str] = {}
        self._hosts_due_us = 0
        self._is_open = False
        """All hosts have answered, and nothing is wrong with them."""
        self._are_asked = False
        """They are being looked at."""
        self._ends = False
        """What runs is being ended."""
        self._is_told = False
        """It was told so by others."""
        self._end = Finish(0, "")
        self._is_finished = False
        self._due: list[tuple[int, int, int]] = []
        self._actions: list[Action] = []

    @property
    def is_finished(self) -> bool:
        """Whether the last action was given."""
        return self._is_finished

    def begin(self, now_us: int) -> list[Action]:
        """Reach the hosts."""
        self._missing = set(range(len(self.plan.hosts)))
        self._hosts_due_us = now_us + HOSTS_US
        self._actions += [OpenHost(host) for host in sorted(self._missing)]
        return self._settled(now_us)

    def take(self, event: Event, now_us: int) -> list[Action]:
        """Take what happened, and return what is to be done now."""
        if self._is_finished:
            return []
        match event:
            case HostReady(host):
                self._missing.discard(host)
            case HostChecked(host, why):
                self._note_check(host, why, now_us)
            case HostLost(host, why):
                self._lose(host, why, now_us)
            case EndAsked(number):
                self._is_told = True
                self._end_all(Finish(128 + number, ""), now_us)
            case _:
                self._take_task(event, now_us)
        return self._settled(now_us)

    def tick(self, now_us: int) -> list[Action]:
        """Do what is due."""
        late = self._missing or self._unchecked
        if late and self._hosts_due_us <= now_us and not self._ends:
            names = ", ".join(self.plan.hosts[host] for host in sorted(late))
            detail = f"no answer from {names} within {HOSTS_US // 1_000_000} s"
            self._end_all(Finish(FAILED_CODE, detail), now_us)
        while self._due and self._due[0][0] <= now_us:
            due_us, role, index = heapq.heappop(self._due)
            task = self.roles[role].tasks[index]
            if task.due_us == due_us:
                task.due_us = 0
                self._do_due(task, now_us)
        return self._settled(now_us)

    def next_due_us(self) -> int | None:
        """Return when `tick` has something to do; None: never, as things are."""
        if self._is_finished:
            return None
        while self._due:
            due_us, role, index = self._due[0]
            if self.roles[role].tasks[index].due_us == due_us:
                break
            heapq.heappop(self._due)
        due = [self._due[0][0]] if self._due else []
        if not self._is_open and not self._ends:
            due.append(self._hosts_due_us)
        due += [late_us for _, _, late_us in self._late()]
        return min(due, default=None)

    # Hosts.

    def _lose(self, host: int, why: str, now_us: int) -> None:
        if host in self._lost:
            return
        self._lost[host] = why
        self._missing.discard(host)
        if not self._is_open:
            detail = f"host {self.plan.hosts[host]} cannot be used: {why}"
            self._end_all(Finish(FAILED_CODE, detail), now_us)
        for role in self.roles:
            for task in role.tasks:
                if task.plan.host == host and task.phase is not Phase.OVER:
                    self._fail(task, FAILED_CODE, f"was lost with its host: {why}", now_us)

    def _note_check(self, host: int, why: str, now_us: int) -> None:
        self._unchecked.discard(host)
        if why and not self._is_open:
            detail = f"preflight: host {self.plan.hosts[host]}: {why}"
            self._end_all(Finish(PREFLIGHT_CODE, detail), now_us)

    # What happens to tasks.

    def _take_task(self, event: Started | Failed | Exited | Probed, now_us: int) -> None:
        role = self.roles[event.role]
        task = role.tasks[event.task]
        if task.run != event.run or task.phase in (Phase.OVER, Phase.WAITING, Phase.PAUSED):
            return
        match event:
            case Started():
                role.note_begun(task, now_us)
                if task.phase is Phase.STARTING:
                    role.move(task, Phase.RUNNING)
                    role.note_ready(task, is_ready=role.plan.probe is None)
                    if role.plan.probe is not None:
                        self._schedule(task, now_us)
            case Failed():
                role.note_begun(task, now_us)
                self._fail(task, LOST_CODE, event.why, now_us)
            case Probed():
                self._note_probe(task, event, now_us)
            case Exited():
                self._note_exit(task, event, now_us)

    def _note_probe(self, task: Task, seen: Probed, now_us: int) -> None:
        role = self.roles[task.role]
        probe = role.plan.probe
        if task.phase is not Phase.RUNNING or task.is_ready or probe is None:
            return
        if seen.is_ready:
            task.failures, task.why = 0, ""
            role.note_ready(task, is_ready=True)
            return
        task.failures += 1
        task.why = f"is not ready: {seen.why}"
        if probe.failures_max and task.failures >= probe.failures_max:
            task.fault = f"was not ready after {task.failures} probes: {seen.why}"
            self._stop(task, now_us)
        else:
            self._schedule(task, now_us + probe.period_us)

    def _note_exit(self, task: Task, seen: Exited, now_us: int) -> None:
        role = self.roles[task.role]
        role.note_begun(task, now_us)
        if task.fault:
            fault, task.fault = task.fault, ""
            self._fail(task, seen.code or FAILED_CODE, fault, now_us)
        elif task.phase is Phase.ENDING:
            self._let_be_over(task, Result.STOPPED)
        elif seen.code:
            what = (
                f"ended by signal {seen.signal}"
                if seen.signal
                else (f"ended with exit code {seen.code}")
            )
            self._fail(task, seen.code, f"was {what}" if seen.signal else what, now_us)
        elif not (self._ends or role.is_stopped) and role.may_restart(task, is_good=True):
            self._pause(task, "ended well", now_us)
        else:
            task.why = "ended well"
            self._let_be_over(task, Result.DONE)

    def _fail(self, task: Task, code: int, why: str, now_us: int) -> None:
        """Let a run have failed; another may follow, else the task has."""
        role = self.roles[task.role]
        task.code, task.why = code, why
        if self._ends or role.is_stopped:
            self._let_be_over(task, Result.STOPPED if task.run else Result.SKIPPED)
            return
        if task.run and task.plan.host not in self._lost and role.may_restart(task, is_good=False):
            self._pause(task, why, now_us)
            return
        self._let_be_over(task, Result.FAILED)
        if role.plan.is_fatal:
            self._end_all(Finish(code, self._culprit(task)), now_us)

    def _is_unneeded(self, role: RoleState) -> bool:
        """Whether a sidecar has outlived its parents."""
        return role.is_sidecar and all(self.roles[one].is_over for one in role.plan.parents)

    def _culprit(self, task: Task) -> str:
        role = self.roles[task.role].plan
        host = self.plan.hosts[task.plan.host]
        again = f" after {task.run - 1} restarts" if task.run > 1 else ""
        whose = f"task {task.index} of role {role.name} on {host}"
        return f"{whose} {task.why}{again}; its fate ({role.fate}) ends the job"

    def _pause(self, task: Task, why: str, now_us: int) -> None:
        role = self.roles[task.role]
        task.why = why
        role.note_ready(task, is_ready=False)
        role.move(task, Phase.PAUSED)
        self._schedule(task, now_us + role.back_off_us(task))

    def _let_be_over(self, task: Task, result: Result) -> None:
        task.due_us = 0
        self.roles[task.role].move(task, Phase.OVER, result)

    # What is to be done.

    def _start(self, task: Task) -> None:
        role = self.roles[task.role]
        task.run += 1
        task.failures = 0
        role.note_ready(task, is_ready=False)
        role.move(task, Phase.STARTING)
        self._actions.append(Start(task.role, task.index, task.run))

    def _stop(self, task: Task, now_us: int) -> None:
        """Tell a task to end, if it runs; else it never will."""
        role = self.roles[task.role]
        if task.phase in (Phase.WAITING, Phase.PAUSED):
            self._let_be_over(task, Result.STOPPED if task.run else Result.SKIPPED)
        elif task.phase in (Phase.STARTING, Phase.RUNNING):
            role.move(task, Phase.ENDING)
            task.is_told = False
            if self._is_told:
                self._schedule(task, now_us + max(self.plan.grace_us, GRACE_MIN_US))
            else:
                self._send_end(task, now_us)

    def _do_due(self, task: Task, now_us: int) -> None:
        if task.phase is Phase.PAUSED:
            self._start(task)
        elif task.phase is Phase.RUNNING:
            self._actions.append(Probe(task.role, task.index, task.run))
        elif task.phase is Phase.ENDING:
            self._send_end(task, now_us)

    def _send_end(self, task: Task, now_us: int) -> None:
        """Tell a task to end, the second time so that it must."""
        number = KILL if task.is_told else TERM
        task.is_told = True
        self._actions.append(Signal(task.role, task.index, task.run, number))
        self._schedule(task, now_us + max(self.plan.grace_us, GRACE_MIN_US))

    def _schedule(self, task: Task, due_us: int) -> None:
        task.due_us = due_us
        heapq.heappush(self._due, (due_us, task.role, task.index))

    def _end_all(self, end: Finish, now_us: int) -> None:
        """Begin to end the job; the first word stays."""
        if not self._ends:
            self._ends, self._end = True, end
            self._missing.clear()
            self._unchecked.clear()

    # What follows.

    def _settled(self, now_us: int) -> list[Action]:
        """Do all that follows from how things are now, and return what is to be done."""
        if not self._is_open and not self._missing and not self._ends:
            self._is_open = not self._unchecked
            if not self._are_asked:
                self._actions += [CheckHost(host) for host in sorted(self._unchecked)]
                self._are_asked = True
        while self._is_open and not self._ends and self._open_roles(now_us):
            pass
        self._close_roles(now_us)
        if all(role.is_over for role in self.roles) and not self._is_finished:
            self._is_finished = True
            self._actions.append(self._end)
        found, self._actions = self._actions, []
        return found

    def _open_roles(self, now_us: int) -> bool:
        """Begin roles whose waits are over, give up those whose waits will never be."""
        for number in self._closed_groups():
            group = [role for role in self.roles if role.plan.group == number]
            waits = [wait for role in group for wait in role.plan.waits]
            why = next(filter(None, (self._vain(wait, now_us) for wait in waits)), "")
            if why:
                self._give_up(group, why, now_us)
                return True
            if all(self.roles[wait.role].meets(wait.until) for wait in waits):
                for role in group:
                    role.is_open = True
                    for task in role.tasks:
                        if task.phase is Phase.WAITING:
                            self._start(task)
                return True
        return False

    def _closed_groups(self) -> list[int]:
        found = {role.plan.group for role in self.roles if not role.is_open}
        return sorted(found)

    def _vain(self, wait: Wait, now_us: int) -> str:
        """Return why a wait is in vain; empty: it is not."""
        role = self.roles[wait.role]
        missed = role.misses(wait.until)
        if missed is not None:
            return f"{wait.relation}: task {missed.index} of role {role.plan.name} {missed.why}"
        late_us = role.late_us(wait)
        if late_us and late_us <= now_us and not role.meets(wait.until):
            slow = next(task for task in role.tasks if not task.is_good)
            return (
                f"{wait.relation}: task {slow.index} of role {role.plan.name} on "
                f"{self.plan.hosts[slow.plan.host]} was not ready within "
                f"{wait.timeout_us // 1_000_000} s"
            )
        return ""

    def _late(self) -> Iterable[tuple[int, Wait, int]]:
        """Yield the waits that have a time limit which runs."""
        if not self._is_open or self._ends:
            return
        for number, role in enumerate(self.roles):
            for wait in role.plan.waits if not role.is_open else ():
                late_us = self.roles[wait.role].late_us(wait)
                if late_us and not self.roles[wait.role].meets(wait.until):
                    yield number, wait, late_us

    def _give_up(self, group: list[RoleState], why: str, now_us: int) -> None:
        """Let roles never begin."""
        for role in group:
            role.is_open = True
            for task in role.tasks:
                task.why = f"never began ({why})"
                if task.phase is not Phase.OVER:
                    self._let_be_over(task, Result.SKIPPED)
            if role.plan.is_fatal:
                detail = f"role {role.plan.name} cannot begin ({why})"
                self._end_all(Finish(FAILED_CODE, detail), now_us)

    def _close_roles(self, now_us: int) -> None:
        """End what nobody needs any more: all others first, then the sidecars among them."""
        if self._ends:
            for role in self.roles:
                if not role.is_sidecar:
                    self._stop_role(role, now_us)
        mains = [role for role in self.roles if not role.is_sidecar]
        is_closing = all(role.is_over for role in mains)
        for role in self.roles:
            if role.is_sidecar and (is_closing or self._is_unneeded(role)):
                self._stop_role(role, now_us)

    def _stop_role(self, role: RoleState, now_us: int) -> None:
        if role.is_stopped:
            return
        role.is_open = role.is_stopped = True
        for task in role.tasks:
            self._stop(task, now_us)
