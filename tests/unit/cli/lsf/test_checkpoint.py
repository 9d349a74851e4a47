"""``bsub -k``, ``bchkpnt`` and ``brestart``: what they send, keep, find and say."""

import json
import os
import subprocess

import pytest
from fake_api import FakeApi, run_command

from xce.cli.lsf import bchkpnt, bmod, brestart, bsub
from xce.cli.lsf.checkpoint import SUBMISSION, parse_checkpoints
from xce.cli.lsf.values import BadValueError
from xce.step.file_copy import place_of

ACCEPTED = {
    "seq": 8,
    "results": [{"jobid": 12, "queue": "normal", "default_queue": True, "warning": ""}],
}


def run(command, words, *, answer=ACCEPTED, route="POST /jobs", environ=None):
    """Run a command; return status, stdout, stderr and the body of the last request sent."""
    with FakeApi({route: answer, "GET /cluster": {}}) as fake:
        status, out, err = run_command(command, words, api=fake, environ=environ)
        sent = [request.json() for request in fake.requests if request.method == "POST"]
    return status, out, err, sent[-1] if sent else None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ck", {"directory": "/w/ck"}),
        ("/a/b/ 10", {"directory": "/a/b", "period_s": 600}),
        ("ck init=5 1.5 method=my_one",
         {"directory": "/w/ck", "first_s": 300, "period_s": 90, "method": "my_one"}),
        ("ck method=m", {"directory": "/w/ck", "method": "m"}),
    ],
)  # fmt: skip
def test_k_is_a_directory_periods_and_a_method(text, found):
    if "first_s" not in found:
        assert parse_checkpoints(text, "/w", {}) == found
    else:
        with pytest.raises(BadValueError, match="init belongs to a period"):
            parse_checkpoints("ck init=5", "/w", {})
        assert parse_checkpoints("ck 1.5 init=5 method=my_one", "/w", {}) == found


def test_the_method_may_stand_in_the_environment():
    environ = {"LSB_ECHKPNT_METHOD": "mine"}
    assert parse_checkpoints("/ck", "/", environ)["method"] == "mine"
    assert parse_checkpoints("/ck method=m", "/", environ)["method"] == "m"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" ", "Bad checkpoint directory: -k names none"),
        ("ck 0", "Bad checkpoint period"),
        ("ck 5 6", "Bad checkpoint period"),
        ("ck 1:30", "Bad checkpoint period"),
        ("ck init=x 5", "Bad checkpoint period"),
        ("ck every=5", "Bad checkpoint period"),
        ("ck method=../x", "Bad checkpoint method"),
        ("ck method=", ""),
    ],
)
def test_other_texts_are_refused(text, said):
    if not said:
        assert "method" not in parse_checkpoints(text, "/", {})
        return
    with pytest.raises(BadValueError, match=said):
        parse_checkpoints(text, "/", {})


