"""A backup: one file (tar) with the journal, the history store and the configuration.

Journal and history in it have the form of files, wherever they came from, so a backup of a cluster
on PostgreSQL can be restored on files, and the other way round.
"""

import contextlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from xce.journal.history_place import HistoryPlace
from xce.journal.history_sqlite import copy_sqlite
from xce.journal.history_store import HistoryError
from xce.journal.history_transfer import copy_file_of
from xce.journal.interface import JournalReader
from xce.journal.snapshot import sync_directory
from xce.journal.sqlite import SqliteReader, open_sqlite_reader
from xce.journal.transfer import Contents, Tally, contents_of, fill_sqlite, tally
from xce.journal.verify import verify_journal
from xce.model.errors import XceError
from xce.model.ids import Epoch, Micros, Seq

FORMAT: Final = 1
EPOCHS_SKIPPED: Final = 1_000_000
"""By so much at least the first reign on a restored journal is later than the one before it."""
_MANIFEST: Final = "backup.json"
_JOURNAL: Final = "journal"
_HISTORY: Final = "history/history.db"
_CONFIG: Final = "config"


def is_restored(journal: JournalReader) -> bool:
    """Return whether a journal was restored and nothing was written to it since then.

    Args:
        journal: The one who asks may lead it already.

    Raises:
        CorruptJournalError: Its last batch cannot be read.
    """
    last = next(journal.read(journal.stored_seq() or 1), None)
    return last is not None and journal.lead_epoch() - last.epoch >= EPOCHS_SKIPPED


def epoch_after(epoch: Epoch, now_us: Micros) -> Epoch:
    """Return what counts as the last reign of a journal that is restored now.

    It is higher than any that began after the backup, and than those after an earlier restore of
    this backup or another one.

    Args:
        epoch: The last reign when the backup was made.
        now_us: The present instant.
    """
    return max(epoch + EPOCHS_SKIPPED, now_us)


class BackupError(XceError):
    """The backup cannot be made or used; the message says why."""


