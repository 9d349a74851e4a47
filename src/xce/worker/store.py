"""What a host keeps in files: scripts and inputs by hash, host lists, and output past its job.

Files are written aside and renamed, and never changed: every element of an array, and every job
with the same text, runs the same file. Directories can be entered but not listed by others, and a
name is the hash of the content: who can name a script has it.
"""

import contextlib
import hashlib
import logging
import os
import time
from collections import OrderedDict
from pathlib import Path
from typing import Final, TypeVar

from xce.worker.script import EXEC, prepare_script

_T = TypeVar("_T")
_DIGEST_DIGITS: Final = 32
_KNOWN_MAX: Final = 4096
_TOUCH_S: Final = 3600.0
UNUSED_S: Final = 7 * 24 * 3600.0
"""A script that nothing has started for so long is removed; what runs has it open."""


def is_digest(text: str) -> bool:
    """Return whether a text is the hash of a blob: as a file's name it can lead nowhere else."""
    return len(text) == _DIGEST_DIGITS and all(sign in "0123456789abcdef" for sign in text)


def digest_of(content: bytes) -> str:
    """Return the hash of a blob."""
    return hashlib.blake2b(content, digest_size=_DIGEST_DIGITS // 2).hexdigest()


class Store:
    """The files of one host."""

    def __init__(self, directory: Path) -> None:
        """Make the directories.

        Raises:
            OSError: They cannot be made.
        """
        self.directory = directory
        self.runs = directory / "attempts"
        self.kept = directory / "outputs"
        self._scripts = directory / "scripts"
        self._inputs = directory / "inputs"
        self._hostfiles = directory / "hostfiles"
        self._make_directories()
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()
        """Way and last touch of scripts that are surely there, by hash."""
        self._touched: OrderedDict[str, float] = OrderedDict()

    def _make_directories(self) -> None:
        mode = 0o711 if os.geteuid() == 0 else 0o700
        for path in (
            self.directory, self.runs, self.kept, self._scripts, self._inputs, self._hostfiles,
        ):  # fmt: skip
            path.mkdir(mode=mode, parents=True, exist_ok=True)
            path.chmod(mode)

    def _write(self, path: str, content: bytes, mode: int) -> None:
        """Write a file; where somebody has removed its directory, that is made again."""
        try:
            _write(Path(path), content, mode)
        except FileNotFoundError:
            self._make_directories()
            _write(Path(path), content, mode)

    def own_directory(self, job: int, index: int, attempt: int) -> str:
        """Return the directory that an attempt has of its own on this host."""
        return f"{self.runs}/{job}.{index}.{attempt}/job"

    def script_path(self, digest: str) -> str:
        """Return where a script lies."""
        return f"{self._scripts}/{digest}"

    def input_path(self, digest: str) -> str:
        """Return where a spooled input lies."""
        return f"{self._inputs}/{digest}"

    def way_of(self, digest: str) -> str | None:
        """Return how a script runs; None: it is not here and must be fetched."""
        known = self._known.get(digest)
        now = time.monotonic()
        path = Path(self.script_path(digest))
        if known is not None and now - known[1] < _TOUCH_S and path.exists():
            return known[0]
        try:
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return self._know(digest, prepare_script(content)[1])

    def has_input(self, digest: str) -> bool:
        """Whether a spooled input is here."""
        try:
            os.utime(self.input_path(digest))
        except OSError:
            return False
        return True

    def store_script(self, digest: str, content: bytes) -> str:
        """Keep a script; return how it runs.

        Raises:
            OSError: There is no room.
        """
        prepared, way = prepare_script(content)
        self._write(self.script_path(digest), prepared, 0o755 if way == EXEC else 0o644)
        return self._know(digest, way)

    def store_input(self, digest: str, content: bytes) -> None:
        """Keep a spooled input.

        Raises:
            OSError: There is no room.
        """
        self._write(self.input_path(digest), content, 0o644)

    def load_script(self, digest: str) -> str:
        """Return a script's text for people; empty: it is not here."""
        try:
            return Path(self.script_path(digest)).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def hostfile(self, text: str) -> str:
        """Return the path of a file with this host list.

        Raises:
            OSError: There is no room.
        """
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        path = f"{self._hostfiles}/{digest}"
        now = time.monotonic()
        is_fresh = now - self._touched.get(digest, -_TOUCH_S) < _TOUCH_S
        if not (is_fresh and Path(path).exists()):
            try:
                os.utime(path)
            except FileNotFoundError:
                self._write(path, text.encode(), 0o644)
            _remember(self._touched, digest, now)
        return path

    def sweep(self, *, retention_s: float, log: logging.Logger) -> None:
        """Remove kept output past its retention, and what nothing has used for long.

        Costs a look at each file; run it seldom and beside the loop.
        """
        removed = 0
        now = time.time()
        for directory, age_s in (
            (self.kept, retention_s),
            (self._scripts, UNUSED_S),
            (self._inputs, UNUSED_S),
            (self._hostfiles, max(UNUSED_S, retention_s)),
        ):
            with contextlib.suppress(OSError), os.scandir(directory) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        if now - entry.stat(follow_symlinks=False).st_mtime > age_s:
                            os.unlink(entry.path)  # noqa: PTH108
                            removed += 1
        if removed:
            log.info("store-swept", extra={"files": removed})

    def _know(self, digest: str, way: str) -> str:
        _remember(self._known, digest, (way, time.monotonic()))
        return way


def _remember(known: OrderedDict[str, _T], key: str, value: _T) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > _KNOWN_MAX:
        known.popitem(last=False)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file aside and rename it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(aside, flags, mode)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(content)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
