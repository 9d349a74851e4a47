"""Whole journals from one place to another: migrated, backed up, restored."""

import contextlib
import hashlib
import json
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import msgspec
import pytest
from journals import batches
from live import Live, open_live, until
from pair import LEASE_S

from xce.cli.xceadmin.main import main
from xce.daemon.paths import open_layout
from xce.daemon.processes import send_signal
from xce.journal.backup import BackupError, is_restored, load_note, open_backup
from xce.journal.batch import make_batch
from xce.journal.codec import FIRST_CRC
from xce.journal.interface import JournalHeldError
from xce.journal.postgres import PostgresJournal
from xce.journal.postgres_line import PostgresTarget
from xce.journal.postgres_reader import open_postgres_reader
from xce.journal.recover import recover
from xce.journal.sqlite import SqliteJournal, open_sqlite_reader
from xce.journal.transfer import (
    NotEmptyError,
    contents_of,
    fill_postgres,
    fill_sqlite,
    tally,
)
from xce.journal.verify import verify, verify_journal
from xce.journal.whole import TooEarlyError, find_seq, read_whole
from xce.model.entry import Entry
from xce.model.errors import XceError
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import dump, load
from xce.testing.builders import cluster, replayed, run_job, submission, submit


def recorded(jobs: int = 6) -> list[Entry]:
    """Entries of a small cluster, a second apart."""
    controller = cluster({"h1": 4})
    for number in range(jobs):
        job = submit(controller, submission(name=f"j{number}"))
        run_job(controller, job)
    return [
        msgspec.structs.replace(entry, at_us=1_000_000 * entry.seq) for entry in controller.entries
    ]


def written(directory: Path, entries: list[Entry], *, snapshot_at: int = 0) -> None:
    """Make a journal with three entries a batch, two reigns, blobs, and an archive."""
    crc = FIRST_CRC
    half = len(entries) // 2 // 3 * 3
    for reign in (entries[:half], entries[half:]):
        journal = SqliteJournal(directory)
        epoch = journal.lead("test")
        for at in range(0, len(reign), 3):
            made = make_batch(reign[at : at + 3], crc_before=crc)
            text = b"blob %d" % made.last
            name = hashlib.blake2b(text, digest_size=16).hexdigest()
            journal.append(epoch, made, [(name, text)])
            crc = made.crc
            if made.last >= snapshot_at > made.first - 1:
                state = replayed(entries[: made.last])
                journal.store_snapshot(made.last, crc, dump(state))
                journal.trim(made.last + 1)
        journal.close()


def state_of(reader) -> list[bytes]:
    state, _, _ = recover(reader, restore=load, empty=ClusterState, apply_entry=apply)
    return list(dump(state))


@pytest.mark.parametrize("snapshot_at", [0, 10])
def test_a_journal_goes_to_a_database_and_back_and_is_equal(
    tmp_path: Path, target: PostgresTarget, snapshot_at: int
) -> None:
    entries = recorded()
    written(tmp_path / "a", entries, snapshot_at=snapshot_at)
    source = open_sqlite_reader(tmp_path / "a")
    wanted = tally(contents_of(source))
    fill_postgres(target, contents_of(source))
    middle = open_postgres_reader(target)
    assert not is_restored(middle)
    assert tally(contents_of(middle)) == wanted
    assert verify_journal(middle).is_good
    fill_sqlite(tmp_path / "b", contents_of(middle))
    back = open_sqlite_reader(tmp_path / "b")
    assert tally(contents_of(back)) == wanted
    assert wanted.last_seq == entries[-1].seq
    assert back.lead_epoch() == 2
    assert back.first_seq() >= source.first_seq()
    assert bool(snapshot_at) == (source.first_seq() > 1)
    assert [one.content for one in read_whole(back, 1)] == [
        one.content for one in read_whole(source, 1)
    ]
    assert state_of(back) == state_of(middle) == list(dump(replayed(entries)))
    for reader in (source, middle, back):
        reader.close()
    journal = SqliteJournal(tmp_path / "b")
    assert journal.lead("c1") == 3
    journal.close()


