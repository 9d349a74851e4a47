"""The process that answers about one instant of the past; an apiserver starts and asks it.

``python -m xce.daemon.past --dir D --at-us N``: each line of JSON on stdin is a read; its answer is
a line of JSON and the body. It ends when stdin does.
"""

import argparse
import gc
import sys
from pathlib import Path

import msgspec

from xce.apiserver.past import Past, problem_body
from xce.apiserver.past_desk import PastAnswer, PastRequest
from xce.apiserver.problems import ProblemError, make_problem
from xce.daemon.config_directory import load_site
from xce.daemon.journals import history_place, open_reader
from xce.daemon.logs import open_log
from xce.daemon.paths import find_layout
from xce.daemon.priority import give_way
from xce.model.errors import XceError


def main() -> int:
    """Answer until nobody asks any more."""
    parser = argparse.ArgumentParser(prog="xce past", description=__doc__)
    parser.add_argument("--dir", required=True, help="the state directory")
    parser.add_argument("--at-us", type=int, required=True)
    options = parser.parse_args()
    log = open_log("past")
    give_way(5)
    gc.disable()
    layout = find_layout(Path(options.dir))
    past: Past | None = None
    trouble: ProblemError | None = None
    try:
        site = load_site(layout.config)
        reader = open_reader(layout, site)
        past = Past(reader, history_place(layout, site), options.at_us)
        reader.close()
    except ProblemError as error:
        trouble = error
    except (XceError, OSError) as error:
        log.error("past-failed", extra={"why": str(error)})  # noqa: TRY400 - for people
        text = "times past cannot be looked at now; the log has the reason"
        trouble = ProblemError(make_problem("internal", text, status=500))
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        given = msgspec.json.decode(line, type=PastRequest)
        if past is not None:
            head, body = past.answer(given)
        else:
            assert trouble is not None
            head, body = problem_body(trouble, 0)
        _write(head, body)
    return 0


def _write(head: PastAnswer, body: bytes) -> None:
    out = sys.stdout.buffer
    out.write(msgspec.json.encode(head) + b"\n")
    out.write(body)
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
