"""Writing a file whole or not at all: content is gathered beside it and takes its place at once.

What is gathered has no name while it grows, where the file system can do that, so that nothing is
left of it whoever is killed. A file that others share (by another name, or as its owner) keeps its
identity: it is written anew when all its content is there. What is added to a file is added as one
piece: whoever adds takes turns, and a piece that does not fit is taken away again.
"""

import contextlib
import errno
import fcntl
import os
import stat
from typing import Final

from xce.step.file_codes import FULL, UNWRITABLE

_FULL_ERRORS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_NO_NAMELESS: Final = frozenset((errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT))
"""So answer file systems that have no files without names."""
_CLOSED: Final = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
_ASIDE: Final = "/tmp"
_CHUNK: Final = 1 << 20
_NAME_MAX: Final = 200
"""In bytes."""


def fault_of(error: OSError) -> int:
    """Return the exit status for a write that failed."""
    return FULL if error.errno in _FULL_ERRORS else UNWRITABLE


def open_source(path: str) -> int:
    """Open a file to be copied.

    Raises:
        OSError: It cannot be read, or is no file.
    """
    # Nobody waits for the other end of a pipe.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "no file")
    return fd


def target_of(target: str, name: str) -> str:
    """Return what is written: a directory takes a file under its own name."""
    return os.path.join(target, os.path.basename(name)) if os.path.isdir(target) else target


class Sink:
    """A file to be written.

    Args:
        target: Its path; links to it stay as they are.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, target: str) -> None:
        self.path = os.path.realpath(target)
        # As it is given: some links in directories for everybody the kernel does not follow.
        self._found = _stat_of(target)
        if self._found is not None:
            if not stat.S_ISREG(self._found.st_mode):
                raise OSError(errno.EINVAL, "no file")
            if not os.access(self.path, os.W_OK):
                raise PermissionError(errno.EACCES, "it may not be written")
        self._name = ""
        self._is_beside = True
        self._fd = self._open()

    def _open(self) -> int:
        try:
            return _open_nameless(os.path.dirname(self.path))
        except OSError as error:
            if error.errno in _CLOSED and self._found is not None:
                self._is_beside = False
                return _open_nameless(_ASIDE)
            if error.errno not in _NO_NAMELESS:
                raise
        self._name = _name_beside(self.path)
        return os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    @property
    def size(self) -> int:
        """So much is gathered."""
        return os.fstat(self._fd).st_size

    def write(self, place: int, content: bytes) -> None:
        """Gather content that belongs at a place.

        Raises:
            OSError: There is no room for it.
        """
        view = memoryview(content)
        while view:
            count = os.pwrite(self._fd, view, place)
            place, view = place + count, view[count:]

    def cut(self, size: int) -> None:
        """Let that be the end of what is gathered."""
        os.ftruncate(self._fd, size)

    def replace(self, mode: int) -> None:
        """Let what is gathered be the file; a new one has this mode, less the mask.

        Raises:
            OSError: It is as it was, or shared with others and cannot be written.
        """
        found = self._found
        os.fsync(self._fd)
        is_shared = found is not None and (found.st_nlink > 1 or found.st_uid != os.geteuid())
        if is_shared or not self._is_beside:
            writer = os.open(self.path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            _pour(self._fd, writer)
            return
        if found is None:
            os.fchmod(self._fd, mode & 0o777 & ~_mask())
        else:
            with contextlib.suppress(OSError):
                os.fchown(self._fd, -1, found.st_gid)
            os.fchmod(self._fd, stat.S_IMODE(found.st_mode))
        if not self._name:
            self._name = _name_beside(self.path)
            # Only with a directory's descriptor does it follow the link to the nameless file.
            above = os.open(os.path.dirname(self.path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.link(f"/proc/self/fd/{self._fd}", self._name, src_dir_fd=above)
            finally:
                os.close(above)
        os.replace(self._name, self.path)
        self._name = ""

    def append(self, mode: int) -> None:
        """Add what is gathered to the file, as one piece.

        Raises:
            OSError: Nothing is added.
        """
        append_to(self.path, self._fd, mode)

    def close(self) -> None:
        """Forget what was gathered."""
        os.close(self._fd)
        if self._name:
            with contextlib.suppress(OSError):
                os.unlink(self._name)


def append_to(path: str, reader: int, mode: int) -> None:
    """Add the content of an open file to a file, as one piece.

    Raises:
        OSError: Nothing is added.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    writer = os.open(path, flags, mode & 0o777)
    try:
        is_alone = _lock(writer)
        size = os.fstat(writer).st_size
        try:
            _copy(reader, writer)
            os.fsync(writer)
        except OSError:
            if is_alone:
                os.ftruncate(writer, size)
            raise
    finally:
        os.close(writer)


def pour_into(path: str, reader: int) -> None:
    """Write the content of an open file to a device or a pipe that somebody reads.

    Raises:
        OSError: It cannot be written, or nobody reads it.
    """
    # Nobody waits for a reader; but one who is there is waited for.
    writer = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(writer, True)
    try:
        _copy(reader, writer)
    finally:
        os.close(writer)


def _pour(reader: int, writer: int) -> None:
    try:
        _copy(reader, writer)
        os.fsync(writer)
    finally:
        os.close(writer)


def _copy(reader: int, writer: int) -> None:
    place = 0
    while content := os.pread(reader, _CHUNK, place):
        place += len(content)
        view = memoryview(content)
        while view:
            view = view[os.write(writer, view) :]


def _lock(fd: int) -> bool:
    """Wait until nobody else adds to a file; False: it cannot be locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _stat_of(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _name_beside(path: str) -> str:
    """Return a path in the directory of a file that nobody has."""
    directory, name = os.path.split(path)
    short = os.fsdecode(os.fsencode(name)[:_NAME_MAX])
    return f"{directory}/.{short}.{os.urandom(6).hex()}"


def _open_nameless(directory: str) -> int:
    return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _mask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