def test_a_target_that_holds_something_is_left_alone(
    tmp_path: Path, target: PostgresTarget
) -> None:
    written(tmp_path / "a", recorded())
    source = open_sqlite_reader(tmp_path / "a")
    contents = contents_of(source)
    with pytest.raises(NotEmptyError):
        fill_sqlite(tmp_path / "a", contents)
    leader = PostgresJournal(target)
    leader.lead("c1")
    with pytest.raises(NotEmptyError):
        fill_postgres(target, contents)
    (one,) = batches(1)
    leader.append(1, one)
    leader.close()
    with pytest.raises(NotEmptyError):
        fill_postgres(target, contents)
    reader = open_postgres_reader(target)
    assert reader.stored_seq() == 1
    reader.close()
    source.close()


def test_a_copy_that_fails_half_way_leaves_nothing(tmp_path: Path, target: PostgresTarget) -> None:
    written(tmp_path / "a", recorded())
    source = open_sqlite_reader(tmp_path / "a")

    class Failing(type(source)):
        def blob_digests(self) -> list[str]:
            raise OSError("the disk is gone")

    source.__class__ = Failing
    with pytest.raises(OSError, match="gone"):
        fill_sqlite(tmp_path / "b", contents_of(source))
    assert not (tmp_path / "b" / "journal.db").exists()
    with pytest.raises(Exception, match="gone"):
        fill_postgres(target, contents_of(source))
    journal = PostgresJournal(target)
    assert journal.is_empty()
    journal.close()
    source.close()


