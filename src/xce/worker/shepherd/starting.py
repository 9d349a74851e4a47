"""Starting an attempt: its run directory, its streams, its control groups, its job shell."""

import contextlib
import errno
import os
from collections.abc import Iterable
from typing import Any

from xce.worker.shepherd import attempts, rundir
from xce.worker.shepherd.attempts import Attempt
from xce.worker.shepherd.bind import Bound, binding, bound_of, hold_to
from xce.worker.shepherd.cgroups import Groups
from xce.worker.shepherd.rundir import RunDirectories
from xce.worker.shepherd.spawn import (
    CAUSE_START_FAILED,
    As,
    Files,
    Opened,
    Trouble,
    open_files,
    start_shell,
)
from xce.worker.shepherd.terminal import Terminals


class Starter:
    """Starts the attempts of one host."""

    def __init__(
        self, directories: RunDirectories, groups: Groups | None, terminals: Terminals,
        *, boot: str, null: int,
    ) -> None:  # fmt: skip
        self._directories = directories
        self._groups = groups
        self._terminals = terminals
        self._boot = boot
        self._null = null

    def start(
        self, attempt: Attempt, shared: dict[str, Any], env: dict[bytes, bytes], files: Files,
        now_us: int,
    ) -> None:  # fmt: skip
        """Start the job shell of an attempt.

        Raises:
            Trouble: It could not be started; nothing is left of it.
        """
        ids, path = attempt.ids, attempt.path
        opened = ends = None
        status = -1
        try:
            self._make_directory(attempt)
            env[b"XCE_JOB_HOST_DIR"] = os.fsencode(f"{path}/{rundir.JOB}")
            if attempt.terminal:
                ends = self._terminals.open(
                    attempt.key, attempt.terminal, shared["window"], ids.uid, ids.gid, now_us
                )
            opened = open_files(files, ids, path=path, null=self._null, ends=ends)
            attempt.report, attempt.detail = opened.report, opened.detail
            attempt.grouped = self._groups is not None
            status = self._record(attempt)
            self.enter_groups(attempt)
            bound = bound_of(shared.get("bindings", {}).get(str(attempt.key[1])))
            try:
                attempt.pid = start_shell(
                    script=shared["script"], way=shared["way"], env=env, mark=attempt.mark,
                    opened=opened, status=status, ids=ids,
                    terminal=ends.path if ends is not None else "", login=shared.get("login", ""),
                    bound=bound, limits=shared.get("limit_code", ""),
                    before=shared.get("before", {}).get(str(attempt.key[1]), ""),
                )  # fmt: skip
            finally:
                self.leave_groups(attempt, bound)
            if ends is not None:
                self._terminals.start(attempt.key)
        except OSError as error:
            self._undo(attempt)
            raise _unready(error) from error
        except Trouble:
            self._undo(attempt)
            raise
        finally:
            if opened is not None:
                opened.close(self._null)
            if ends is not None:
                ends.close()
            if status >= 0:
                os.close(status)

    def start_hook(self, attempt: Attempt, command: str, env: dict[bytes, bytes], cwd: str) -> None:
        """Start a hook of an attempt, in the job's directory if it can be entered.

        Raises:
            Trouble: It could not be started.
        """
        status = -1
        try:
            self._make_directory(attempt)
            env[b"XCE_JOB_HOST_DIR"] = os.fsencode(f"{attempt.path}/{rundir.JOB}")
            attempt.grouped = self._groups is not None
            status = self._record(attempt)
            with As(attempt.ids), contextlib.suppress(OSError, ValueError):
                os.chdir(cwd)
            self.enter_groups(attempt)
            try:
                attempt.pid = start_shell(
                    script=[command], way="hook", env=env, mark=attempt.mark, status=status,
                    opened=Opened(self._null, self._null, self._null, "", ""), ids=attempt.ids,
                )  # fmt: skip
            finally:
                self.leave_groups(attempt, None)
        except OSError as error:
            self._undo(attempt)
            raise Trouble(str(error), cause=0, exit_code=1, host_fault=True) from error
        except Trouble:
            self._undo(attempt)
            raise
        finally:
            if status >= 0:
                os.close(status)

    def _make_directory(self, attempt: Attempt) -> None:
        if attempt.course is None or not attempt.course.is_recorded:
            self._directories.create(attempt.path, uid=attempt.ids.uid, gid=attempt.ids.gid)

    def _record(self, attempt: Attempt) -> int:
        """Write down what is about to be started; return the open status file."""
        course = attempt.course
        if course is not None and course.is_recorded:
            step = ["step", attempt.mark, course.facts(), attempt.report, attempt.detail]
            return rundir.store_step(attempt.path, step, attempt.mark)
        status = rundir.store_intent(attempt.path, attempts.intent_of(attempt, self._boot))
        if course is not None:
            course.is_recorded = True
        return status

    def open_part(self, attempt: Attempt) -> None:
        """Make the place of a part: no process runs in it yet.

        Raises:
            Trouble: The host is to blame; nothing is left of it.
        """
        attempt.is_part = True
        try:
            self._directories.create(attempt.path, uid=attempt.ids.uid, gid=attempt.ids.gid)
            attempt.grouped = self._groups is not None
            os.close(rundir.store_intent(attempt.path, attempts.intent_of(attempt, self._boot)))
        except OSError as error:
            self._undo(attempt)
            raise _unready(error) from error

    def spawn_beside(
        self, attempt: Attempt, argv: list[bytes] | list[str] | list[str | bytes],
        env: dict[bytes, bytes], streams: Iterable[int], bound: Bound | None = None,
    ) -> int:  # fmt: skip
        """Start a program in an attempt's groups, as its user, in a session of its own.

        Args:
            attempt: Whose it is.
            argv: The path of the program, and its arguments.
            env: Its whole environment.
            streams: What becomes its first descriptors.
            bound: The processors and memory that it is held to.

        Raises:
            OSError: It cannot be started.
        """
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)]
        try:
            self.enter_groups(attempt)
            with binding(bound), As(attempt.ids, for_program=True):
                return os.posix_spawn(
                    argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=()
                )
        except ValueError as error:
            raise OSError(errno.EINVAL, f"cannot be run: {error}") from error
        finally:
            self.leave_groups(attempt, bound)
            self.go_home()

    def enter_groups(self, attempt: Attempt) -> None:
        """Move into an attempt's control groups, which are made where they are not there.

        Nobody else moves into any: who does while they are frozen stands still with them.

        Raises:
            OSError: It cannot be done, or the attempt stands still.
        """
        if attempt.stands_still:
            raise OSError(errno.EBUSY, "nothing is started in what stands still")
        if self._groups is not None:
            self._groups.enter(attempt.name)
            if attempt.limit_kib:
                self._groups.enter_memory(attempt.name)

    def leave_groups(self, attempt: Attempt, bound: Bound | None) -> None:
        """Leave the group of a job with limits, and only then set them; from others we move on."""
        if self._groups is None or not (attempt.limit_kib or bound):
            return
        self._groups.leave()
        if attempt.limit_kib:
            self._groups.leave_memory()
            self._groups.limit_memory(attempt.name, attempt.limit_kib)
        hold_to(self._groups, attempt.name, bound)

    def go_home(self) -> None:
        """Leave the last control group that was entered."""
        if self._groups is not None:
            self._groups.leave()

    def _undo(self, attempt: Attempt) -> None:
        """Remove what a failed start has left."""
        self._terminals.drop(attempt.key)
        if attempt.grouped and self._groups is not None:
            self._groups.leave()
            self._groups.remove(attempt.name)
        if attempt.course is not None and attempt.course.is_recorded:
            return  # other steps follow
        rundir.clean(attempt.path, kept="")
        attempt.report = ""


def _unready(error: OSError) -> Trouble:
    detail = f"cannot prepare the job: {error}"
    return Trouble(detail, cause=CAUSE_START_FAILED, exit_code=1, host_fault=True)