class BackupNote(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds, for people and for `restore`."""

    format: int = FORMAT
    version: str
    """The release that made it."""
    cluster: str
    made_at_us: Micros
    source: str
    """Where the journal was."""
    first_seq: Seq
    """The first entry in it; later than 1: a snapshot stands for what came before."""
    last_seq: Seq
    last_at_us: Micros
    epoch: Epoch
    history_seq: Seq
    """Up to which entry the history store in it has everything; 0: there is none in it."""
    tally: Tally


def make_backup(
    file: Path,
    reader: JournalReader,
    *,
    history: HistoryPlace,
    config: Path,
    note: BackupNote,
) -> BackupNote:
    """Write a backup and return what it holds; the cluster may go on meanwhile.

    Args:
        file: Made anew; one that is there is replaced only when the new one is whole.
        reader: The journal.
        history: Where the history store is, if there is one.
        config: The directory of configuration files.
        note: What the caller knows of it.

    Raises:
        BackupError: The file cannot be written, or the journal is damaged.
        XceError: The journal cannot be read.
    """
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(prefix=".xce-backup-", dir=file.parent) as made:
            note = _gather(Path(made), reader, history=history, config=config, note=note)
            _pack(Path(made), aside)
        aside.replace(file)
        sync_directory(file.parent)
    except OSError as error:
        raise BackupError(f"{file}: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)
    return note


def _gather(
    made: Path, reader: JournalReader, *, history: HistoryPlace, config: Path, note: BackupNote
) -> BackupNote:
    # The history first: it must not know more than the journal.
    history_seq = _copy_history(history, made / _HISTORY)
    fill_sqlite(made / _JOURNAL, contents_of(reader))
    copied = open_sqlite_reader(made / _JOURNAL)
    try:
        report = verify_journal(copied)
        if report.damage is not None:
            raise BackupError(f"the journal is damaged: {report.damage.text}")
        contents = contents_of(copied)
        note = msgspec.structs.replace(
            note,
            source=reader.place(),
            first_seq=report.first_seq,
            last_seq=report.last_good_seq,
            epoch=contents.epoch,
            history_seq=history_seq,
            tally=tally(contents),
        )
    finally:
        copied.close()
    if config.is_dir():
        for path in sorted(config.glob("*.yaml")):
            target = made / _CONFIG / path.name
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
    (made / _MANIFEST).write_bytes(msgspec.json.encode(note))
    return note


def _copy_history(source: HistoryPlace, target: Path) -> Seq:
    """Copy a history store beside its writer; return how far it reaches."""
    target.parent.mkdir()
    try:
        if isinstance(source, Path):
            return copy_sqlite(source, target)
        return copy_file_of(source, target)
    except HistoryError as error:
        raise BackupError(str(error)) from error


def _pack(made: Path, file: Path) -> None:
    """Write a directory as a tar, the note first."""
    with file.open("xb") as out:
        file.chmod(0o600)
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            names = [made / _MANIFEST, *sorted(p for p in made.rglob("*") if p.is_file())]
            for path in dict.fromkeys(names):
                tar.add(path, str(path.relative_to(made)), filter=_anonymous)
        out.flush()
        os.fsync(out.fileno())


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member


class Backup:
    """A backup that was unpacked into a directory of its own."""

    def __init__(self, directory: Path, note: BackupNote, reader: SqliteReader) -> None:
        self.note = note
        self.reader = reader
        self._directory = directory

    @property
    def config(self) -> dict[str, bytes]:
        """The configuration files by name."""
        root = self._directory / _CONFIG
        return {path.name: path.read_bytes() for path in sorted(root.glob("*.yaml"))}

    @property
    def history(self) -> Path | None:
        """The history store in it."""
        path = self._directory / _HISTORY
        return path if path.exists() else None

    def contents(self, upto: Seq, *, now_us: Micros) -> Contents:
        """Return what is to be restored now up to entry ``upto``; 0: all of it."""
        epoch = epoch_after(self.note.epoch, now_us)
        return contents_of(self.reader, upto=upto, epoch=epoch)


@contextlib.contextmanager
def open_backup(file: Path, beside: Path) -> Iterator[Backup]:
    """Unpack a backup, check that it is whole, and remove what was unpacked in the end.

    Args:
        file: The backup.
        beside: A directory in which there is room.

    Raises:
        BackupError: It is damaged, or of a newer release.
    """
    with tempfile.TemporaryDirectory(prefix=".xce-restore-", dir=beside) as unpacked:
        directory = Path(unpacked)
        note = _unpack(file, directory)
        reader = open_sqlite_reader(directory / _JOURNAL)
        try:
            if tally(contents_of(reader)) != note.tally:
                raise BackupError(f"{file}: is damaged: its journal is not what was put into it")
            yield Backup(directory, note, reader)
        finally:
            reader.close()


def load_note(file: Path) -> BackupNote:
    """Return what a backup says of itself; nothing is checked.

    Raises:
        BackupError: It is none, or of a newer release.
    """
    with _opened(file) as tar:
        return _note(file, tar)


def _unpack(file: Path, directory: Path) -> BackupNote:
    with _opened(file) as tar:
        note = _note(file, tar)
        for member in tar:
            path = Path(member.name)
            if not member.isfile() or path.is_absolute() or ".." in path.parts:
                raise BackupError(f"{file}: {member.name!r} does not belong into a backup")
            source = tar.extractfile(member)
            assert source is not None
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with source, target.open("xb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
    return note


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(file, mode="r:") as tar:
            yield tar
    except (OSError, tarfile.TarError, EOFError) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BackupError(f"{file}: {text}") from error


def _note(file: Path, tar: tarfile.TarFile) -> BackupNote:
    member = tar.next()
    if member is None or member.name != _MANIFEST or not member.isfile():
        raise BackupError(f"{file}: is no backup of XCE")
    source = tar.extractfile(member) or io.BytesIO()
    try:
        content = msgspec.json.decode(source.read())
        if isinstance(content, dict) and content.get("format") != FORMAT:
            raise BackupError(
                f"{file}: format {content.get('format')}; this release reads format {FORMAT}"
            )
        note = msgspec.convert(content, BackupNote)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BackupError(f"{file}: {error}") from error
    return note
