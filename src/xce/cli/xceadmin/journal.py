"""`xceadmin journal verify|export`: read the journal from outside; a running cluster may go on."""

import sys

import msgspec

from xce.cli.xceadmin.blob_users import find_blob_users, render_damaged_blobs
from xce.daemon.paths import Layout, find_layout
from xce.daemon.settings import Settings
from xce.journal.sqlite import open_sqlite_reader
from xce.journal.verify import JournalReport, export, verify
from xce.model.errors import XceError


def run_verify(settings: Settings, *, as_json: bool) -> int:
    """Read every entry and snapshot; print the last good seq; return 0 when all is whole."""
    layout = find_layout(settings.state_dir)
    missing = _find_absence(layout)
    if missing is not None:
        return missing
    try:
        report = verify(layout.journal)
    except XceError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 1
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print(render_report(report))
        print_damaged_blobs(layout, report)
    return 0 if report.is_good else 1


def run_export(settings: Settings, *, from_seq: int, to_seq: int) -> int:
    """Print entries as JSON lines; return 0 when all that were asked for are whole."""
    layout = find_layout(settings.state_dir)
    missing = _find_absence(layout)
    if missing is not None:
        return missing
    try:
        for line in export(layout.journal, from_seq, to_seq):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except XceError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 1
    return 0


def render_report(report: JournalReport) -> str:
    """Return what was found, for people."""
    good = (
        f"entries {report.first_seq} to {report.last_good_seq} are whole"
        if report.entries
        else "no entry is stored"
    )
    lines = [
        report.file,
        good,
        f"{report.batches} batches, {report.records} records, {report.content_bytes} bytes",
        f"epoch {report.last_epoch}",
    ]
    lines += [f"snapshot {item.seq}: {item.damage or 'whole'}" for item in report.snapshots] or [
        "no snapshot"
    ]
    lines.append(f"last good seq: {report.last_good_seq}")
    if report.damage is not None:
        lines.append(f"DAMAGED at seq {report.damage.seq}: {report.damage.text}")
    return "\n".join(lines)


def print_damaged_blobs(layout: Layout, report: JournalReport) -> None:
    """Print which blobs are damaged and what that means for which jobs."""
    if report.damaged_blobs:
        reader = open_sqlite_reader(layout.journal)
        try:
            users = find_blob_users(reader, report.damaged_blobs)
        finally:
            reader.close()
        print("\n".join(render_damaged_blobs(users, report.damaged_blobs)))


def _find_absence(layout: Layout) -> int | None:
    """Return None when there is a journal that can be read, else tell why not and the status."""
    try:
        found = layout.journal_file.exists()
    except PermissionError:
        print(f"xceadmin journal: {layout.journal} is closed to you", file=sys.stderr)
        return 4
    if found:
        return None
    print(f"xceadmin journal: there is no journal in {layout.journal}", file=sys.stderr)
    return 3
