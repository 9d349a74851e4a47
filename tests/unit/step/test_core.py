import pytest
from steps import PROBE, SECOND, Driven, plan, role, wait

from xce.step import core as c
from xce.step.plan import RESTART_ALWAYS, RESTART_ON_FAILURE


def test_nothing_begins_before_every_host_has_answered():
    step = Driven(plan(role("a", 0, 1)), answered=False)
    assert step.actions == [c.OpenHost(0), c.OpenHost(1)]
    assert step.tell(c.HostReady(1)) == []
    assert step.tell(c.HostReady(0)) == [c.Start(0, 0, 1), c.Start(0, 1, 1)]


def test_a_host_that_cannot_be_reached_ends_the_step_with_its_name():
    step = Driven(plan(role("a", 0, 1)), answered=False)
    step.tell(c.HostReady(0))
    assert step.tell(c.HostLost(1, "no route")) == [c.Finish(1, "host h1 cannot be used: no route")]
    assert step.starts() == []


def test_a_host_that_says_nothing_is_named_in_half_a_minute():
    step = Driven(plan(role("a", 0, 1)), answered=False)
    step.tell(c.HostReady(0))
    assert step.after(29) == []
    assert step.after(1) == [c.Finish(1, "no answer from h1 within 30 s")]


def meeting() -> Driven:
    """Return a step with a role whose tasks meet on two of three hosts; no host has answered."""
    roles = (role("train", 2, 1, launch="torch"), role("data", 0))
    return Driven(plan(*roles, hosts=3), answered=False)


def test_hosts_whose_tasks_must_meet_are_looked_at_before_anything_begins():
    step = meeting()
    assert step.tell(c.HostReady(0)) == step.tell(c.HostReady(1)) == []
    assert step.tell(c.HostReady(2)) == [c.CheckHost(1), c.CheckHost(2)]
    assert step.tell(c.HostChecked(2, "")) == []
    began = step.tell(c.HostChecked(1, ""))
    assert began == [c.Start(0, 0, 1), c.Start(0, 1, 1), c.Start(1, 0, 1)]
    assert step.step.next_due_us() is None


def test_a_host_from_which_the_others_cannot_be_met_is_named_and_nothing_begins():
    step = meeting()
    for host in range(3):
        step.tell(c.HostReady(host))
    assert step.tell(c.HostChecked(1, "cannot reach h2:9: No route to host")) == [
        c.Finish(c.PREFLIGHT_CODE, "preflight: host h1: cannot reach h2:9: No route to host")
    ]


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        (None, "no answer from h2 within 30 s"),
        (c.HostLost(0, "gone"), "host h0 cannot be used: gone"),
    ],
)
def test_a_host_that_is_silent_or_lost_while_it_is_looked_at_is_named(event, detail):
    step = meeting()
    for host in range(3):
        step.tell(c.HostReady(host))
    step.tell(c.HostChecked(1, ""))
    if event is not None:
        step.tell(event)
    step.after(30)
    assert step.end == c.Finish(c.FAILED_CODE, detail)
    assert step.starts() == []


def test_a_step_whose_tasks_all_end_well_has_ended_well():
    step = Driven(plan(role("a", 0, 1), role("b")))
    for number, task in ((0, 0), (0, 1), (1, 0)):
        step.started(number, task)
        assert step.end is None
        step.exited(number, task)
    assert step.end == c.Finish(0, "")


def test_the_first_task_that_ends_badly_ends_the_others_and_is_named():
    step = Driven(plan(role("a", 0, 1), role("b")))
    for number, task in ((0, 0), (0, 1), (1, 0)):
        step.started(number, task)
    step.exited(0, 1, code=3)
    assert step.signals() == [("a", 0, c.TERM), ("b", 0, c.TERM)]
    step.exited(0, 0, code=143, signal=15)
    assert step.end is None
    step.after(10)
    assert step.signals()[2:] == [("b", 0, c.KILL)]
    step.exited(1, 0, code=137, signal=9)
    assert step.end == c.Finish(
        3, "task 1 of role a on h1 ended with exit code 3; its fate (fail-together) ends the job"
    )


