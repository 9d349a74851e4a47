"""Changes, switches and requeues that race with dispatch and finish: what must be found is."""

import msgspec
from rough_worlds import complaint

from xce.control import controller as controller_module
from xce.control import modify, observe
from xce.model.command import Accepted
from xce.model.record import Requeued
from xce.sim.faults import Faults
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
