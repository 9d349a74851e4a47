"""Checkpoints of attempts: programs beside the job that write them, one at a time for each.

The program runs as the job's user in the attempt's control group, is told where to write and which
process group the job is, and what it prints lies beside what it writes. Each that begins is noted
in the attempt's intent, and what became of it: where a shepherd was killed meanwhile, the next one
says that nobody saw it end. A job whose shell ends before the program does is over only then: a
program may end the job itself when it has written all.

Commands that warn a job before its limit are kept here, too, while they run.
"""

import contextlib
import os
import signal
from typing import Any, Final, NamedTuple

from xce.worker.shepherd import rundir
from xce.worker.shepherd.attempts import ENDED, LEAVING, Attempt, Event, split_status
from xce.worker.shepherd.hooks import MAIN
from xce.worker.shepherd.proc import MARK, load_mark
from xce.worker.shepherd.reach import Reach
from xce.worker.shepherd.rundir import Key
from xce.worker.shepherd.spawn import SHELL, As, encode_env
from xce.worker.shepherd.starting import Starter
from xce.worker.shepherd.warning import end_warning, start_warning

CAUSE_CHECKPOINT: Final = 13
"""`xce.model.job.EndCause.CHKPNT`, which this program cannot import."""
STEP_KILL: Final = 4
"""`xce.worker.ending.STEP_KILL`, likewise."""
_NO_DIRECTORY: Final = 73
_NO_PROGRAM: Final = (126, 127)
# Others may make directories beside it, and ids of jobs can be foreseen: what is put into one that
# is another user's might go anywhere.
_RUN: Final = (
    f'mkdir -p -- "$LSB_CHKPNT_DIR" && [ -O "$LSB_CHKPNT_DIR" ] || exit {_NO_DIRECTORY}; '
    'exec >"$LSB_CHKPNT_DIR/echkpnt.out" 2>&1 && exec "$0" "$@"'
)


class _Saving(NamedTuple):
    attempt: Attempt
    pid: int
    program: str
    ends: bool
    due_us: int
    """When it has taken too long; 0: never."""
    warns: bool = False
    """It writes no checkpoint, but is the job's warning command."""


