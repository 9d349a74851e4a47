"""``bmod`` and ``bswitch``: what they send, and what they say."""

import pytest
from fake_api import FakeApi, run_command

from xce.cli.lsf import bmod, bswitch
from xce.cli.lsf.control import user_name
from xce.cli.lsf.gpu_value import parse_gpu
from xce.step.file_copy import place_of

ROUTE = "POST /jobs/actions"
ME = user_name()


def done(job, text):
    return {"seq": 1, "results": [{"job": job, "jobid": 1, "text": text, "queue": "q"}]}


def failed(job, text, lsf=""):
    return {"seq": 1, "results": [{"job": job, "error": {"code": "c", "text": text, "lsf": lsf}}]}


def changed(words):
    routes = {ROUTE: done("12", "modified"), "GET /cluster": {"unit_for_limits": "MB"}}
    with FakeApi(routes) as fake:
        status, out, err = run_command(bmod, [*words, "12"], api=fake)
        assert (status, out, err) == (0, "Parameters of job <12> are being changed\n", "")
        body = fake.requests[-1].json()
    assert (body["action"], body["select"]) == ("modify", {"jobs": ["12"]})
    return body["change"]


@pytest.mark.parametrize(
    ("words", "change"),
    [
        (["-n", "4"], {"tasks": [4, 4]}),
        (["-n2,8"], {"tasks": [2, 8]}),
        (["-R", "select[a]", "-R", "rusage[b=1]"], {"resreq": ["select[a]", "rusage[b=1]"]}),
        (["-q", "night", "-P", "p", "-m", "h1 h2"],
         {"queue": "night", "project": "p", "hosts": "h1 h2"}),
        (["-W", "1:30", "-We", "10"], {"run_limit_s": 5400, "estimate_s": 600}),
        (["-M", "2GB"], {"mem_limit_kib": 2 << 20}),
        (["-wa", "URG", "-wt", "2"], {"warning_signal": 23, "warning_s": 120}),
        (["-wa", "'save all'"], {"warning_command": "save all"}),
        (["-wa", "save"], {"warning_command": "save"}),
        (["-wan"], {"unset": ["warning_signal"]}),
        (["-E", "a b", "-Epn"], {"pre_exec": "a b", "unset": ["post_exec"]}),
        (["-Q", "5 EXCLUDE(9)"], {"requeue_codes": [5, 9], "requeue_elsewhere": [9]}),
        (["-M", "100"], {"mem_limit_kib": 100 << 10}),
        (["-w", "done(3)"], {"dependency": "done(3)"}),
        (["-b", "2099:1:2:3:4"], "begin_at"),
        (["-t", "2099:1:2:3:4"], "deadline_at"),
        (["-tn"], {"unset": ["deadline_at"]}),
        (["-Jd", "what it is", "-outdir", "out/%J"],
         {"description": "what it is", "output_dir": "out/%J"}),
        (["-B", "-N"], {"mail_start": True, "mail_done": True, "mail_exit": True}),
        (["-Bn", "-Ne"], {"mail_start": False, "mail_done": False, "mail_exit": True}),
        (["-Nn", "-u", "a@b.org"],
         {"mail_done": False, "mail_exit": False, "mail_to": "a@b.org"}),
        (["-L", "/bin/sh", "-G", "chem", "-nnodes", "2", "-ti"],
         {"login_shell": "/bin/sh", "user_group": "chem", "nodes": 2, "ends_as_orphan": True}),
        (["-c", "2", "-v", "10MB", "-p", "5", "-T", "6", "-S", "8", "-D", "1", "-F", "2G",
          "-C", "0"],
         {"limits": {
             "cpu_limit_s": 120, "swap_limit_kib": 10240, "process_limit": 5, "thread_limit": 6,
             "stack_limit_kib": 8192, "data_limit_kib": 1024, "file_limit_kib": 2 << 20,
             "core_limit_kib": 0,
         }}),
        (["-cn", "-Cn"], {"unset": ["core_limit_kib", "cpu_limit_s"]}),
        (["-gpu", "num=2"], {"gpu": parse_gpu("num=2", "M")}),
        (["-Jdn", "-outdirn", "-un", "-Ln", "-Gn", "-gpun", "-nnodesn", "-tin", "-rnn", "-eon"],
         {"unset": ["description", "ends_as_orphan", "error", "gpu", "login_shell", "mail_to",
                    "nodes", "output_dir", "rerunnable", "user_group"]}),
        (["-J", "new"], {"name": "new"}),
        (["-J", "%5"], {"array_limit": 5}),
        (["-J", "new%0"], {"name": "new", "array_limit": 0}),
        (["-o", "a", "-eo", "b"], {"output": "a", "error": "b", "error_append": False}),
        (["-i", "in", "-cwd", "/x"], {"input": "in", "cwd_given": "/x"}),
        (["-Z", "echo b"], {"command": "echo b"}),
        (["-x", "-r", "-sp", "9"], {"exclusive": True, "rerunnable": True, "priority": 9}),
        (["-rn"], {"rerunnable": False}),
        (["-fn"], {"unset": ["transfers"]}),
        (["-Wn", "-wn", "-nn", "-xn", "-in", "-isn"],
         {"unset": ["dependency", "exclusive", "input", "run_limit_s", "tasks"]}),
    ],
)  # fmt: skip
def test_options_are_what_is_changed(words, change):
    found = changed(words)
    assert found == change if isinstance(change, dict) else list(found) == [change]


