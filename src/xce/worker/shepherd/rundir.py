"""Run directories: what must outlive the shepherd, in as few files as it can be.

``<runs>/<jobid>.<index>.<attempt>/`` holds

* ``intent``: written before the spawn; its first line says what is being started, each further
  line what became of it that no process tells (a signal was sent, it was stopped, ...).
* ``status``: the attempt's mark, and then two lines of the job shell's own: its pid, written
  before anything of the user's runs, and the exit status; behind these may stand why the script was
  not run at all. Writing aside and renaming would take a
  program of its own for every job (0.6 ms); a single short `write` with a newline at its end is as
  good: a line without its newline counts as absent.
* ``out``: output that the cluster keeps, because no file was named or none could be opened. When
  the attempt is forgotten it is moved beside the run directories, until its retention is over.
* ``job``: the job's own directory, in which it may do what it likes.

A ``status`` without a pid means that nothing of the user's has run. A process is the job shell of
an attempt if the attempt's mark, with a token that is in ``intent`` only, stands in its
environment: that is stronger than a start time, which two starts in one clock tick share.

Directories and their files are used again for later attempts of the same user (`RunDirectories`).
A filesystem like ext4 does not reuse an inode for five seconds after its removal, and searches
longer and longer for one that it may use: three new files a job cost 1 ms each at some hundred jobs
a second, a rename costs 10 us. Before a file is written again it is cut to one byte, which is no
line: a writer that is killed leaves nothing of the attempt before. It is not cut to nothing, since
ext4 then writes the file out when it is closed.
"""

import contextlib
import json
import os
import stat
from typing import Any, Final, NamedTuple

Key = tuple[int, int, int]
"""``(jobid, index, attempt)``."""

INTENT: Final = "intent"
STATUS: Final = "status"
OUT: Final = "out"
JOB: Final = "job"
"""The directory in it that is the job's own."""
SAID: Final = "said"
"""In the job's own: who ended it, in one line, as its step says."""
SAID_MAX: Final = 1000
FREE: Final = "free"
"""Free directories are called ``free.<uid>.<number>``."""
FREE_MAX: Final = 512
GONE: Final = "gone"
"""Directories that are being removed are called ``gone.<name>.<random>``."""
REMOVED_AT_ONCE: Final = 2_000
"""So many entries of a tree are removed while everything else waits."""
_OWN_FILES: Final = frozenset({INTENT, STATUS, OUT, JOB})
_OUR_UID: Final = os.geteuid()
_FILE_MAX: Final = 64 * 1024 * 1024
"""An intent with hooks holds an environment, whose bytes may take six each."""


class Stored(NamedTuple):
    """What a run directory says."""

    key: Key
    intent: dict[str, Any]
    notes: list[list[Any]]
    pid: int
    """The job shell's; 0: it has not run."""
    exit_code: int
    """-1: not there."""
    status_age_us: int
    """How long ago the status file was written to."""
    fault: str = ""
    """Why the job shell did not run the script; empty: nothing kept it from that."""


def name_of(key: Key) -> str:
    """Return the name of an attempt's run directory."""
    return f"{key[0]}.{key[1]}.{key[2]}"


def key_of(name: str) -> Key | None:
    """Return the attempt that a run directory is named after; None: it is no such name."""
    words = name.split(".")
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        return None
    return int(words[0]), int(words[1]), int(words[2])


