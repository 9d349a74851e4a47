"""Starting one job shell: ids, streams, working directory, and the shell's own few lines.

The shepherd has one thread, so it may take on the user's ids, umask and working directory for a
moment: files are opened and the shell is started as the user, without a fork of our own memory and
without another program in between. Files are opened with the effective ids only, so that the user
cannot signal the shepherd meanwhile; while the shell is started (about 0.1 ms) he may, and its
death loses nothing (decision X-24).

The **job shell** is ``/bin/sh -c CODE SCRIPT ARGUMENTS``, so ``$0`` is the script and ``$1`` its
first argument. It writes its pid to descriptor 9 (the status file), catches signals that go to the
whole job, so that it outlives them and can write down the status, and then runs the script

* ``exec``: as a program, when its first line is ``#!...``;
* ``source``: by a shell of its own, so that ``exit``, ``trap`` and ``kill $$`` inside it mean the
  script and cannot skip the status;
* ``simple``: in itself, when the script is nothing but the name of a program and plain words:
  nothing in it can leave or change the shell, and it saves a fork (0.25 ms).

A caught signal has its default effect again in the programs that the shell starts.
"""

import errno
import os
from typing import Any, Final, NamedTuple

from xce.worker.shepherd import rundir
from xce.worker.shepherd.bind import Bound, binding
from xce.worker.shepherd.proc import MARK
from xce.worker.shepherd.terminal import Ends

SHELL: Final = "/bin/sh"
STATUS_FD: Final = 9
CODE_NOT_BEGUN: Final = 125
"""The status of a job shell that did not come to run the script."""
CAUGHT: Final = (1, 2, 3, 5, 6, 10, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 25, 26, 27, 29, 30, 31)
"""Signals that the job shell catches and lets pass."""
_BEFORE: Final = f"echo $$ >&{STATUS_FD};trap : {' '.join(map(str, CAUGHT))};export LS_JOBPID=$$;"
_AFTER: Final = f"s=$?;echo $s >&{STATUS_FD};exit $s"
CODE: Final = {
    "simple": f'{_BEFORE}. "$0" {STATUS_FD}>&-;{_AFTER}',
    "source": f'{_BEFORE}{SHELL} "$0" "$@" {STATUS_FD}>&-;{_AFTER}',
    "hook": f'{_BEFORE}{SHELL} -c "$0" {STATUS_FD}>&-;{_AFTER}',
    "exec": f'{_BEFORE}"$0" "$@" {STATUS_FD}>&-;{_AFTER}',
}
"""The job shell's code by the way the script is run."""


def _job_code(login: str, way: str, limits: str, before: str) -> str:
    """Return the job shell's code.

    ``before`` is what it does before the script; where that leaves a text in ``$XCE_MPS``, the
    script does not run, and the text stands behind the status.
    """
    if not before:
        return _script_code(login, way, limits)
    fails = f'echo {CODE_NOT_BEGUN} >&{STATUS_FD};echo "$XCE_MPS" >&{STATUS_FD}'
    return (
        f'{_BEFORE}{before}[ -z "$XCE_MPS" ]||{{ {fails};exit {CODE_NOT_BEGUN};}};unset XCE_MPS;'
        + _script_code(login, way, limits).removeprefix(_BEFORE)
    )


def _script_code(login: str, way: str, limits: str) -> str:
    """Return the job shell's code around the script alone.

    Limits are set in a shell below it: it must be able to note the status.

    ``login`` is the shell in whose login files' surroundings the script runs; empty: in none.
    ``limits`` are words of the shell that set limits; empty: there are none.
    """
    if not login and not limits:
        return CODE[way]
    runner = "" if way == "exec" else f"{SHELL} "
    if login:
        command = f'{login} -l -c \'exec "$0" "$@"\' {runner}"$0" "$@"'
    else:
        command = '. "$0"' if way == "simple" else f'exec {runner}"$0" "$@"'
    command = f"({limits}{command})" if limits else command
    return f"{_BEFORE}{command} {STATUS_FD}>&-;{_AFTER}"


CAUSE_CWD: Final = 25
CAUSE_START_FAILED: Final = 103
CAUSE_OUTPUT: Final = 104
"""Numbers of `xce.model.job.EndCause`, which this program cannot import."""

_JOBS_FAULT: Final = frozenset(
    {errno.E2BIG, errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ELOOP, errno.EINVAL}
)
"""What starting the shell may fail of that no other host would do better."""


