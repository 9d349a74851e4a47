"""An attempt as the shepherd knows it, what it tells the worker of it, and how it comes back.

Events are plain lists, the name first; `xce.worker.action` has their typed form. Instants are
microseconds of the monotonic clock, which all processes of one boot share.
"""

import array
import contextlib
import fcntl
import os
import struct
from typing import Any, Final, NamedTuple

from xce.worker.shepherd import rundir
from xce.worker.shepherd.hooks import CAUSE_PRE_EXEC, PRE, Course
from xce.worker.shepherd.proc import load_mark
from xce.worker.shepherd.rundir import Key, Stored
from xce.worker.shepherd.spawn import (
    CAUSE_OUTPUT,
    CODE_NOT_BEGUN,
    As,
    Ids,
    Trouble,
)
from xce.worker.shepherd.still import note_still

Event = list[Any]

CAUSE_STATUS_LOST: Final = 100
CAUSE_HOST_RESTARTED: Final = 101
"""Numbers of `xce.model.job.EndCause`, which this program cannot import."""

RUNNING: Final = 0
LEAVING: Final = 1
"""The job shell has ended; something may be left."""
ENDED: Final = 2

DETAIL_MAX: Final = 16 * 1024
"""Longest word about an end: the controller refuses one that is much longer."""
_UNSEEN: Final = "nobody saw the warning command end: what waited for it was killed"
_PIDFD_GET_INFO: Final = 0xC040FF0B
_PIDFD_INFO_EXIT: Final = 1 << 3
_PIDFD_INFO: Final = struct.Struct("=QQ11Ii")


CPU_AT: Final = 3
"""Where the limit of CPU time stands among the worker's own words about limits."""


class Now(NamedTuple):
    """What an attempt uses now."""

    greedy_kib: int = 0
    """Memory, where that is more than it may use."""
    cpu_us: int = 0
    swap_kib: int = 0
    processes: int = 0
    threads: int = 0


class Seen(NamedTuple):
    """What was seen of an attempt's memory, as often as it was looked at."""

    mem_kib: int = 0
    swap_kib: int = 0
    sum_kib: int = 0
    """Of all looks."""
    looks: int = 0


BEGUN_MAX: Final = 65_536
"""Names of so many tasks of a part are remembered."""


