"""`xceadmin journal verify|export|plot|migrate`: the journal from outside, or moved elsewhere."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from xce.cli.xceadmin.target import add_target, make_common, parse_target, render_next
from xce.config.site import JournalSite, SiteConfig
from xce.daemon.config_directory import load_site
from xce.daemon.journals import open_journal, open_reader, postgres_target
from xce.daemon.paths import Layout, find_layout
from xce.daemon.settings import Settings
from xce.journal.interface import Journal, JournalHeldError, JournalReader
from xce.journal.sqlite import DATABASE, open_sqlite_reader
from xce.journal.transfer import Contents, Tally, contents_of, fill_postgres, fill_sqlite, tally
from xce.journal.verify import JournalReport, export_journal, verify_journal
from xce.model.errors import ConfigError, XceError


def add_journal(names: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401
    """Add the command line of `xceadmin journal`; ``names``: what argparse keeps commands in."""
    journal = names.add_parser(
        "journal", parents=[common], help="look into the journal, or move it"
    )
    again = make_common()
    actions = journal.add_subparsers(dest="action", required=True, metavar="ACTION")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        found: argparse.ArgumentParser = actions.add_parser(name, parents=[again], help=text)
        return found

    verify = add("verify", "read all of it, and say up to where it is whole")
    verify.add_argument(
        "--allocations", action="store_true",
        help="make the state again, and compare what is given out with what runs",
    )  # fmt: skip
    export = add("export", "print entries, each a line of JSON")
    plot = add("plot", "draw what it tells: use, queue, waits, who ran where")
    for one in (verify, export, plot):
        one.add_argument(
            "place", nargs="?", type=Path, metavar="DIR", help="(default: the cluster's own)"
        )
    export.add_argument("--from", dest="from_seq", type=int, default=1, metavar="SEQ")
    for one in (export, plot):
        one.add_argument("--to", dest="to_seq", type=int, default=0, metavar="SEQ")
    plot.add_argument(
        "--plot", type=Path, default=Path("journal.svg"), metavar="PATH",
        help="draw into it: a file (.svg, .png), or a directory (default: journal.svg)",
    )  # fmt: skip
    migrate = add("migrate", "copy it between files and a database")
    add_target(migrate)


def run_journal(settings: Settings, options: argparse.Namespace) -> int:
    """Run what `add_journal` has read; return the exit status."""
    match options.action:
        case "verify":
            return run_verify(
                settings, options.place, as_json=options.json, allocations=options.allocations
            )
        case "export":
            return run_export(
                settings, options.place, from_seq=options.from_seq, to_seq=options.to_seq
            )
        case "plot":
            return run_plot(settings, options.place, options.plot, to_seq=options.to_seq)
        case _:
            return _run_migrate(settings, options)


def _run_migrate(settings: Settings, options: argparse.Namespace) -> int:
    """Read where the journal shall go, and copy it there."""
    try:
        wanted = parse_target("journal", options)
    except ConfigError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 2
    return run_migrate(settings, wanted.journal if wanted is not None else None)


def run_verify(
    settings: Settings, place: Path | None, *, as_json: bool, allocations: bool = False
) -> int:
    """Read every entry and snapshot; print the last good seq; return 0 when all is whole."""
    is_right = True
    try:
        reader = open_place(settings, place)
        if isinstance(reader, int):
            return reader
        try:
            report = verify_journal(reader)
            if as_json:
                print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
            else:
                print(render_report(report))
                print_damaged_blobs(reader, report)
            if allocations and report.is_good:
                # It applies all entries, like what tells of damaged blobs.
                from xce.cli.xceadmin.allocations import render_allocations

                text, is_right = render_allocations(reader)
                print(text, file=sys.stderr if as_json else sys.stdout)
        finally:
            reader.close()
    except XceError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 1
    return 0 if report.is_good and is_right else 1


def run_export(settings: Settings, place: Path | None, *, from_seq: int, to_seq: int) -> int:
    """Print entries as JSON lines; return 0 when all that were asked for are whole."""
    try:
        reader = open_place(settings, place)
        if isinstance(reader, int):
            return reader
        try:
            for line in export_journal(reader, from_seq, to_seq):
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        finally:
            reader.close()
    except XceError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 1
    return 0


def run_plot(settings: Settings, place: Path | None, path: Path, *, to_seq: int) -> int:
    """Draw what a journal tells: utilisation, queue length, waits, who ran where."""
    from xce.sim.journal_chart import read_chart
    from xce.sim.plot import PlotError, Plotter

    try:
        reader = open_place(settings, place)
        if isinstance(reader, int):
            return reader
        try:
            plotter = Plotter(path)
            files = plotter.draw([read_chart(reader, to_seq=to_seq)])
        finally:
            reader.close()
    except PlotError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 2
    except XceError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 1
    for file in files:
        print(file)
    return 0


def run_migrate(settings: Settings, target: JournalSite | None) -> int:
    """Copy the journal of a cluster that is down to another place; return the exit status.

    Args:
        settings: The state directory.
        target: The database; None: files in the state directory.
    """
    layout = find_layout(settings.state_dir)
    source: Journal | None = None
    try:
        site = load_site(layout.config)
        if (target is None) == (not site.journal.postgres):
            where = "in files of the state directory" if target is None else "in a database"
            print(f"xceadmin journal: the journal is {where} already", file=sys.stderr)
            return 1
        reader = open_found(layout)
        if isinstance(reader, int):
            return reader
        reader.close()
        # Whoever leads keeps controllers away, here while it is copied.
        source = open_journal(layout, site)
        source.lead("migration")
        source.keep_lead(_lose_lead)
        done = _copy(contents_of(source), layout, target)
    except JournalHeldError as error:
        text = "a controller runs; end them all first (xce down)"
        print(f"xceadmin journal: {text}: {error}", file=sys.stderr)
        return 1
    except XceError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return 1
    finally:
        if source is not None:
            source.close()
    print(
        f"copied and found equal: {done.batches} batches up to entry {done.last_seq}, "
        f"{done.blobs} blobs"
    )
    print(render_next(layout, "journal", target, (layout.journal,)))
    return 0


def _copy(contents: Contents, layout: Layout, target: JournalSite | None) -> Tally:
    """Copy a journal, read what came of it, and compare."""
    if target is None:
        fill_sqlite(layout.journal, contents)
    else:
        database = postgres_target(SiteConfig(journal=target))
        assert database is not None
        fill_postgres(database, contents)
    reader = open_reader(layout, SiteConfig(journal=target or JournalSite()))
    try:
        made, wanted = tally(contents_of(reader)), tally(contents)
    finally:
        reader.close()
    if made != wanted:
        raise XceError(f"the copy is not equal: {made} instead of {wanted}; do not use it")
    return made


def _lose_lead(error: Exception) -> None:
    """End at once: somebody else may write now, and the copy would not have it."""
    print(f"xceadmin journal: {error}; do not use the copy", file=sys.stderr)
    os._exit(1)


def open_place(settings: Settings, place: Path | None) -> JournalReader | int:
    """Return the journal of files in a directory, or (None) the cluster's own.

    Where there is none, that is told and the exit status returned.

    Raises:
        XceError: It cannot be read.
    """
    return open_files(place) if place is not None else open_found(find_layout(settings.state_dir))


def open_found(layout: Layout) -> JournalReader | int:
    """Return the journal; where there is none, tell that and return the exit status.

    Raises:
        XceError: It cannot be read.
    """
    site = load_site(layout.config)
    if not site.journal.postgres:
        return open_files(layout.journal)
    return open_reader(layout, site)


def open_files(directory: Path) -> JournalReader | int:
    """Return the journal of files in a directory; where there is none, tell that.

    Raises:
        XceError: It cannot be read.
    """
    try:
        found = (directory / DATABASE).exists()
    except PermissionError:
        print(f"xceadmin: {directory} is closed to you", file=sys.stderr)
        return 4
    if not found:
        print(f"xceadmin: there is no journal in {directory}", file=sys.stderr)
        return 3
    return open_sqlite_reader(directory)


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


def print_damaged_blobs(reader: JournalReader, report: JournalReport) -> None:
    """Print which blobs are damaged and what that means for which jobs."""
    if report.damaged_blobs:
        # It applies all entries; what does that is loaded where blobs are damaged.
        from xce.cli.xceadmin.blob_users import find_blob_users, render_damaged_blobs

        users = find_blob_users(reader, report.damaged_blobs)
        print("\n".join(render_damaged_blobs(users, report.damaged_blobs)))
