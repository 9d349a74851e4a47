"""A controller that stands by."""

import contextlib
import logging
import threading

import pytest

from xce.daemon.standby import StandBy
from xce.journal.batch import make_batch
from xce.journal.codec import FIRST_CRC
from xce.journal.interface import JournalRefusedError
from xce.journal.sqlite import SqliteJournal
from xce.testing.builders import cluster, submit


@pytest.fixture
def journal(tmp_path):
    """The journal of cluster orion, which nobody leads."""
    controller = cluster(cluster_name="orion")
    submit(controller)
    with contextlib.closing(SqliteJournal(tmp_path)) as first:
        epoch = first.lead("c1")
        first.append(epoch, make_batch(controller.entries, crc_before=FIRST_CRC))
    with contextlib.closing(SqliteJournal(tmp_path)) as made:
        yield made


def standby(journal, name):
    log = logging.getLogger("test")
    return StandBy(journal, cluster=name, lease_s=2, log=log, stopping=threading.Event())


def test_it_leads_where_nobody_does_with_all_that_was_written(journal):
    lead = standby(journal, "orion").run()
    assert lead is not None
    assert len(lead.state.jobs) == 1


def test_another_clusters_journal_is_refused(journal):
    with pytest.raises(JournalRefusedError, match="journal of cluster 'orion', and here .* 'lyra'"):
        standby(journal, "lyra").run()


def test_an_empty_journal_is_anybodys(tmp_path):
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        lead = standby(journal, "lyra").run()
    assert lead is not None
    assert not lead.state.seq
