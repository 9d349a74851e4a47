"""`xceadmin backup`, `xceadmin restore`: a cluster's state in one file, and back again."""

import contextlib
import shutil
import sys
import time
from pathlib import Path

import msgspec

from xce.cli.xceadmin.journal import open_found
from xce.client.moment import FORMS, parse_moment
from xce.client.version import VERSION
from xce.config.parse import parse_site_config
from xce.config.site import SiteConfig
from xce.daemon.components import find_daemons
from xce.daemon.config_directory import load_config, load_site
from xce.daemon.journals import find_history, history_place, postgres_target
from xce.daemon.paths import Layout, find_layout, open_layout
from xce.daemon.settings import Settings
from xce.journal.backup import Backup, BackupError, BackupNote, make_backup, open_backup
from xce.journal.codec import decode_batch
from xce.journal.history_place import HistoryPlace, open_for_writing, place_text
from xce.journal.history_postgres import MAIL_SCHEMA, PostgresHistory
from xce.journal.history_transfer import copy_store, has_mail, is_empty
from xce.journal.interface import JournalReader
from xce.journal.postgres import PostgresJournal
from xce.journal.transfer import NotEmptyError, Tally, fill_postgres, fill_sqlite
from xce.journal.whole import find_seq, read_whole
from xce.model.display import render_utc
from xce.model.errors import XceError
from xce.model.ids import Seq


def run_backup(settings: Settings, file: Path, *, as_json: bool) -> int:
    """Write a backup; return the exit status. The cluster may go on meanwhile."""
    layout = find_layout(settings.state_dir)
    try:
        config = load_config(layout.config)
        reader = open_found(layout)
        if isinstance(reader, int):
            return reader
        try:
            note = make_backup(
                file.absolute(),
                reader,
                history=find_history(layout),
                config=layout.config,
                note=_note(config.cluster_name, reader),
            )
        finally:
            reader.close()
    except (XceError, OSError) as error:
        print(f"xceadmin backup: {error}", file=sys.stderr)
        return 1
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(note), indent=2).decode())
    else:
        print(f"{file}: {_render_note(note)}")
    return 0


def _note(cluster: str, reader: JournalReader) -> BackupNote:
    return BackupNote(
        version=VERSION,
        cluster=cluster,
        made_at_us=time.time_ns() // 1_000,
        source="",
        first_seq=0,
        last_seq=0,
        last_at_us=_time_of(reader, reader.stored_seq()),
        epoch=0,
        history_seq=0,
        tally=Tally(0, 0, 0, 0, ""),
    )


def _time_of(reader: JournalReader, seq: Seq) -> int:
    """Return the instant of an entry."""
    batch = next(read_whole(reader, seq), None) if seq else None
    if batch is None:
        return 0
    entries, _ = decode_batch(batch.content, previous_crc=None, expected_seq=None)
    return max((entry.at_us for entry in entries if entry.seq <= seq), default=0)


def run_restore(settings: Settings, file: Path, *, at: str | None, dry_run: bool) -> int:
    """Restore a backup into an empty state; return the exit status.

    Args:
        settings: The state directory.
        file: The backup.
        at: Up to which entry or instant; None: all of it.
        dry_run: Only tell what would be done.
    """
    try:
        layout = find_layout(settings.state_dir)
        if not dry_run:
            layout = open_layout(settings.state_dir)
        room = layout.root if layout.root.is_dir() else file.absolute().parent
        with open_backup(file, room) as backup:
            upto = find_upto(backup, at)
            restore = Restore(layout, backup, upto)
            restore.check()
            print(restore.render())
            if dry_run:
                print("nothing was changed")
                return 0
            restore.run()
    except (XceError, OSError) as error:
        print(f"xceadmin restore: {error}", file=sys.stderr)
        return 1
    print("restored; start with `xce up`")
    return 0


def find_upto(backup: Backup, at: str | None) -> Seq:
    """Return the entry that ``--at`` names; 0: the last.

    Raises:
        BackupError: It names none, or one that is not in the backup.
    """
    if at is None:
        return 0
    if at.isdecimal():
        seq = int(at)
        if not 1 <= seq <= backup.note.last_seq:
            raise BackupError(f"entry {seq} is not in it: it ends with {backup.note.last_seq}")
        return seq
    moment_s = parse_moment(at, now_s=time.time())
    if moment_s is None:
        raise BackupError(f"--at {at!r} is neither an entry's number nor an instant: {FORMS}")
    seq = find_seq(backup.reader, int(moment_s * 1_000_000))
    if not seq:
        raise BackupError(f"nothing in it is as early as {at}")
    return seq


