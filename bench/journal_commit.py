"""How close the journal comes to bare SQLite, and how fast peers talk. A line of JSON for each.

    python bench/journal_commit.py [--directory DIR] [--commits N] [--rounds N]

``ratio`` is to the bare single-row commit rate of the same run. Rates are medians of the rounds,
which alternate, because the disk's own speed wanders.
"""

import argparse
import asyncio
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from xce.journal.codec import encode_batch
from xce.journal.interface import StoredBatch
from xce.journal.sqlite import SqliteJournal
from xce.journal.writer import CommitThread
from xce.model.entry import Cause, Entry
from xce.model.job import Owner
from xce.model.record import JobSubmitted
from xce.net.ask import Requests
from xce.net.message import PROTOCOL, Blobs, FetchBlobs, Hello, Message, Welcome
from xce.net.peer import Peer
from xce.net.unix import dial_unix, open_unix_server

CAUSE = Cause("submit-jobs", "ann", "owner")
OWNER = Owner("ann", 1000, 1000)


def made_batch(seq: int, crc: int, entries: int = 1) -> StoredBatch:
    content, crc_after = encode_batch(
        [
            Entry(number, 1, CAUSE, (JobSubmitted(number, 1, 1, OWNER, 1),))
            for number in range(seq, seq + entries)
        ],
        crc,
    )
    return StoredBatch(
        first=seq, last=seq + entries - 1, crc_before=crc, crc=crc_after, content=content
    )


def bare(directory: Path, count: int) -> list[float]:
    """Single-row commits of the same content, as plain as they can be."""
    connection = sqlite3.connect(directory / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, content BLOB)")
    content = made_batch(1, 0).content
    spans = []
    for number in range(count):
        begun = time.perf_counter()
        connection.execute("INSERT INTO rows VALUES (?, ?)", (number, content))
        spans.append(time.perf_counter() - begun)
    connection.close()
    return spans


def direct(directory: Path, count: int) -> list[float]:
    """The journal without its thread."""
    journal = SqliteJournal(directory / "direct")
    epoch = journal.lead("bench")
    spans = []
    for number in range(1, count + 1):
        made = made_batch(number, journal.last_crc)
        begun = time.perf_counter()
        journal.append(epoch, made)
        if number % 100 == 0:
            journal.tidy()
        spans.append(time.perf_counter() - begun)
    journal.close()
    return spans


async def threaded(directory: Path, count: int, *, entries: int = 1) -> list[float]:
    """One submit at a time through the commit thread, from a loop that waits for each."""
    loop = asyncio.get_running_loop()
    journal = SqliteJournal(directory / "threaded")
    waiting: list[asyncio.Future[int]] = []
    thread = CommitThread(
        journal,
        epoch=journal.lead("bench"),
        call_soon=loop.call_soon_threadsafe,
        on_durable=lambda seq: waiting.pop().set_result(seq),
        on_trouble=print,
        on_fatal=print,
    )
    thread.start()
    spans = []
    seq, crc = 1, 0
    for _ in range(count):
        made = made_batch(seq, crc, entries)
        seq, crc = made.last + 1, made.crc
        begun = time.perf_counter()
        waiting.append(loop.create_future())
        thread.submit(made)
        await waiting[0]
        spans.append(time.perf_counter() - begun)
    thread.close()
    journal.close()
    return spans


async def flooded(directory: Path, count: int) -> float:
    """Batches a second when all are handed in at once."""
    journal = SqliteJournal(directory / "flooded")
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    batches = []
    crc = 0
    for seq in range(1, count + 1):
        batches.append(made_batch(seq, crc))
        crc = batches[-1].crc
    thread = CommitThread(
        journal,
        epoch=journal.lead("bench"),
        call_soon=loop.call_soon_threadsafe,
        on_durable=lambda seq: done.set_result(seq) if seq == count else None,
        on_trouble=print,
        on_fatal=print,
    )
    thread.start()
    begun = time.perf_counter()
    for made in batches:
        thread.submit(made)
    await done
    span = time.perf_counter() - begun
    thread.close()
    journal.close()
    return count / span


async def serve(path: Path) -> None:
    """Answer requests until told to stop by a signal."""

    def accept(peer: Peer, hello: Hello) -> Welcome:
        def answer(messages: list[Message]) -> None:
            for message in messages:
                if isinstance(message, FetchBlobs):
                    peer.send(Blobs(message.id, ()))

        peer.on_messages = answer
        peer.on_lost = str
        return Welcome(PROTOCOL, 1, "bench", hello.version, 0)

    await open_unix_server(path, 0o600, accept)
    print("ready", flush=True)
    await asyncio.Event().wait()


async def round_trips(path: Path, count: int, in_flight: int) -> float:
    """Small requests a second, with so many on their way at a time."""
    requests = Requests()

    def take(messages: list[Message]) -> None:
        for message in messages:
            requests.settle(message)

    peer, _ = await dial_unix(
        path,
        Hello(PROTOCOL, "worker", "bench", "1"),
        on_messages=take,
        on_lost=requests.fail_all,
    )

    async def ask_in_turn() -> None:
        for _ in range(count // in_flight):
            await requests.start(peer, lambda number: FetchBlobs(number, ()))

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(ask_in_turn())
    span = time.perf_counter() - begun
    peer.close()
    return count / span


def measure_peers(directory: Path) -> None:
    path = directory / "s"
    with subprocess.Popen(
        [sys.executable, __file__, "--serve", path], stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        for in_flight, count in ((1, 10_000), (100, 50_000)):
            rate = uvloop.run(round_trips(path, count, in_flight))
            report("peer round trips", in_flight=in_flight, per_s=round(rate))
        server.kill()


def measure_commits(directory: Path, commits: int, rounds: int) -> None:
    ways: dict[str, Callable[[Path], list[float]]] = {
        "bare sqlite": lambda place: bare(place, commits),
        "journal": lambda place: direct(place, commits),
        "commit thread": lambda place: uvloop.run(threaded(place, commits)),
        "commit thread, 10 entries": lambda place: uvloop.run(threaded(place, commits, entries=10)),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    middles: dict[str, list[float]] = {name: [] for name in ways}
    floods = []
    for number in range(rounds):
        for name, way in ways.items():
            place = directory / f"{number} {name}"
            place.mkdir()
            spans = way(place)
            rates[name].append(len(spans) / sum(spans))
            middles[name].append(statistics.median(spans))
            shutil.rmtree(place)
        place = directory / f"{number} flood"
        place.mkdir()
        floods.append(uvloop.run(flooded(place, 10 * commits)))
        shutil.rmtree(place)
    floor = statistics.median(rates["bare sqlite"])
    for name in ways:
        rate = statistics.median(rates[name])
        p50_us = round(1e6 * statistics.median(middles[name]))
        report(name, per_s=round(rate), p50_us=p50_us, ratio=round(rate / floor, 2))
    report("commit thread, flooded with single batches", per_s=round(statistics.median(floods)))


def report(name: str, **figures: float) -> None:
    print(json.dumps({"bench": "journal_commit", "what": name, **figures}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", type=Path, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        uvloop.run(serve(given.serve))
        return
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        measure_commits(Path(name), given.commits, given.rounds)
        measure_peers(Path(name))


if __name__ == "__main__":
    main()