class Attempt:
    """One attempt, from its intent until the worker forgets it."""

    __slots__ = (
        "begun", "cause", "code", "course", "detail", "ended_us", "frozen_us", "grouped",
        "host_fault", "ids", "is_child", "is_counted", "is_part", "is_unheld", "key", "kills",
        "last", "limit_kib", "limits", "mark", "max_mem_kib", "max_processes", "max_threads",
        "name", "note", "now", "number", "oom", "outcome", "parts", "path", "pid", "pidfd",
        "report", "reported", "retry_us", "said", "saved_us", "saver", "saves", "says", "seen",
        "sent", "share", "signal", "started_us", "state", "step", "step_us", "stopped_us",
        "suspended_us", "system_us", "terminal", "user_us", "warned", "warning",
    )  # fmt: skip

    def __init__(self, key: Key, path: str, *, ids: Ids, note: str, mark: str) -> None:
        self.key = key
        self.name = rundir.name_of(key)
        self.path = path
        self.ids = ids
        self.note = note
        """The worker's own words; given back to it, never looked at."""
        self.mark = mark
        self.state = RUNNING
        self.pid, self.pidfd = 0, -1
        self.is_child = True
        self.course: Course | None = None
        """Of an attempt with hooks."""
        self.is_part = False
        """It has no job shell: another host leads it, see `xce.worker.shepherd.tasks`."""
        self.parts: list[str] = []
        """Other hosts that may have a part of it."""
        self.begun: dict[str, None] = {}
        """Of a part: the last names of tasks that were begun in it, or shall not be."""
        self.last: list[str] = []
        """The command that ends what serves its programs, see `xce.worker.shepherd.services`."""
        self.share: list[Any] = []
        """The daemon that it shares, as `xce.worker.order.ShareOrder`; empty: none."""
        self.grouped = self.is_unheld = self.is_counted = False
        """Whether it has a control group; whether the kernel does not hold its memory limit, which
        came later; whether it is measured for limits beside that of memory."""
        self.now, self.seen = Now(), Seen()
        self.limit_kib = 0
        self.limits: list[int] = []
        """Limits that were set since it was started: the worker's own words."""
        self.started_us = self.ended_us = self.suspended_us = 0
        """Since when it is stopped; 0: it is not."""
        self.frozen_us = self.stopped_us = 0
        """Since when it stands still for its lease (0: it does not); how long it stood still before
        that, for either."""
        self.number = self.sent = 0
        """The last of the user's signals that was delivered, and which it was."""
        self.saves = self.saved_us = self.saver = 0
        """How many checkpoints were begun, when the last was, and which process writes it."""
        self.outcome: list[Any] = [0, False, False, ""]
        """Of the last one that is over: its number, whether the job ends with it, whether it is
        good, and what went wrong."""
        self.warned, self.warning = -1, ""
        """Before which run limit its warning command was run last, and what went wrong with it."""
        self.terminal = ""
        """``I``, ``Ip`` or ``Is`` of an interactive job."""
        self.cause = self.step = self.step_us = 0
        self.code = self.signal = self.kills = self.retry_us = 0
        self.detail = self.report = ""
        self.said = ""
        """Who ended it, in its own words."""
        self.host_fault = self.reported = self.oom = self.says = False
        """And whether it may leave a last word."""
        self.user_us = self.system_us = self.max_mem_kib = self.max_processes = self.max_threads = 0

    @property
    def is_held(self) -> bool:
        """Whether the kernel may hold its memory limit."""
        return self.grouped and not self.is_unheld

    def hold_to(self, mem_limit_kib: int, limits: list[int]) -> None:
        """Have other limits than those that it was started with."""
        self.limit_kib, self.limits = mem_limit_kib, limits
        self.is_counted = self.is_counted or (len(limits) > CPU_AT and limits[CPU_AT] > 0)

    def note_task(self, name: str) -> None:
        """Remember that no (other) task of this name is to be started."""
        self.begun[name] = None
        if len(self.begun) > BEGUN_MAX:
            del self.begun[next(iter(self.begun))]

    def fail(self, trouble: Trouble, now_us: int) -> None:
        """Let it end without having run."""
        self.state = ENDED
        self.code = trouble.exit_code
        self.cause = trouble.cause
        self.detail = trouble.detail
        self.host_fault = trouble.host_fault
        self.started_us = self.ended_us = now_us

    def leave(self, *, code: int, signal: int, now_us: int) -> None:
        """Note that the job shell has ended."""
        self.state = LEAVING
        self.code, self.signal, self.ended_us = code, signal, now_us
        self.retry_us = 0

    def lose(self, cause: int, detail: str, now_us: int) -> None:
        """Note that nobody knows how the job shell ended."""
        self.leave(code=1, signal=0, now_us=now_us)
        self.cause = self.cause or cause
        self.detail = self.detail or detail

    def note_still(self, now_us: int, *, still: bool, by_lease: bool = False) -> None:
        """Count the time that it stands still."""
        note_still(self, now_us, still=still, by_lease=by_lease)

    @property
    def stands_still(self) -> bool:
        """Whether what is started in it now would stand still, and whoever enters its group."""
        return bool(self.suspended_us or self.frozen_us)

    @property
    def has_more(self) -> bool:
        """Whether a kill keeps anything of its job from running: something that runs, or that would
        be started next.
        """
        if self.state == LEAVING and self.course is not None and self.course.step.kind == PRE:
            return True
        return self.state == RUNNING or (self.state == LEAVING and self.step > 0)

    def present(self) -> Event:
        """Return how it is told to a worker that has just come."""
        return [
            "present", *self.key, self.note, self._job_pid, self.started_us, self.suspended_us,
            self.stopped_us, self.number, self.cause, self.step, self.step_us, self.reported,
            self.limits, self.is_part, self.parts,
            self.course is not None and self.course.is_posting, self.saved_us, self.outcome,
            self.frozen_us,
        ]  # fmt: skip

    @property
    def _job_pid(self) -> int:
        """The job shell's; 0 while a pre hook runs."""
        is_before = self.course is not None and self.course.step.kind == PRE
        return 0 if is_before else self.pid

    def started(self) -> Event:
        """Return the event that it runs."""
        return ["started", *self.key, self.pid, self.started_us]

    def usage(self) -> Event:
        """Return what it uses: too much memory, or what it is measured for."""
        return ["usage", *self.key, self.now.greedy_kib, self.oom, *self.now[1:]]

    def use(self, pids: list[int]) -> list[Any]:
        """Return what it uses, as `xce.model.usage.AttemptUse`, behind a look at it.

        Args:
            pids: Its processes.
        """
        seen = self.seen
        average_kib = seen.sum_kib // seen.looks if seen.looks else 0
        return [
            *self.key, self.now.cpu_us, seen.mem_kib, self.max_mem_kib, average_kib, seen.swap_kib,
            self.now.threads + (0 if self.is_part else 1), self.pid, pids,
        ]  # fmt: skip

    def ended(self) -> Event:
        """Return the event that nothing is left of it."""
        cause, code = self.cause, self.code
        if self.detail and not cause:
            cause, code = CAUSE_OUTPUT, code or 1
        post, said = 0, self.detail or self.said
        # What was killed with the job shell may have been nobody's child: the last look saw it.
        user_us = max(self.user_us, self.now.cpu_us - self.system_us)
        if self.course is not None:
            post = self.course.post
            said = "; ".join(filter(None, (said, self.course.post_detail)))
        said = "; ".join(filter(None, (said, self.warning)))
        return [
            "ended", *self.key, self.started_us, self.ended_us, code, self.signal, cause,
            self.host_fault, printable(said)[:DETAIL_MAX], user_us, self.system_us,
            self.max_mem_kib, self.max_processes, self.max_threads, self.oom, bool(self.report),
            post,
        ]  # fmt: skip


