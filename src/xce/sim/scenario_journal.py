"""A scenario run whole: its looks, its object, and where wanted its journal."""

import sqlite3
from pathlib import Path
from typing import Any, Final

from xce.control.controller import Step
from xce.journal.batch import make_batch
from xce.journal.interface import Append, Blob
from xce.journal.sqlite import DATABASE, SqliteJournal
from xce.journal.trace_recorder import WholeRecorder
from xce.journal.trace_store import open_writer
from xce.model.entry import Entry
from xce.model.errors import XceError
from xce.sim.scenario import Scenario
from xce.sim.scenario_expect import Looks
from xce.sim.scenario_rows import render_run
from xce.sim.scenario_run import ScenarioRun, Words

_BATCH: Final = 500
"""Entries in one batch."""


class JournalPlaceError(XceError):
    """A journal cannot be written where it should be: there is one, or no place for any."""


def run_scenario(
    scenario: Scenario,
    words: Words,
    *,
    seed: int = 0,
    journal: Path | None = None,
    traces: Path | None = None,
) -> dict[str, Any]:
    """Run a scenario and return the object that tells of it.

    Args:
        scenario: What happens.
        words: Reads command lines.
        seed: From which run times are drawn where a span is given for them.
        journal: A directory to write the journal of the run to; None: it is not kept.
        traces: A directory to write what all sessions decided to; None: it is not traced.

    Raises:
        JournalPlaceError: There is a journal in that directory, or it cannot be written.
        TraceStoreError: There are traces in theirs, or they cannot be written.
    """
    if journal is not None:
        _make_place(journal)
    entries: list[Entry] = []
    blobs: list[Blob] = []

    def hear(step: Step) -> None:
        if journal is not None:
            entries.extend(step.entries)
            blobs.extend(step.blobs)

    recorder = WholeRecorder(open_writer(traces)) if traces is not None else None
    run = ScenarioRun(scenario, words, seed=seed, hear=hear, recorder=recorder)
    looks = Looks(run)
    run.run()
    if journal is not None:
        write_journal(journal, entries, blobs)
    return render_run(run, looks.results())


def _make_place(directory: Path) -> None:
    """Make a directory for a journal, before anything is run.

    Raises:
        JournalPlaceError: There is a journal in it, or it cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        there = (directory / DATABASE).exists()
    except OSError as error:
        raise JournalPlaceError(f"{directory}: {error.strerror}") from error
    if there:
        raise JournalPlaceError(f"{directory}: there is a journal already; name an empty directory")


def write_journal(directory: Path, entries: list[Entry], blobs: list[Blob]) -> None:
    """Write entries, from the first on, as the journal of a directory.

    Raises:
        JournalPlaceError: It cannot be written.
    """
    try:
        _write(directory, entries, blobs)
    except (OSError, sqlite3.Error) as error:
        raise JournalPlaceError(f"{directory}: {error}") from error


def _write(directory: Path, entries: list[Entry], blobs: list[Blob]) -> None:
    _make_place(directory)
    journal = SqliteJournal(directory)
    try:
        epoch = journal.lead("simulator")
        crc = journal.last_crc
        for first in range(0, len(entries), _BATCH):
            piece = entries[first : first + _BATCH]
            batch = make_batch(piece, crc_before=crc)
            journal.append_all(epoch, [Append(batch, blobs if first == 0 else ())])
            crc = batch.crc
    finally:
        journal.close()
