"""The snapshot process: last snapshot and entries to the next one, then it ends.

``python -m xce.daemon.snapshot --dir D``
"""

import argparse
import gc
import os
import sys
from pathlib import Path

from xce.daemon.config_directory import load_site
from xce.daemon.journals import open_reader
from xce.daemon.logs import open_log
from xce.daemon.paths import find_layout
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
    os.nice(10)
    gc.disable()
    try:
        layout = find_layout(Path(options.dir))
        reader = open_reader(layout, load_site(layout.config))
        state, seq, crc = recover(reader, restore=load, empty=ClusterState, apply_entry=apply)
        if seq:
            reader.store_snapshot(seq, crc, dump(state))
    except (XceError, OSError) as error:
        log.error("snapshot-failed", extra={"why": str(error)})  # noqa: TRY400 - for people
        return 1
    log.info("snapshot-stored", extra={"seq": seq, "jobs": len(state.jobs)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