def intent_of(attempt: Attempt, boot: str) -> dict[str, Any]:
    """Return the first line of the attempt's intent."""
    return {
        "key": list(attempt.key),
        "mark": attempt.mark,
        "boot": boot,
        "at": attempt.started_us,
        "uid": attempt.ids.uid,
        "gid": attempt.ids.gid,
        "groups": list(attempt.ids.groups),
        "limit_kib": attempt.limit_kib,
        "counted": attempt.is_counted,
        "grouped": attempt.grouped,
        "report": attempt.report,
        "detail": attempt.detail,
        "terminal": attempt.terminal,
        "says": attempt.says,
        "part": attempt.is_part,
        "last": attempt.last,
        "share": attempt.share,
        "plan": attempt.course.plan if attempt.course is not None else None,
        "note": attempt.note,
    }


def restore(stored: Stored, path: str, *, boot: str, now_us: int) -> Attempt:
    """Return an attempt as its run directory tells it: running, leaving or ended.

    One whose job shell has not written its pid yet is returned with pid 0 and still running; the
    caller looks for it by its mark.
    """
    intent = stored.intent
    ids = Ids(int(intent["uid"]), int(intent["gid"]), tuple(intent["groups"]))
    attempt = Attempt(stored.key, path, ids=ids, note=intent["note"], mark=intent["mark"])
    attempt.is_child = False
    attempt.limit_kib = int(intent["limit_kib"])
    attempt.is_counted = bool(intent.get("counted"))
    attempt.grouped = bool(intent["grouped"])
    attempt.started_us = int(intent["at"])
    attempt.report, attempt.detail = intent["report"], intent["detail"]
    attempt.terminal = str(intent.get("terminal", ""))
    attempt.says = bool(intent.get("says", False))
    attempt.is_part = bool(intent.get("part"))
    attempt.last, attempt.share = list(intent.get("last", [])), list(intent.get("share", []))
    attempt.pid = stored.pid
    if intent.get("plan"):
        attempt.course = Course(intent["plan"])
        attempt.course.begin(attempt.started_us)
        attempt.course.is_recorded = True
    for note in stored.notes:
        _read_note(attempt, note)
    if intent["boot"] != boot:
        if attempt.state != ENDED:
            attempt.lose(0, "the host was restarted while it ran", now_us)
            attempt.cause = CAUSE_HOST_RESTARTED
        # The monotonic clock began anew: all that can be said is that it is over.
        attempt.started_us = attempt.ended_us = now_us
        attempt.suspended_us = attempt.frozen_us = attempt.stopped_us = 0
        attempt.state = ENDED
    elif attempt.state == ENDED:
        return attempt
    elif stored.exit_code >= 0:
        attempt.leave(code=stored.exit_code, signal=0, now_us=now_us - stored.status_age_us)
    elif attempt.pid and not watch(attempt):
        take_status(attempt, now_us)
    return attempt


def take_status(attempt: Attempt, now_us: int) -> bool:
    """Take the end of an adopted job shell that does not live; False: it has not run at all.

    The status file is read again, since the shell may have ended between an earlier look at the
    file and the look for the shell.
    """
    stored = rundir.load(attempt.path, attempt.key, wall_us=0)
    if stored is None or not stored.pid:
        return False
    attempt.pid = stored.pid
    if stored.exit_code >= 0:
        attempt.leave(code=stored.exit_code, signal=0, now_us=now_us)
    else:
        attempt.lose(CAUSE_STATUS_LOST, "its shell and the shepherd were both killed", now_us)
    return True


def watch(attempt: Attempt) -> bool:
    """Hold on to a living job shell that is no child of ours; False: it does not live."""
    try:
        pidfd = os.pidfd_open(attempt.pid)
    except (OSError, ValueError):
        return False
    # Only now: a pid that is used again between look and open would be somebody else.
    if load_mark(attempt.pid) != attempt.mark:
        os.close(pidfd)
        return False
    attempt.pidfd = pidfd
    return True