class RunDirectories:
    """Run directories that are free, by user; made and cleaned here."""

    def __init__(self, runs: str, kept: str) -> None:
        self._runs = runs
        self._kept = kept
        self._free: dict[int, list[str]] = {}
        self._count = 0
        self._last = 0

    def adopt(self, name: str) -> None:
        """Take over a free directory of an earlier shepherd, or go on removing one."""
        words = name.split(".")
        if words[0] == GONE and len(words) > 1:
            remove_beside(f"{self._runs}/{name}")
        if words[0] == FREE and len(words) == 3 and words[1].isdecimal() and words[2].isdecimal():
            self._last = max(self._last, int(words[2]))
            self._free.setdefault(int(words[1]), []).append(f"{self._runs}/{name}")
            self._count += 1

    def create(self, path: str, *, uid: int, gid: int) -> None:
        """Make a run directory for a job of user ``uid``, and the job's own inside it.

        Raises:
            OSError: The host is to blame: no space, no inodes, no permission; or it is there.
        """
        free = self._free.get(uid)
        if free:
            self._count -= 1
            try:
                os.rename(free.pop(), path)  # noqa: PTH104
            except OSError:
                pass
            else:
                return
        # Others may pass through to their own directory, and see nothing else.
        try:
            os.mkdir(path, 0o700 if uid == _OUR_UID else 0o711)  # noqa: PTH102
        except FileNotFoundError:
            self._make_again()
            os.mkdir(path, 0o700 if uid == _OUR_UID else 0o711)  # noqa: PTH102
        os.mkdir(f"{path}/{JOB}", 0o700)  # noqa: PTH102
        if uid != _OUR_UID:
            os.chown(f"{path}/{JOB}", uid, gid, follow_symlinks=False)

    def _make_again(self) -> None:
        """Make the directories that somebody has removed."""
        for place in (self._runs, self._kept):
            os.makedirs(place, mode=0o711 if _OUR_UID == 0 else 0o700, exist_ok=True)  # noqa: PTH103

    def release(self, path: str, name: str, *, uid: int, keep: bool) -> None:
        """Free a run directory; output in it that is not empty is kept, if that is wanted."""
        kept = f"{self._kept}/{name}" if keep else ""
        if self._count >= FREE_MAX or not _is_clean(path, kept):
            clean(path, kept=kept)
            return
        self._last += 1
        free = f"{self._runs}/{FREE}.{uid}.{self._last}"
        try:
            os.rename(path, free)  # noqa: PTH104
        except OSError:
            clean(path, kept=kept)
            return
        self._free.setdefault(uid, []).append(free)
        self._count += 1


def store_intent(path: str, intent: dict[str, Any]) -> int:
    """Write what is about to be started; return the open status file.

    Raises:
        OSError: The host is to blame.
    """
    os.close(_store(f"{path}/{INTENT}", (json.dumps(intent) + "\n").encode()))
    return _store(f"{path}/{STATUS}", f"{intent['mark']}\n".encode())


def store_step(path: str, line: list[Any], mark: str) -> int:
    """Write that a step of an attempt begins; return the open status file, which is its own.

    Raises:
        OSError: The host is to blame.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(f"{path}/{INTENT}", flags)
    try:
        content = (json.dumps(line) + "\n").encode()
        if os.write(fd, content) != len(content):
            os.write(fd, b"\n")  # raises: there is no room
    finally:
        os.close(fd)
    return _store(f"{path}/{STATUS}", f"{mark}\n".encode())


def note(path: str, line: list[Any]) -> None:
    """Add a line to an attempt's intent, before what it tells of is done.

    A full disk, or a user who has removed the directory, must not keep anything from being done.
    """
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(f"{path}/{INTENT}", flags)
        try:
            os.write(fd, (json.dumps(line) + "\n").encode())
        finally:
            os.close(fd)


def open_out(path: str, *, uid: int, gid: int) -> int:
    """Return the open file of output that the cluster keeps, which belongs to the job's user.

    Raises:
        OSError: The host is to blame.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(f"{path}/{OUT}", flags, 0o600)
    if uid != _OUR_UID:
        os.fchown(fd, uid, gid)
    return fd


