"""The step's shell on the first host of a job: carries out what the step machine wants.

It runs as the job's script, in the job's own tree: it outlives a restart of every daemon. Tasks are
started through `xce.client.tasks`; one companion on each host (`xce.step.companion`) tells which
ports are free there and whether tasks are ready.
"""

import contextlib
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from xce.client import tasks
from xce.client.launching import rankfile_name, role_arguments, role_environment, role_ranks
from xce.client.ranks import render_ranks
from xce.client.step_checks import Preflight
from xce.client.tasks import Task, TaskEvent, Tasks
from xce.step import companion, core
from xce.step.environment import (
    Meeting,
    expand_variables,
    stream_path,
    task_environment,
)
from xce.step.plan import Plan, TaskPlan, decode_plan
from xce.step.status import render_status
from xce.step.streams import Sinks, open_sinks

STATUS_S: Final = 1.0
"""Between two writings of the status."""
GAP_S: Final = 5.0
"""A longer sleep than was wanted is a suspension, which does not count."""
SAID_MAX: Final = 1000


class Clock:
    """The monotonic clock without the time in which the whole step was stopped."""

    def __init__(self) -> None:
        self._left_out_us = 0
        self._seen_us = self._read()

    @staticmethod
    def _read() -> int:
        return time.monotonic_ns() // 1000

    def now_us(self, slept_s: float = 0.0) -> int:
        """Return the time, after a sleep that was to take at most so long."""
        now_us = self._read()
        gap_us = now_us - self._seen_us - int((slept_s + GAP_S) * 1e6)
        self._left_out_us += max(0, gap_us)
        self._seen_us = now_us
        return now_us - self._left_out_us


class _Companion:
    """The companion of one host."""

    def __init__(self, host: int, task: Task) -> None:
        self.host, self.task = host, task
        self.rest = b""
        self.errors = b""


