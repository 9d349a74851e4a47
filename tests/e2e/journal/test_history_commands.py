"""What administrators do with a history in a database: move, export, back up, restore."""

import json
from pathlib import Path

import pytest
from postgres import Postgres

from xce.cli.xce.main import main as xce
from xce.cli.xceadmin.main import main
from xce.daemon.paths import Layout, open_layout
from xce.journal.batch import make_batch
from xce.journal.codec import FIRST_CRC
from xce.journal.history import HistoryWriter
from xce.journal.history_place import open_for_writing
from xce.journal.history_postgres import PostgresHistory
from xce.journal.history_transfer import open_mail
from xce.journal.lock import DirectoryLock
from xce.journal.mail_spool import MailSpool
from xce.journal.postgres_line import PostgresTarget
from xce.journal.sqlite import SqliteJournal
from xce.model.entry import Entry
from xce.testing.builders import cluster, run_job, submission, submit


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return open_layout(tmp_path / "state")


@pytest.fixture
def entries() -> list[Entry]:
    controller = cluster({"h1": 4})
    for number in range(5):
        run_job(controller, submit(controller, submission(name=f"j{number}")))
    return controller.entries


def write(layout: Layout, entries: list[Entry]) -> None:
    """Make a journal, and a history that has all but its last entries."""
    journal = SqliteJournal(layout.journal)
    epoch = journal.lead("c1")
    journal.append(epoch, make_batch(entries, crc_before=FIRST_CRC))
    journal.close()
    writer = HistoryWriter(layout.history_file)
    writer.take(entries[:-2], crc=1, epoch=1)
    writer.commit()
    writer.close()


def configure(layout: Layout, target: PostgresTarget) -> None:
    (layout.config / "xce.yaml").write_text(f"history: {{postgres: '{target.dsn}'}}\n")


def told(layout: Layout, capsys: pytest.CaptureFixture[str], *words: str) -> list[object]:
    assert main([*words, "--dir", str(layout.root)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_history_is_moved_by_command_and_back(
    layout: Layout,
    entries: list[Entry],
    target: PostgresTarget,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["history", "migrate", "--dir", str(layout.root), "--to"]
    assert main([*words, target.dsn]) == 1
    assert f"there is no history in {layout.history_file}" in capsys.readouterr().err
    write(layout, entries)
    before = told(layout, capsys, "history", "export")
    audit = told(layout, capsys, "audit", "--json")
    assert len(before) == 4
    lock = DirectoryLock(layout.history / "lock", holder="history writer")
    assert main([*words, target.dsn]) == 1
    assert "end all daemons first (xce down)" in capsys.readouterr().err
    lock.release()
    assert main([*words, "files"]) == 1
    assert "in files of the state directory already" in capsys.readouterr().err
    assert main([*words, "postgresql://x:secret@db/x"]) == 2
    assert "secret" not in (said := capsys.readouterr().err)
    assert "history.postgres: holds a password" in said
    assert main([*words, target.dsn]) == 0
    said = capsys.readouterr().out
    assert f"rows, up to entry {entries[-3].seq}" in said
    assert f"history:\n  postgres: {target.dsn}\n" in said
    assert f"{layout.history_file} and {layout.mail_file} away" in said
    assert main([*words, target.dsn]) == 1
    assert f"{target.dsn}: there is a history already" in capsys.readouterr().err
    configure(layout, target)
    layout.history.rename(layout.root / "kept away")
    assert told(layout, capsys, "history", "export") == before
    assert told(layout, capsys, "audit", "--json") == audit
    assert main(["history", "--dir", str(layout.root), "export", "--format", "lsb.acct"]) == 0
    assert capsys.readouterr().out.count("JOB_FINISH") == 4
    assert main([*words, "files"]) == 0
    assert "remove the section history" in capsys.readouterr().out
    (layout.config / "xce.yaml").unlink()
    assert told(layout, capsys, "history", "export") == before


def test_a_backup_takes_the_history_from_where_it_is_and_puts_it_where_it_goes(
    layout: Layout,
    entries: list[Entry],
    target: PostgresTarget,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(layout, entries)
    before = told(layout, capsys, "history", "export")
    assert main(["history", "migrate", "--dir", str(layout.root), "--to", target.dsn]) == 0
    configure(layout, target)
    for name in (layout.history_file, layout.mail_file):
        name.unlink()
    file = tmp_path / "b.tar"
    assert main(["backup", "--dir", str(layout.root), str(file)]) == 0
    assert f"history up to {entries[-3].seq}" in capsys.readouterr().out
    fresh = open_layout(tmp_path / "fresh")
    words = ["restore", "--dir", str(fresh.root), str(file)]
    assert main(words) == 1
    assert f"{target.dsn}: there is a history already" in capsys.readouterr().err
    (fresh.config / "xce.yaml").write_text("cluster_name: xce\n")
    assert main(words) == 0
    assert f"with it, into {fresh.history_file}" in capsys.readouterr().out
    assert told(fresh, capsys, "history", "export") == before


def test_a_restored_history_goes_into_the_database_that_is_configured(
    server: Postgres,
    layout: Layout,
    entries: list[Entry],
    target: PostgresTarget,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(layout, entries)
    before = told(layout, capsys, "history", "export")
    file = tmp_path / "b.tar"
    assert main(["backup", "--dir", str(layout.root), str(file)]) == 0
    fresh = open_layout(tmp_path / "fresh")
    configure(fresh, target)
    assert main(["restore", "--dir", str(fresh.root), str(file)]) == 0
    assert f"with it, into {target.dsn}" in capsys.readouterr().out
    assert told(fresh, capsys, "history", "export") == before
    assert not fresh.history_file.exists()
    writer = HistoryWriter(PostgresHistory(target, "xce"))
    assert writer.seq == entries[-3].seq
    writer.close()


@pytest.mark.parametrize("in_database", [False, True])
def test_mail_that_was_left_behind_would_count_as_sent_and_is_in_the_way_of_a_restore(
    layout: Layout,
    entries: list[Entry],
    target: PostgresTarget,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    in_database: bool,
) -> None:
    write(layout, entries)
    file = tmp_path / "b.tar"
    assert main(["backup", "--dir", str(layout.root), str(file)]) == 0
    fresh = open_layout(tmp_path / "fresh")
    if in_database:
        configure(fresh, target)
    history = open_for_writing(
        PostgresHistory(target, "xce") if in_database else tmp_path / "history.db"
    )
    spool = MailSpool(open_mail(history, fresh.mail_file))
    spool.take(entries)
    spool.commit()
    spool.close()
    history.close()
    assert main(["restore", "--dir", str(fresh.root), str(file)]) == 1
    said = capsys.readouterr().err
    assert ("in the schema xce_mail" if in_database else f"{fresh.mail_file}: is there") in said
    assert not fresh.journal_file.exists()


def test_a_database_that_cannot_be_had_is_named(
    server: Postgres, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(layout, PostgresTarget(server.dsn("none")))
    assert main(["history", "export", "--dir", str(layout.root)]) == 1
    said = capsys.readouterr().err
    assert "/none?host=" in said
    assert 'database "none" does not exist' in said
    assert xce(["status", "--dir", str(layout.root)]) == 1
    configure(layout, PostgresTarget("postgresql://xce@/xce?host=/nowhere"))
    assert main(["history", "export", "--dir", str(layout.root)]) == 1
    assert "host=/nowhere" in capsys.readouterr().err