OUR_UID: Final = os.geteuid()
_HOSTS_FAULT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What opening a file may fail of that is not about the file."""


class Ids(NamedTuple):
    """Whose process it will be."""

    uid: int
    gid: int
    groups: tuple[int, ...]

    @property
    def are_ours(self) -> bool:
        """Whether nothing needs to change."""
        return self.uid == OUR_UID

    def take(self, *, for_program: bool) -> None:
        """Take them on, keeping the way back.

        Args:
            for_program: Whether a program is started: it must not have our real user id. For
                files the effective one counts.

        Raises:
            OSError: We are not root.
        """
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid if for_program else -1, self.uid, 0)

    @staticmethod
    def give_back(own_groups: list[int]) -> None:
        """Be root again."""
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(own_groups)


class As:
    """``with As(ids):`` does what is inside as that user. Not for more than one thread."""

    def __init__(self, ids: Ids, *, for_program: bool = False) -> None:
        self._ids = None if ids.are_ours else ids
        self._for_program = for_program
        self._own_groups: list[int] = []

    def __enter__(self) -> None:
        if self._ids is not None:
            self._own_groups = os.getgroups()
            try:
                self._ids.take(for_program=self._for_program)
            except OSError:
                if os.getuid() == 0 or os.getresuid()[2] == 0:
                    Ids.give_back(self._own_groups)
                raise

    def __exit__(self, *_: object) -> None:
        if self._ids is not None:
            Ids.give_back(self._own_groups)


class Stream(NamedTuple):
    """A file that a job's stream goes to."""

    path: str
    append: bool


class Files(NamedTuple):
    """Where the job runs and where its three streams go; paths are relative to ``cwd``."""

    cwd: str
    make_cwd: bool
    """Whether the working directory is made where it is missing."""

    input: str
    """Empty: the null device."""
    output: Stream | None
    """None: kept by the cluster."""
    error: Stream | None
    """None: with the output."""
    stem: str
    """Name of a file in a directory that was given instead of a file: ``<stem>.out``."""
    output_dir: str = ""
    """Made before the streams are opened; empty: none."""


def files_of(shared: dict[str, Any], rest: list[Any]) -> Files:
    """Return where a job runs and its streams go; ``rest``: input, output, error and stem."""
    source, output, error, stem = rest
    return Files(
        shared["cwd"], shared["make_cwd"], source, Stream(*output) if output else None,
        Stream(*error) if error else None, str(stem), shared.get("output_dir", ""),
    )  # fmt: skip


class Trouble(Exception):  # noqa: N818 - it is one of the three kinds of going wrong
    """The job cannot be started."""

    def __init__(self, detail: str, *, cause: int, exit_code: int, host_fault: bool) -> None:
        super().__init__(detail)
        self.detail = detail
        self.cause = cause
        self.exit_code = exit_code
        self.host_fault = host_fault


class Opened(NamedTuple):
    """Descriptors for the shell; equal ones are closed once."""

    input: int
    output: int
    error: int
    report: str
    """Path that the job's report is added to; empty: nowhere."""
    detail: str
    """Why output is kept by the cluster although a file was named; empty: it is as asked."""

    def close(self, null: int) -> None:
        """Close what was opened."""
        for fd in {self.input, self.output, self.error} - {null}:
            os.close(fd)


def open_files(files: Files, ids: Ids, *, path: str, null: int, ends: Ends | None = None) -> Opened:
    """Enter the working directory and open the streams, as the user, under the present umask.

    An output file that cannot be opened does not stop the job: its output is kept by the cluster
    and the job ends with the reason.

    ``path`` is the run directory, where output is kept;
    ``null`` is an open null device;
    ``ends`` is what an interactive job has in place of it, and of output that is kept.

    Raises:
        Trouble: The directory is missing or the input cannot be opened (the job's fault), or the
            host has no room or no descriptors.
    """
    opened: list[int] = []
    detail = ""
    output = error = source = null
    report = ""
    try:
        with As(ids):
            source = _enter(files, opened, null if ends is None else os.dup(ends.input))
            if files.output is not None:
                output, report, detail = _open_output(files.output, f"{files.stem}.out", "output")
                opened.append(output)
            if files.error is not None:
                error, _, problem = _open_output(files.error, f"{files.stem}.err", "error")
                opened.append(error)
                detail = "; ".join(filter(None, (detail, problem)))
        if files.output is None or output < 0 or error < 0:
            if ends is None:
                kept = rundir.open_out(path, uid=ids.uid, gid=ids.gid)
            else:
                kept = os.dup(ends.output)
            opened.append(kept)
            output = kept if files.output is None or output < 0 else output
            error = kept if error < 0 else error
        if files.error is None:
            error = output
    except OSError as trouble:
        _close(opened)
        raise Trouble(
            f"cannot prepare the job: {trouble}",
            cause=CAUSE_START_FAILED,
            exit_code=1,
            host_fault=True,
        ) from trouble
    except Trouble:
        _close(opened)
        raise
    return Opened(source, output, error, "" if report == os.devnull else report, detail)