class Conductor:
    """Carries out one step.

    Args:
        plan: What runs.
        starter: Starts processes.
        base: The environment of the job.
        cwd: Where the job runs.
        directory: Where its status and its last word are written; empty: nowhere.
    """

    def __init__(
        self, plan: Plan, starter: Tasks, base: Mapping[str, str], cwd: str, directory: str
    ) -> None:
        self._plan = plan
        self._starter = starter
        self._base = base
        self._cwd = cwd
        self._directory = directory
        self._step = core.Step(plan)
        self._clock = Clock()
        self._meeting = Meeting(plan)
        self._companions: dict[int, _Companion] = {}
        self._companion_of: dict[Task, _Companion] = {}
        self._runs: dict[Task, tuple[int, int, int]] = {}
        self._tasks: dict[tuple[int, int], Task] = {}
        self._sinks: dict[Task, Sinks] = {}
        self._asks: dict[int, Callable[[str], None]] = {}
        self._asked = 0
        self._preflight: Preflight | None = None
        self._signals: list[int] = []
        self._wakeup, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._end: core.Finish | None = None
        self._status = ""
        self._status_at = 0.0

    def run(self) -> int:
        """Run the step; return the exit code of the job."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._starter.fileno(), selectors.EVENT_READ)
            selector.register(self._wakeup, selectors.EVENT_READ)
            self._do(self._step.begin(self._clock.now_us()))
            self._serve()
            while self._end is None:
                timeout_s = self._timeout_s()
                selector.select(timeout_s)
                now_us = self._clock.now_us(timeout_s)
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup, 4096)
                while self._signals:
                    self._do(self._step.take(core.EndAsked(self._signals.pop(0)), now_us))
                self._do(self._step.tick(now_us))
                self._serve()
                self._store_status()
        return self._finish(self._end)

    def _serve(self) -> None:
        """Take all that has happened, and what follows at once from what is done for it."""
        while self._end is None and (events := self._starter.serve(0)):
            for event in events:
                self._take(event)

    def ask_to_end(self, number: int) -> None:
        """Note a signal that ends the job; safe to be called by a signal's handler."""
        self._signals.append(number)
        with contextlib.suppress(OSError):
            os.write(self._wake, b"x")

    def _timeout_s(self) -> float:
        due_us = self._step.next_due_us()
        wait_s = STATUS_S
        if due_us is not None:
            wait_s = min(wait_s, max(0.0, (due_us - self._clock.now_us()) / 1e6 + 0.001))
        return wait_s

    # What the machine wants.

    def _do(self, actions: Iterable[core.Action]) -> None:
        for action in actions:
            match action:
                case core.OpenHost(host):
                    self._open(host)
                case core.CheckHost():
                    if self._preflight is None:
                        self._preflight = Preflight(self._plan, self._meeting, self)
                        self._preflight.begin()
                case core.Start():
                    self._start(action)
                case core.Probe():
                    self._probe(action)
                case core.Signal(role, task, run, number):
                    found = self._tasks.get((role, task))
                    if found is not None and self._runs.get(found) == (role, task, run):
                        self._starter.signal(found, number)
                case core.Finish():
                    self._end = action

    def tell(self, event: core.Event) -> None:
        """Let the step hear something, and do what it wants."""
        self._do(self._step.take(event, self._clock.now_us()))

    def _open(self, host: int) -> None:
        name = self._plan.hosts[host]
        argv = [sys.executable, "-I", "-S", str(companion.__file__), name,
                str(self._meeting.ports_wanted(host))]  # fmt: skip
        task = self._starter.start(name, argv, env=self._base, cwd="/", has_input=True)
        self._companions[host] = self._companion_of[task] = _Companion(host, task)

    def _start(self, action: core.Start) -> None:
        number, place, run = action
        role = self._plan.roles[number]
        host = role.tasks[place].host
        env = self._environment(number, place)
        if run == 1:
            own = self._meeting.ports.get((number, place))
            door = self._meeting.doors.get(number) if place == 0 else None
            for port in filter(None, (own, door)):
                self._ask(host, {"free": port})
        if role.started:
            self._store(rankfile_name(role.name), render_ranks(role_ranks(self._plan, number)))
        try:
            sinks = open_sinks(
                stream_path(role.output, self._plan, role, place),
                stream_path(role.error, self._plan, role, place),
                cwd=self._cwd,
                label=f"{role.name}.{place}: ",
            )
        except OSError as error:
            why = f"could not be started: cannot open {error.filename}: {error.strerror}"
            self.tell(core.Failed(number, place, run, why))
            return
        task = self._starter.start(
            self._plan.hosts[host], role_arguments(self._plan, number), env=env,
            cwd=os.path.join(self._cwd, role.cwd), has_input=False,  # noqa: PTH118
        )  # fmt: skip
        self._runs[task], self._tasks[number, place] = (number, place, run), task
        self._sinks[task] = sinks

    def run_beside(self, argv: list[str], number: int, member: TaskPlan) -> Task:
        """Start a process where a member of a role will be, with what that has."""
        env = self._environment(number, 0) | dict(member.env)
        name = self._plan.hosts[member.host]
        return self._starter.start(name, argv, env=env, cwd="/", has_input=False)

    def _environment(self, number: int, place: int) -> dict[str, str]:
        world = role_environment(self._plan, number, place, self._meeting, self._directory)
        return task_environment(self._plan, number, place, self._base, self._meeting, world)

    def _probe(self, action: core.Probe) -> None:
        role = self._plan.roles[action.role]
        probe = role.probe
        assert probe is not None, "only roles with a probe are asked whether they are ready"
        env = self._environment(action.role, action.task)
        ask: dict[str, object] = {"kind": probe.kind, "timeout_s": probe.timeout_us / 1e6}
        if probe.kind == "exec":
            cwd = os.path.join(self._cwd, role.cwd)  # noqa: PTH118
            ask |= {"target": probe.target, "env": env, "cwd": cwd}
        else:
            ask["target"] = expand_variables(probe.target, env)

        def heard(why: str) -> None:
            self.tell(core.Probed(*action, not why, why))

        self.question(role.tasks[action.task].host, ask, heard)

    def question(self, host: int, word: Mapping[str, object], heard: Callable[[str], None]) -> None:
        """Ask a companion; ``heard`` is given why not, empty: all is well."""
        self._asked += 1
        self._asks[self._asked] = heard
        self._ask(host, {"id": self._asked, **word})

    def _ask(self, host: int, word: Mapping[str, object]) -> None:
        """Send a companion something to do."""
        self._starter.write(self._companions[host].task, json.dumps(word).encode() + b"\n")

    # What happens.

    def _take(self, event: TaskEvent) -> None:
        friend = self._companion_of.get(event.task)
        if friend is not None:
            self._hear(friend, event)
            return
        run = self._runs.get(event.task)
        if run is None:
            if self._preflight is not None:
                self._preflight.take(event)
            return
        sinks = self._sinks[event.task]
        match event.kind:
            case tasks.STARTED:
                self.tell(core.Started(*run))
            case tasks.OUT:
                sinks.output.write(event.content)
            case tasks.ERR:
                sinks.error.write(event.content)
            case tasks.OVER:
                self._let_go(event.task)
                number = event.code - 128 if 128 < event.code < 128 + 65 else 0
                self.tell(core.Exited(*run, event.code, number))
            case _:
                self._let_go(event.task)
                self.tell(core.Failed(*run, _text(event.content)))

    def _let_go(self, task: Task) -> None:
        """Forget a run that is over."""
        number, place, _ = self._runs.pop(task)
        if self._tasks.get((number, place)) is task:
            del self._tasks[number, place]
        self._sinks.pop(task).close()

    def _hear(self, friend: _Companion, event: TaskEvent) -> None:
        """Take what a companion says, or that it is gone."""
        if event.kind == tasks.OUT:
            *lines, friend.rest = (friend.rest + event.content).split(b"\n")
            for line in lines:
                self._take_word(friend, json.loads(line))
        elif event.kind == tasks.ERR:
            friend.errors = (friend.errors + event.content)[-SAID_MAX:]
        elif event.kind in (tasks.OVER, tasks.FAILED):
            why = _text(event.content)
            if event.kind == tasks.OVER:
                said = _text(friend.errors).splitlines()
                why = said[-1] if said else f"the step's companion ended with {event.code}"
            self.tell(core.HostLost(friend.host, why))

    def _take_word(self, friend: _Companion, word: dict[str, object]) -> None:
        match word:
            case {"address": str(address), "ports": list(ports)}:
                self._meeting.note_host(friend.host, address, ports)
                self.tell(core.HostReady(friend.host))
            case {"id": int(number), "why": str(why)}:
                self._asks.pop(number)(why)
            case _:
                pass

    # The end, and what is written.

    def _finish(self, end: core.Finish) -> int:
        self._status_at = 0.0
        self._store_status()
        if end.detail:
            print(f"xce: {end.detail}", file=sys.stderr, flush=True)  # noqa: T201
            self._store("said", end.detail[:SAID_MAX])
        for friend in self._companions.values():
            self._starter.end_input(friend.task)
        self._starter.close()
        return end.code

    def _store_status(self) -> None:
        """Write how all tasks are, if it has changed, not too often."""
        now = time.monotonic()
        if now - self._status_at < STATUS_S:
            return
        self._status_at = now
        text = render_status(self._step)
        if text != self._status:
            self._status = text
            self._store("roles", text)

    def _store(self, name: str, text: str) -> None:
        if not self._directory:
            return
        path = Path(self._directory, name)
        aside = path.with_name(f".{name}.new")
        with contextlib.suppress(OSError):
            aside.write_text(text, encoding="utf-8", errors="replace")
            aside.replace(path)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _pass(*_: object) -> None:
    """Take a signal and do nothing; unlike an ignored one it is not inherited."""


def run_step(plan: str) -> int:
    """Run the step of a plan's file as the job; return its exit code."""
    conductor = Conductor(
        decode_plan(Path(plan).read_text(encoding="utf-8")),
        Tasks(),
        dict(os.environ),
        str(Path.cwd()),
        os.environ.get("XCE_JOB_HOST_DIR", ""),
    )
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGALRM):
        # These are for the tasks, which are sent them too.
        signal.signal(number, _pass)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, lambda number, _: conductor.ask_to_end(number))
    return conductor.run()
