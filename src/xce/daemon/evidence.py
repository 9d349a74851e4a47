"""What beside an empty journal tells of an earlier cluster: its job ids must not come again."""

import contextlib
import os
import sqlite3
from pathlib import Path

from xce.daemon.paths import Layout
from xce.model.errors import CorruptJournalError


def check_nothing_was_lost(layout: Layout, *, where: str) -> None:
    """Check, for a journal without an entry, that no other file knows of one.

    Args:
        layout: The state directory.
        where: The journal, for the message.

    Raises:
        CorruptJournalError: There was a cluster; the message says what was found, and how to go on.
    """
    found = [*_history_evidence(layout.history_file), *_host_evidence(layout.hosts)]
    if found:
        raise CorruptJournalError(
            f"{where}: no entry is stored, but there was a cluster here: {'; '.join(found)}. "
            "Starting would use job ids again. Put the journal back from a copy, or begin anew: "
            f"move {layout.history} and {layout.hosts} aside"
        )


def _history_evidence(path: Path) -> list[str]:
    """Return what the history store knows; nothing where there is none.

    At a first start it is just being made beside us: its tables come in one transaction, so
    without them nothing was ever stored there. Locks are waited for.
    """
    if not path.exists():
        return []
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return []
            (seq,) = connection.execute("SELECT seq FROM cursor").fetchone()
    except (sqlite3.Error, TypeError):
        return [f"{path} cannot be read"]
    return [f"{path} goes to entry {seq}"] if seq else []


def _host_evidence(hosts: Path) -> list[str]:
    """Return which hosts' directories hold traces of jobs."""
    found = []
    for directory in sorted(hosts.iterdir()):
        jobs = [
            int(name.split(".", 1)[0])
            for part in ("attempts", "outputs")
            for name in _names(directory / part)
            if name.split(".", 1)[0].isdecimal()
        ]
        if jobs:
            found.append(f"{directory} holds files of jobs up to {max(jobs)}")
    return found


def _names(directory: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(directory)  # noqa: PTH208 - names are all that is wanted
    return []
