"""The copies of ``bsub -f`` as steps of an attempt."""

import shlex
import subprocess

from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.worker.transfers import transfer_steps


def steps(*transfers, cwd="/work", makes_cwd=False):
    launch = Launch(
        job=7, indices=[3], attempts=[1], spec=JobSpec(cwd="/submit", transfers=transfers),
        owner=Owner("u", 1, 1), queue="q", project="p", cluster="c", hosts=(("h1", 1),),
        tasks_max=1, submit_at_us=0, run_limit_us=0, term_grace_us=0, kill_interval_us=1,
    )  # fmt: skip
    return transfer_steps(launch, cwd, makes_cwd=makes_cwd)


def words(command):
    return shlex.split(command)[-4:]


def test_each_operator_copies_before_or_after_or_both():
    found = steps(*(("a", operator, "b", "1 x") for operator in (">", "<", "<<", "><", "<>")))
    assert [(kind, words(command)[0]) for kind, command, _ in found] == [
        ("pre", "before"), ("pre", "before"), ("pre", "before"),
        ("post", "after"), ("post", "append"), ("post", "after"), ("post", "after"),
    ]  # fmt: skip
    assert [origin for *_, origin in found][3:5] == ["file transfer a < b", "file transfer a << b"]


def test_local_paths_begin_at_the_submission_and_others_where_it_runs():
    ((_, command, _),) = steps(("a b", ">", "c'd", "1 nfs nas:/v /x y"))
    assert words(command) == ["before", "1 nfs nas:/v /x y", "/submit/a b", "/work/c'd"]
    ((_, command, _),) = steps(("/a", "<", "/b", "1 x"))
    assert words(command) == ["after", "1 x", "/a", "/b"]


def test_job_and_index_are_filled_in_and_nothing_else_is_for_the_shell():
    ((_, command, _),) = steps(("in.%J.%I", ">", "$HOME`x`%I%U", "1 x"))
    shown = command.replace("exec ", "printf '%s\\n' ", 1)
    out = subprocess.run(
        ["/bin/sh", "-c", shown], env={"LSB_JOBINDEX": "3"}, check=True, capture_output=True,
        text=True,
    ).stdout.splitlines()  # fmt: skip
    assert out[-2:] == ["/submit/in.7.3", "/work/$HOME`x`3%U"]


def test_a_directory_that_is_made_for_the_job_is_made_for_the_copy():
    ((_, command, _),) = steps(("a", ">", "b", "1 x"), makes_cwd=True)
    assert command.startswith("mkdir -p -- /work; exec ")


def test_the_names_of_the_directories_stay_as_they_are():
    ((_, command, _),) = steps(("/l", ">", "r.%J", "1 x"), cwd="/runs/100%Jobs/%I")
    assert words(command)[-1] == "/runs/100%Jobs/%I/r.7"