def test_what_was_sent_a_signal_is_left_time_and_then_killed_again_and_again():
    step = Driven(plan(role("a")))
    step.started(0)
    assert step.tell(c.EndAsked(2)) == []
    step.after(35)
    assert step.signals() == [("a", 0, c.TERM)] + 2 * [("a", 0, c.KILL)]
    step.exited(0, code=137, signal=9)
    assert step.end == c.Finish(130, "")


def test_what_died_of_a_signal_is_told_so():
    step = Driven(plan(role("a", 0, 1)))
    step.exited(0, 0, code=137, signal=9)
    step.exited(0, 1, code=143, signal=15)
    assert step.end is not None
    assert "task 0 of role a on h0 was ended by signal 9" in step.end.detail
    assert step.end.code == 137


def test_a_role_begins_only_when_its_init_role_has_ended_well():
    step = Driven(plan(role("main", waits=(wait(1, "succeeded"),)), role("init", 0, 1)))
    assert step.starts() == [("init", 0, 1), ("init", 1, 1)]
    step.exited(1, 0)
    assert step.starts()[2:] == []
    step.exited(1, 1)
    assert step.starts()[2:] == [("main", 0, 1)]
    step.exited(0)
    assert step.end == c.Finish(0, "")


def test_an_init_role_that_fails_ends_the_job_and_its_parent_never_begins():
    step = Driven(plan(role("main", waits=(wait(1, "succeeded"),)), role("init")))
    step.exited(1, code=4)
    assert step.end is not None
    assert step.end.code == 4
    assert [name for name, _, _ in step.starts()] == ["init"]


def test_a_role_that_waits_for_readiness_begins_when_all_tasks_are_ready():
    step = Driven(
        plan(role("router", waits=(wait(1, "ready"),)), role("decode", 0, 1, probe=PROBE))
    )
    assert step.started(1, 0) == []
    step.started(1, 1)
    assert step.after(0) == [c.Probe(1, 0, 1), c.Probe(1, 1, 1)]
    step.ready(1, 0)
    step.ready(1, 1, is_ready=False)
    assert step.after(0.9) == []
    assert step.after(0.1) == [c.Probe(1, 1, 1)]
    assert step.ready(1, 1) == [c.Start(0, 0, 1)]
    assert step.after(60) == [], "who is ready is not asked again"


def test_a_task_without_probe_is_ready_as_soon_as_it_runs():
    step = Driven(plan(role("router", waits=(wait(1, "ready"),)), role("decode")))
    assert step.started(1) == [c.Start(0, 0, 1)]


def test_a_task_that_does_not_become_ready_is_ended_and_told():
    step = Driven(plan(role("a", probe=PROBE), role("b")))
    step.started(0)
    step.started(1)
    for _ in range(3):
        step.after(1)
        step.ready(0, is_ready=False)
    assert step.signals() == [("a", 0, c.TERM)]
    step.exited(0)
    step.exited(1, code=143, signal=15)
    assert step.end is not None
    assert "task 0 of role a on h0 was not ready after 3 probes: refused" in step.end.detail
    assert step.end.code == 1


def test_a_wait_for_readiness_has_a_time_limit_that_counts_from_the_last_start():
    waiting = role("router", waits=(wait(1, "ready", timeout_s=5),))
    step = Driven(plan(waiting, role("decode", 0, 1, probe=PROBE._replace(failures_max=0))))
    step.started(1, 0)
    step.after(60)
    step.started(1, 1)
    step.ready(1, 0)
    step.after(4.9)
    assert step.end is None
    step.after(0.1)
    step.exited(1, 0, code=143)
    step.exited(1, 1, code=143)
    assert step.end == c.Finish(
        1,
        "role router cannot begin (ready 1: task 1 of role decode on h1 was not ready within 5 s)",
    )


def test_who_waits_for_what_ended_before_it_was_ready_cannot_begin():
    step = Driven(plan(role("router", waits=(wait(1, "ready"),)), role("decode", probe=PROBE)))
    step.started(1)
    step.exited(1)
    assert step.end is not None
    assert "role router cannot begin (ready 1: task 0 of role decode ended well)" in step.end.detail


def test_who_was_ready_and_ended_well_was_ready():
    step = Driven(plan(role("router", waits=(wait(1, "ready"),)), role("p", probe=PROBE, group=5),
                       role("q", probe=PROBE, group=5)))  # fmt: skip
    step = Driven(
        plan(
            role("router", waits=(wait(1, "ready"), wait(2, "ready"))),
            role("p", probe=PROBE),
            role("q", probe=PROBE),
        )
    )
    for number in (1, 2):
        step.started(number)
    step.ready(1)
    step.exited(1)
    assert step.ready(2) == [c.Start(0, 0, 1)]