def test_migrating_by_command(
    tmp_path: Path, target: PostgresTarget, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = open_layout(tmp_path / "state")
    entries = recorded()
    written(layout.journal, entries, snapshot_at=10)
    words = ["journal", "migrate", "--dir", str(layout.root), "--to"]
    holder = SqliteJournal(layout.journal)
    holder.lead("c1")
    assert main([*words, target.dsn]) == 1
    assert "a controller runs; end them all first" in capsys.readouterr().err
    holder.close()
    assert main([*words, "files"]) == 1
    assert "in files of the state directory already" in capsys.readouterr().err
    assert main([*words, "mysql://x"]) == 2
    assert "names no database" in capsys.readouterr().err
    assert main([*words, target.dsn]) == 0
    said = capsys.readouterr().out
    assert f"up to entry {entries[-1].seq}" in said
    assert f"journal:\n  postgres: {target.dsn}\n" in said
    assert main([*words, target.dsn]) == 1
    assert "there is a journal already" in capsys.readouterr().err
    (layout.config / "xce.yaml").write_text(f"journal: {{postgres: '{target.dsn}'}}\n")
    assert main(["journal", "verify", "--dir", str(layout.root)]) == 0
    assert f"last good seq: {entries[-1].seq}" in capsys.readouterr().out
    assert main(["journal", "--dir", str(layout.root), "export", "--to", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    layout.journal_file.rename(tmp_path / "old.db")
    assert main([*words, "files"]) == 0
    assert "remove the section journal" in capsys.readouterr().out
    assert verify(layout.journal).is_good


def backed_up(tmp_path: Path, *, snapshot_at: int = 0) -> tuple[list[Entry], Path]:
    layout = open_layout(tmp_path / "state")
    (layout.config / "xce.yaml").write_text("cluster_name: orion\n")
    entries = recorded()
    written(layout.journal, entries, snapshot_at=snapshot_at)
    assert main(["backup", "--dir", str(layout.root), str(tmp_path / "b.tar")]) == 0
    return entries, tmp_path / "b.tar"


@pytest.mark.parametrize("snapshot_at", [0, 10])
@pytest.mark.parametrize("to_database", [False, True])
def test_a_backup_is_restored_whole(
    tmp_path: Path,
    target: PostgresTarget,
    snapshot_at: int,
    to_database: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    entries, file = backed_up(tmp_path, snapshot_at=snapshot_at)
    note = load_note(file)
    assert (note.cluster, note.first_seq, note.last_seq) == ("orion", 1, entries[-1].seq)
    assert note.last_at_us == entries[-1].at_us
    fresh = open_layout(tmp_path / "fresh")
    if to_database:
        (fresh.config / "xce.yaml").write_text(f"journal: {{postgres: '{target.dsn}'}}\n")
    words = ["restore", "--dir", str(fresh.root), str(file)]
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "nothing was changed" in said
    assert f"entries up to {entries[-1].seq}" in said
    assert not fresh.journal_file.exists()
    assert main(words) == 0
    reader = open_postgres_reader(target) if to_database else open_sqlite_reader(fresh.journal)
    assert state_of(reader) == list(dump(replayed(entries)))
    assert reader.lead_epoch() >= 1_000_002
    assert is_restored(reader), "the first reign leaves out what the lost entries gave out"
    reader.close()
    assert ("orion" in (fresh.config / "xce.yaml").read_text()) == (not to_database)
    assert main(words) == 1
    assert "already" in capsys.readouterr().err


@pytest.mark.parametrize("at", ["8", "@8", "@8.5"])
def test_a_backup_is_restored_up_to_an_entry_or_an_instant(tmp_path: Path, at: str) -> None:
    entries, file = backed_up(tmp_path)
    words = ["restore", "--dir", str(tmp_path / "fresh"), str(file), "--at", at]
    assert main(words) == 0
    layout = open_layout(tmp_path / "fresh")
    assert verify(layout.journal).last_good_seq == 8
    reader = open_sqlite_reader(layout.journal)
    assert state_of(reader) == list(dump(replayed(entries[:8])))
    reader.close()


def test_what_cannot_be_restored_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, file = backed_up(tmp_path)
    words = ["restore", "--dir", str(tmp_path / "fresh"), str(file), "--at"]
    for at, text in (
        ("999", "entry 999 is not in it"),
        ("", "neither an entry's number nor an instant"),
        ("tomorrow", "neither an entry's number nor an instant"),
        ("@0.5", "nothing in it is as early as"),
    ):
        assert main([*words, at]) == 1
        assert text in capsys.readouterr().err
    damaged = tmp_path / "damaged.tar"
    content = bytearray(file.read_bytes())
    place = content.index(b"j3")
    content[place : place + 2] = b"j4"
    damaged.write_bytes(content)
    with (
        pytest.raises(XceError, match=r"damaged|checksum|not what was put"),
        open_backup(damaged, tmp_path),
    ):
        pass
    (tmp_path / "none.tar").write_bytes(b"hello")
    with pytest.raises(BackupError):
        load_note(tmp_path / "none.tar")
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.add(__file__, "x")
    with pytest.raises(BackupError, match="is no backup of XCE"):
        load_note(tmp_path / "other.tar")


def test_an_entry_before_all_that_is_kept_is_too_early(tmp_path: Path) -> None:
    entries = recorded()
    written(tmp_path / "a", entries, snapshot_at=10)
    (tmp_path / "a" / "archive.db").unlink()
    reader = open_sqlite_reader(tmp_path / "a")
    with pytest.raises(TooEarlyError, match=r"the earliest state .* is that of entry 12"):
        contents_of(reader, upto=5)
    assert contents_of(reader, upto=12).begins_behind == 12
    reader.close()


@pytest.mark.parametrize("snapshot_at", [0, 10])
def test_the_last_entry_before_an_instant_is_found(tmp_path: Path, snapshot_at: int) -> None:
    entries = recorded()
    written(tmp_path / "a", entries, snapshot_at=snapshot_at)
    reader = open_sqlite_reader(tmp_path / "a")
    for entry in entries:
        assert find_seq(reader, entry.at_us) == entry.seq
        assert find_seq(reader, entry.at_us + 999_999) == entry.seq
    assert find_seq(reader, entries[0].at_us - 1) == 0
    assert find_seq(reader, 10**15) == entries[-1].seq
    reader.close()


def test_a_running_cluster_is_backed_up_and_what_its_hosts_run_is_adopted_afterwards() -> None:
    with open_live() as live:
        live.xce("up", "--hosts", "h1,h2", "--slots", "4", "--timeout", "60")
        done = live.submit("echo one", name="first")
        live.until_ended(done)
        waiting = live.submit("echo two", name="second", hold=True)
        file = live.home / "b.tar"
        time.sleep(1)
        said = live.xceadmin("backup", str(file))
        assert "entries 1 to" in said
        wide, many = submit_what_is_lost(live)
        live.xce("down")
        for directory in (live.layout.journal, live.layout.history_file.parent):
            directory.rename(live.home / directory.name)
        said = live.xceadmin("restore", str(file))
        assert "restored; start with `xce up`" in said
        live.xce("up", "--timeout", "60")
        assert live.row(done)["stat"] == "DONE"
        assert live.row(waiting)["stat"] == "PSUSP"
        assert [row["name"] for row in live.rows(("user", "all"))] == ["second"]
        adopt(live)
        row = live.row(wide)
        assert (row["stat"], row["name"], row["attempt"]) == ("RUN", "third", 1)
        assert [live.row(many, index)["stat"] for index in (1, 2, 3)] == ["PSUSP", "RUN", "PSUSP"]
        (live.home / "go").touch()
        assert live.until_ended(wide)["exit_code"] == 7
        assert len(list(live.home.glob("again.*"))) == 2, "its tasks on another host are lost"
        until(lambda: live.row(many, 2)["stat"] == "DONE", "the element ends")
        assert "h1: adopted" in live.xceadmin("hosts", "adopt", "h1")
        live.xceadmin("hosts", "open", "h1")
        live.act("resume", waiting)
        assert live.until_ended(waiting)["stat"] == "DONE"
        assert live.submit("echo four") > many + 1, "an id of the lost entries is given out"


def submit_what_is_lost(live: Live) -> tuple[int, int]:
    """Submit what only hosts will know of: a job on both hosts, and one element of an array."""
    go = "until [ -e go ]; do sleep 0.1; done"
    wide = live.submit(
        f"blaunch 'touch at.$XCE_RANK; {go}' && blaunch 'touch again.$XCE_RANK'; exit 7",
        name="third", tasks=[2, 2], resreq=["span[ptile=1]"], env=[f"PATH={live.environ['PATH']}"],
    )  # fmt: skip
    many = live.submit(go, name="many", array="1-3", hold=True)
    live.act("resume", many, select={"jobs": [f"{many}[2]"]})
    until(lambda: live.row(many, 2)["stat"] == "RUN", "an element runs")
    until(lambda: len(list(live.home.glob("at.*"))) == 2, "both tasks run")
    return wide, many


def adopt(live: Live) -> None:
    """Have adopted what hosts run, while the controller that was told so is killed."""
    until(lambda: total(live, "strangers") == 3, "hosts tell what they run")
    assert {host["status"] for host in live.hosts()} == {"closed_Adm"}
    frozen = live.kill("worker", signal.SIGSTOP)
    adopting = subprocess.Popen(
        ["xceadmin", "hosts", "adopt", "h[1-2]", "--json"],
        env=live.environ, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(lambda: total(live, "adopting") == 3, "it is decided")
    live.until_replaced("controller", live.kill("controller"))
    for worker in frozen:
        send_signal(worker, signal.SIGCONT)
    said, _ = adopting.communicate(timeout=90)
    expected = [
        {"name": name, "strangers": 0, "adopting": 0, "unadopted": []} for name in ("h1", "h2")
    ]
    assert (json.loads(said), adopting.returncode) == (expected, 0)


def total(live: Live, member: str) -> int:
    """Return a number in the rows of hosts, in all."""
    return sum(host[member] for host in live.hosts())


def test_a_second_migration_is_kept_away_by_the_first(target: PostgresTarget) -> None:
    first, second = PostgresJournal(target, lease_s=LEASE_S), PostgresJournal(target)
    with contextlib.closing(first), contextlib.closing(second):
        first.lead("migration")
        with pytest.raises(JournalHeldError, match="led by migration"):
            second.lead("migration")
