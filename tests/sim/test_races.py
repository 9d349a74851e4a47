"""Changes, switches and requeues that race with dispatch and finish: what must be found is."""

import contextlib
import sqlite3

import msgspec
from rough_worlds import complaint

from xce.control import controller as controller_module
from xce.control import modify, observe
from xce.journal.history import HistoryWriter
from xce.model.command import Accepted
from xce.model.job import EndCause, Outcome
from xce.model.record import BulkPlaced, GangPlaced, Requeued
from xce.sim.faults import Faults
from xce.sim.shepherd import OWN_CPU_US
from xce.sim.world import World
from xce.state.cluster import ClusterState

SEEDS = range(40)


class HastyWorld(World):
    """Users who are at it whenever something happens to their jobs, and processes that die."""

    def __init__(self, seed):
        faults = Faults(
            until_us=15_000_000, races=40, break_permille=5, delay_us_max=5_000, cuts=3,
            controller_crashes=2, scheduler_crashes=1, worker_crashes=2, seam_crashes=3,
        )  # fmt: skip
        super().__init__(seed, faults)


def test_the_hasty_world_itself_is_in_order_and_races():
    taken = set()

    class Watched(HastyWorld):
        def _note_stored(self, batch, entries):
            super()._note_stored(batch, entries)
            taken.update(entry.cause.kind for entry in entries)

    error, _ = complaint(Watched, range(4))
    assert error is None
    assert {"modify-jobs", "switch-jobs", "requeue-jobs"} <= taken


def is_found(text, world=HastyWorld):
    error, count = complaint(world, SEEDS)
    print(f"{count} seeds: {type(error).__name__}: {error}"[:300])
    return error is not None and text in str(error)


def test_an_attempt_that_starts_as_what_its_job_became_since_is_found(monkeypatch):
    monkeypatch.setattr(ClusterState, "spec_id_at", lambda _self, job, _position: job.spec_id)
    assert is_found("starts with")


def test_a_change_that_is_told_to_be_done_and_is_not_is_found(monkeypatch):
    decide = modify.decide_modification

    def forget(state, command, item, now_us):
        records, result = decide(state, command, item, now_us)
        return ([] if isinstance(result, Accepted) else records), result

    monkeypatch.setattr(controller_module.modify, "decide_modification", forget)
    assert is_found("is told to be done")


def test_a_change_that_undoes_another_one_is_found(monkeypatch):
    decide = modify.decide_modification

    def decide_on_the_old(state, command, item, now_us):
        job = state.jobs.get(item.job)
        if job is not None:
            item = msgspec.structs.replace(item, spec_id=job.spec_id, cls=job.cls)
        return decide(state, command, item, now_us)

    monkeypatch.setattr(controller_module.modify, "decide_modification", decide_on_the_old)
    assert is_found("became another")


def of_requeued(monkeypatch, bug):
    """Plant a bug where it is noted what attempts used that are requeued."""
    note = observe._note_used

    def wrong(record, attempt, item, begun, now_us):
        if isinstance(record, Requeued):
            bug(note, record, attempt, item, begun, now_us)
        else:
            note(record, attempt, item, begun, now_us)

    monkeypatch.setattr(observe, "_note_used", wrong)


def test_what_a_requeued_attempt_used_and_nobody_noted_is_found(monkeypatch):
    of_requeued(monkeypatch, lambda *_: None)
    assert is_found("nobody knows what")


def test_a_requeued_attempt_with_the_exit_status_of_none_is_found(monkeypatch):
    def forget_code(note, record, attempt, item, *rest):
        note(record, attempt, msgspec.structs.replace(item, exit_code=0), *rest)

    of_requeued(monkeypatch, forget_code)
    assert is_found("its process said")


class RememberedWorld(HastyWorld):
    """One whose history is kept, with how many attempts were placed."""

    def __init__(self, seed, path):
        super().__init__(seed)
        self.placed = 0
        self.writer = HistoryWriter(path)

    def _note_stored(self, batch, entries):
        super()._note_stored(batch, entries)
        self.writer.take(entries, crc=batch.crc, epoch=1)
        for record in (one for entry in entries for one in entry.records):
            if isinstance(record, BulkPlaced):
                self.placed += sum(record.counts)
            self.placed += isinstance(record, GangPlaced)


def usage_of(seed, path):
    """Live a world; return how many attempts it placed, and the usage records of its history."""
    world = RememberedWorld(seed, path)
    world.live()
    world.writer.commit()
    world.writer.close()
    with contextlib.closing(sqlite3.connect(path)) as store:
        rows = store.execute("SELECT outcome, cause, started_at_us, cpu_us FROM attempts")
        return world.placed, rows.fetchall()


def test_the_history_has_one_usage_record_of_each_attempt_with_what_it_used(tmp_path):
    unknown = {EndCause.HOST_LOST, EndCause.STATUS_LOST, EndCause.HOST_RESTARTED}
    attempts = requeued = 0
    for seed in range(4):
        placed, rows = usage_of(seed, tmp_path / f"{seed}.db")
        assert len(rows) == placed
        for outcome, cause, started_us, cpu_us in rows:
            if started_us and cause not in unknown:
                assert cpu_us >= OWN_CPU_US
                requeued += outcome == Outcome.NONE
        attempts += placed
    assert attempts > 50
    assert requeued > 5
