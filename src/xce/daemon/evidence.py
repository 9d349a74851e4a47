"""What beside an empty journal tells of an earlier cluster: its job ids must not come again."""

import contextlib
import os
from pathlib import Path

from xce.daemon.paths import Layout
from xce.journal.history_place import HistoryPlace, open_for_reading, place_text
from xce.journal.history_store import HistoryError
from xce.model.errors import CorruptJournalError


def check_nothing_was_lost(layout: Layout, history: HistoryPlace, *, where: str) -> None:
    """Check, for a journal without an entry, that nothing else knows of one.

    Args:
        layout: The state directory.
        history: Where the history is.
        where: The journal, for the message.

    Raises:
        CorruptJournalError: There was a cluster; the message says what was found, and how to go on.
            Or the history is in a database that cannot be asked.
    """
    found = [*_history_evidence(history), *_host_evidence(layout.hosts)]
    if found:
        raise CorruptJournalError(
            f"{where}: no entry is stored, but there was a cluster here: {'; '.join(found)}. "
            "Starting would use job ids again. Put the journal back from a copy, or begin anew: "
            f"move {_to_move(layout, history)} and {layout.hosts} aside"
        )


def _to_move(layout: Layout, history: HistoryPlace) -> str:
    if isinstance(history, Path):
        return str(layout.history)
    return f"the schemas xce_history and xce_mail of {place_text(history)}"


def _history_evidence(place: HistoryPlace) -> list[str]:
    """Return what the history store knows; nothing where there is none.

    At a first start it is just being made beside us: its tables come in one transaction, so
    without them nothing was ever stored there. Locks are waited for.
    """
    name = place_text(place)
    try:
        store = open_for_reading(place)
        if store is None:
            return []
        with contextlib.closing(store):
            ((seq,),) = store.rows("SELECT seq FROM cursor")
    except HistoryError as error:
        if isinstance(place, Path):
            return [f"{name} cannot be read"]
        raise CorruptJournalError(
            "no entry is stored, and whether there was a cluster here the history cannot tell: "
            f"{error}"
        ) from error
    return [f"{name} goes to entry {seq}"] if seq else []


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