def test_files_to_copy_are_those_of_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ((local, operator, remote, place),) = changed(["-f", "a << b"])["transfers"]
    assert (local, operator, remote) == (f"{tmp_path}/a", "<<", "b")
    assert place == place_of(f"{tmp_path}/a")


def test_a_script_is_read_now(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\necho hi\n")
    assert changed(["-Zs", f"{script} a 'b c'"]) == {
        "script_data": "IyEvYmluL3NoCmVjaG8gaGkK", "script_name": str(script), "args": ["a", "b c"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-n", "x", "12"], "Bad number of tasks: -n x is not min[,max]. Job not modified."),
        (["-Z", " ", "12"], "Empty job. Job not modified."),
        (["-Zs", "/nonexistent", "12"],
         "Bad command file: -Zs /nonexistent: No such file or directory. Job not modified."),
        (["-J", "a[1-2]", "12"],
         ("Job array index error: -J a[1-2]: the elements of an array stay those they are. "
         "Job not modified.")),
        (["-q", " ", "12"],
         "Queue name must be specified: -q names no queue. Job not modified."),
        (["-W", "5", "x"], "x: Illegal job ID. Job not modified."),
        (["-W", "5"], "bmod: Job ID must be specified"),
        (["-W", "5", "1", "2"], "bmod: 2: one job at a time"),
        (["12"], "bmod: there is nothing to change"),
        (["-H", "12"], "bmod: -H: this option of LSF is not in XCE; use bstop and bresume"),
        (["-J", "%x", "12"],
         "Job array index error: -J %x: no number stands behind %. Job not modified."),
        (["-J", "%", "12"],
         "Job array index error: -J %: no number stands behind %. Job not modified."),
        (["-gn", "12"], None),
        (["-K", "12"],
         ("bmod: -K: this option of LSF is not in XCE; it cannot be changed after the "
         "submission")),
    ],
)  # fmt: skip
def test_bad_words_are_refused(words, text):
    with FakeApi({}) as fake:
        status, out, err = run_command(bmod, words, api=fake)
    assert (status, out) == (255, "")
    assert text is None or err.splitlines()[0] == text


def test_a_refusal_is_told_in_lsfs_words_and_then_in_ours():
    with FakeApi({ROUTE: failed("12", "job 12 has started", "Only the following")}) as fake:
        status, out, err = run_command(bmod, ["-n", "2", "12"], api=fake)
    assert (status, out) == (255, "")
    assert err == "Only the following. Job not modified.\n  job 12 has started.\n"
    with FakeApi({ROUTE: failed("12", "name the job")}) as fake:
        status, _, err = run_command(bmod, ["-n", "2", "12[1]"], api=fake)
    assert (status, err) == (255, "name the job. Job not modified.\n")


@pytest.mark.parametrize(
    ("words", "select"),
    [
        (["q", "12", "13[1-3]"], {"jobs": ["12", "13[1-3]"]}),
        (["q"], {"user": ME, "newest": True}),
        (["-q", "old", "-u", "all", "q", "0"], {"user": "all", "queue": "old", "all": True}),
        (["-J", "a*", "-m", "h1", "q", "0"],
         {"user": ME, "name": "a*", "host": "h1", "all": True}),
    ],
)  # fmt: skip
def test_bswitch_names_the_queue_first(words, select):
    with FakeApi({ROUTE: done("12", "switched")}) as fake:
        status, out, err = run_command(bswitch, words, api=fake)
        assert (status, out, err) == (0, "Job <12> is switched to queue <q>\n", "")
        assert fake.requests[0].json() == {"action": "switch", "to_queue": "q", "select": select}


def test_bswitch_says_why_a_job_stays():
    with FakeApi({ROUTE: failed("12", "no queue is called 'q'", "q: No such queue")}) as fake:
        status, out, err = run_command(bswitch, ["q", "12"], api=fake)
    assert (status, out, err) == (255, "", "Job <12>: q: No such queue\n")
    with FakeApi({}) as fake:
        status, _, err = run_command(bswitch, [], api=fake)
    assert (status, err.splitlines()[0]) == (255, "bswitch: Queue name must be specified")