def load_exit(attempt: Attempt) -> tuple[int, int] | None:
    """Return exit code and signal of an adopted job shell that has ended; None: nobody knows.

    The status file says it; where the shell was killed, the kernel says it from 6.15 on.
    """
    stored = rundir.load(attempt.path, attempt.key, wall_us=0)
    if stored is not None and stored.exit_code >= 0:
        return stored.exit_code, 0
    answer = array.array("B", _PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *([0] * 13)))
    with contextlib.suppress(OSError):
        fcntl.ioctl(attempt.pidfd, _PIDFD_GET_INFO, answer, True)
        fields = _PIDFD_INFO.unpack(answer.tobytes())
        if fields[0] & _PIDFD_INFO_EXIT:
            return split_status(fields[-1])
    return None


def take_fault(attempt: Attempt) -> bool:
    """Take why the job shell did not come to run the script; False: it did, as far as is known."""
    if attempt.code != CODE_NOT_BEGUN or attempt.cause:
        return False
    stored = rundir.load(attempt.path, attempt.key, wall_us=0)
    if stored is None or not stored.fault:
        return False
    attempt.cause, attempt.detail = CAUSE_PRE_EXEC, stored.fault
    return True


def load_said(attempt: Attempt) -> str:
    """Return the last word of an attempt's step: one line, read as its user; empty: none."""
    path = f"{attempt.path}/{rundir.JOB}/{rundir.SAID}"
    try:
        with As(attempt.ids):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        content = os.read(fd, rundir.SAID_MAX)
    except OSError:
        content = b""
    finally:
        os.close(fd)
    line = content.decode("utf-8", "replace").split("\n", 1)[0]
    return "".join(sign for sign in line if sign.isprintable())


def note_end(attempt: Attempt) -> None:
    """Write down what is known of an ended attempt."""
    fields = {name: getattr(attempt, name) for name in ENDED_FIELDS}
    rundir.note(attempt.path, ["ended", fields])


def printable(text: str) -> str:
    """Return a text without the escapes that stand for bytes that are no UTF-8."""
    return text if text.isascii() else os.fsencode(text).decode("utf-8", "replace")


def split_status(status: int) -> tuple[int, int]:
    """Return exit code and signal of a wait status: 128 + n when signal n ended it."""
    code = os.waitstatus_to_exitcode(status)
    return (128 - code, -code) if code < 0 else (code, 0)


def _read_note(attempt: Attempt, note: list[Any]) -> None:
    match note:
        case ["ending", int(cause), int(step), int(at_us)]:
            attempt.cause, attempt.step, attempt.step_us = cause, step, at_us
        case ["signal", int(number), *sent]:
            attempt.number, attempt.sent = number, sent[0] if sent else 0
        case ["suspended" | "frozen" as what, bool(still), int(at_us)]:
            attempt.note_still(at_us, still=still, by_lease=what == "frozen")
        case ["limits", int(mem_limit_kib), list(limits)]:
            attempt.hold_to(mem_limit_kib, limits)
        case ["step", str(), list(facts), str(report), str(detail)] if attempt.course is not None:
            attempt.course.recall(facts)
            attempt.report, attempt.detail = report, detail
            attempt.started_us = attempt.course.began_us
            attempt.cause = attempt.step = attempt.sent = 0
            attempt.suspended_us = attempt.frozen_us = 0
        case ["course", int(post), str(detail)] if attempt.course is not None:
            attempt.course.post, attempt.course.post_detail = post, detail
            attempt.course.is_over = True
        case ["lead", str(host)]:
            attempt.parts.append(host)
        case ["task", str(name)]:
            attempt.note_task(name)
        case ["reported"]:
            attempt.reported = True
        case ["ended", dict(fields)]:
            for name, value in fields.items():
                setattr(attempt, name, value)
            attempt.state = ENDED
        case _:
            _read_checkpoint(attempt, note)


def _read_checkpoint(attempt: Attempt, note: list[Any]) -> None:
    match note:
        case ["saves", int(saves), int(at_us)]:
            attempt.saves, attempt.saved_us, attempt.saver = saves, at_us, 0
        case ["saver", int(pid)]:
            attempt.saver = pid
        case ["saved", *outcome]:
            attempt.outcome = outcome
        case ["warned", int(which)]:
            attempt.warned, attempt.warning = which, _UNSEEN
        case ["warning", str(text)]:
            attempt.warning = text
        case _:
            pass


ENDED_FIELDS: Final = (
    "started_us", "ended_us", "code", "signal", "cause", "host_fault", "detail", "user_us",
    "system_us", "max_mem_kib", "max_processes", "max_threads", "oom", "report", "said",
)  # fmt: skip
"""What is written down of an ended attempt when the shepherd leaves or the status is not enough."""
