"""The herd: all attempts on this host, what the worker orders, and what became of them.

Orders are plain lists, the name first (typed in `xce.worker.action`); so are the events that come
back. An order about an attempt that is not here, or that was carried out before, changes nothing.
An end is told when nothing of the attempt is left, and again to every new worker, until an order
``forget`` says that it is known for good.
"""

import os
import signal
import time
from typing import Any, Final

from xce.worker.shepherd import attempts, proc, rundir
from xce.worker.shepherd.attempts import ENDED, LEAVING, RUNNING, Attempt, Event
from xce.worker.shepherd.cgroups import Groups
from xce.worker.shepherd.checkpoints import Checkpoints, end_unseen
from xce.worker.shepherd.fences import Fences
from xce.worker.shepherd.hooks import Course
from xce.worker.shepherd.log import write_log
from xce.worker.shepherd.output import add_report, read_text
from xce.worker.shepherd.reach import Reach, to_measure
from xce.worker.shepherd.rundir import Key, name_of
from xce.worker.shepherd.services import Services
from xce.worker.shepherd.shared import SharedDaemons
from xce.worker.shepherd.spawn import Ids, Trouble, encode_env, files_of
from xce.worker.shepherd.stages import Stages, plan_of
from xce.worker.shepherd.starting import Starter
from xce.worker.shepherd.tasks import Tasks
from xce.worker.shepherd.terminal import Terminals

STEP_KILL: Final = 4
"""`xce.worker.ending.STEP_KILL`, which this program cannot import."""
CAUSE_HOST_LOST: Final = 102
"""`xce.model.job.EndCause.HOST_LOST`."""
_LOOK_US: Final = 50_000
"""Between two looks at what is left of a job whose end is under way."""


def clock_us() -> int:
    """Return the monotonic clock."""
    return time.monotonic_ns() // 1000