def load(path: str, key: Key, *, wall_us: int) -> Stored | None:
    """Return what a run directory says; None: nothing was started from it."""
    lines = _lines(f"{path}/{INTENT}", owner=os.geteuid())
    try:
        intent = json.loads(lines[0]) if lines else None
        notes = [json.loads(line) for line in lines[1:]]
    except ValueError:
        return None
    if not isinstance(intent, dict) or intent.get("key") != list(key):
        return None
    # Each step of an attempt with hooks has a mark of its own.
    marks = [line[1] for line in notes if isinstance(line, list) and line[:1] == ["step"]]
    intent["mark"] = marks[-1] if marks else intent.get("mark")
    status = _lines(f"{path}/{STATUS}", owner=os.geteuid())
    # A status file that was used before and not yet written anew is somebody else's.
    status = status[1:] if status[:1] == [str(intent.get("mark")).encode()] else []
    numbers = [int(line) if line.strip().isdigit() else -1 for line in status[:2]]
    age_us = 0
    with contextlib.suppress(OSError):
        written = os.stat(f"{path}/{STATUS}", follow_symlinks=False)  # noqa: PTH116
        age_us = max(0, wall_us - written.st_mtime_ns // 1000)
    return Stored(
        key=key,
        intent=intent,
        notes=notes,
        pid=max(0, numbers[0]) if numbers else 0,
        exit_code=numbers[1] & 255 if len(numbers) > 1 and numbers[1] >= 0 else -1,
        status_age_us=age_us,
        fault=status[2].decode("utf-8", "replace") if len(status) > 2 else "",
    )


def clean(path: str, *, kept: str) -> None:
    """Remove a run directory; output in it that is not empty becomes the file ``kept``.

    ``kept`` is on the same filesystem; empty: the output goes too.
    """
    for name in (INTENT, STATUS, OUT):
        file = f"{path}/{name}"
        with contextlib.suppress(OSError):
            if name == OUT and kept and os.lstat(file).st_size:
                os.rename(file, kept)  # noqa: PTH104
            else:
                os.unlink(file)  # noqa: PTH108
    try:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(f"{path}/{JOB}")  # noqa: PTH106
        os.rmdir(path)  # noqa: PTH106
    except FileNotFoundError:
        return
    except OSError:
        _remove_tree(path)


def _is_clean(path: str, kept: str) -> bool:
    """Whether nothing but our own files is left, once kept output is moved away."""
    try:
        names = set(os.listdir(path))  # noqa: PTH208
        if OUT in names and os.lstat(f"{path}/{OUT}").st_size:
            if not kept:
                return False
            os.rename(f"{path}/{OUT}", kept)  # noqa: PTH104
        return names <= _OWN_FILES and JOB in names and not os.listdir(f"{path}/{JOB}")  # noqa: PTH208
    except OSError:
        return False


def _store(path: str, content: bytes) -> int:
    """Write a small file, new or used before; return it open: more goes behind."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.ftruncate(fd, 1)
        if os.write(fd, content) != len(content):
            os.write(fd, b"\n")  # raises: there is no room
    except OSError:
        os.close(fd)
        raise
    return fd


def _remove_tree(path: str) -> None:
    """Remove what a user has left in a run directory, never following a link out of it.

    Every directory is moved to the top before it is emptied: however deep a user nests, it takes
    one descriptor and no recursion. What is left when there was very much is removed by a program
    of its own, since nothing else can be done meanwhile.
    """
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_done = _empty(top)
    finally:
        os.close(top)
    try:
        if is_done:
            os.rmdir(path)  # noqa: PTH106
            return
    except OSError:
        pass
    remove_beside(path)


def _empty(top: int) -> bool:
    """Remove what is in an open directory; False: there is too much of it."""
    waiting, moved, left = [""], 0, REMOVED_AT_ONCE
    while waiting:
        name = waiting.pop()
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(name or ".", flags, dir_fd=top)
        except OSError:
            continue
        try:
            for entry in _entries(fd):
                left -= 1
                if left < 0:
                    return False
                with contextlib.suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.name, dir_fd=fd)
                        continue
                    moved += 1
                    os.rename(entry.name, f".x{moved}", src_dir_fd=fd, dst_dir_fd=top)
                    waiting.append(f".x{moved}")
        finally:
            os.close(fd)
        if name:
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=top)
    return True


def _entries(fd: int) -> list[os.DirEntry[str]]:
    """Return what is in an open directory, as far as it may be removed at once."""
    found = []
    with contextlib.suppress(OSError), os.scandir(fd) as entries:
        for entry in entries:
            found.append(entry)
            if len(found) > REMOVED_AT_ONCE:
                break
    return found


def remove_beside(path: str) -> None:
    """Have a program remove a run directory, which nobody looks for any more."""
    folder, _, name = path.rpartition("/")
    gone = path if name.startswith(f"{GONE}.") else f"{folder}/{GONE}.{name}.{os.urandom(6).hex()}"
    with contextlib.suppress(OSError):
        if gone != path:
            os.rename(path, gone)  # noqa: PTH104
        os.posix_spawn(
            "/bin/rm",
            ["rm", "-rf", "--one-file-system", "--", gone],
            {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            setsid=True,
            setsigmask=(),
        )


def _lines(path: str, *, owner: int) -> list[bytes]:
    """Return the whole lines of a file of ours; a cut last line does not count."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
            return []
        content = b""
        while len(content) < _FILE_MAX:
            more = os.read(fd, 1 << 16)
            if not more:
                break
            content += more
    except OSError:
        return []
    finally:
        os.close(fd)
    return content.split(b"\n")[:-1]
