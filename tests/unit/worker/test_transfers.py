"""The copies of ``bsub -f`` as steps of an attempt."""

import shlex
import subprocess

from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.worker.transfers import End, end_of, transfer_steps


def launched(*transfers, from_host=""):
    return Launch(
        job=7, indices=[3], attempts=[1],
        spec=JobSpec(cwd="/submit", transfers=transfers, from_host=from_host),
        owner=Owner("u", 1, 1), queue="q", project="p", cluster="c", hosts=(("h1", 1),),
        tasks_max=1, submit_at_us=0, run_limit_us=0, term_grace_us=0, kill_interval_us=1,
    )  # fmt: skip


def steps(*transfers, cwd="/work", makes_cwd=False):
    return transfer_steps(launched(*transfers), cwd, makes_cwd=makes_cwd)


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


def test_the_other_end_is_what_the_job_says_and_goes_its_way_only():
    transfers = (("in.%J.%I", ">", "x", "1 a"), ("/back", "<<", "out/r%I", "2 b"))
    launch = launched(*transfers, from_host="h1.site")
    assert end_of(launch, 0, "h1", is_read=True) == End(
        "before", "1 a", "/submit/in.7.3", "x", "named"
    )
    assert end_of(launch, 1, "h2", is_read=False) == End("append", "2 b", "/back", "r3", "")
    both = launched(("a", "<>", "b", "1 a"))
    assert [end_of(both, 0, "h", is_read=way).way for way in (True, False)] == ["before", "after"]
    wrong = [(0, False), (1, True), (2, True), (-1, False)]
    assert [end_of(launch, number, "h1", is_read=way) for number, way in wrong] == [None] * 4
