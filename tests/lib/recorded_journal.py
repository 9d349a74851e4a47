"""Journals of released formats: how one is recorded, and what must still be read from it.

    PYTHONPATH=src:tests/lib python tests/lib/recorded_journal.py SEED FILE.tar.gz

records a life of the simulated cluster with the code on the path: a journal of files with a
snapshot, whose earlier entries are gone, and beside it what the state was in the end.
"""

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from xce.journal.sqlite import SqliteJournal
from xce.sim.havoc import happen
from xce.sim.world import World
from xce.state.cluster import ClusterState

EXPECTED = "expected.json"


def summary(state: ClusterState) -> dict[str, Any]:
    """Return of a state what every release must understand in the same way."""
    return {
        "seq": state.seq,
        "now_us": state.now_us,
        "next_job": state.next_job,
        "config_version": state.config_version,
        "queues": [queue.name for queue in state.config.queues],
        "hosts": {
            name: [bool(state.hosts.is_open[number]), state.hosts.boot_ids[number]]
            for number, name in enumerate(state.hosts.names)
        },
        "jobs": {
            str(job_id): [
                job.owner.user,
                state.spec(job).command,
                state.key(job).queue,
                job.submit_at_us,
                job.size,
                job.is_finished,
                sum(last - first + 1 for first, last in job.pending),
                len(job.live or {}),
            ]
            for job_id, job in sorted(state.jobs.items())
        },
    }


def record(seed: int, file: Path) -> None:
    """Write the journal of a life that is cut off in the middle of everything."""
    world = World(seed)
    world.begin()
    world._run_until(4_000_000)
    happen(world, "snapshots", Random(seed))
    world._run_until(9_000_000)
    disk = world.disk
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        journal = SqliteJournal(directory)
        epoch = journal.lead("recorder")
        snapshot = disk.load_snapshot()
        assert snapshot is not None
        journal.last_seq, journal.last_crc = disk.batches[0].first - 1, disk.batches[0].crc_before
        blobs = sorted(disk.blobs.items())
        rows = [
            (one.last, one.first, epoch, one.crc_before, one.crc, one.content)
            for one in disk.batches
        ]
        journal._writing.executemany("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)", rows)
        journal._writing.executemany("INSERT INTO blobs VALUES (?, ?)", blobs)
        journal.store_snapshot(snapshot.seq, snapshot.crc, snapshot.parts())
        journal.close()
        with tarfile.open(file, "w:gz") as tar:
            for path in sorted(directory.rglob("*")):
                if path.is_file() and path.name != "lock":
                    tar.add(path, str(path.relative_to(directory)))
            text = json.dumps(summary(world.truth.state), indent=1).encode()
            member = tarfile.TarInfo(EXPECTED)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))


if __name__ == "__main__":
    record(int(sys.argv[1]), Path(sys.argv[2]))
