"""The shepherd's log: a few lines of JSON on stderr, in the form of all daemons."""

import json
import sys
import time


def write_log(event: str, **keys: object) -> None:
    """Write one line; ``event`` is a ``noun-verb`` constant."""
    now = time.time()
    at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
    line = {"at": at, "level": "info", "component": "shepherd", "event": event}
    sys.stderr.write(json.dumps(line | keys) + "\n")
    sys.stderr.flush()
