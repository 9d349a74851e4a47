from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from xce.journal.codec import CorruptEntryError
from xce.journal.sqlite import DATABASE
from xce.model.command import ProposePlan
from xce.model.entry import Entry
from xce.model.errors import CorruptJournalError
from xce.model.record import ClassStored, ConfigApplied, Record, SessionRan
from xce.sched.session import run_session
from xce.sim.replay import Difference, ReplayReport, replay
from xce.sim.scenario_journal import write_journal
from xce.testing.builders import cluster, report_ended, report_started, submission, submit
from xce.testing.recorded import RecordedController


def propose(controller: RecordedController, between: Callable[[], object] = lambda: None) -> None:
    """Run a session, let something happen, have the plan taken."""
    plan = run_session(controller.state, now_us=controller.now_us)
    between()
    controller.tell(ProposePlan(plan), by="scheduler")


def lived() -> list[Entry]:
    """Return the entries of a cluster on which things come between a session and its record."""
    controller = cluster({"h1": 4, "h2": 2})
    first = submit(controller, submission(elements="1-3"))
    propose(controller)
    submit(controller, submission(tasks=3))
    propose(controller, lambda: submit(controller, submission(tasks=2)))
    report_started(controller, first, 1)
    propose(controller, lambda: report_ended(controller, first, 1))
    submit(controller, submission(tasks=9))
    propose(controller)
    return list(controller.entries)


def replayed(directory: Path, entries: list[Entry], *, fresh: bool = False) -> ReplayReport:
    write_journal(directory, entries, [])
    return replay(directory, fresh=fresh)


def changed(
    entries: list[Entry], kind: type[Record], change: Callable[[Record], Record]
) -> list[Entry]:
    """Return entries in which the last record of a kind is another one."""
    entries = list(entries)
    for place in reversed(range(len(entries))):
        records = list(entries[place].records)
        for number, record in enumerate(records):
            if isinstance(record, kind):
                records[number] = change(record)
                entries[place] = msgspec.structs.replace(entries[place], records=tuple(records))
                return entries
    raise AssertionError(kind)


@pytest.mark.parametrize("fresh", [False, True])
def test_sessions_decide_again_as_they_did(tmp_path: Path, fresh: bool) -> None:
    entries = lived()
    report = replayed(tmp_path, entries, fresh=fresh)
    sessions = [r for e in entries for r in e.records if isinstance(r, SessionRan)]
    between = [
        r
        for e in entries
        for r in e.records
        if isinstance(r, SessionRan) and e.seq > r.view_seq + 1
    ]
    assert between, "nothing came between a session and its record"
    assert report.is_identical
    assert (report.sessions, report.by_decisions) == (len(sessions), 0)
    assert report.last_seq == entries[-1].seq


def test_one_changed_input_is_pinpointed_to_the_first_decision_that_it_changes(
    tmp_path: Path,
) -> None:
    entries = lived()

    def smaller(record: Record) -> Record:
        assert isinstance(record, ClassStored)
        request = msgspec.structs.replace(record.key.request, tasks_min=5, tasks_max=5)
        return msgspec.structs.replace(
            record, key=msgspec.structs.replace(record.key, request=request)
        )

    # The last class asks for 9 tasks, more than there are; with 5 it only has to wait.
    report = replayed(tmp_path, changed(entries, ClassStored, smaller))
    found = report.difference
    assert found is not None
    last = [e.seq for e in entries if any(isinstance(r, SessionRan) for r in e.records)][-1]
    assert (found.seq, found.what) == (last, "reason")
    assert "unsatisfiable" in found.recorded
    assert "unsatisfiable" not in found.found


def test_a_changed_host_is_pinpointed_to_the_element_that_goes_elsewhere(tmp_path: Path) -> None:
    def narrow(record: Record) -> Record:
        assert isinstance(record, ConfigApplied)
        hosts = tuple(
            msgspec.structs.replace(host, slots=4 if host.name == "h2" else host.slots)
            for host in record.config.hosts
        )
        config = msgspec.structs.replace(record.config, hosts=hosts)
        return msgspec.structs.replace(record, config=config)

    found = replayed(tmp_path, changed(lived(), ConfigApplied, narrow)).difference
    assert isinstance(found, Difference)
    assert (found.what, found.job, found.index) == ("start", 1, 3)
    assert (found.recorded, found.found) == ("starts on h1", "starts on h2")


def test_another_digest_of_the_same_decisions_is_told_apart(tmp_path: Path) -> None:
    def other(record: Record) -> Record:
        return msgspec.structs.replace(record, digest="of another release")

    report = replayed(tmp_path, changed(lived(), SessionRan, other))
    assert report.is_identical
    assert report.by_decisions == 1


def test_one_flipped_byte_is_found_with_its_entry(tmp_path: Path) -> None:
    write_journal(tmp_path, lived(), [])
    file = tmp_path / DATABASE
    content = bytearray(file.read_bytes())
    place = content.rindex(b"session-ran") - 40
    content[place] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptEntryError):
        replay(tmp_path)


def test_a_journal_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CorruptJournalError):
        replay(tmp_path)
