"""`xceadmin journal verify|export|plot`: the journal from outside; a running cluster may go on."""

import sys
from pathlib import Path

import msgspec

from xce.journal.sqlite import DATABASE
from xce.journal.verify import JournalReport, export, verify
from xce.model.errors import XceError
from xce.sim.journal_chart import read_journal_chart
from xce.sim.plot import PlotError, Plotter


def run_verify(directory: Path, *, as_json: bool) -> int:
    """Read every entry and snapshot; print the last good seq; return 0 when all is whole."""
    missing = _find_absence(directory)
    if missing is not None:
        return missing
    try:
        report = verify(directory)
    except XceError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 1
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print(render_report(report))
    return 0 if report.is_good else 1


def run_export(directory: Path, *, from_seq: int, to_seq: int) -> int:
    """Print entries as JSON lines; return 0 when all that were asked for are whole."""
    missing = _find_absence(directory)
    if missing is not None:
        return missing
    try:
        for line in export(directory, from_seq, to_seq):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except XceError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 1
    return 0


def run_plot(directory: Path, path: Path, *, to_seq: int) -> int:
    """Draw what a journal tells: utilisation, queue length, waits, who ran where."""
    missing = _find_absence(directory)
    if missing is not None:
        return missing
    try:
        plotter = Plotter(path)
        files = plotter.draw([read_journal_chart(directory, to_seq=to_seq)])
    except PlotError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 2
    except XceError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 1
    for file in files:
        print(file)
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


def _find_absence(directory: Path) -> int | None:
    """Return None when there is a journal that can be read, else tell why not and the status."""
    try:
        found = (directory / DATABASE).exists()
    except PermissionError:
        print(f"xceadmin journal: {directory} is closed to you", file=sys.stderr)
        return 4
    if found:
        return None
    print(f"xceadmin journal: there is no journal in {directory}", file=sys.stderr)
    return 3