def test_after_waits_for_the_end():
    step = Driven(plan(role("b", waits=(wait(1, "ended"),)), role("a", is_fatal=False)))
    assert step.exited(1, code=5) == [c.Start(0, 0, 1)]
    step.exited(0)
    assert step.end == c.Finish(0, "")


def test_after_what_failed_and_is_tolerated_a_role_cannot_begin():
    made = plan(role("b", waits=(wait(1, "succeeded"),)), role("a", is_fatal=False))
    step = Driven(made)
    step.exited(1, code=5)
    assert step.end == c.Finish(
        1,
        "role b cannot begin (succeeded 1: task 0 of role a ended with exit code 5)",
    )


def test_a_tolerated_role_that_cannot_begin_is_left_out():
    made = plan(
        role("b", waits=(wait(1, "succeeded"),), is_fatal=False), role("a", is_fatal=False),
        role("c"),
    )  # fmt: skip
    step = Driven(made)
    step.exited(1, code=5)
    assert step.end is None
    step.exited(2)
    assert step.end == c.Finish(0, "")


def test_roles_of_a_group_begin_together():
    made = plan(role("a", group=9), role("b", waits=(wait(2, "succeeded"),), group=9), role("init"))
    step = Driven(made)
    assert step.starts() == [("init", 0, 1)]
    step.exited(2)
    assert step.starts()[1:] == [("a", 0, 1), ("b", 0, 1)]


def test_a_restart_waits_twice_as_long_each_time_and_has_a_limit():
    again = {"restart": RESTART_ON_FAILURE, "restarts_max": 2, "back_off_us": SECOND}
    step = Driven(plan(role("a", **again, fate="restart-member"), role("b")))
    step.started(1)
    step.exited(0, code=1)
    assert step.after(0.9) == []
    assert step.after(0.1) == [c.Start(0, 0, 2)]
    step.exited(0, code=1)
    assert step.after(1.9) == []
    assert step.after(0.1) == [c.Start(0, 0, 3)]
    step.exited(0, code=7)
    step.exited(1, code=143, signal=15)
    assert step.end == c.Finish(
        7,
        "task 0 of role a on h0 ended with exit code 7 after 2 restarts; its fate "
        "(restart-member) ends the job",
    )


def test_old_news_of_an_earlier_run_change_nothing():
    again = {"restart": RESTART_ON_FAILURE, "restarts_max": 2, "back_off_us": SECOND}
    step = Driven(plan(role("a", **again)))
    step.exited(0, code=1)
    step.after(1)
    assert step.tell(c.Exited(0, 0, 1, 9)) == []
    assert step.tell(c.Started(0, 0, 1)) == []
    step.started(0)
    step.exited(0)
    assert step.end == c.Finish(0, "")


def test_what_failed_and_is_tolerated_is_no_failure_of_the_job():
    step = Driven(plan(role("a", is_fatal=False), role("b")))
    step.exited(0, code=9)
    assert step.end is None
    step.exited(1)
    assert step.end == c.Finish(0, "")


def sidecar(**more):
    given = {"restart": RESTART_ON_FAILURE, "restarts_max": 1, "back_off_us": SECOND}
    return role("side", 0, 1, parents=(0,), is_fatal=False, **{**given, **more})


def test_a_sidecar_begins_before_its_parents_and_ends_behind_them():
    step = Driven(plan(role("main", 0, 1, waits=(wait(1, "beside"),)), sidecar(probe=PROBE)))
    assert step.starts() == [("side", 0, 1), ("side", 1, 1)]
    step.started(1, 0)
    step.started(1, 1)
    step.ready(1, 0)
    assert step.starts()[2:] == []
    step.ready(1, 1)
    assert step.starts()[2:] == [("main", 0, 1), ("main", 1, 1)]
    step.exited(0, 0)
    assert step.signals() == []
    step.exited(0, 1)
    assert step.signals() == [("side", 0, c.TERM), ("side", 1, c.TERM)]
    step.exited(1, 0, code=1)
    step.exited(1, 1, code=143, signal=15)
    assert step.end == c.Finish(0, "")


