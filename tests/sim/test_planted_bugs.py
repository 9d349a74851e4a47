"""Bugs that the simulator must find: a checker that has never failed is not yet a checker."""

import msgspec
import pytest
from rough_worlds import SEEDS, FencedWorld, LonelyWorld, RoughWorld, complaint

from xce.control import controller as controller_module
from xce.control import effects, hosts, loss, observe
from xce.control.controller import Controller
from xce.model.plan import BulkStart, Plan
from xce.model.record import (
    BulkPlaced,
    Ended,
    GangPlaced,
    JobsReleased,
    ReasonsChanged,
    Requeued,
    SessionRan,
)
from xce.sim import ground, oracles
from xce.sim.leader import Leader
from xce.sim.planner import Planner
from xce.sim.shepherd import Shepherd
from xce.sim.world import World
from xce.state import usage
from xce.state.hosts import HostTable
from xce.worker.core import HostState
from xce.worker.shepherd.still import note_still


def is_found(world_class, seeds=SEEDS):
    error, count = complaint(world_class, seeds)
    print(f"{world_class.__name__}: {count} seeds: {type(error).__name__}: {error}"[:300])
    return error is not None


class ForgetfulShepherd(Shepherd):
    """A shepherd that does not look whether it has started an attempt before."""

    def spawn(self, launch, key):
        self.ground.directories.pop(key, None)
        super().spawn(launch, key)

    def attach(self, hear):
        super().attach(hear)
        return []


class ImpatientLeader(Leader):
    """A controller that says everything once."""

    def _repeat(self):
        pass


class ImpatientController(Controller):
    """The same, also to workers that come again."""

    def _join(self, seen, results, now_us):
        records = super()._join(seen, results, now_us)
        self._touched.clear()
        return records


class HastyLeader(Leader):
    """A controller that answers before the commit."""

    def _turn(self):
        self.reign._is_turn_due = False
        self.desk.turn(self.now_us())
        for reply in self.desk._open.replies:
            self.reign._reply(reply)
        self.reign.pump()


class HastyEffectsLeader(Leader):
    """A controller that sends effects before the commit."""

    def _turn(self):
        self.reign._is_turn_due = False
        self.desk.turn(self.now_us())
        batch = self.desk._open
        effects, batch.effects = batch.effects, []
        for host, owed in effects:
            self.send_effects(self.state.hosts.names[host], owed)
        self.reign.pump()


class ForgetfulRelease(Controller):
    """A controller that drops every third release of a dependent job."""

    def _take(self, given, records, now_us):
        if any(isinstance(record, Ended) for record in records) and self.state.seq % 3 == 0:
            original = controller_module.decide_consequences

            def deaf(state, found, at_us):
                return [
                    record
                    for record in original(state, found, at_us)
                    if not isinstance(record, JobsReleased)
                ]

            controller_module.decide_consequences = deaf
            try:
                super()._take(given, records, now_us)
            finally:
                controller_module.decide_consequences = original
        else:
            super()._take(given, records, now_us)


def believe_it(state, host, job_id, index, number):
    """Take news of any attempt for news of the one that lives."""
    job = state.jobs.get(job_id)
    position = job.position(index) if job is not None else None
    return state.attempt(job_id, position) if position is not None else None


def free_twice(state, freed, *, original=usage.give_back_bulk):
    """Take back what ended attempts held, and a slot more while there is one."""
    original(state, freed)
    for _, host, _stage in freed:
        state.hosts.used[0, host] = max(0, state.hosts.used[0, host] - 1)


def drop_requeues(state, places, cause, now_us, detail="", *, original=loss.end_or_requeue):
    """Give hosts up, and forget what was to be requeued."""
    records = original(state, places, cause, now_us, detail)
    return [record for record in records if not isinstance(record, Requeued)]


def end_them_all(state, places, cause, now_us, detail="", *, original=loss.end_or_requeue):
    """Give hosts up, and end what is rerunnable, too."""
    ended = Ended([], [], [], [], [], [], [], [], [], [], [], [])
    for job, position, attempt in places:
        loss.add_end(ended, job, position, attempt, cause, now_us)
    return [ended] if ended.jobs else []


def trust_hosts(state, number, seen, strange):
    """Take whatever a host has when it comes back for its own."""
    return ()


def never_wait(self):
    """Let a host take new work at once, though something stale runs there."""
    return self.is_up


def free_lost_parts(state, hosts, cause, now_us):
    """End jobs of which a host was lost, without waiting for their other hosts."""
    gone = set(hosts)
    ended = Ended([], [], [], [], [], [], [], [], [], [], [], [])
    for number, places in state.on_host.items():
        for job, position, attempt in loss.each_place(state, places):
            if number not in gone and not gone.isdisjoint(attempt.hosts):
                loss.add_end(ended, job, position, attempt, cause, now_us)
    return [ended] if ended.jobs else []


class DeafShepherd(Shepherd):
    """A shepherd that knows of no leases."""

    def _mind_leases(self):
        pass


