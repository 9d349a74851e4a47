"""Snapshots: the state right behind one entry, in parts, as files beside the journal.

``snapshots/<seq>/part-<n>`` and ``manifest.json``, which has the size and digest of each part.
Written aside, synced, then renamed: what carries a number is complete. What is damaged all the
same is skipped with a warning, and the one before is used.
"""

import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from xce.model.errors import CorruptJournalError
from xce.model.ids import Seq

FORMAT: Final = 1
"""Number of this form of files; a snapshot of another one is skipped and made again."""
KEPT: Final = 2

_MANIFEST: Final = "manifest.json"
_LOG: Final = logging.getLogger("xce.journal.snapshot")


class SnapshotDamagedError(CorruptJournalError):
    """A snapshot that cannot be used; the message names the file."""


class PartDigest(msgspec.Struct, frozen=True):
    """What a part's file must be."""

    size: int
    blake2b: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The table of contents of a snapshot."""

    format: int
    seq: Seq
    crc: int
    """The crc of entry ``seq``: the chain goes on from here."""
    parts: tuple[PartDigest, ...]
    digest: str = ""
    """Digest of the manifest itself, taken with this field empty."""


class Snapshot(msgspec.Struct, frozen=True):
    """A stored snapshot whose files were all found whole."""

    directory: Path
    manifest: Manifest

    @property
    def seq(self) -> Seq:
        """The entry behind which the state was taken."""
        return self.manifest.seq

    @property
    def crc(self) -> int:
        """The crc of that entry."""
        return self.manifest.crc

    @property
    def count(self) -> int:
        """Number of parts."""
        return len(self.manifest.parts)

    def part(self, number: int) -> bytes:
        """Return part ``number``, counted from 0.

        Raises:
            SnapshotDamagedError: The file is gone, cut or altered.
        """
        path = self.directory / f"part-{number}"
        expected = self.manifest.parts[number]
        try:
            content = path.read_bytes()
        except OSError as error:
            raise SnapshotDamagedError(f"{path}: {error.strerror}") from error
        if len(content) != expected.size:
            raise SnapshotDamagedError(
                f"{path}: expected {expected.size} bytes, found {len(content)}"
            )
        if _digest(content) != expected.blake2b:
            raise SnapshotDamagedError(f"{path}: the content does not match its digest")
        return content

    def parts(self) -> Iterator[bytes]:
        """Yield all parts in order."""
        return map(self.part, range(self.count))


def store_snapshot(root: Path, seq: Seq, crc: int, parts: Iterable[bytes]) -> Path:
    """Store a snapshot below ``root``, drop all but the newest two, and return its directory.

    Parts are taken one by one, so that they need not be in memory together.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = root / str(seq)
    aside = root / f".{seq}.{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    try:
        digests = []
        for number, part in enumerate(parts):
            _write_synced(aside / f"part-{number}", part)
            digests.append(digest_part(part))
        manifest = make_manifest(seq, crc, digests)
        _write_synced(aside / _MANIFEST, msgspec.json.encode(manifest))
        sync_directory(aside)
        _put_in_place(aside, target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync_directory(root)
    drop_old_snapshots(root)
    return target


def load_snapshot(root: Path) -> Snapshot | None:
    """Return the newest snapshot below ``root`` that is whole, or None.

    Each one that is not is named in a warning.
    """
    for seq in stored_snapshots(root):
        try:
            snapshot = open_snapshot(root / str(seq))
            check_snapshot(snapshot)
        except SnapshotDamagedError as error:
            _LOG.warning("snapshot-skipped: %s", error)
            continue
        return snapshot
    return None


def stored_snapshots(root: Path) -> list[Seq]:
    """Return the numbers of all stored snapshots, the newest first."""
    try:
        names = [path.name for path in root.iterdir()]
    except FileNotFoundError:
        return []
    return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def open_snapshot(directory: Path) -> Snapshot:
    """Return the snapshot in ``directory``; its parts are checked when they are read.

    Raises:
        SnapshotDamagedError: Its manifest is missing, damaged or of another format.
    """
    path = directory / _MANIFEST
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SnapshotDamagedError(f"{path}: {error.strerror}") from error
    return Snapshot(directory, parse_manifest(content, place=str(path), seq=directory.name))


def parse_manifest(content: bytes, *, place: str, seq: Seq | str) -> Manifest:
    """Return a stored table of contents.

    Args:
        content: As it was stored.
        place: Where, for messages.
        seq: The entry that it must be about.

    Raises:
        SnapshotDamagedError: It is damaged, of another format, or about another entry.
    """
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SnapshotDamagedError(f"{place}: {error}") from error
    if manifest.format != FORMAT:
        raise SnapshotDamagedError(
            f"{place}: format {manifest.format}, this release reads format {FORMAT}"
        )
    if manifest.digest != _manifest_digest(manifest):
        raise SnapshotDamagedError(f"{place}: the content does not match its digest")
    if str(manifest.seq) != str(seq):
        raise SnapshotDamagedError(f"{place}: it says that it is the one of entry {manifest.seq}")
    return manifest


def make_manifest(seq: Seq, crc: int, digests: Sequence[PartDigest]) -> Manifest:
    """Return the table of contents of a snapshot with these parts."""
    assert digests, "a snapshot has one part at least"
    manifest = Manifest(format=FORMAT, seq=seq, crc=crc, parts=tuple(digests))
    return msgspec.structs.replace(manifest, digest=_manifest_digest(manifest))


def digest_part(content: bytes) -> PartDigest:
    """Return what a part must be."""
    return PartDigest(len(content), _digest(content))


def check_snapshot(snapshot: Snapshot) -> None:
    """Read every part once, or raise `SnapshotDamagedError`."""
    for _ in snapshot.parts():
        pass


def drop_old_snapshots(root: Path, kept: int = KEPT) -> None:
    """Remove all but the ``kept`` newest, and what interrupted writers left."""
    for seq in stored_snapshots(root)[kept:]:
        shutil.rmtree(root / str(seq), ignore_errors=True)
    for left in root.glob(".*"):
        if not _is_writer_alive(left.name):
            shutil.rmtree(left, ignore_errors=True)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(aside: Path, target: Path) -> None:
    try:
        aside.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        # Two made the one of the same entry: equal unless the old one is damaged, so the new
        # one is at least as good.
        shutil.rmtree(target)
        aside.rename(target)


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("xb", buffering=0) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
        os.fsync(file.fileno())


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def _manifest_digest(manifest: Manifest) -> str:
    return _digest(msgspec.json.encode(msgspec.structs.replace(manifest, digest="")))


def _is_writer_alive(name: str) -> bool:
    pid = name.rpartition(".")[2]
    return pid.isdecimal() and Path("/proc", pid).exists()
