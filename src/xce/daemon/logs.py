"""The daemons' log: one JSON object a line on stderr, which the node manager sends to a file.

An event is a ``noun-verb`` constant; its values are keys beside it:
``log.info("batch-committed", extra={"seq_last": 12, "took_us": 310})``.
``error`` = a person must act, ``warning`` = will be retried, ``info`` = one line per thing done,
``debug`` = for a developer.
"""

import json
import logging
import sys
import time
from typing import Final

_OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every record has; anything else came by ``extra``."""


class JsonLines(logging.Formatter):
    """Render a record as one line of JSON: time, level, component, event, then its keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its newline."""
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "at": f"{whole}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "component": record.name,
            "event": record.getMessage(),
        }
        line.update((key, value) for key, value in record.__dict__.items() if key not in _OWN)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def open_log(component: str, *, level: str = "info") -> logging.Logger:
    """Return the log of this process, open on stderr.

    Libraries that log by themselves (asyncio, aiohttp) go the same way, from ``warning`` on.

    Args:
        component: Who writes: ``controller``, ``worker-h1``, ...
        level: The least important level that is written.
    """
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(JsonLines())
    others = logging.getLogger()
    others.handlers[:] = [stream]
    others.setLevel(logging.WARNING)
    log = logging.getLogger(component)
    log.setLevel(level.upper())
    return log