class GreedyPlanner(Planner):
    """A scheduler that puts everything on the first host, until it comes to its senses."""

    spoilt = 0

    def make_plan(self, now_us):
        plan = super().make_plan(now_us)
        if self.sessions > 60:
            return plan
        bulk = tuple(
            BulkStart(item.cls, item.jobs, item.firsts, item.lasts, [0], [sum(item.counts)])
            for item in plan.bulk
        )
        GreedyPlanner.spoilt += bulk != plan.bulk
        return msgspec.structs.replace(plan, bulk=bulk)


class SleepyPlanner(Planner):
    """A scheduler that sleeps through half of what should wake it."""

    def _plan_soon(self):
        if self._rng.random() < 0.5:
            super()._plan_soon()


def take_it_all(state, plan: Plan, now_us):
    """Accept a plan without a look at the state."""
    records = [
        BulkPlaced(item.cls, item.jobs, item.firsts, item.lasts, item.hosts, item.counts, now_us)
        for item in plan.bulk
    ]
    records += [
        GangPlaced(item.cls, item.job, item.index, item.hosts, item.tasks, now_us)
        for item in plan.gangs
    ]
    classes = [cls for cls, _ in plan.reasons if cls in state.classes]
    reasons = [reason for cls, reason in plan.reasons if cls in state.classes]
    changed = [ReasonsChanged(classes, reasons)] if classes else []
    return [*records, *changed, SessionRan(plan.seq, plan.now_us, "")]


def with_parts(**parts):
    """Return a world of other parts."""
    name = "With" + "".join(part.__name__ for part in parts.values())
    return type(name, (World,), parts)


def test_the_rough_world_itself_is_in_order():
    error, _ = complaint(RoughWorld, range(10))
    assert error is None


def test_the_lonely_world_itself_is_in_order():
    error, _ = complaint(LonelyWorld, range(15))
    assert error is None


def test_the_fenced_world_itself_is_in_order():
    error, _ = complaint(FencedWorld, range(15))
    assert error is None


@pytest.mark.parametrize(
    ("place", "name", "bug"),
    [
        (loss, "end_or_requeue", drop_requeues),
        (loss, "end_or_requeue", end_them_all),
        (hosts, "_stale", trust_hosts),
        (loss, "end_parts", free_lost_parts),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_bug_in_what_becomes_of_lost_hosts_is_found(monkeypatch, place, name, bug):
    monkeypatch.setattr(place, name, bug)
    assert is_found(LonelyWorld)


def test_a_host_that_takes_new_work_beside_what_is_stale_is_found(monkeypatch):
    monkeypatch.setattr(HostTable, "reachable", never_wait)
    for module in (effects, controller_module):
        monkeypatch.setattr(module, "render_stale", lambda state, host: ())
    assert is_found(LonelyWorld)


class TrustingMachine(HostState):
    """A worker that has just come, and takes it that the controller is there."""

    def take_list(self, listed, now_us):
        self.contact(now_us)
        return super().take_list(listed, now_us)


def thaw_for_good(one, now_us, *, still, by_lease):
    """Let what is frozen no more go on, whoever else has stopped it."""
    note_still(one, now_us, still=still, by_lease=by_lease)
    if by_lease and not still:
        one.suspended_us = 0


def test_what_is_suspended_and_goes_on_when_its_host_hears_the_controller_is_found(monkeypatch):
    monkeypatch.setattr(ground, "note_still", thaw_for_good)
    assert is_found(FencedWorld)


def test_a_worker_that_prolongs_leases_by_itself_is_found():
    assert is_found(type("Trusting", (FencedWorld,), {"machine_class": TrustingMachine}))


def test_leases_that_nobody_minds_are_found():
    kind = type("Deaf", (LonelyWorld,), {"shepherd_class": DeafShepherd})
    assert is_found(kind, range(150))


@pytest.mark.parametrize(
    "parts",
    [
        {"shepherd_class": ForgetfulShepherd},
        {"leader_class": ImpatientLeader, "controller_class": ImpatientController},
        {"leader_class": HastyLeader},
        {"leader_class": HastyEffectsLeader},
        {"controller_class": ForgetfulRelease},
        {"planner_class": SleepyPlanner},
    ],
    ids=lambda parts: "-".join(part.__name__ for part in parts.values()),
)
def test_a_planted_bug_is_found(parts):
    assert is_found(with_parts(**parts))


def test_a_controller_that_takes_news_of_an_old_attempt_is_found(monkeypatch):
    monkeypatch.setattr(observe, "_current", believe_it)
    assert is_found(RoughWorld)


def test_an_allocation_that_is_freed_twice_is_found(monkeypatch):
    monkeypatch.setattr(usage, "give_back_bulk", free_twice)
    monkeypatch.setattr(oracles, "check_state", lambda state: None)
    assert is_found(World)


def test_a_scheduler_that_over_commits_is_found_when_plans_are_not_checked(monkeypatch):
    monkeypatch.setattr(controller_module, "decide_plan", take_it_all)
    assert is_found(with_parts(planner_class=GreedyPlanner))


def test_a_scheduler_that_over_commits_does_no_harm_when_plans_are_checked():
    """It keeps jobs waiting while it does, but what is accepted fits, and in the end all run."""
    before = GreedyPlanner.spoilt
    error, _ = complaint(with_parts(planner_class=GreedyPlanner), range(8))
    assert error is None
    assert GreedyPlanner.spoilt > before + 8