def test_what_was_submitted_is_kept_beside_the_checkpoints_for_its_owner(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err, sent = run(bsub, ["-k", "ck 5", "-J", "n", "sleep", "9"])
    assert (status, err) == (0, "")
    assert sent["checkpoints"] == {"directory": f"{tmp_path}/ck", "period_s": 300}
    path = tmp_path / "ck" / "12" / SUBMISSION
    assert json.loads(path.read_text()) == {**sent, "queue": "normal"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_was_submitted_is_not_written_where_somebody_else_reads_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck" / "12").symlink_to(tmp_path / "theirs")
    said = f"Warning: brestart will not find this job: {tmp_path}/ck/12: it is no directory of "
    status, _, err, _ = run(bsub, ["-k", "ck 5", "sleep", "9"])
    assert (status, err) == (0, f"{said}yours.\n")
    (tmp_path / "ck" / "12").unlink()
    (tmp_path / "ck" / "12").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert run(bsub, ["-k", "ck 5", "sleep", "9"])[2] == f"{said}yours.\n"
    assert not list((tmp_path / "theirs").iterdir())
    assert not list((tmp_path / "ck" / "12").iterdir())


def test_nothing_that_somebody_else_has_written_is_restarted(tmp_path, monkeypatch):
    submitted(tmp_path, monkeypatch, "sleep", "9")
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        status, _, err, sent = restart("ck", "12")
    assert (status, sent) == (255, None)
    assert "it is no directory of yours. Job not submitted." in err
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "echkpnt.out").touch()
    (tmp_path / "ck" / "12[1]").symlink_to(tmp_path / "theirs")
    status, _, err, sent = restart("ck", "12[1]")
    assert (status, sent) == (255, None)
    assert "it is no directory of yours. Job not submitted." in err


def test_a_directory_that_cannot_be_made_is_told_before_anything_is_sent(tmp_path):
    (tmp_path / "file").touch()
    status, _, err, sent = run(bsub, ["-k", f"{tmp_path}/file/ck", "true"])
    assert (status, sent) == (255, None)
    assert err.startswith(f"Bad checkpoint directory: -k {tmp_path}/file/ck: ")


def change(*words, found, result=None):
    """Run ``bmod``; return status, stdout, stderr and what was sent."""
    answer = {"seq": 1, "results": [result or {"job": "12", "jobid": 12, "text": "modified"}]}
    routes = {"POST /jobs/actions": answer, "GET /jobs/12": {"checkpoints": found}}
    with FakeApi(routes) as fake:
        told = run_command(bmod, [*words, "12"], api=fake)
        sent = [request.json() for request in fake.requests if request.method == "POST"]
    return (*told, sent[-1]["change"] if sent else None)


def test_bmod_takes_what_brestart_needs_to_where_checkpoints_will_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = run(bsub, ["-k", "ck 5", "sleep", "9"])[3]
    wanted = {"directory": f"{tmp_path}/new", "period_s": 600, "method": "m"}
    found = change("-k", "new 10 method=m", found=before["checkpoints"])
    assert found == (
        0, "Parameters of job <12> are being changed\n", "", {"checkpoints": wanted}
    )  # fmt: skip
    kept = json.loads((tmp_path / "new" / "12" / SUBMISSION).read_text())
    assert kept == {**before, "checkpoints": wanted, "queue": "normal"}
    refused = {"job": "12", "error": {"code": "c", "text": "it has started", "lsf": ""}}
    assert change("-k", "late", found=wanted, result=refused)[0] == 255
    assert not (tmp_path / "late" / "12").exists()
    assert change("-kn", found=wanted)[3] == {"unset": ["checkpoints"]}


def test_bmod_makes_no_job_checkpointable_of_which_nothing_was_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err, sent = change("-k", "ck", found=None)
    assert (status, sent, (tmp_path / "ck").exists()) == (255, None, False)
    assert "Job <12> is not checkpointable: it was submitted without -k" in err
    status, _, err, sent = change("-k", "ck", found={"directory": f"{tmp_path}/none"})
    assert (status, sent) == (255, None)
    assert f"{tmp_path}/none/12/{SUBMISSION}: No such file" in err


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (["12"], {}),
        (["-k", "12"], {"end": True}),
        (["-kf", "12"], {"end": True, "force": True}),
    ],
)
def test_bchkpnt_asks_for_checkpoints(words, action):
    answer = {"seq": 1, "results": [{"job": "12", "jobid": 12, "text": "checkpointed"}]}
    found = run(bchkpnt, words, answer=answer, route="POST /jobs/actions")
    assert found[:3] == (0, "Job <12> is being checkpointed\n", "")
    assert found[3] == {"action": "checkpoint", "select": {"jobs": ["12"]}, **action}


