"""`xceadmin replay`: run the recorded sessions of a journal again and compare their decisions."""

import sys
from pathlib import Path

import msgspec

from xce.cli.xceadmin.journal import open_place
from xce.daemon.settings import Settings
from xce.journal.trace_recorder import WholeRecorder
from xce.journal.trace_store import open_writer
from xce.model.display import render_utc
from xce.model.errors import XceError
from xce.sim.replay import Difference, ReplayReport, replay_journal


def run_replay(
    settings: Settings,
    place: Path | None,
    *,
    fresh: bool,
    as_json: bool,
    traces: Path | None = None,
    session: int | None = None,
) -> int:
    """Run the sessions again; return 0 when all decide as they did, 1 when one does not.

    Args:
        settings: The state directory.
        place: Directory of a journal of files; None: the cluster's own.
        fresh: Without what sessions remember of earlier ones.
        as_json: JSON instead of text.
        traces: A directory to write to what the sessions decided, and from what.
        session: The only one to trace, from 1.
    """
    if session is not None and (traces is None or session < 1):
        print("xceadmin replay: --session goes with --trace, and counts from 1", file=sys.stderr)
        return 2
    try:
        reader = open_place(settings, place)
        if isinstance(reader, int):
            return reader
        try:
            recorder = None
            if traces is not None:
                writer = open_writer(traces, first=session or 1)
                recorder = WholeRecorder(writer, only=session or 0)
            report = replay_journal(reader, fresh=fresh, recorder=recorder)
        finally:
            reader.close()
    except XceError as error:
        print(f"xceadmin replay: {error}", file=sys.stderr)
        return 1
    if as_json:
        document = {"identical": report.is_identical, **msgspec.structs.asdict(report)}
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        print(render_replay(report))
    if session is not None and session > report.sessions:
        text = f"there is no session {session}: {report.sessions} were run again"
        print(f"xceadmin replay: {text}", file=sys.stderr)
        return 3
    return 0 if report.is_identical else 1


def render_replay(report: ReplayReport) -> str:
    """Return what was found, for people."""
    lines = []
    if report.skipped:
        lines.append(f"{report.skipped} earlier sessions lie before the first kept entry")
    if report.by_decisions:
        lines.append(
            f"{report.by_decisions} sessions were written down by another release: their decisions "
            "were compared"
        )
    if report.difference is None:
        lines.append(f"identical: {report.sessions} sessions")
    else:
        lines.append(_render_difference(report.difference, report.sessions - 1))
    return "\n".join(lines)


def _render_difference(found: Difference, equal: int) -> str:
    about = f"class {found.cls}" if found.cls else "the whole plan"
    if found.job:
        element = f"[{found.index}]" if found.index else ""
        about = f"job {found.job}{element} of {about}"
    when = f"the session of {render_utc(found.now_us)} on entry {found.view_seq}"
    return "\n".join(
        (
            f"DIFFERENT at entry {found.seq}: {when}, after {equal} identical ones",
            f"  {found.what}, {about}",
            f"  recorded: {found.recorded}",
            f"  now:      {found.found}",
        )
    )