def test_a_sidecar_that_fails_is_restarted_and_then_done_without():
    step = Driven(plan(role("main", waits=(wait(1, "beside"),)), sidecar()))
    step.started(1, 0)
    step.exited(1, 1, code=2)
    assert [name for name, _, _ in step.starts()] == ["side", "side"]
    step.after(1)
    step.exited(1, 1, code=2)
    assert step.starts()[2:] == [("side", 1, 2), ("main", 0, 1)]
    step.exited(0)
    step.exited(1, 0, code=143)
    assert step.end == c.Finish(0, "")


def test_a_sidecar_that_cannot_begin_is_done_without():
    side = sidecar(waits=(wait(2, "succeeded"),))
    made = plan(role("main", waits=(wait(1, "beside"),)), side, role("a", is_fatal=False))
    step = Driven(made)
    assert step.exited(2, code=1) == [c.Start(0, 0, 1)]
    step.exited(0)
    assert step.end == c.Finish(0, "")


def test_a_sidecar_whose_fate_is_that_of_the_others_ends_the_job():
    side = sidecar(restart="never")._replace(is_fatal=True)
    step = Driven(plan(role("main", waits=(wait(1, "beside"),)), side))
    step.started(1, 0)
    step.started(1, 1)
    step.exited(1, 0, code=2)
    step.exited(0, code=143, signal=15)
    assert step.signals() == [("main", 0, c.TERM), ("side", 1, c.TERM)]
    step.exited(1, 1, code=143, signal=15)
    assert step.end is not None
    assert step.end.code == 2


def test_a_sidecar_may_be_restarted_whichever_way_it_ends():
    step = Driven(plan(role("main", waits=(wait(1, "beside"),)), sidecar(restart=RESTART_ALWAYS)))
    step.started(1, 0)
    step.started(1, 1)
    step.exited(1, 0)
    assert step.after(1) == [c.Start(1, 0, 2)]


def test_when_the_job_ends_sidecars_are_told_last():
    step = Driven(plan(role("main", 0, 1, waits=(wait(1, "beside"),)), sidecar()))
    step.started(1, 0)
    step.started(1, 1)
    step.started(0)
    step.exited(0, 1, code=1)
    assert step.signals() == [("main", 0, c.TERM)]
    step.exited(0, 0, code=143)
    assert step.signals()[1:] == [("side", 0, c.TERM), ("side", 1, c.TERM)]


def test_a_host_that_is_lost_takes_its_tasks_with_it_for_good():
    again = {"restart": RESTART_ON_FAILURE, "restarts_max": 5, "back_off_us": SECOND}
    step = Driven(plan(role("a", 0, 1, **again, fate="restart-member")))
    step.started(0, 0)
    step.started(0, 1)
    step.tell(c.HostLost(1, "it does not answer"))
    assert step.signals() == [("a", 0, c.TERM)]
    step.exited(0, 0, code=143)
    assert step.end is not None
    assert "task 1 of role a on h1 was lost with its host: it does not answer" in step.end.detail


def test_a_lost_host_is_tolerated_where_its_tasks_are():
    step = Driven(plan(role("a", 0, 1, is_fatal=False)))
    step.tell(c.HostLost(1, "gone"))
    step.exited(0, 0)
    assert step.end == c.Finish(0, "")


def test_a_task_that_could_not_be_started_has_failed():
    step = Driven(plan(role("a", 0)))
    step.tell(c.Failed(0, 0, 1, "could not be started: no such program"))
    assert step.end is not None
    assert (step.end.code, "could not be started: no such program" in step.end.detail) == (
        126, True,
    )  # fmt: skip


def test_a_task_that_is_told_to_end_while_it_starts_is_ended():
    step = Driven(plan(role("a", 0, 1)))
    step.exited(0, 0, code=1)
    assert step.signals() == [("a", 1, c.TERM)]
    step.started(0, 1)
    step.exited(0, 1, code=143, signal=15)
    assert step.end is not None
    assert step.end.code == 1


@pytest.mark.parametrize("event", [c.EndAsked(2), c.HostLost(0, "x"), c.Exited(0, 0, 1, 0)])
def test_after_its_end_a_step_wants_nothing(event):
    step = Driven(plan(role("a")))
    step.exited(0)
    assert step.tell(event) == []
    assert step.step.next_due_us() is None