def test_bchkpnt_sets_the_period_before_it_asks():
    answer = {"seq": 1, "results": [{"job": "12", "jobid": 12, "text": "x"}]}
    with FakeApi({"POST /jobs/actions": answer}) as fake:
        found = run_command(bchkpnt, ["-p", "10", "12"], api=fake)
        first, second = [request.json() for request in fake.requests]
    assert found == (0, "Job <12> is being checkpointed\n", "")
    assert (first["action"], first["change"]) == ("modify", {"checkpoint_period_s": 600})
    assert second == {"action": "checkpoint", "select": {"jobs": ["12"]}}


def test_a_period_that_cannot_be_set_is_told_and_nothing_is_asked():
    error = {"code": "bad-request", "text": "t", "lsf": "Job is not checkpointable"}
    answer = {"seq": 1, "results": [{"job": "12", "error": error}]}
    with FakeApi({"POST /jobs/actions": answer}) as fake:
        found = run_command(bchkpnt, ["-p", "0", "12"], api=fake)
        assert len(fake.requests) == 1
    assert found == (255, "", "Job <12>: Job is not checkpointable\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-p", "1:30", "12"], "-p 1:30: expected minutes, or 0"),
        (["-p", "5"], "-p is for jobs that are named by their ID"),
        (["-p", "5", "0"], "-p is for jobs that are named by their ID"),
        (["-p", "5", "x"], "x: Illegal job ID"),
    ],
)
def test_a_period_is_minutes_of_jobs_that_are_named(words, text):
    status, _, err, sent = run(bchkpnt, words, route="POST /jobs/actions")
    assert (status, sent) == (255, None)
    assert err.startswith(f"bchkpnt: {text}")


def submitted(tmp_path, monkeypatch, *words, job="12"):
    """Submit a job that has written a checkpoint since."""
    monkeypatch.chdir(tmp_path)
    assert run(bsub, ["-k", "ck 5 method=m", *words])[0] == 0
    folder = tmp_path / "ck" / job
    folder.mkdir(exist_ok=True)
    (folder / "echkpnt.out").touch()


def restart(*words):
    answer = {"seq": 9, "results": [{**ACCEPTED["results"][0], "jobid": 13, "queue": "night"}]}
    return run(brestart, words, answer=answer)


def test_a_restarted_job_is_as_it_was_but_for_what_it_runs(tmp_path, monkeypatch):
    words = ["-J", "n", "-n", "2", "-w", "done(3)", "-H", "-env", "A=1", "echo", "it's"]
    submitted(tmp_path, monkeypatch, *words)
    status, out, err, sent = restart("-q", "night", "-W", "5", "ck", "12")
    assert (status, out, err) == (0, "Job <13> is submitted to queue <night>.\n", "")
    assert (sent["name"], sent["tasks"], sent["env"]) == ("n", [2, 2], ["A=1"])
    assert (sent["queue"], sent["run_limit_s"]) == ("night", 300)
    assert sent["checkpoints"]["directory"] == f"{tmp_path}/ck"
    assert not sent.keys() & {"dependency", "hold", "command"}
    assert sent["script_name"] == "echo it's"
    kept = json.loads((tmp_path / "ck" / "13" / SUBMISSION).read_text())
    assert (kept["command"], kept["queue"]) == ("echo it's", "night")
    assert kept.keys().isdisjoint({"script", "script_name"})


