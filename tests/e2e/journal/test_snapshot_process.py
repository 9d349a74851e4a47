"""The snapshot process: what it stores, and which blobs it finds that nothing names."""

import json
import subprocess
import sys

from live import open_live, until

from xce.journal.sqlite import SqliteJournal, open_sqlite_reader


def test_only_blobs_that_nothing_names_are_found_needless() -> None:
    with open_live() as live:
        live.configure("clean_period_s: 1\n")
        live.xce("up", "--hosts", "h1", "--slots", "2", "--timeout", "60")
        ended = live.submit("echo ended", env=["A=1"])
        live.until_ended(ended)
        held = live.submit("echo held", env=["B=2"], hold=True)
        until(lambda: [row["jobid"] for row in live.rows()] == [held], "the first left the state")
        live.xce("down")
        journal = SqliteJournal(live.layout.journal)
        journal.lead("test")
        needed = journal.blob_digests()
        assert len(needed) >= 3
        journal._writing.execute("INSERT INTO blobs VALUES ('nobody', x'00')")
        journal.close()
        words = [sys.executable, "-m", "xce.daemon.snapshot", "--dir", str(live.root)]
        done = subprocess.run(words, capture_output=True, check=True)
        assert json.loads(done.stdout) == ["nobody"]
        live.layout.history_file.unlink()
        done = subprocess.run(words, capture_output=True, check=True)
        assert json.loads(done.stdout) == []
        reader = open_sqlite_reader(live.layout.journal)
        assert reader.snapshot_seqs()
        assert set(needed) < set(reader.blob_digests())
        reader.close()


def test_a_large_tail_becomes_a_snapshot_also_of_few_entries() -> None:
    with open_live() as live:
        live.xce("up", "--hosts", "h1", "--slots", "1", "--timeout", "60")
        for first in range(0, 1_500, 500):
            texts = (f"true {number:04000}" for number in range(first, first + 500))
            live.submit_all([live.submission(text, hold=True) for text in texts])
        reader = open_sqlite_reader(live.layout.journal)
        try:
            until(reader.snapshot_seqs, "a snapshot", pause_s=0.2)
            assert reader.snapshot_seqs()[0] < 100
        finally:
            reader.close()
