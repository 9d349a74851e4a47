"""Writing processes that tests kill, and what must be there afterwards."""

import hashlib
import subprocess
import sys
from pathlib import Path

from xce.journal.recover import read_entries
from xce.journal.sqlite import SqliteReader, open_sqlite_reader
from xce.journal.verify import verify

HERE = Path(__file__).parent
ENVIRONMENT = {"PYTHONPATH": str(HERE), "PATH": "/usr/bin:/bin"}


def start_writer(directory: Path, seed: int, padding: int = 3) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, HERE / "journal_writer.py", directory, str(seed), str(padding)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )


def acknowledged(said: bytes) -> list[int]:
    """Return the entries of all whole lines that were printed."""
    lines = said.split(b"\n")[:-1]
    return [int(line) for line in lines if line.isdigit()]


def check_everything_is_there(directory: Path, last_acknowledged: int) -> None:
    report = verify(directory)
    assert report.damage is None
    assert report.last_good_seq >= last_acknowledged
    reader = open_sqlite_reader(directory)
    try:
        for stored in reader.read(max(last_acknowledged - 500, 1)) if last_acknowledged else ():
            text = b"blob of %d" % stored.last
            assert reader.blob(hashlib.blake2b(text, digest_size=16).hexdigest()) == text
        seen = [
            entry.records[0].jobs[0]
            for entries, _ in read_entries(reader, report.first_seq - 1, first_crc(reader))
            for entry in entries
        ]
        assert seen == list(range(report.first_seq, report.last_good_seq + 1))
    finally:
        reader.close()


def first_crc(reader: SqliteReader) -> int:
    return next(iter(reader.read(1))).crc_before
