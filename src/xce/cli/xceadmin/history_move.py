"""`xceadmin history migrate`: the history, and the mail that waits, moved to another place."""

import argparse
import sys
from typing import Final

from msgspec.structs import replace

from xce.cli.xceadmin.target import parse_target, render_next
from xce.config.site import DatabaseSite
from xce.daemon.config_directory import load_site
from xce.daemon.journals import history_place
from xce.daemon.paths import Layout, find_layout
from xce.daemon.settings import Settings
from xce.journal.history_place import place_text
from xce.journal.history_store import HistoryHeldError
from xce.journal.history_transfer import HistoryTally, is_empty, move_history
from xce.journal.interface import JournalHeldError
from xce.journal.lock import DirectoryLock
from xce.model.errors import ConfigError, XceError

_HELD: Final = "the history is written; end all daemons first (xce down)"


def run_history_migrate(settings: Settings, options: argparse.Namespace) -> int:
    """Copy the history of a cluster that is down to another place; return the exit status."""
    layout = find_layout(settings.state_dir)
    try:
        wanted = parse_target("history", options)
    except ConfigError as error:
        print(f"xceadmin history: {error}", file=sys.stderr)
        return 2
    target = wanted.history if wanted is not None else None
    try:
        done = _move(layout, target)
    except (HistoryHeldError, JournalHeldError) as error:
        print(f"xceadmin history: {_HELD}: {error}", file=sys.stderr)
        return 1
    except (XceError, OSError) as error:
        print(f"xceadmin history: {error}", file=sys.stderr)
        return 1
    print(f"copied and found equal: {done.rows} rows, up to entry {done.seq}")
    print(render_next(layout, "history", target, (layout.history_file, layout.mail_file)))
    return 0


def _move(layout: Layout, target: DatabaseSite | None) -> HistoryTally:
    site = load_site(layout.config)
    if (target is None) == (not site.history.postgres):
        where = "in files of the state directory" if target is None else "in a database"
        raise XceError(f"the history is {where} already")
    before = history_place(layout, site)
    after = history_place(layout, replace(site, history=target or DatabaseSite()))
    if is_empty(before):
        raise XceError(f"there is no history in {place_text(before)}")
    # Who keeps the old files away may have moved the directory.
    layout.history.mkdir(mode=0o700, exist_ok=True)
    lock = DirectoryLock(layout.history / "lock", holder="history writer")
    try:
        return move_history(before, after, layout.mail_file)
    finally:
        lock.release()
