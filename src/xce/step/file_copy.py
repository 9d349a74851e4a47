"""Copies one file of ``bsub -f``: ``python -I -S <this file> WAY PLACE LOCAL REMOTE``.

Runs as the job's user on its first host. Hosts need not share their directories, and a path does
not say which directory it is on another one: who submits notes the place of the local file, and
here it is made out again. Only where both are the same is anything read or written.

A place is the directory by its number on a machine that has not been started anew since, or on a
network file system by what is mounted and the path in it: both are the same on two hosts only for
the same directory.
"""

import os
import shutil
import stat
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

UNREADABLE: Final = 66
ELSEWHERE: Final = 68
UNWRITABLE: Final = 73
"""Exit statuses that `xce.worker.shepherd.hooks` has words for."""
BEFORE: Final = "before"
AFTER: Final = "after"
APPEND: Final = "append"
"""Ways: local to remote, remote to local, and that at the end of what is there."""
PLACE_MAX: Final = 8192
_NETWORK: Final = frozenset(
    [
        "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.juicefs",
        "fuse.sshfs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "orangefs", "panfs", "pvfs2",
        "smb3", "wekafs",
    ]
)  # fmt: skip
"""File systems of which hosts see the same one, if they have mounted the same source."""
_OWN: Final = ("localhost:", "127.", "[::1]:", "//localhost/")
"""So begin sources that are another thing on each host."""


class Mount(NamedTuple):
    """What is mounted, as far as it matters here."""

    point: str
    root: str
    kind: str
    source: str


def place_of(path: str, depth: int = 0) -> str:
    """Return the place of a file: which directory it is below, and behind how many names.

    Args:
        path: Of the file, which need not be there.
        depth: The number of these names, as another host found it; 0: as few as can be.

    Raises:
        OSError: It cannot be made out.
    """
    names = os.path.realpath(path).rstrip("/").split("/")[1:]
    if not names or not 0 <= depth <= len(names):
        raise FileNotFoundError(f"{path} is no file")
    depths = range(1, len(names) + 1) if not depth else (depth,)
    for one in depths:
        directory = "/" + "/".join(names[: len(names) - one])
        if depth or os.path.isdir(directory):
            return f"{one} {_directory_id(directory)}"
    raise FileNotFoundError(f"{path} is no file")


def _directory_id(directory: str) -> str:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mount = mount_of(directory, file.read().splitlines())
    if mount is not None and mount.kind in _NETWORK and not mount.source.startswith(_OWN):
        below = directory[len(mount.point.rstrip("/")) :]
        return f"{mount.kind} {mount.source} {os.path.normpath(mount.root + below)}"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    found = os.stat(directory)
    return f"{boot} {found.st_dev} {found.st_ino}"


def mount_of(directory: str, lines: Sequence[str]) -> Mount | None:
    """Return what is mounted at a directory or above it, by the lines of ``mountinfo``."""
    found = None
    for line in lines:
        left, _, right = line.partition(" - ")
        words, ends = left.split(" "), right.split(" ")
        if len(words) < 5 or len(ends) < 2:
            continue
        point = _plain(words[4])
        is_above = directory == point or directory.startswith(point.rstrip("/") + "/")
        # What is mounted later on the same directory covers the earlier.
        if is_above and (found is None or len(point) >= len(found.point)):
            found = Mount(point, _plain(words[3]), ends[0], _plain(ends[1]))
    return found


def _plain(word: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(code, letter)
    return word


def copy_file(source: str, target: str, *, appends: bool) -> int:
    """Copy a file, and return 0 or what failed; a directory takes it under its own name."""
    if os.path.isdir(target):
        target = os.path.join(target, os.path.basename(source))
    try:
        # Nobody waits for the other end of a pipe.
        reader = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return UNREADABLE
    try:
        found = os.fstat(reader)
        if not stat.S_ISREG(found.st_mode):
            return UNREADABLE
        if os.path.exists(target) and os.path.samefile(source, target):
            return 0  # it is there; and added to itself it would have no end
        _pour(reader, target, found.st_mode & 0o777, appends=appends)
    except OSError:
        return UNWRITABLE
    finally:
        os.close(reader)
    return 0


def _pour(reader: int, target: str, mode: int, *, appends: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if appends else os.O_TRUNC)
    # Here neither; but who reads at the other end is waited for.
    writer = os.open(target, flags | os.O_NONBLOCK, mode)
    os.set_blocking(writer, True)
    with open(reader, "rb", closefd=False) as read, open(writer, "wb") as written:
        shutil.copyfileobj(read, written, 1 << 20)


def run(way: str, place: str, local: str, remote: str) -> int:
    """Copy a file one way, and return the exit status."""
    depth = place.partition(" ")[0]
    try:
        is_here = depth.isdecimal() and place_of(local, int(depth)) == place
    except OSError:
        is_here = False
    if not is_here:
        return ELSEWHERE
    if way == BEFORE:
        return copy_file(local, remote, appends=False)
    return copy_file(remote, local, appends=way == APPEND)


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