class Restore:
    """What is to be restored, and where.

    Args:
        layout: The state directory.
        backup: Unpacked.
        upto: The last entry; 0: all.
    """

    def __init__(self, layout: Layout, backup: Backup, upto: Seq) -> None:
        self._layout = layout
        self._backup = backup
        self._contents = backup.contents(upto, now_us=time.time_ns() // 1_000)
        self._has_config = any(layout.config.glob("*.yaml"))
        self._site = self._load_site()
        history_seq = backup.note.history_seq
        self._takes_history = bool(history_seq) and history_seq <= self._contents.upto

    def _load_site(self) -> SiteConfig:
        """Return where the journal goes: as the directory says, else as the backup says."""
        if self._has_config:
            return load_site(self._layout.config)
        texts = {name: text.decode() for name, text in self._backup.config.items()}
        return parse_site_config(texts)

    def check(self) -> None:
        """Check that there is nothing that would be overwritten.

        Raises:
            NotEmptyError: There is.
        """
        layout = self._layout
        if find_daemons(layout.root):
            raise NotEmptyError(f"{layout.root}: a cluster runs here; end it first (xce down)")
        for path in (*self._history_files(), *self._journal_files()):
            if path.exists():
                raise NotEmptyError(
                    f"{path}: is there already: restore into an empty state directory, or move it "
                    "away"
                )
        self._check_database(self._history_place())
        target = postgres_target(self._site)
        if target is not None:
            journal = PostgresJournal(target)
            try:
                if not journal.is_empty():
                    raise NotEmptyError(f"{target.dsn}: there is a journal already")
            finally:
                journal.close()

    @staticmethod
    def _check_database(place: HistoryPlace) -> None:
        """Check that a database has neither a history nor mail, which would count as sent."""
        if isinstance(place, PostgresHistory):
            if not is_empty(place):
                raise NotEmptyError(f"{place_text(place)}: there is a history already")
            if has_mail(place):
                raise NotEmptyError(
                    f"{place_text(place)}: there is the mail of another history already, in the "
                    f"schema {MAIL_SCHEMA}"
                )

    def _history_place(self) -> HistoryPlace:
        return history_place(self._layout, self._site)

    def _history_files(self) -> list[Path]:
        layout = self._layout
        return [] if self._site.history.postgres else [layout.history_file, layout.mail_file]

    def _journal_files(self) -> list[Path]:
        return [] if self._site.journal.postgres else [self._layout.journal_file]

    def render(self) -> str:
        """Return what will be done."""
        note, upto = self._backup.note, self._contents.upto
        at_us = _time_of(self._backup.reader, upto)
        where = self._site.journal.postgres or str(self._layout.journal)
        history = f"with it, into {place_text(self._history_place())}"
        if not self._takes_history:
            history = "made again from the journal"
            if note.first_seq > 1:
                history += f" as far back as entry {note.first_seq}"
        config = "what is in the directory is kept" if self._has_config else "as in the backup"
        return "\n".join(
            [
                f"backup of cluster {note.cluster} by {note.version}, {_render_note(note)}",
                f"journal:  entries up to {upto} ({render_utc(at_us)}), into {where}",
                f"history:  {history}",
                f"config:   {config}",
                f"epoch:    the next reign is {self._contents.epoch + 1}",
            ]
        )

    def run(self) -> None:
        """Do it. The journal comes last: before it there is no cluster to be started."""
        layout = self._layout
        if not self._has_config:
            for name, content in self._backup.config.items():
                (layout.config / name).write_bytes(content)
        history = self._backup.history
        if self._takes_history and history is not None:
            self._put_history(history)
        target = postgres_target(self._site)
        if target is None:
            fill_sqlite(layout.journal, self._contents)
        else:
            fill_postgres(target, self._contents)

    def _put_history(self, made: Path) -> None:
        """Put the history store where it belongs."""
        layout, place = self._layout, self._history_place()
        if isinstance(place, Path):
            layout.history.mkdir(mode=0o700, exist_ok=True)
            shutil.copyfile(made, place)
            place.chmod(0o600)
            open_for_writing(place).close()
            return
        with contextlib.ExitStack() as opened:
            source, target = (
                opened.enter_context(contextlib.closing(open_for_writing(one)))
                for one in (made, place)
            )
            copy_store(source, target)


def _render_note(note: BackupNote) -> str:
    """Return what a backup holds, in a line."""
    return (
        f"entries {note.first_seq} to {note.last_seq} ({render_utc(note.last_at_us)}), "
        f"{note.tally.blobs} scripts and environments, history up to {note.history_seq}"
    )
