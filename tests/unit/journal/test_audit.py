"""The audit: which entries it tells of, and in which words."""

from journals import CAUSE, entry, filled

from xce.journal.audit import rows_of
from xce.journal.audit_reader import read_audit
from xce.journal.history import HistoryWriter
from xce.journal.sqlite import SqliteJournal, open_sqlite_reader
from xce.model.config import ClusterConfig
from xce.model.entry import Cause, Entry
from xce.model.host_record import HostsLost, HostsOpened
from xce.model.job import EndCause, Outcome
from xce.model.permission import Denial
from xce.model.record import ConfigApplied, EndDecided, Reopened, Withdrawn
from xce.model.record_access import DenialsNoted, LoginRevoked

AT_US = 1_700_000_000_000_000


def rows(kind, *records, by="ann", basis="owner", origin="local"):
    return list(rows_of(Entry(7, AT_US, Cause(kind, by, basis, origin), records), ("h1", "h2")))


def audit(directory):
    reader = open_sqlite_reader(directory)
    try:
        return list(read_audit(reader, directory / "history.db"))
    finally:
        reader.close()


def test_a_row_says_who_what_on_what_ground_from_where_and_with_what_result():
    (row,) = rows(
        "kill-jobs",
        Withdrawn([12, 13], [0, 1], [0, 5], EndCause.OWNER, "ann", AT_US),
        EndDecided([14], [3], [3], EndCause.OWNER, "ann", False, AT_US),
    )
    assert (row.seq, row.at, row.user, row.action) == (7, 1_700_000_000.0, "ann", "kill-jobs")
    assert (row.basis, row.origin, row.result) == ("owner", "local", "done")
    assert row.about == "jobs 12, 13[1-5], 14[3]"


def test_elements_that_are_requeued_are_named():
    cause = EndCause.REQUEUE_OWNER
    reopened = Reopened([12, 13], [0, 4], [Outcome.EXIT] * 2, cause, "ann")
    assert rows("requeue-jobs", reopened)[0].about == "jobs 12, 13[4]"


def test_of_many_objects_the_number_is_told():
    (row,) = rows(
        "kill-jobs", Withdrawn([*range(1, 31)], [0] * 30, [0] * 30, EndCause.OWNER, "ann", AT_US)
    )
    assert row.about == "jobs 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more"


def test_hosts_configurations_and_logins_are_named():
    assert rows("set-hosts-open", HostsOpened([1], False))[0].about == "closed h2"
    assert rows("declare-hosts-lost", HostsLost([0], [1], "ann"))[0].about == "gave up h1"
    assert rows("apply-config", ConfigApplied(3, ClusterConfig()))[0].about == "configuration 3"
    (row,) = rows("revoke-login", LoginRevoked("bob", "", 1, 2))
    assert row.about == "login all of bob"


def test_each_denial_is_a_row():
    denials = (
        Denial("bob", "job:kill", "job 3", "local", 5, AT_US - 1_000_000),
        Denial("", "login", "", "10.0.0.7"),
    )
    first, second = rows("note-denials", DenialsNoted(denials), by="apiserver", basis="component")
    assert (first.user, first.action, first.about) == ("bob", "job:kill", "job 3")
    assert (first.result, first.count, first.at) == ("denied", 5, 1_699_999_999.0)
    assert (first.basis, first.origin) == ("", "local")
    assert (second.user, second.action, second.origin) == ("", "login", "10.0.0.7")


def test_the_journal_is_read_in_order(tmp_path):
    filled(tmp_path, 2, 1)
    found = audit(tmp_path)
    assert [row.seq for row in found] == [1, 2, 3]
    assert {row.user for row in found} == {CAUSE.by}


def test_what_the_journal_has_dropped_is_read_from_the_history(tmp_path):
    filled(tmp_path, 2, 1)
    writer = HistoryWriter(tmp_path / "history.db")
    writer.take([entry(1), entry(2)], crc=None, epoch=1)
    writer.commit()
    writer.close()
    before = audit(tmp_path)
    assert [row.seq for row in before] == [1, 2, 3]
    journal = SqliteJournal(tmp_path)
    journal.lead("test")
    journal.trim(3)
    journal.close()
    assert audit(tmp_path) == before
