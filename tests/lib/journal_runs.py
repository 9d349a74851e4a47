"""Writing processes that tests kill, and what must be there afterwards."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from xce.journal.recover import check_batch
from xce.journal.sqlite import SqliteReader, open_sqlite_reader
from xce.journal.verify import verify
from xce.journal.whole import read_whole

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
        seen = list(written(reader))
        assert seen == list(range(report.first_seq, report.last_good_seq + 1))
    finally:
        reader.close()


def written(reader: SqliteReader) -> Iterator[int]:
    """Yield the number that stands in each entry, the archived ones too, chained anew."""
    after: tuple[int, int] | None = None
    for stored in read_whole(reader, 1):
        seq, crc = after or (stored.first - 1, stored.crc_before)
        entries, crc = check_batch(stored, after_seq=seq, after_crc=crc, place=reader.place())
        after = (stored.last, crc)
        yield from (entry.records[0].jobs[0] for entry in entries)