def played(tmp_path, script, program):
    """Run what a restarted job runs, with this as its erestart program."""
    path = tmp_path / "erestart.m"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    env = {
        "PATH": os.environ["PATH"], "LSB_ECHKPNT_METHOD": "m", "LSB_CHKPNT_DIR": "of the new job",
        "LSB_ECHKPNT_METHOD_DIR": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


LEAVE = 'echo "LSB_RESTART_CMD=$LSB_ERESTART_USRCMD; echo $LSB_RESTART $LSB_OLD_JOBID" '


def test_it_runs_what_its_erestart_program_says(tmp_path, monkeypatch):
    submitted(tmp_path, monkeypatch, "echo it && echo", "'b  c'")
    script = restart("ck", "12")[3]["script"]
    folder = f"{tmp_path}/ck/12"
    found = played(tmp_path, script, f'[ "$LSB_CHKPNT_DIR" = "$1" ] && {LEAVE} > "$1/.restart_cmd"')
    assert found == (0, "it\nb  c\nY 12\n", "")
    assert played(tmp_path, script, "exit 3")[::2] == (
        1, f"brestart: {tmp_path}/erestart.m has failed\n",
    )  # fmt: skip
    code, _, err = played(tmp_path, script, "true")
    assert (code, err) == (
        1, f"brestart: {tmp_path}/erestart.m has left no LSB_RESTART_CMD in {folder}/.restart_cmd\n"
    )  # fmt: skip


def test_a_script_is_kept_for_it(tmp_path, monkeypatch):
    script = tmp_path / "job.sh"
    script.write_text("#BSUB -J x\necho got $1\n")
    submitted(tmp_path, monkeypatch, str(script), "a b")
    text = restart("-f", "ck", "12")[3]["script"]
    found = played(tmp_path, text, f'[ "$1" = -f ] && {LEAVE} > "$2/.restart_cmd"')
    assert found == (0, "got a b\nY 12\n", "")


def test_an_element_goes_on_as_a_job(tmp_path, monkeypatch):
    submitted(tmp_path, monkeypatch, "-J", "a[1-3]", "true", job="12[2]")
    status, _, _, sent = restart("ck", "12[2]")
    assert (status, "array" in sent) == (0, False)
    assert f"directory='{tmp_path}/ck/12[2]'" in sent["script"]
    assert restart("ck", "12")[2].startswith("Job <12> is an array: name an element")


def test_the_files_of_an_element_are_still_its_own(tmp_path, monkeypatch):
    files = [
        "-i",
        "in.%I",
        "-o",
        "out.%J.%I",
        "-outdir",
        "d%EI",
        "-f",
        "%I/x > y.%I",
        "-f",
        "z < z",
    ]
    submitted(tmp_path, monkeypatch, "-J", "a[1-3]", *files, "true", job="12[2]")
    (tmp_path / "2").mkdir()
    sent = restart("ck", "12[2]")[3]
    assert (sent["input"], sent["output"], sent["output_dir"]) == ("in.2", "out.%J.2", "d2")
    assert sent["transfers"] == [
        [f"{tmp_path}/2/x", ">", "y.2", place_of(f"{tmp_path}/2/x")],
        [f"{tmp_path}/z", "<", "z", place_of(f"{tmp_path}/z")],
    ]


def test_places_are_noted_again_on_the_machine_that_has_them_and_nowhere_else(
    tmp_path, monkeypatch
):
    submitted(tmp_path, monkeypatch, "-f", "x > y", "true")
    path = tmp_path / "ck" / "12" / SUBMISSION
    kept = json.loads(path.read_text())
    kept["transfers"][0][3] = "1 another boot 1 2"
    path.write_text(json.dumps(kept))
    assert restart("ck", "12")[3]["transfers"][0][3] == place_of(f"{tmp_path}/x")
    path.write_text(json.dumps({**kept, "from_host": "elsewhere"}))
    assert restart("ck", "12")[3]["transfers"][0][3] == "1 another boot 1 2"
    kept["transfers"][0][0] = "/"
    path.write_text(json.dumps(kept))
    assert restart("ck", "12")[2].startswith("Bad file transfer: / > y: / is no file. Job not")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["ck"], "brestart: a checkpoint directory and a job ID must be specified"),
        (["ck", "99"], "Bad checkpoint directory: "),
        (["ck", "x"], "x: Illegal job ID"),
        (["ck", "12"], "Job <12>: there is no checkpoint in "),
        (["-J", "x", "ck", "12"], "brestart: -J: this option of LSF is not in XCE; it is as"),
    ],
)
def test_what_cannot_be_restarted_is_told(tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    run(bsub, ["-k", "ck", "true"])
    status, out, err, sent = restart(*words)
    assert (status, out, sent) == (255, "", None)
    assert err.startswith(text)
