"""The snapshot process: last snapshot and entries to the next one, then it ends.

``python -m xce.daemon.snapshot --dir D``; it prints the blobs that nothing names, as JSON.
"""

import argparse
import gc
import json
import sys
from pathlib import Path

from xce.daemon.blobs import find_unnamed
from xce.daemon.config_directory import load_site
from xce.daemon.journals import history_place, open_reader
from xce.daemon.logs import open_log
from xce.daemon.paths import find_layout
from xce.daemon.priority import give_way
from xce.journal.history_reader import HistoryReader
from xce.journal.history_store import HistoryError
from xce.journal.recover import recover
from xce.model.errors import XceError
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import dump, load


def main() -> int:
    """Make one snapshot of everything that is durable now."""
    parser = argparse.ArgumentParser(prog="xce snapshot", description=__doc__)
    parser.add_argument("--dir", required=True, help="the state directory")
    options = parser.parse_args()
    log = open_log("snapshot")
    # It reads much, once, beside daemons that people wait for.
    give_way(10)
    gc.disable()
    try:
        layout = find_layout(Path(options.dir))
        site = load_site(layout.config)
        reader = open_reader(layout, site)
        digests = reader.blob_digests()
        state, seq, crc = recover(reader, restore=load, empty=ClusterState, apply_entry=apply)
        if seq:
            reader.store_snapshot(seq, crc, dump(state))
    except (XceError, OSError) as error:
        log.error("snapshot-failed", extra={"why": str(error)})  # noqa: TRY400 - for people
        return 1
    log.info("snapshot-stored", extra={"seq": seq, "jobs": len(state.jobs)})
    try:
        unnamed = find_unnamed(digests, state, HistoryReader(history_place(layout, site)))
    except HistoryError as error:
        # Without the history nobody can say what is needed no more.
        log.info("blobs-kept", extra={"why": str(error)})
        unnamed = []
    sys.stdout.write(json.dumps(unnamed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
