"""`xceadmin audit`: who did what, on what ground, from where; and what was denied."""

import sys
import time
from collections.abc import Iterator
from datetime import datetime

import msgspec

from xce.cli.xceadmin.journal import open_found
from xce.daemon.journals import find_history
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings
from xce.journal.audit import AuditRow
from xce.journal.audit_reader import read_audit
from xce.model.errors import TextError, XceError
from xce.model.units import parse_span_us

HEAD = ("TIME", "USER", "RESULT", "ACTION", "BASIS", "FROM", "ABOUT")
CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def run_audit(settings: Settings, *, user: str, since: str, denied: bool, as_json: bool) -> int:
    """Print the rows that match, as a table or as lines of JSON; return the exit status."""
    try:
        since_s = parse_since(since, time.time()) if since else 0.0
    except ValueError as error:
        print(f"xceadmin audit: --since {since}: {error}", file=sys.stderr)
        return 2
    layout = find_layout(settings.state_dir)
    try:
        reader = open_found(layout)
        if isinstance(reader, int):
            return reader
        try:
            found = (
                row
                for row in read_audit(reader, find_history(layout))
                if row.at >= since_s
                and (not user or row.user == user)
                and (not denied or row.result == "denied")
            )
            (_print_json if as_json else _print_table)(found)
        finally:
            reader.close()
    except PermissionError:
        print(f"xceadmin audit: {layout.journal} is closed to you", file=sys.stderr)
        return 4
    except XceError as error:
        print(f"xceadmin audit: {error}", file=sys.stderr)
        return 1
    return 0


def parse_since(text: str, now_s: float) -> float:
    """Return the instant that ``2h`` ago, or ``2026-01-31T12:00`` (local time), means.

    Raises:
        ValueError: It is neither.
    """
    try:
        return now_s - parse_span_us(text) / 1_000_000
    except TextError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise ValueError(
            "expected a span such as 2h or 7d, or a time such as 2026-01-31T12:00"
        ) from None


def _print_json(rows: Iterator[AuditRow]) -> None:
    for row in rows:
        print(msgspec.json.encode(row).decode())


def _print_table(rows: Iterator[AuditRow]) -> None:
    widths = (19, 10, 6, 14, 12, 12)
    print(_line(HEAD, widths))
    for row in rows:
        at = datetime.fromtimestamp(row.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        about = row.about + (f" ({row.count} times)" if row.count > 1 else "")
        cells = (
            at, row.user or "-", row.result, row.action, row.basis or "-", row.origin or "-", about
        )  # fmt: skip
        print(_line(tuple(cell.translate(CONTROL) for cell in cells), widths))


def _line(cells: tuple[str, ...], widths: tuple[int, ...]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return "  ".join([*padded, cells[-1]]).rstrip()
