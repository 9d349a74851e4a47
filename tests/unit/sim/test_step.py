from random import Random

import pytest

from xce.model.effect import Launch
from xce.model.ids import SECOND_US
from xce.model.job import JobSpec, Owner
from xce.model.relation import RelationKind
from xce.sim.loop import Loop
from xce.sim.step import SimStep, StepError
from xce.sim.step_load import draw_role_job
from xce.step import core
from xce.step.plan import Wait
from xce.step.task import RoleState
from xce.worker import step_plan


def launch(rng: Random) -> Launch:
    spec, request = draw_role_job(rng, JobSpec(command="run 1 0"))
    hosts = ("h1", "h2")
    rows = tuple((part.name, rng.choice(hosts), part.tasks) for part in request.parts)
    return Launch(
        job=1, indices=[0], attempts=[1], spec=spec, owner=Owner("u", 1, 1), queue="q",
        project="p", cluster="c", hosts=tuple((host, tasks) for _, host, tasks in rows),
        tasks_max=3, submit_at_us=0, run_limit_us=0, term_grace_us=0,
        kill_interval_us=SECOND_US, rows=rows,
    )  # fmt: skip


def run(seed: int) -> tuple[int, str]:
    rng = Random(seed)
    loop = Loop()
    ends: list[tuple[int, str]] = []
    step = SimStep(loop, Random(seed), launch(rng), 0, lambda *end: ends.append(end))
    what = rng.random()
    if what < 0.1:
        loop.after(rng.randrange(SECOND_US), step.ask_to_end, 15)
    elif what < 0.3:
        at_us = rng.randrange(SECOND_US)
        loop.at(at_us, lambda: step.suspend(suspended=True))
        loop.at(at_us + 5 * SECOND_US, lambda: step.suspend(suspended=False))
    loop.run_until(600 * SECOND_US)
    assert len(ends) == 1, f"seed {seed} does not end"
    return ends[0]


def run_all() -> None:
    for seed in range(300):
        run(seed)


def test_steps_of_all_kinds_end_as_their_relations_say():
    ends = [run(seed) for seed in range(600)]
    codes = {code for code, _ in ends}
    assert {0, 1, 2, 143} <= codes
    details = " ".join(detail for _, detail in ends)
    for words in ("restart-member", "fail-together", "cannot begin", "after 3 restarts"):
        assert words in details, words


def any_wait(self: RoleState, until: str) -> bool:
    return True


def no_failure(self: core.Step, task, code, why, now_us) -> None:
    self._let_be_over(task, core.Result.DONE)


def forgets_waits(self: core.Step, wait: Wait, now_us: int) -> str:
    return ""


relate = step_plan._relate


def relates_all_but_with(roles, numbers, relation, title) -> None:
    if relation.kind is not RelationKind.WITH:
        relate(roles, numbers, relation, title)


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "words"),
    [
        (RoleState, "meets", any_wait, "began before"),
        (core.Step, "_fail", no_failure, "and the job well"),
        (step_plan, "_relate", relates_all_but_with, "did not begin together"),
    ],
)
def test_the_books_find_a_machine_that_is_wrong(owner, name, wrong, words, monkeypatch):
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((StepError, AssertionError), match=words):
        run_all()


def test_a_machine_that_waits_in_vain_is_found_too(monkeypatch):
    monkeypatch.setattr(core.Step, "_vain", forgets_waits)
    monkeypatch.setattr(core.Step, "_late", lambda _: ())
    with pytest.raises(AssertionError, match="does not end"):
        run_all()