class Checkpoints:
    """The programs that write checkpoints now."""

    def __init__(self, reach: Reach, starter: Starter, null: int) -> None:
        self._reach = reach
        self._starter = starter
        self._null = null
        self._all: dict[int, _Saving] = {}
        """By pid."""
        self._late: set[int] = set()
        self._waiting: dict[Key, list[tuple[int, dict[str, Any]]]] = {}
        """What was asked for while another checkpoint was being written, in its order."""

    def take(
        self, attempt: Attempt | None, what: str, count: int, asked: dict[str, Any], now_us: int
    ) -> list[Event]:
        """Begin a checkpoint, or run a ``warning`` command; return what is to be told at once."""
        if attempt is None or attempt.state == ENDED or attempt.is_part:
            return []
        if what == "warning":
            self._warn(attempt, count, asked, now_us)
            return []
        if 0 < count <= attempt.number:
            return []
        if self.is_busy(attempt):
            # One that is due is written just now. One that was asked for counts when it begins, so
            # that it comes again should we be killed before.
            waiting = self._waiting.setdefault(attempt.key, []) if count else []
            if count and not (waiting and count <= waiting[-1][0]):
                waiting.append((count, asked))
            return []
        return self._begin(attempt, count, asked, now_us)

    def _warn(self, attempt: Attempt, which: int, asked: dict[str, Any], now_us: int) -> None:
        """Run the warning command of an attempt, if it was not run before this limit."""
        self._reach.begin()
        pids = self._reach.pids(attempt)
        pid = start_warning(attempt, which, asked, self._starter, pids, self._null)
        if pid:
            limit_us = int(asked["limit_us"])
            due_us = now_us + limit_us if limit_us else 0
            self._all[pid] = _Saving(attempt, pid, "it", ends=False, due_us=due_us, warns=True)
            self._reach.add_leader(pid, attempt)

    def _begin(
        self, attempt: Attempt, count: int, asked: dict[str, Any], now_us: int
    ) -> list[Event]:
        if count:
            # A signal that was sent while this waited has a higher number.
            attempt.number = max(attempt.number, count)
            rundir.note(attempt.path, ["signal", attempt.number, attempt.sent])
        attempt.saves, attempt.saved_us = attempt.saves + 1, now_us
        rundir.note(attempt.path, ["saves", attempt.saves, now_us])
        reason = self._why_not(attempt)
        if not reason:
            try:
                pid = self._start(attempt, asked)
            except OSError as error:
                reason = f"cannot start {asked['argv'][0]}: {error.strerror or error}"
            else:
                rundir.note(attempt.path, ["saver", pid])
                limit_us = int(asked["limit_us"])
                self._all[pid] = _Saving(
                    attempt, pid, asked["argv"][0], bool(asked["ends"]),
                    now_us + limit_us if limit_us else 0,
                )  # fmt: skip
                self._reach.add_leader(pid, attempt)
                return []
        return [_tell(attempt, ends=bool(asked["ends"]), detail=reason)]

    @staticmethod
    def _why_not(attempt: Attempt) -> str:
        if attempt.state == LEAVING or attempt.step:
            return "the job ends"
        if attempt.stands_still:
            return "the job is suspended"
        is_job = attempt.course is None or attempt.course.step.kind == MAIN
        return "" if is_job and attempt.pid else "only commands before or after the job run"

    def _start(self, attempt: Attempt, asked: dict[str, Any]) -> int:
        """Start the program.

        Raises:
            OSError: It cannot be started.
        """
        env = encode_env(asked["env"])
        env[MARK.encode()] = attempt.mark.encode()
        argv: list[str | bytes] = [SHELL, "-c", _RUN, *map(os.fsencode, asked["argv"])]
        argv.append(str(attempt.pid))
        umask = os.umask(asked["umask"] & 0o777)
        try:
            with As(attempt.ids), contextlib.suppress(OSError, ValueError):
                os.chdir(asked["cwd"])
            return self._starter.spawn_beside(attempt, argv, env, [self._null] * 3)
        finally:
            os.umask(umask)
            os.chdir("/")

    def is_busy(self, attempt: Attempt) -> bool:
        """Whether a checkpoint of an attempt is being written."""
        return any(one.attempt is attempt and not one.warns for one in self._all.values())

    def reap(self, pid: int, status: int, now_us: int) -> tuple[Attempt, list[Event]] | None:
        """Take the end of a program, and begin what waits for it; None: it is none of ours."""
        one = self._all.pop(pid, None)
        if one is None:
            return None
        self._reach.drop_leader(pid)
        code, number = split_status(status)
        fault = f"{one.program} ended with exit status {code}"
        if pid in self._late:
            self._late.discard(pid)
            fault = f"{one.program} took too long"
        elif number:
            fault = f"{one.program} was ended by signal {number}"
        elif code in _NO_PROGRAM:
            fault = f"{one.program} cannot be run on this host"
        elif code == _NO_DIRECTORY:
            fault = "the checkpoint directory cannot be made, or is another user's"
        if one.warns:
            end_warning(one.attempt, fault if code else "")
            return one.attempt, []
        told = [_tell(one.attempt, ends=one.ends, detail=fault if code else "")]
        waiting = self._waiting.pop(one.attempt.key, [])
        while waiting and not self.is_busy(one.attempt):
            told += self._begin(one.attempt, *waiting.pop(0), now_us)
        if waiting:
            self._waiting[one.attempt.key] = waiting
        return one.attempt, told

    def hold(self, attempt: Attempt) -> bool:
        """Whether an attempt whose shell has ended is not over, since its checkpoint is written.

        One that is ended on somebody's word takes the program with it.
        """
        if not self.is_busy(attempt):
            return False
        if attempt.step:
            self.end(attempt)
        return True

    def pids(self, attempt: Attempt) -> list[int]:
        """Return the programs that write a checkpoint of an attempt now, or warn it.

        They are no part of the job: what somebody signals to that goes past them.
        """
        return [pid for pid, one in self._all.items() if one.attempt is attempt]

    def end(self, attempt: Attempt) -> None:
        """Kill those programs."""
        _kill(self.pids(attempt))

    def end_late(self, now_us: int) -> None:
        """Kill programs that take too long."""
        late = [
            pid
            for pid, one in self._all.items()
            if 0 < one.due_us <= now_us and not one.attempt.frozen_us
        ]
        self._late.update(late)
        _kill(late)

    def next_due_us(self) -> int:
        """Return when a program has taken too long; 0: never."""
        due = [
            one.due_us
            for pid, one in self._all.items()
            if one.due_us and pid not in self._late and not one.attempt.frozen_us
        ]
        return min(due, default=0)


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _tell(attempt: Attempt, *, ends: bool, detail: str) -> Event:
    """Note what became of the last checkpoint; return the event."""
    attempt.outcome = [attempt.saves, ends, not detail, detail]
    rundir.note(attempt.path, ["saved", *attempt.outcome])
    if ends and not detail and attempt.state == LEAVING and not attempt.cause:
        # The program has ended the job itself.
        attempt.cause, attempt.step = CAUSE_CHECKPOINT, STEP_KILL
        rundir.note(attempt.path, ["ending", attempt.cause, attempt.step, attempt.saved_us])
    return ["checkpointed", *attempt.key, attempt.saved_us, attempt.outcome]


def end_unseen(attempt: Attempt) -> None:
    """Note that a checkpoint that an earlier shepherd had begun was not seen to end.

    Its program is killed, lest it and the next one write to the same place.
    """
    if attempt.saves > attempt.outcome[0] and attempt.state != ENDED:
        if attempt.saver and load_mark(attempt.saver) == attempt.mark:
            _kill([attempt.saver])
        _tell(attempt, ends=False, detail="the process that waited for it was killed")