class Herd:
    """All attempts of one host."""

    def __init__(self, runs: str, kept: str, *, boot: str, groups: Groups | None) -> None:
        self._runs = runs
        self._kept = kept
        self._directories = rundir.RunDirectories(runs, kept)
        self._boot = boot
        self._groups = groups
        self._reach = Reach(groups)
        self._attempts: dict[Key, Attempt] = {}
        self._leaving: dict[Key, Attempt] = {}
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self.fences = Fences(runs, boot, self._attempts, self._reach, clock_us)
        self._sample_us = 0
        self.terminals = Terminals()
        self._starter = Starter(
            self._directories, groups, self.terminals, boot=boot, null=self._null
        )
        self._stages = Stages(self._starter, self._reach)
        self.tasks = Tasks(self._reach, self._starter, self._null)
        self._checkpoints = Checkpoints(self._reach, self._starter, self._null)
        self._services = Services(self._reach, self._starter, self._null)
        self._shared = SharedDaemons(runs, self._reach, self._starter, self._null)
        self._token = os.urandom(6).hex()
        """Makes the marks of this shepherd's jobs different from everybody else's."""
        self._spawned = 0
        self.adopted: dict[int, Attempt] = {}
        """By pidfd: living shells that are no children of ours."""
        self.events: list[Event] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return self._shared.is_idle and all(one.state == ENDED for one in self._attempts.values())

    def load(self) -> None:
        """Take over what an earlier shepherd has left."""
        now_us, wall_us = clock_us(), time.time_ns() // 1000
        unsure: list[Attempt] = []
        undone: list[Attempt] = []
        for name in sorted(os.listdir(self._runs)):  # noqa: PTH208
            key = rundir.key_of(name)
            if key is None:
                self._directories.adopt(name)
                continue
            path = f"{self._runs}/{name}"
            stored = rundir.load(path, key, wall_us=wall_us)
            if stored is None:
                rundir.clean(path, kept="")
                continue
            attempt = attempts.restore(stored, path, boot=self._boot, now_us=now_us)
            attempt.grouped = attempt.grouped and self._groups is not None
            self._attempts[key] = attempt
            if attempt.state == ENDED:
                undone += [attempt] if attempt.course and not attempt.course.is_over else []
                continue
            self._stages.know(attempt)
            end_unseen(attempt)
            if attempt.terminal:
                self.terminals.miss(key)
            self._reach.add(attempt)
            if attempt.is_part and attempt.state == RUNNING:
                self._reach.kill(attempt)  # its tasks' streams went with the last shepherd
                self.tasks.parts[key] = attempt
            elif attempt.state == LEAVING:
                self._leaving[key] = attempt
            elif attempt.pid:
                self.adopted[attempt.pidfd] = attempt
            else:
                unsure.append(attempt)
        self._settle(unsure)
        for attempt in undone:
            self._close(attempt)
        self.fences.freeze_again()
        self._shared.load(self._attempts.values(), now_us)
        if self._groups is not None:
            self._groups.sweep(self._shared.names() | {one.name for one in self._attempts.values()})

    def present(self) -> list[Event]:
        """Return what there is, for a worker that has just come."""
        self.events = []
        told = []
        for attempt in self._attempts.values():
            told.append(attempt.present())
            if attempt.state == ENDED:
                told.append(attempt.ended())
        return told

    def take(self, orders: list[list[Any]], bases: dict[str, dict[str, str]]) -> None:
        """Carry out orders, in their order.

        Args:
            orders: See `xce.worker.action`.
            bases: Environments that the spawn orders among them name.
        """
        self._reach.begin()
        for order in orders:
            match order:
                case ["spawn", dict(shared), list(items)]:
                    self._spawn(shared, items, bases)
                case ["signal", job, index, attempt, number, cause, step, count]:
                    self._signal((job, index, attempt), number, cause, step, count)
                case ["suspend", job, index, attempt, suspended]:
                    self._suspend((job, index, attempt), suspended=suspended)
                case ["limit", job, index, attempt, int(mem_limit_kib), list(limits)]:
                    self._limit((job, index, attempt), mem_limit_kib, limits)
                case ["append", job, index, attempt, text]:
                    self._append((job, index, attempt), text)
                case ["forget", job, index, attempt, keep]:
                    self._forget((job, index, attempt), keep=keep)
                case ["lease", list(until)]:
                    self.fences.take(until)
                case ["read", *fields]:
                    self._read(*fields)
                case _:
                    self._take_other(order)

    def _take_other(self, order: list[Any]) -> None:
        """Carry out an order about a terminal, a checkpoint, several hosts, or what is used."""
        match order:
            case ["checkpoint" | "warning" as what, job, index, number, int(count), dict(asked)]:
                attempt = self._attempts.get((job, index, number))
                self.events += self._checkpoints.take(attempt, what, count, asked, clock_us())
            case ["part", list(key), dict(shared)]:
                self._open_part((key[0], key[1], key[2]), shared)
            case ["lead", job, index, attempt, str(host)]:
                self._lead((job, index, attempt), host)
            case ["task", int(number), list(key), list(fields)]:
                self.tasks.take(clock_us(), number, key, fields)
            case ["terminal", int(number), list(key), *fields]:
                self.terminals.take(clock_us(), number, key, fields)
            case ["uses", int(number)]:
                self.events.append(["uses", number, self._reach.uses(self._attempts.values())])
            case _:
                write_log("order-strange", order=order[:1])

    def reap(self) -> None:
        """Take what has ended."""
        now_us = clock_us()
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            saved = self._checkpoints.reap(pid, status, now_us)
            self._services.reap(pid)
            self._shared.reap(pid)
            attempt = self.tasks.reap(pid, status) or self._reach.shell_of(pid)
            if saved is not None:
                attempt = saved[0]
                self.events += saved[1]
            elif attempt is not None and attempt.is_part:
                pass  # it goes on without this task
            elif attempt is None or not attempt.is_child or attempt.state != RUNNING:
                attempt = self._reach.reap_orphan(pid)
            else:
                code, number = attempts.split_status(status)
                attempt.leave(code=code, signal=number, now_us=now_us)
                self._leaving[attempt.key] = attempt
            if attempt is not None:
                attempt.user_us += int(usage.ru_utime * 1e6)
                attempt.system_us += int(usage.ru_stime * 1e6)
                attempt.max_mem_kib = max(attempt.max_mem_kib, usage.ru_maxrss)
        if self._leaving:
            self.check_leaving(at_once=True)

    def take_adopted(self, pidfd: int) -> None:
        """Take the end of a shell that was no child of ours."""
        attempt = self.adopted.pop(pidfd)
        found = attempts.load_exit(attempt)
        os.close(pidfd)
        attempt.pidfd = -1
        if found is None:
            attempt.lose(attempts.CAUSE_STATUS_LOST, "its shell was killed unseen", clock_us())
        else:
            attempt.leave(code=found[0], signal=found[1], now_us=clock_us())
        self._leaving[attempt.key] = attempt
        self.check_leaving(at_once=True)

    def check_leaving(self, *, at_once: bool = False) -> None:
        """End what has nothing left; kill what is left of the others."""
        now_us = clock_us()
        for part in self.tasks.ended_parts():
            part.leave(code=0, signal=0, now_us=now_us)
            self._leaving[part.key] = part
        self._reach.begin()  # what was left at the last look may be gone, and its pids others'
        if self._groups is None:
            self._reach.look_for_orphans()
        for attempt in list(self._leaving.values()):
            if not at_once and attempt.retry_us > now_us:
                continue
            self._reach.note_group(attempt)
            if self._checkpoints.hold(attempt) or self._services.hold(attempt, now_us):
                attempt.retry_us = now_us + _LOOK_US
            elif attempt.frozen_us and attempt.course is not None:
                attempt.retry_us = now_us + _LOOK_US  # its next step waits until it may run
            elif self._reach.is_gone(attempt):
                self._end(attempt)
            elif 0 < attempt.step < STEP_KILL:
                # Its shell fell to the first signal; what is left has the same time to end as it.
                attempt.retry_us = now_us + _LOOK_US
            else:
                self._reach.kill_again(attempt, now_us)
        self._shared.look(now_us)

    def look(self) -> None:
        """Measure what runs, if it is time."""
        now_us = clock_us()
        if now_us < self._sample_us:
            return
        old, span_us = to_measure(self._attempts.values(), now_us)
        self._sample_us = now_us + span_us
        self.events += [attempt.usage() for attempt in self._reach.find_greedy(old)]

    def end_late(self) -> None:
        """Freeze or kill what has outlived its lease, and kill what takes too long beside a job."""
        now_us = clock_us()
        self._stages.end_late(now_us)
        self._checkpoints.end_late(now_us)
        self._services.end_late(now_us)
        late, told = self.fences.look()
        self.events += told
        for attempt in late:
            if attempt.has_more and attempt.step < STEP_KILL:
                self._reach.begin()
                self._signal(attempt.key, signal.SIGKILL, CAUSE_HOST_LOST, STEP_KILL, 0)
            self._checkpoints.end(attempt)

    def next_due_us(self) -> int:
        """Return when there is something to do but for leases; 0: not before an event."""
        due = [attempt.retry_us for attempt in self._leaving.values()]
        others = (self.terminals, self.tasks, self._stages, self._checkpoints, self._services)
        due += filter(None, (other.next_due_us() for other in (*others, self._shared)))
        if len(self._attempts) > len(self._leaving):
            due.append(self._sample_us)
        return min(due, default=0)

    def leave_worker(self) -> None:
        """Stop telling; whoever comes next is told all."""
        self.events.clear()
        self.tasks.leave_worker()
        self.fences.leave_worker()

    def close(self) -> None:
        """Write down what is known of ended attempts: nobody will be here to tell it."""
        for attempt in self._attempts.values():
            if attempt.state == ENDED:
                attempts.note_end(attempt)
        self._shared.close()
        if self._groups is not None:
            self._groups.close()

    def _spawn(
        self, shared: dict[str, Any], items: list[list[Any]], bases: dict[str, dict[str, str]]
    ) -> None:
        ids = Ids(shared["uid"], shared["gid"], tuple(shared["groups"]))
        base = encode_env(bases.get(shared["base"], {}) | shared["env"])
        umask = os.umask(shared["umask"])
        for job, index, number, env, source, output, error in items:
            key = (job, index, number)
            if key in self._attempts:
                continue
            attempt = self._make(key, ids, shared)
            attempt.terminal = shared.get("terminal") or ""
            attempt.says = bool(shared.get("says"))
            attempt.last = shared.get("last", {}).get(str(index), [])
            self._shared.know(attempt, shared.get("shares", {}).get(str(index)))
            if shared.get("hooks"):
                texts = bases.get(shared["base"], {}) | shared["env"] | env
                attempt.course = Course(plan_of(shared, texts, env, [source, output, error, job]))
                self.events += self._stages.begin(attempt, clock_us())
                continue
            files = files_of(shared, [source, output, error, job])
            try:
                self._starter.start(attempt, shared, base | encode_env(env), files, clock_us())
            except Trouble as trouble:
                attempt.fail(trouble, clock_us())
                self.events.append(attempt.ended())
            else:
                self._reach.add(attempt)
                self.events.append(attempt.started())
        os.umask(umask)
        self._starter.go_home()
        os.chdir("/")

    def _make(self, key: Key, ids: Ids, shared: dict[str, Any]) -> Attempt:
        """Return a new attempt, of which nothing runs yet."""
        self._spawned += 1
        mark = f"{name_of(key)}.{self._token}{self._spawned:x}"
        path = f"{self._runs}/{name_of(key)}"
        attempt = Attempt(key, path, ids=ids, note=shared["note"], mark=mark)
        attempt.limit_kib, attempt.is_counted = shared["limit_kib"], shared.get("is_counted", False)
        attempt.started_us = clock_us()
        self._attempts[key] = attempt
        return attempt

    def _open_part(self, key: Key, shared: dict[str, Any]) -> None:
        """Have a place for tasks of an attempt that another host leads."""
        if key in self._attempts:
            return
        ids = Ids(shared["uid"], shared["gid"], tuple(shared["groups"]))
        part = self._make(key, ids, shared)
        part.last = shared.get("last", [])
        self._shared.know(part, shared.get("share"))
        try:
            self._starter.open_part(part)
        except Trouble as trouble:
            part.fail(trouble, clock_us())
            self.events.append(part.ended())
        else:
            self._reach.add(part)
            self.tasks.parts[key] = part

    def _lead(self, key: Key, host: str) -> None:
        """Write down that another host may have a part of an attempt."""
        if (attempt := self._attempts.get(key)) is not None:
            rundir.note(attempt.path, ["lead", host])
            attempt.parts.append(host)
            self.events.append(["led", *key, host])

    def look_at_streams(self) -> None:
        """Take what is to be told of terminals and tasks."""
        self.events += self.tasks.look(clock_us())
        found = [one for one in self._attempts.values() if one.terminal and one.state != ENDED]
        self.events += self.terminals.look(clock_us(), {one.key for one in found})

    def _signal(self, key: Key, number: int, cause: int, step: int, count: int) -> None:
        if (attempt := self._attempts.get(key)) is None or attempt.state == ENDED:
            return
        if attempt.state == LEAVING and not step:
            return
        if attempt.course is not None and attempt.course.is_posting:
            return  # the job is over; its post hooks run whatever is decided
        if count:
            if count <= attempt.number:
                return
            attempt.number, attempt.sent = count, number
            rundir.note(attempt.path, ["signal", count, number])
        if step:
            attempt.cause, attempt.step, attempt.step_us = cause, step, clock_us()
            rundir.note(attempt.path, ["ending", cause, step, attempt.step_us])
        if number == signal.SIGKILL:
            self._reach.kill(attempt)
        elif not (number == signal.SIGCONT and attempt.frozen_us):
            spared = [] if step else self._checkpoints.pids(attempt)
            self._reach.send(attempt, number, spared + self._services.sessions(attempt))
        if step and attempt.suspended_us:
            # What is stopped would take the signal only when somebody resumes it.
            self._suspend(key, suspended=False)

    def _suspend(self, key: Key, *, suspended: bool) -> None:
        if (attempt := self._attempts.get(key)) is None or attempt.state != RUNNING:
            return
        if suspended != bool(attempt.suspended_us):
            now_us = clock_us()
            rundir.note(attempt.path, ["suspended", suspended, now_us])
            attempt.note_still(now_us, still=suspended)
        if suspended:
            self._reach.stop(attempt)
        elif not attempt.frozen_us:
            self._reach.go_on(attempt)
        self.events.append(["suspended", *key, suspended])

    def _append(self, key: Key, text: str) -> None:
        """Add the job's report to its output file."""
        if (attempt := self._attempts.get(key)) is not None:
            add_report(attempt, text)
            self.events.append(["appended", *key])

    def _forget(self, key: Key, *, keep: bool) -> None:
        if (attempt := self._attempts.get(key)) is None or attempt.state != ENDED:
            return
        del self._attempts[key]
        self._directories.release(attempt.path, attempt.name, uid=attempt.ids.uid, keep=keep)

    def _read(
        self, number: int, key: list[int], path: str, inside: str, ids: list[Any],
        offset: int, limit: int,
    ) -> None:  # fmt: skip
        """Read a piece of a job's output: a file as the job's user sees it, or what we kept."""
        name = name_of((key[0], key[1], key[2]))
        attempt = self._attempts.get((key[0], key[1], key[2]))
        what = "error" if inside.endswith(".err") else "output"
        if attempt is not None and f"cannot open the {what} file" in attempt.detail:
            path = ""  # whatever lies there, this job has not written it
        kept = (f"{self._runs}/{name}/{rundir.OUT}", f"{self._kept}/{name}")
        self.events.append(["read", number, *read_text(path, inside, ids, kept, offset, limit)])

    def _limit(self, key: Key, mem_limit_kib: int, limits: list[int]) -> None:
        """Hold an attempt to another memory limit; the worker keeps time."""
        if (attempt := self._attempts.get(key)) is None or attempt.state != RUNNING:
            return
        rundir.note(attempt.path, ["limits", mem_limit_kib, limits])
        if self._groups is not None and attempt.grouped and mem_limit_kib != attempt.limit_kib:
            attempt.is_unheld = not self._groups.limit_memory(attempt.name, mem_limit_kib)
        attempt.hold_to(mem_limit_kib, limits)
        self._reach.limit_cpu(attempt)

    def _end(self, attempt: Attempt) -> None:
        """Note that nothing of an attempt is left."""
        del self._leaving[attempt.key]
        self._reach.drop(attempt)
        self.tasks.drop(attempt.key)
        self._close(attempt)

    def _close(self, attempt: Attempt) -> None:
        """Go to the next step of an attempt; without one it is over."""
        course = attempt.course
        if course is not None:
            self.events += self._stages.go_on(attempt, clock_us())
            if not course.is_over:
                return
            rundir.note(attempt.path, ["course", course.post, course.post_detail])
        attempt.state = ENDED
        if attempt.says:
            attempt.said = attempts.load_said(attempt)
        is_plain = course is None and not attempt.is_part and attempt.is_child
        if course is None and attempts.take_fault(attempt):
            is_plain = False
        if not is_plain or attempt.signal or attempt.kills:
            # The status file does not say this, so it must be written down.
            attempts.note_end(attempt)
        self.events.append(attempt.ended())

    def _settle(self, unsure: list[Attempt]) -> None:
        """Find the shells that had not written their pid when the last shepherd was killed.

        A shell writes it before anything of the user's runs, so one that is not found has done
        nothing, and its attempt may be started as if it never had been.
        """
        if unsure:
            proc.wait_for_execs(5.0)  # their shells may have been started just now
        self._reach.begin()
        for attempt in unsure:
            for pid in self._reach.pids(attempt):
                attempt.pid = pid
                if attempts.watch(attempt):
                    self._reach.add(attempt)
                    self.adopted[attempt.pidfd] = attempt
                    break
            else:
                if attempts.take_status(attempt, clock_us()):
                    self._reach.add(attempt)
                    self._leaving[attempt.key] = attempt
                    continue
                self._reach.drop(attempt)
                if attempt.course is not None and attempt.course.at:
                    self.events += self._stages.begin(attempt, clock_us())
                    continue
                del self._attempts[attempt.key]
                if attempt.grouped and self._groups is not None:
                    self._groups.remove(attempt.name)
                rundir.clean(attempt.path, kept="")
