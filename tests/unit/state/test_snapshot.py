"""The state as bytes and back."""

import msgspec
import pytest

from xce.model.errors import CorruptJournalError
from xce.model.ids import HOUR_US, MINUTE_US
from xce.state import snapshot
from xce.state.apply import apply
from xce.state.check import check_state
from xce.state.cluster import ClusterState
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import (
    BOB,
    cluster,
    kill,
    modify,
    place,
    replayed,
    report_ended,
    report_started,
    stop,
    submission,
    submit,
    tick,
)


@pytest.fixture
def busy():
    """A controller whose state has something of everything."""
    controller = cluster(counters=("lic",), pools={"tokens": 3}, orphan_grace_us=-1)
    first = submit(controller, submission(elements="1-20:2", limit=3), key="k")
    place(controller, first, 1, 3)
    report_started(controller, first, 1)
    report_ended(controller, first, 3, exit_code=4, detail="why")
    submit(controller, submission(hold=True), owner=BOB)
    submit(controller, submission(begin_at_us=controller.now_us + MINUTE_US))
    submit(controller, submission(after=f"done({first})"))
    doomed = submit(controller)
    submit(controller, submission(after=f"done({doomed})"))
    kill(controller, doomed)
    wide = submit(controller, submission(tasks=2))
    place(controller, wide, host="h2")
    stop(controller, wide)
    failing = submit(controller)
    place(controller, failing)
    report_ended(controller, failing, host_fault=True)
    return controller


def test_a_state_that_was_loaded_gives_the_same_parts(busy):
    parts = dump(busy.state)
    loaded = load(parts)
    assert dump(loaded) == parts
    check_state(loaded)


def test_the_indexes_of_a_loaded_state_are_those_of_the_live_one(busy):
    loaded, live = load(dump(busy.state)), busy.state
    assert loaded.unfinished == live.unfinished
    assert loaded.names == live.names
    assert loaded.dependents == live.dependents
    assert sorted(loaded.due) == sorted(live.due)
    assert loaded.avoiders == live.avoiders
    assert {host: owed for host, owed in loaded.owed.items() if owed} == {
        host: owed for host, owed in live.owed.items() if owed
    }
    assert (loaded.hosts.used == live.hosts.used).all()
    assert (loaded.hosts.total == live.hosts.total).all()
    assert loaded.pools.used == live.pools.used
    assert loaded.spec_uses == live.spec_uses
    assert loaded.class_ids == live.class_ids


@pytest.mark.parametrize("share", [0, 0.3, 0.7, 1])
def test_a_snapshot_and_the_entries_behind_it_make_the_live_state(busy, share):
    cut = int(len(busy.entries) * share)
    state = load(dump(replayed(busy.entries[:cut])))
    for entry in busy.entries[cut:]:
        apply(state, entry)
    assert digest(state) == digest(busy.state)
    check_state(state)


def test_names_and_specs_are_found_whether_somebody_asked_before_or_not(busy):
    submit(busy, submission(name="one"))
    loaded, asked = (load(dump(busy.state)) for _ in range(2))
    assert (asked.names, asked.spec_ids) == (busy.state.names, busy.state.spec_ids)
    seq = busy.state.seq
    gone = submit(busy, submission(name="two"))
    modify(busy, submit(busy, submission(name="one")), name="three")
    kill(busy, gone)
    tick(busy, after_us=HOUR_US)
    tick(busy, history_seq=busy.state.seq, after_us=HOUR_US)
    assert gone not in busy.state.jobs
    for entry in busy.entries:
        if entry.seq > seq:
            apply(loaded, entry)
            apply(asked, entry)
    for state in (loaded, asked):
        assert (state.names, state.spec_ids) == (busy.state.names, busy.state.spec_ids)


def test_jobs_are_cut_into_parts_that_share_specs(busy, monkeypatch):
    monkeypatch.setattr(snapshot, "JOBS_IN_PART", 2)
    parts = dump(busy.state)
    assert len(parts) == 1 + -(-len(busy.state.jobs) // 2)
    assert dump(load(parts)) == parts


def test_an_empty_state_is_one_part():
    parts = dump(ClusterState())
    assert len(parts) == 1
    assert dump(load(parts)) == parts


@pytest.mark.parametrize("parts", [[], [b""], [b"\xc1"], [b"\x90"]])
def test_what_is_no_snapshot_is_refused(parts):
    with pytest.raises(CorruptJournalError, match="cannot be read"):
        load(parts)


def test_another_format_is_refused(busy):
    head = msgspec.msgpack.decode(dump(busy.state)[0])
    head[0] = snapshot.FORMAT + 1
    with pytest.raises(CorruptJournalError, match="format"):
        load([msgspec.msgpack.encode(head)])


def test_digests_tell_states_apart(busy):
    before = digest(busy.state)
    submit(busy)
    assert digest(busy.state) != before
