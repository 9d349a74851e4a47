"""A process that appends to a journal through the commit thread until it is killed.

Prints the last durable entry, a line each time, and nothing before it is durable. Each batch has a
blob. Arguments: directory, seed, bytes of padding; ``TROUBLE`` and ``WELL`` are printed as it
hears of them.
"""

import hashlib
import os
import queue
import random
import sys
from pathlib import Path

from journals import batch

from xce.journal.interface import JournalHeldError
from xce.journal.snapshot import store_snapshot
from xce.journal.sqlite import SNAPSHOTS, SqliteJournal
from xce.journal.writer import CommitThread


def main() -> int:
    directory, seed, padding = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    journal = SqliteJournal(directory)
    try:
        epoch = journal.lead(f"writer {seed}")
    except JournalHeldError as error:
        print(error, file=sys.stderr)
        return 3
    heard: queue.SimpleQueue[int] = queue.SimpleQueue()

    def hear(seq: int) -> None:
        os.write(1, b"%d\n" % seq)
        heard.put(seq)

    def hear_trouble(text: str) -> None:
        os.write(1, b"TROUBLE %s\n" % text.encode() if text else b"WELL\n")

    def die(error: BaseException) -> None:
        os.write(2, repr(error).encode())
        os._exit(4)

    thread = CommitThread(
        journal,
        epoch=epoch,
        call_soon=lambda callback, *args: callback(*args),
        on_durable=hear,
        on_trouble=hear_trouble,
        on_fatal=die,
    )
    thread.start()
    seq, crc = journal.last_seq, journal.last_crc
    os.write(1, b"START %d\n" % seq)
    durable = seq
    while True:
        # A few batches are handed in at once, so that groups of several are killed too.
        for _ in range(chance.randint(1, 4)):
            made = batch(seq + 1, seq + chance.randint(1, 3), crc, padding=padding)
            seq, crc = made.last, made.crc
            text = b"blob of %d" % made.last
            thread.submit(made, [(hashlib.blake2b(text, digest_size=16).hexdigest(), text)])
        is_turn = chance.random() < 0.01
        while durable < (seq if is_turn else seq - 20):
            durable = heard.get()
        if is_turn:
            # Only what stands in a snapshot is trimmed.
            store_snapshot(directory / SNAPSHOTS, seq, crc, [b"state"])
            thread.trim(seq - 2000)


if __name__ == "__main__":
    sys.exit(main())
