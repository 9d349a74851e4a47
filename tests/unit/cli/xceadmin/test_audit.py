"""`xceadmin audit`: which rows it prints, and how."""

import json

import pytest

from xce.cli.xceadmin.audit import parse_since, run_audit
from xce.daemon.paths import open_layout
from xce.daemon.settings import load_settings
from xce.journal.codec import FIRST_CRC, encode_batch
from xce.journal.interface import StoredBatch
from xce.journal.sqlite import SqliteJournal
from xce.model.entry import Cause, Entry
from xce.model.host_record import HostUp
from xce.model.permission import Denial
from xce.model.record_access import DenialsNoted, LoginRevoked

AT_US = 1_700_000_000_000_000


@pytest.fixture
def settings(tmp_path):
    found = load_settings(str(tmp_path / "state"))
    journal = SqliteJournal(open_layout(found.state_dir).journal)
    denied = DenialsNoted((Denial("bob\x1b[31m", "job:kill", "job 3", "10.0.0.7", 2, AT_US),))
    entries = [
        Entry(1, AT_US, Cause("revoke-login", "ann", "owner", "local"),
              (LoginRevoked("ann", "", 1, 2),)),
        Entry(2, AT_US, Cause("host-joined", "host h1", "component"),
              (HostUp(0, "b", 1, 1),)),
        Entry(3, AT_US, Cause("note-denials", "apiserver", "component"), (denied,)),
    ]  # fmt: skip
    content, crc = encode_batch(entries, FIRST_CRC)
    journal.append(
        journal.lead("test"),
        StoredBatch(first=1, last=3, crc_before=FIRST_CRC, crc=crc, content=content),
    )
    journal.close()
    return found


def run(settings, **options):
    return run_audit(
        settings, **{"user": "", "since": "", "denied": False, "as_json": False, **options}
    )


def test_what_people_did_and_were_denied_is_a_table(settings, capsys):
    assert run(settings) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["TIME", "USER", "RESULT", "ACTION", "BASIS", "FROM", "ABOUT"]
    assert first.split()[2:7] == ["ann", "done", "revoke-login", "owner", "local"]
    assert "denied  job:kill" in second
    assert second.endswith("10.0.0.7      job 3 (2 times)")
    assert "\x1b" not in second


def test_filters_and_json(settings, capsys):
    assert run(settings, denied=True, as_json=True) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["seq"], row["result"], row["count"]) == (3, "denied", 2)
    assert run(settings, user="ann", as_json=True) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run(settings, since="1h", as_json=True) == 0
    assert capsys.readouterr().out == ""
    assert run(settings, since="2000-01-01", as_json=True) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_time_that_is_none_and_a_journal_that_is_not_there(settings, capsys, tmp_path):
    assert run(settings, since="yesterday") == 2
    assert "expected a span such as 2h" in capsys.readouterr().err
    assert run(load_settings(str(tmp_path / "nothing"))) == 3


def test_spans_and_times_are_instants():
    assert parse_since("90s", 1_000.0) == 910.0
    assert parse_since("1970-01-01T00:10:00+00:00", 0.0) == 600.0