def start_shell(  # noqa: PLR0913 - each is named where it is called
    *,
    script: list[str],
    way: str,
    env: dict[bytes, bytes],
    mark: str,
    opened: Opened,
    status: int,
    ids: Ids,
    terminal: str = "",
    login: str = "",
    bound: Bound | None = None,
    limits: str = "",
    before: str = "",
) -> int:
    """Start the job shell and return its pid.

    ``terminal`` is the path of what shall be its controlling terminal; empty: it has none.
    ``login`` is the path of a shell that reads its login files before; empty: none does.
    ``bound`` is what it is bound to.
    ``limits`` are words of the shell that set limits of processes.
    ``before`` are words of the shell that come before the script, see `_job_code`.

    Raises:
        Trouble: It could not be started.
    """
    env[MARK.encode()] = mark.encode()
    actions = (
        # The leader of a session gets the first terminal that it opens as its own.
        (os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0)
        if terminal
        else (os.POSIX_SPAWN_DUP2, opened.input, 0),
        (os.POSIX_SPAWN_DUP2, opened.output, 1),
        (os.POSIX_SPAWN_DUP2, opened.error, 2),
        (os.POSIX_SPAWN_DUP2, status, STATUS_FD),
    )
    arguments = [SHELL, "-c", _job_code(login, way, limits, before), *script]
    try:
        with binding(bound), As(ids, for_program=True):
            return os.posix_spawn(
                SHELL, arguments, env, file_actions=actions, setsid=True, setsigmask=()
            )
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else errno.EINVAL
        raise Trouble(
            f"cannot start the job shell: {error}",
            cause=CAUSE_START_FAILED,
            exit_code=126,
            host_fault=number not in _JOBS_FAULT,
        ) from error


def _enter(files: Files, opened: list[int], null: int) -> int:
    """Enter the working directory and return the open input."""
    cwd, source = files.cwd, files.input
    try:
        try:
            os.chdir(cwd)
        except FileNotFoundError:
            if not files.make_cwd:
                raise
            os.makedirs(cwd, exist_ok=True)  # noqa: PTH103
            os.chdir(cwd)
    except (OSError, ValueError) as error:
        raise Trouble(
            f"cannot enter the working directory {cwd}: {_reason(error)}",
            cause=CAUSE_CWD,
            exit_code=2,
            host_fault=False,
        ) from error
    _make_output_directory(files.output_dir)
    if not source or source == os.devnull:
        return null
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        opened.append(fd)
        os.set_blocking(fd, True)
    except (OSError, ValueError) as error:
        raise _file_trouble(f"open the input file {source}", error) from error
    return fd


def _make_output_directory(path: str) -> None:
    """Make the directory of ``-outdir``, if there is one."""
    try:
        if path:
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
    except (OSError, ValueError) as error:
        raise _file_trouble(f"make the output directory {path}", error) from error


def _file_trouble(what: str, error: OSError | ValueError) -> Trouble:
    """Return why an attempt cannot begin here or anywhere: one of its files cannot be used."""
    return Trouble(
        f"cannot {what}: {_reason(error)}", cause=CAUSE_OUTPUT, exit_code=1, host_fault=False
    )


def _open_output(stream: Stream, inside: str, what: str) -> tuple[int, str, str]:
    """Return an open file (or -1), its path from the root, and what went wrong (or nothing)."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    if not stream.append:
        flags |= os.O_TRUNC
    path = stream.path
    try:
        try:
            fd = os.open(path, flags, 0o666)
        except IsADirectoryError:
            path = f"{path.rstrip('/')}/{inside}"
            fd = os.open(path, flags, 0o666)
        # It must not block us when it is a pipe without a reader, but it must block the job.
        os.set_blocking(fd, True)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _HOSTS_FAULT:
            raise
        return -1, "", f"cannot open the {what} file {path}: {_reason(error)}"
    return fd, os.path.join(os.getcwd(), path), ""  # noqa: PTH109, PTH118


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else str(error)) or str(error)


def _close(fds: list[int]) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)


def encode_env(env: dict[str, str]) -> dict[bytes, bytes]:
    """Return an environment as the kernel takes it."""
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
