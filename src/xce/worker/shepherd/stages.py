"""Starting the steps of attempts with hooks, one after the other, and keeping their time."""

import os
from typing import Any

from xce.worker.shepherd.attempts import ENDED, RUNNING, Attempt, Event, take_fault
from xce.worker.shepherd.exit_variables import exit_variables
from xce.worker.shepherd.hooks import MAIN, POST, Course, Result
from xce.worker.shepherd.reach import Reach
from xce.worker.shepherd.rundir import Key
from xce.worker.shepherd.spawn import Trouble, encode_env, files_of
from xce.worker.shepherd.starting import Starter


class Stages:
    """The attempts that have hooks and are not over."""

    def __init__(self, starter: Starter, reach: Reach) -> None:
        self._starter = starter
        self._reach = reach
        self._hooked: dict[Key, Attempt] = {}

    def begin(self, attempt: Attempt, now_us: int) -> list[Event]:
        """Start the present step of an attempt, or a later one; return what is to be told.

        Where none can be started, the attempt is over.
        """
        told = self._begin(attempt, now_us)
        if _course(attempt).is_over:
            self._finish(attempt)
            attempt.state = ENDED
            told.append(attempt.ended())
        return told

    def _begin(self, attempt: Attempt, now_us: int) -> list[Event]:
        course, told = _course(attempt), []
        umask = os.umask(course.plan["shared"]["umask"])
        try:
            while not course.is_over:
                try:
                    self._start(attempt, course, now_us)
                except Trouble as trouble:
                    self._take_trouble(attempt, course, trouble, now_us)
                else:
                    told += [attempt.started()] if course.step.kind == MAIN else []
                    break
        finally:
            os.umask(umask)
            self._starter.go_home()
            os.chdir("/")
        return told

    def go_on(self, attempt: Attempt, now_us: int) -> list[Event]:
        """Take the end of a step, of which nothing is left, and start the next."""
        course = _course(attempt)
        was_posting = course.step.kind == POST
        has_run = not (course.step.kind == MAIN and take_fault(attempt))
        course.take(
            Result(
                attempt.code, attempt.signal, attempt.cause, attempt.started_us, attempt.ended_us,
                attempt.detail, attempt.pid, attempt.sent,
            ),
            has_run=has_run,
        )  # fmt: skip
        told: list[Event] = []
        if course.is_posting and not was_posting:
            told.append(["over", *attempt.key])
        told += self._begin(attempt, now_us)
        if course.is_over:
            self._finish(attempt)
        return told

    def know(self, attempt: Attempt) -> None:
        """Keep the time of an attempt that an earlier shepherd has started."""
        if attempt.course is not None:
            self._hooked[attempt.key] = attempt

    def end_late(self, now_us: int) -> None:
        """Kill hooks that take too long."""
        for attempt in self._hooked.values():
            course = _course(attempt)
            if 0 < course.due_us <= now_us and not attempt.stands_still:
                course.is_late = True
                self._reach.begin()
                self._reach.kill(attempt)

    def next_due_us(self) -> int:
        """Return when a hook has taken too long; 0: none runs that has a limit."""
        due = [_course(one).due_us for one in self._hooked.values() if not one.stands_still]
        return min(filter(None, due), default=0)

    def _start(self, attempt: Attempt, course: Course, now_us: int) -> None:
        """Start the present step.

        Raises:
            Trouble: It could not be started.
        """
        shared = course.plan["shared"]
        course.begin(now_us)
        attempt.mark = f"{attempt.mark.partition('+')[0]}+{course.at}"
        attempt.state, attempt.is_child, attempt.pid, attempt.pidfd = RUNNING, True, 0, -1
        attempt.code = attempt.signal = attempt.cause = attempt.step = 0
        attempt.kills = attempt.retry_us = attempt.suspended_us = attempt.sent = 0
        attempt.started_us, attempt.detail = now_us, ""
        self._hooked[attempt.key] = attempt
        if course.step.kind == MAIN:
            files = files_of(shared, course.plan["files"])
            env = encode_env(course.plan["env"])
            self._starter.start(attempt, shared, env, files, now_us)
        else:
            env = _environment(course)
            self._starter.start_hook(attempt, course.step.command, env, shared["cwd"])
        self._reach.add(attempt)

    @staticmethod
    def _take_trouble(attempt: Attempt, course: Course, trouble: Trouble, now_us: int) -> None:
        """Note that the present step could not be started."""
        is_main = course.step.kind == MAIN
        if is_main:
            attempt.host_fault = trouble.host_fault
        cause = trouble.cause if is_main else 0
        result = Result(trouble.exit_code, 0, cause, now_us, now_us, trouble.detail)
        course.take(result, has_run=False)

    def _finish(self, attempt: Attempt) -> None:
        """Let an attempt whose steps are over be as its job was."""
        self._hooked.pop(attempt.key, None)
        main = _course(attempt).main
        attempt.code, attempt.signal, attempt.cause = main.code, main.signal, main.cause
        attempt.started_us, attempt.ended_us, attempt.detail = main[3:6]


def plan_of(
    shared: dict[str, Any], env: dict[str, str], own: dict[str, str], files: list[Any]
) -> dict[str, Any]:
    """Return what the steps of an attempt need; ``own``: the variables of the element alone."""
    names = (
        "cwd", "make_cwd", "umask", "script", "way", "login", "window", "bindings", "output_dir",
        "limit_code", "before",
    )  # fmt: skip
    return {
        "steps": shared["hooks"],
        "limit_us": shared["hook_limit_us"],
        "requeue_codes": shared.get("requeue_codes", []),
        "shared": {name: shared[name] for name in names if name in shared},
        "env": env,
        "outer": shared["outer"] | shared["env"] | own,
        "files": files,
    }


def _course(attempt: Attempt) -> Course:
    assert attempt.course is not None
    return attempt.course


def _environment(course: Course) -> dict[bytes, bytes]:
    """Return the variables of a hook: those of the job's own have the job's, others a clean set."""
    plan: dict[str, Any] = course.plan
    env = dict(plan["env"] if course.step.origin == "job" else plan["outer"])
    if course.step.kind == POST:
        env |= exit_variables(plan, course.main)
    return encode_env(env)
