"""`xceadmin history export|migrate`: what ended jobs used, for accounting programs; or all of it,
moved elsewhere.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from xce.cli.xceadmin.history_move import run_history_migrate
from xce.cli.xceadmin.target import add_target, make_common
from xce.daemon.journals import find_history
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings
from xce.journal.acct import render_acct
from xce.journal.history_reader import HistoryReader
from xce.journal.history_search import FOREVER, START, Search, UsageRow
from xce.journal.past import PastAttempt, PastJob, PastWithdrawal
from xce.model.display import end_cause_keyword
from xce.model.errors import XceError
from xce.model.ids import SECOND_US, Index
from xce.model.job import EndCause, Outcome

PAGE = 2_000
Told = tuple[PastJob, Index, PastAttempt | None, PastWithdrawal | None]


def add_history(names: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401
    """Add the command line of `xceadmin history`; ``names``: what argparse keeps commands in."""
    history = names.add_parser(
        "history", parents=[common], help="what ended jobs used, or the history moved elsewhere"
    )
    actions = history.add_subparsers(dest="action", required=True, metavar="ACTION")
    again = make_common()
    export = actions.add_parser("export", parents=[again], help="a line for each attempt")
    export.add_argument("--format", dest="form", choices=("json", "lsb.acct"), default="json")
    export.add_argument("--from", dest="from_s", type=float, default=0.0, metavar="EPOCH_S")
    export.add_argument("--to", dest="to_s", type=float, default=0.0, metavar="EPOCH_S")
    export.add_argument("--user", default="", metavar="NAME", help="only this user's jobs")
    migrate = actions.add_parser(
        "migrate", parents=[again], help="copy it between files and a database"
    )
    add_target(migrate)


def run_history(settings: Settings, options: argparse.Namespace) -> int:
    """Run what `add_history` has read; return the exit status."""
    if options.action == "migrate":
        return run_history_migrate(settings, options)
    return run_history_export(settings, options)


def run_history_export(settings: Settings, options: argparse.Namespace) -> int:
    """Print a line for each attempt that ended in a span of time; return the exit status."""
    low = round(options.from_s * SECOND_US)
    high = round(options.to_s * SECOND_US) if options.to_s else FOREVER[1]
    reader: HistoryReader | None = None
    try:
        place = find_history(find_layout(settings.state_dir))
        reader = HistoryReader(place, is_patient=True)
        for told in each_usage(reader, Search(user=options.user, ended=(low, high))):
            print(render_acct(*told) if options.form == "lsb.acct" else _render_json(*told))
    except XceError as error:
        print(f"xceadmin history: {error}", file=sys.stderr)
        return 1
    finally:
        if reader is not None:
            reader.close()
    return 0


def each_usage(reader: HistoryReader, search: Search) -> Iterator[Told]:
    """Yield every attempt that is over, also one whose element went on with another, and every
    element that ended before it started.

    Raises:
        HistoryError: The store cannot be read.
    """
    asked = reader.search()
    search = replace(search, never_ran=True)
    cursor = START
    while asked is not None:
        rows = asked.usage(search, cursor, PAGE)
        with reader.ahead([row.job for row in rows]):
            for row in rows:
                yield from _each_element(reader, row)
        if len(rows) < PAGE:
            return
        cursor = rows[-1].cursor


def _each_element(reader: HistoryReader, row: UsageRow) -> Iterator[Told]:
    past = reader.course(row.job, ((row.index, row.last),))
    if past is None:
        return
    if row.attempt >= 0:
        for attempt in past.attempts:
            if attempt.ended.attempt == row.attempt and not attempt.is_live:
                yield past, attempt.index, attempt, None
        return
    for gone in past.withdrawn:
        if past.array is None:
            yield past, 0, None, gone
            continue
        low, high = past.array.position_from(gone.first), past.array.position_from(gone.last + 1)
        for position in range(low, high):
            yield past, past.array.index_of(position), None, gone


def _render_json(
    past: PastJob, index: Index, attempt: PastAttempt | None, gone: PastWithdrawal | None
) -> str:
    past = past.at(index)
    found: dict[str, Any] = {
        "jobid": past.job,
        "index": index,
        "attempt": attempt.ended.attempt if attempt else 0,
        "user": past.owner.user,
        "queue": past.key.queue,
        "project": past.key.project,
        "name": past.spec.name or past.spec.command,
        "submit_at": past.submit_at_us / SECOND_US,
    }
    if attempt is not None:
        ended = attempt.ended
        found |= {
            "stat": "DONE" if ended.outcome == Outcome.DONE else "EXIT",
            "hosts": attempt.hosts,
            "dispatch_at": attempt.placed_at_us / SECOND_US,
            "start_at": ended.started_at_us / SECOND_US or None,
            "end_at": ended.ended_at_us / SECOND_US,
            "exit_code": ended.exit_code,
            "signal": ended.signal or None,
            "cause": end_cause_keyword(EndCause(ended.cause)),
            "cpu_s": ended.cpu_us / SECOND_US,
            "max_mem_mib": round(ended.max_mem_kib / 1024, 2),
        }
        if not ended.outcome:
            found["requeued"] = True
        if not attempt.is_measured:
            found |= dict.fromkeys(("exit_code", "cpu_s", "max_mem_mib"))
    elif gone is not None:
        found |= {
            "stat": "EXIT",
            "hosts": [],
            "start_at": None,
            "end_at": gone.at_us / SECOND_US,
            "cause": end_cause_keyword(EndCause(gone.cause)),
        }
    return json.dumps(found, ensure_ascii=False)
