"""The files of ``bsub -f``: which directory a path leads to, and copies within one host.

Hosts need not share their directories, and a path does not say which directory it is on another
one: who submits notes the place of the local file, and whoever copies makes it out again. Only
where both are the same is anything read or written.

A place is the directory by its number on a machine that has not been started anew since, or on a
network file system by what is mounted and the path in it: both are the same on two hosts only for
the same directory.
"""

import os
import re
import stat
from collections.abc import Sequence
from typing import Final, NamedTuple

from xce.step.file_codes import UNREADABLE
from xce.step.file_sink import (
    Sink,
    append_to,
    fault_of,
    open_source,
    pour_into,
    target_of,
)

BEFORE: Final = "before"
AFTER: Final = "after"
APPEND: Final = "append"
"""Ways: local to remote, remote to local, and that at the end of what is there."""
NAMED: Final = "named"
"""Said of the machine of a local file: by its name it is that of the submission."""
PLACE_MAX: Final = 8192
_CHUNK: Final = 1 << 20
_NETWORK: Final = frozenset(
    [
        "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.juicefs",
        "fuse.sshfs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "orangefs", "panfs", "pvfs2",
        "smb3", "wekafs",
    ]
)  # fmt: skip
"""File systems of which hosts see the same one, if they have mounted the same source."""
_LOCAL: Final = re.compile(r"(\d+) [0-9a-f-]{36} (\d+ \d+)")
"""A place on a local disk."""
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


def is_place(path: str, place: str, *, any_boot: bool = False) -> bool:
    """Return whether a file is where it was when its place was noted.

    Args:
        path: Of the file.
        place: As it was noted.
        any_boot: This is known to be the machine where it was; that may have been started anew.
    """
    depth = place.partition(" ")[0]
    try:
        found = place_of(path, int(depth)) if depth.isdecimal() else ""
    except OSError:
        return False
    return found == place or (any_boot and _without_boot(found) == _without_boot(place))


def _without_boot(place: str) -> str:
    """Return a place on a local disk without the boot of its machine; others stay as they are."""
    found = _LOCAL.fullmatch(place)
    return f"{found[1]} {found[2]}" if found is not None else place


def copy_file(source: str, target: str, *, appends: bool) -> int:
    """Copy a file, and return 0 or what failed; a directory takes it under its own name."""
    target = target_of(target, source)
    try:
        reader = open_source(source)
    except OSError:
        return UNREADABLE
    try:
        _write(source, reader, target, appends=appends)
    except OSError as error:
        return fault_of(error)
    finally:
        os.close(reader)
    return 0


def _write(source: str, reader: int, target: str, *, appends: bool) -> None:
    mode = os.fstat(reader).st_mode
    if os.path.exists(target):
        if os.path.samefile(source, target):
            return  # it is there; and added to itself it would have no end
        if not stat.S_ISREG(os.stat(target).st_mode):
            pour_into(target, reader)
            return
    if appends:
        append_to(target, reader, mode)
        return
    sink = Sink(target)
    try:
        place = 0
        while content := os.pread(reader, _CHUNK, place):
            sink.write(place, content)
            place += len(content)
        sink.replace(mode)
    finally:
        sink.close()
