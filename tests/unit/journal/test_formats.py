"""Journals of every released format are read, and gone on with.

``tests/data/journals`` has one for each release, recorded by that release itself (see
``recorded_journal``), and one of the present form, recorded anew when that grows before a release.
"""

import json
import tarfile
from pathlib import Path

import pytest
from recorded_journal import EXPECTED, summary

from xce.journal.batch import make_batch
from xce.journal.recover import recover
from xce.journal.sqlite import SqliteJournal
from xce.journal.verify import verify
from xce.model.entry import Cause, Entry
from xce.model.record import KeysForgotten
from xce.sim.replay import replay
from xce.state.apply import apply
from xce.state.check import check_state
from xce.state.cluster import ClusterState
from xce.state.snapshot import digest, dump, load

JOURNALS = sorted((Path(__file__).parents[2] / "data" / "journals").glob("*.tar.gz"))


@pytest.fixture(params=JOURNALS, ids=lambda path: path.name.removesuffix(".tar.gz"))
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as tar:
        tar.extractall(tmp_path)
    return tmp_path


def recovered(journal: SqliteJournal) -> ClusterState:
    state, _, _ = recover(journal, restore=load, empty=ClusterState, apply_entry=apply)
    return state


def test_there_is_one_of_each_release() -> None:
    assert {path.name for path in JOURNALS} >= {"0.1.0.tar.gz", "unreleased.tar.gz"}


def test_it_is_whole_and_means_what_it_meant(directory: Path) -> None:
    assert verify(directory).is_good
    journal = SqliteJournal(directory)
    journal.lead("test")
    state = recovered(journal)
    assert summary(state) == json.loads((directory / EXPECTED).read_text())
    check_state(state)
    assert digest(load(dump(state))) == digest(state)
    for name in journal.blob_digests():
        assert journal.blob(name) is not None
    journal.close()


def test_a_controller_goes_on_with_it(directory: Path) -> None:
    journal = SqliteJournal(directory)
    epoch = journal.lead("test")
    state = recovered(journal)
    entry = Entry(state.seq + 1, state.now_us + 1, Cause("tick"), (KeysForgotten(0),))
    journal.append(epoch, make_batch([entry], crc_before=journal.last_crc))
    journal.close()
    journal = SqliteJournal(directory)
    journal.lead("test")
    assert recovered(journal).seq == entry.seq
    journal.close()


def test_its_sessions_can_be_run_again(directory: Path) -> None:
    report = replay(directory)
    assert report.sessions > 3
