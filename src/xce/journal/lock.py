"""A lock on a directory that lives exactly as long as the process that holds it."""

import fcntl
import os
from pathlib import Path

from xce.journal.interface import JournalHeldError


class DirectoryLock:
    """An exclusive lock on a file; the kernel gives it back when its holder dies."""

    def __init__(self, path: Path, *, holder: str = "controller") -> None:
        """Take the lock at ``path`` for a ``holder``: what kind of process it keeps single.

        Raises:
            JournalHeldError: Another process has it; the message names that process.
        """
        self._path = path
        # A descriptor that no child inherits: a child would keep the lock after our death.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            other = os.pread(self._descriptor, 64, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise JournalHeldError(
                f"{path.parent}: in use by another {holder} (process {other or 'unknown'}); "
                "only one may run on a directory: stop that one, or use another directory"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """Give the lock back; a second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
