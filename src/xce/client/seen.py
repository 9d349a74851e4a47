"""The last sequence number of each cluster that this user's commands were told (decision X-25).

A command that reads asks for at least this number, so it sees what the command before it wrote,
whichever apiserver answers. All of it is best effort: without the file a read is merely not held
back. Nothing is followed that another user could have laid there: the directory must be ours and
closed to others, and the file no symbolic link.
"""

from __future__ import annotations

import binascii
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FRESH_S = 300
"""A number older than this is not asked for: every replica is long past it, unless the cluster was
made anew, and then it would be waited for in vain."""
_NAME_MAX = 200


class SeenSeq:
    """One cluster's number, in a file of its own."""

    __slots__ = ("_directory", "_file")

    def __init__(self, directory: str, cluster: str) -> None:
        """Args: the user's runtime directory for this, and the path of the cluster's socket."""
        self._directory = directory
        name = cluster.replace("%", "%25").replace("/", "%2F")
        if len(name) > _NAME_MAX:
            digest = binascii.crc32(os.fsencode(name))
            name = f"{digest:08x}{name[-_NAME_MAX:]}"
        self._file = f"{directory}/{name}"

    def load(self) -> int:
        """Return the number, or 0 when none is known or it is not fresh."""
        try:
            descriptor = os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.getuid() or found.st_mtime < time.time() - FRESH_S:
                return 0
            text = os.read(descriptor, 32).strip()
            return int(text) if text.isdigit() else 0
        except OSError:
            return 0
        finally:
            os.close(descriptor)

    def store(self, seq: int) -> None:
        """Keep ``seq``; a smaller one too, since a cluster that was made anew counts from 0."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            if not self._may_use_directory():
                return
            descriptor = os.open(self._file, flags, 0o600)
        except OSError:
            return
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                os.pwrite(descriptor, f"{seq:020d}\n".encode(), 0)
        except OSError:
            return
        finally:
            os.close(descriptor)

    def _may_use_directory(self) -> bool:
        """Make the directory where it is missing; say whether it is ours alone."""
        try:
            found = os.lstat(self._directory)
        except FileNotFoundError:
            os.mkdir(self._directory, 0o700)
            found = os.lstat(self._directory)
        is_directory = found.st_mode & 0o170000 == 0o040000
        return is_directory and found.st_uid == os.getuid() and not found.st_mode & 0o022


def open_seen(environ: Mapping[str, str], socket_path: str) -> SeenSeq:
    """Return where the number of the cluster behind ``socket_path`` is kept."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return SeenSeq(f"{runtime}/xce-seq", socket_path)
    return SeenSeq(f"/tmp/xce-seq-{os.getuid()}", socket_path)  # owner and mode are checked
