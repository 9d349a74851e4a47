import base64
import os
import resource
import time

import pytest
from fake_api import FakeApi, run_command

from xce.cli.lsf import bsub


def accept(**members):
    result = {"jobid": 12, "queue": "normal", "default_queue": True, "warning": "", **members}
    return {"seq": 8, "results": [result]}


def refuse(code, lsf="", detail="because"):
    return (422, {}, {"code": code, "lsf": lsf, "detail": detail, "title": "t", "status": 422})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def submit(words, answer=None, *, stdin=None, environ=None, cluster=None):
    """Run bsub; return status, stdout, stderr and the requests that arrived."""
    routes = {"POST /jobs": answer or accept(), "GET /cluster": cluster or {}}
    reader = writer = None
    saved = os.dup(0)
    try:
        if stdin is not None:
            reader, writer = os.pipe()
            os.write(writer, stdin)
            os.close(writer)
            os.dup2(reader, 0)
        with FakeApi(routes) as fake:
            status, out, err = run_command(bsub, words, environ=environ, api=fake)
            return status, out, err, fake.requests
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        if reader is not None:
            os.close(reader)


def body_of(words, **options):
    status, out, err, requests = submit(words, **options)
    assert (status, err) == (0, ""), err
    assert out.startswith("Job <12> is submitted to ")
    return next(request.json() for request in requests if request.method == "POST")


@pytest.mark.usefixtures("folder")
def test_command_words_are_joined_by_blanks():
    assert body_of(["echo", "a  b", "$X", "|", "wc"])["command"] == "echo a  b $X | wc"


def test_where_it_was_submitted_is_sent(folder):
    old = os.umask(0o027)
    try:
        body = body_of(["ls"], environ={"PWD": str(folder)})
    finally:
        os.umask(old)
    assert body["cwd"] == str(folder)
    assert body["umask"] == 0o027
    assert body["home"] == "/home/u"
    assert body["from_host"] == os.uname().nodename
    assert f"PWD={folder}" in body["env"]


def test_a_link_in_the_working_directory_is_kept_as_the_shell_says_it(folder, monkeypatch):
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    monkeypatch.chdir(folder / "real")
    assert body_of(["ls"], environ={"PWD": f"{folder}/link"})["cwd"] == f"{folder}/link"
    assert body_of(["ls"], environ={"PWD": "/tmp"})["cwd"] == f"{folder}/real"


@pytest.mark.usefixtures("folder")
def test_every_option_reaches_the_request():
    words = [
        "-J", "n[1-10:2]%5", "-o", "o.%J", "-eo", "e", "-i", "in", "-q", "long", "-n",
        "2,8", "-R", "rusage[mem=1]", "-R", "span[hosts=1]", "-W", "1:30", "-We", "0.5",
        "-M", "2GB", "-w", "done(1) && ended(x)", "-m", "h1 h2+1", "-x", "-H", "-P",
        "proj", "-sp", "7", "-cwd", "sub", "-b", "2030:1:2:3:4", "-t", "2031:1:2:3:4",
        "-env", "none", "-nnodes", "2", "-L", "/bin/bash", "-G", "science", "./run",
    ]  # fmt: skip
    body = body_of(words)
    for member in ("cwd", "from_host", "home", "umask", "begin_at", "deadline_at"):
        body.pop(member)
    assert body == {
        "command": "./run",
        "name": "n",
        "array": "1-10:2%5",
        "output": "o.%J",
        "error": "e",
        "error_append": False,
        "input": "in",
        "queue": "long",
        "tasks": [2, 8],
        "nodes": 2,
        "login_shell": "/bin/bash",
        "user_group": "science",
        "resreq": ["rusage[mem=1]", "span[hosts=1]"],
        "run_limit_s": 5400,
        "estimate_s": 30,
        "mem_limit_kib": 2 * 1024 * 1024,
        "dependency": "done(1) && ended(x)",
        "hosts": "h1 h2+1",
        "exclusive": True,
        "hold": True,
        "project": "proj",
        "priority": 7,
        "cwd_given": "sub",
        "env": [],
    }


@pytest.mark.usefixtures("folder")
def test_a_script_on_stdin_brings_its_directives():
    text = b"#!/bin/sh\n#BSUB -J fromscript -q slow # c\n#BSUB -n 3\n#BSUB -o a\necho hi\n"
    body = body_of(["-q", "fast", "-oo", "b"], stdin=text)
    assert body["script"] == text.decode()
    assert (body["name"], body["queue"], body["tasks"]) == ("fromscript", "fast", [3, 3])
    assert (body["output"], body["output_append"]) == ("b", False)


@pytest.mark.usefixtures("folder")
def test_resource_requests_of_the_line_replace_those_of_the_script():
    text = b"#BSUB -R 'rusage[mem=1]'\n#BSUB -R 'span[hosts=1]'\nls\n"
    assert body_of([], stdin=text)["resreq"] == ["rusage[mem=1]", "span[hosts=1]"]
    assert body_of(["-R", "gpu"], stdin=text)["resreq"] == ["gpu"]


def test_a_named_script_with_directives_is_kept_at_submission(folder):
    (folder / "job.sh").write_text("#BSUB -J named\necho $1\n")
    body = body_of(["-n", "2", "job.sh", "a b", "c"], cluster={"parse_script": True})
    assert (body["script"], body["script_name"]) == ("#BSUB -J named\necho $1\n", "job.sh")
    assert (body["args"], body["name"], body["tasks"]) == (["a b", "c"], "named", [2, 2])
    assert "command" not in body


def test_a_named_script_is_a_command_where_the_cluster_says_so(folder):
    (folder / "job.sh").write_text("#BSUB -J named\necho\n")
    for options in (
        {"cluster": {"parse_script": False}},
        {"environ": {"LSB_BSUB_PARSE_SCRIPT": "N"}},
    ):
        body = body_of(["job.sh", "a"], **options)
        assert body["command"] == "job.sh a"
        assert "name" not in body


@pytest.mark.parametrize("content", [b"\x7fELF\0#BSUB -J x\n", b"echo\n", b"  #BSUB -J x\n", b""])
def test_a_file_without_directives_is_a_command_and_costs_no_request(folder, content):
    (folder / "prog").write_bytes(content)
    _, _, _, requests = submit(["prog"])
    assert [request.path for request in requests] == ["/jobs"]
    assert requests[0].json()["command"] == "prog"


def test_a_directory_named_first_is_a_command(folder):
    (folder / "dir").mkdir()
    assert body_of(["dir"])["command"] == "dir"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("stdin", [b"", b"\n \n"])
def test_an_empty_script_is_refused(stdin):
    status, out, err, requests = submit([], stdin=stdin)
    assert (status, out, err) == (255, "", "Empty job. Job not submitted.\n")
    assert requests == []


@pytest.mark.usefixtures("folder")
def test_an_empty_command_is_refused():
    assert submit([""])[:3] == (255, "", "Empty job. Job not submitted.\n")


@pytest.mark.usefixtures("folder")
def test_a_binary_on_stdin_is_refused():
    status, _, err, requests = submit([], stdin=b"\x7fELF\0\0")
    assert (status, requests) == (255, [])
    assert "NUL bytes" in err
    assert err.endswith("Job not submitted.\n")


@pytest.mark.usefixtures("folder")
def test_a_script_with_crlf_runs_with_lf_and_says_so():
    status, _, err, requests = submit([], stdin=b"#!/bin/sh\r\n#BSUB -J w\r\necho\r\n")
    assert status == 0
    assert err.startswith("Warning: the script's line ends were CRLF")
    assert requests[0].json()["script"] == "#!/bin/sh\n#BSUB -J w\necho\n"
    assert requests[0].json()["name"] == "w"


@pytest.mark.usefixtures("folder")
def test_a_script_that_is_not_utf8_is_sent_as_bytes():
    body = body_of([], stdin=b"#BSUB -J latin\necho \xe9\n")
    assert base64.b64decode(body["script_data"]) == b"#BSUB -J latin\necho \xe9\n"
    assert "script" not in body
    assert body["name"] == "latin"


@pytest.mark.usefixtures("folder")
def test_variables_that_are_not_utf8_are_left_out_and_named():
    status, _, err, requests = submit(["ls"], environ={"BAD": "\udce9", "GOOD": "é"})
    assert status == 0
    assert err == "Warning: not given to the job, since not valid UTF-8: BAD.\n"
    assert "GOOD=é" in requests[0].json()["env"]
    status, _, err, requests = submit(["-J", "\udce9", "ls"])
    assert (status, requests) == (255, [])
    assert err == "Its name is not valid UTF-8. Job not submitted.\n"


def test_input_is_spooled_with_is(folder):
    (folder / "in").write_bytes(b"\0\xff")
    body = body_of(["-is", "in", "cat"])
    assert (base64.b64decode(body["input_data"]), body["input"]) == (b"\0\xff", "in")
    status, _, err, _ = submit(["-is", "none", "cat"])
    assert status == 255
    assert err == "Bad input file: -is none: No such file or directory. Job not submitted.\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("unit", "environ", "kib"),
    [
        ("MB", {}, 512_000),
        ("KB", {}, 500),
        ("classic", {}, 500),
        ("GB", {}, 524_288_000),
        ("MB", {"LSF_UNIT_FOR_LIMITS": "KB"}, 500),
        ("KB", {"LSF_UNIT_FOR_LIMITS": "gb"}, 524_288_000),
    ],
)
def test_a_bare_memory_limit_has_the_clusters_unit_or_the_environments(unit, environ, kib):
    body = body_of(["-M", "500", "ls"], environ=environ, cluster={"unit_for_limits": unit})
    assert body["mem_limit_kib"] == kib


@pytest.mark.usefixtures("folder")
def test_a_written_unit_costs_no_request_and_a_wrong_variable_is_refused():
    assert len(submit(["-M", "500MB", "ls"])[3]) == 1
    status, _, err, _ = submit(["-M", "5", "ls"], environ={"LSF_UNIT_FOR_LIMITS": "MiB"})
    assert status == 255
    assert "allowed are KB, MB, GB, TB and classic" in err


@pytest.mark.usefixtures("folder")
def test_the_unit_of_the_environment_goes_with_a_resource_request():
    body = body_of(["-R", "rusage[mem=5]", "ls"], environ={"LSF_UNIT_FOR_LIMITS": "GB"})
    assert body["unit_for_limits"] == "GB"
    assert "unit_for_limits" not in body_of(["-R", "rusage[mem=5]", "ls"])


@pytest.mark.usefixtures("folder")
def test_defaults_come_from_the_environment():
    environ = {
        "LSB_DEFAULTQUEUE": "q1",
        "LSB_DEFAULTPROJECT": "p",
        "LSB_DEFAULT_RESREQ": "r",
        "LSB_JOB_CWD": "/w",
    }
    status, out, _, requests = submit(["ls"], accept(queue="q1"), environ=environ)
    body = requests[0].json()
    assert status == 0
    assert (body["queue"], body["project"], body["resreq"], body["cwd_given"]) == (
        "q1",
        "p",
        ["r"],
        "/w",
    )
    assert out == "Job <12> is submitted to default queue <q1>.\n"


@pytest.mark.usefixtures("folder")
def test_the_line_tells_a_named_queue_from_the_default_one():
    assert submit(["ls"])[1] == "Job <12> is submitted to default queue <normal>.\n"
    assert submit(["-q", "normal", "ls"])[1] == "Job <12> is submitted to queue <normal>.\n"
    script = submit([], stdin=b"#BSUB -q normal\nls\n")
    assert script[1] == "Job <12> is submitted to queue <normal>.\n"
    assert submit(["ls"], environ={"BSUB_QUIET": "1"})[:3] == (0, "", "")


@pytest.mark.usefixtures("folder")
def test_warnings_go_to_stderr():
    answer = accept(warning="it needs 99 slots and the cluster has 64")
    status, out, err, _ = submit(["ls"], answer)
    assert (status, out) == (0, "Job <12> is submitted to default queue <normal>.\n")
    assert err == "Warning: it needs 99 slots and the cluster has 64.\n"


@pytest.mark.usefixtures("folder")
def test_queues_are_tried_in_order():
    answers = iter([refuse("unknown-queue", "No such queue"), accept(queue="b")])
    status, out, _, requests = submit(["-q", "a b", "ls"], lambda _: next(answers))
    assert (status, out) == (0, "Job <12> is submitted to queue <b>.\n")
    assert [request.json()["queue"] for request in requests] == ["a", "b"]
    keys = {request.headers["idempotency-key"] for request in requests}
    assert len(keys) == 2


@pytest.mark.usefixtures("folder")
def test_refusals_are_said_in_lsfs_words_or_else_in_ours():
    for answer, text in (
        (
            refuse("unknown-queue", "No such queue"),
            "No such queue. Job not submitted.\n  because.\n",
        ),
        (
            refuse("not-built", "", "compound requests are not built yet."),
            "compound requests are not built yet. Job not submitted.\n",
        ),
        (
            {
                "seq": 1,
                "results": [{"error": {"code": "x", "lsf": "Bad y", "detail": "d", "column": 7}}],
            },
            "Bad y. Job not submitted.\n  d (column 7).\n",
        ),
    ):
        assert submit(["ls"], answer)[:3] == (255, "", text)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-n", "0", "ls"], "Bad number of tasks: -n 0"),
        (["-n", "5,2", "ls"], "Bad number of tasks: -n 5,2"),
        (["-L", "bash", "ls"], "Bad login shell: -L bash: expected an absolute path"),
        (["-L", "/bin/csh", "ls"], "Bad login shell: -L /bin/csh: login files are read by"),
        (["-nnodes", "two", "ls"], "-nnodes two: expected a whole number from 1"),
        (["-W", "1:30:00", "ls"], "Bad RUNLIMIT specification: -W 1:30:00"),
        (["-o", "a", "-oo", "b", "ls"], "-o and -oo cannot be used together"),
        (["-sp", "0", "ls"], "Bad user priority"),
        (["-J", "", "ls"], "Bad job name"),
        (["-o", "", "ls"], "Bad file name: -o"),
    ],
)
def test_values_that_cannot_be_taken_are_refused_before_sending(words, text):
    status, out, err, requests = submit(words)
    assert (status, out, requests) == (255, "", [])
    assert err.startswith(text)
    assert err.endswith(". Job not submitted.\n")


@pytest.mark.usefixtures("folder")
def test_a_bad_directive_is_refused_and_named():
    status, _, err, requests = submit([], stdin=b"#!/bin/sh\n#BSUB -J 'a\nls\n")
    assert (status, requests) == (255, [])
    assert err.startswith('Line 2 of the script, "#BSUB -J \'a"')
    assert submit([], stdin=b"#BSUB -h\nls\n")[2].startswith("-h does not stand in a script")


@pytest.mark.usefixtures("folder")
def test_quotes_left_around_a_condition_are_taken_off():
    assert body_of(["-w", '"done(12)"', "ls"])["dependency"] == "done(12)"
    assert body_of(["-w", '"a b"', "ls"])["dependency"] == '"a b"'
    assert body_of(["-w", 'done("a") && done("b")', "ls"])["dependency"] == 'done("a") && done("b")'


@pytest.mark.usefixtures("folder")
def test_a_lost_connection_repeats_the_submit_under_one_key():
    answers = iter([OSError, accept()])
    routes = {"POST /jobs": lambda _: next(answers)}
    with FakeApi(routes) as fake:
        status, out, _ = run_command(bsub, ["ls"], environ={"XCE_WAIT_DAEMON": "10"}, api=fake)
        keys = [request.headers["idempotency-key"] for request in fake.requests]
    assert status == 0
    assert out.count("Job <12>") == 1
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert abs(int(keys[0].partition("-")[0]) - time.time()) < 60


@pytest.mark.usefixtures("folder")
def test_an_unreachable_cluster_is_told_and_exits_255(tmp_path):
    environ = {"XCE_API_SOCKET": f"{tmp_path}/none.sock", "XCE_WAIT_DAEMON": "0"}
    status, out, err = run_command(bsub, ["ls"], {}, environ)
    assert (status, out) == (255, "")
    assert "Cannot connect to XCE at" in err
    status, _, err = run_command(bsub, ["--wait-daemon", "soon", "ls"], {}, environ)
    assert (status, "--wait-daemon soon" in err) == (255, True)


ENDS = [
    ({"stat": "DONE", "start_at": 1.0, "exit_code": 0}, 0),
    ({"stat": "EXIT", "start_at": 1.0, "exit_code": 42}, 42),
    ({"stat": "EXIT", "start_at": 1.0, "exit_code": None, "signal": 9}, 137),
    ({"stat": "EXIT", "start_at": None, "exit_code": None, "signal": None}, 126),
    ({"stat": "EXIT", "start_at": 1.0, "exit_code": None, "signal": None}, 255),
    ({"elements": {"exit": 0, "done": 3}}, 0),
    ({"elements": {"exit": 1, "done": 2}}, 1),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("row", "code"), ENDS)
def test_waiting_ends_with_the_jobs_exit_code(row, code):
    answers = iter([(204, {}, None), {"jobid": 12, "hosts": [["h1", 1]], **row}])
    routes = {"POST /jobs": accept(), "GET /jobs/12/wait": lambda _: next(answers)}
    status, out, err = run_command(bsub, ["-K", "ls"], routes)
    assert (status, out) == (code, "Job <12> is submitted to default queue <normal>.\n")
    assert err == "<<Waiting for dispatch ...>>\n<<Job is finished>>\n"


@pytest.mark.usefixtures("folder")
def test_waiting_names_host_and_job_where_asked():
    row = {"jobid": 12, "hosts": [["h1", 1]], "stat": "RUN", "start_at": 1.0}
    done = {**row, "stat": "DONE", "exit_code": 0}
    answers = iter([(204, {}, None), (204, {}, None), done])
    rows = iter([{**row, "hosts": []}, row])
    routes = {
        "POST /jobs": accept(),
        "GET /jobs/12/wait": lambda _: next(answers),
        "GET /jobs/12": lambda _: next(rows),
    }
    environ = {"LSB_SUBK_SHOW_EXEC_HOST": "1", "LSB_SUBK_SHOW_JOBID": "1"}
    status, _, err = run_command(bsub, ["-K", "ls"], routes, environ)
    assert status == 0
    assert err == "<<Waiting for dispatch ...>>\n<<Starting on h1>>\n<<Job 12 is finished>>\n"


def test_help_and_version_go_to_stderr():
    status, out, err = run_command(bsub, ["-h"], {})
    assert (status, out) == (0, "")
    assert err.startswith("Usage: bsub [options] command")
    assert run_command(bsub, ["-V"], {})[:2] == (0, "")


def planned(**members):
    return {
        "accepted": True, "error": None, "queue": "q2", "default_queue": False, "warning": "",
        "starts_now": True, "hosts": [["h1", 2]], "advice": None, **members,
    }  # fmt: skip


def plan(words, answers):
    """Run bsub against answers to plans, one for each try; return what came and what was asked."""
    left = list(answers)
    with FakeApi({"POST /plan": lambda _: left.pop(0)}) as fake:
        return *run_command(bsub, words, api=fake), [one.json() for one in fake.requests]


@pytest.mark.usefixtures("folder")
def test_a_plan_tries_the_queues_in_order_and_submits_nothing():
    refused = {"code": "denied", "lsf": "q1: User cannot use the queue", "detail": "not you"}
    answers = [planned(accepted=False, error=refused), planned(warning="it is large")]
    status, out, err, asked = plan(["--plan", "-q", "q1 q2", "-n", "2", "a"], answers)
    assert status == 0
    assert out == "The job would be taken by queue q2 and start at once on h1*2.\n"
    assert err == "Warning: it is large.\n"
    assert [(body["queue"], body["tasks"]) for body in asked] == [("q1", [2, 2]), ("q2", [2, 2])]
    status, out, err, _ = plan(["--plan", "-q", "q1", "a"], answers[:1])
    assert (status, out) == (255, "")
    assert err == "q1: User cannot use the queue. Job not submitted.\n  not you.\n"


@pytest.mark.usefixtures("folder")
def test_a_plan_is_not_waited_for_and_stands_in_no_script():
    status, _, err, _ = plan(["--plan", "-K", "a"], [])
    assert (status, err) == (255, "-K has no meaning with --plan. Job not submitted.\n")
    status, _, err, _ = submit([], stdin=b"#BSUB --plan\ntrue\n")
    assert (status, err) == (255, "--plan does not stand in a script. Job not submitted.\n")


@pytest.mark.usefixtures("folder")
def test_limits_of_processes_are_sent():
    words = ["-c", "1:30", "-v", "2GB", "-p", "4", "-T", "9", "-S", "8MB", "-D", "1GB", "-F", "5"]
    body = body_of([*words, "-C", "0", "true"])
    assert body["limits"] == {
        "cpu_limit_s": 5400, "swap_limit_kib": 2 << 20, "process_limit": 4, "thread_limit": 9,
        "stack_limit_kib": 8192, "data_limit_kib": 1 << 20, "file_limit_kib": 5 << 10,
        "core_limit_kib": 0,
    }  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_ul_sends_the_limits_of_this_process_that_are_not_given():
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    try:
        limits = body_of(["-ul", "-S", "4MB", "true"])["limits"]
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert (limits["core_limit_kib"], limits["stack_limit_kib"]) == (0, 4096)


def test_addresses_that_are_too_long_are_told_in_words(folder):
    status, out, err, requests = submit(["-N", "-u", "a" * 512, "true"])
    assert (status, out) == (255, "")
    assert "Bad mail address: -u has 512 characters; 511 are allowed. Job not submitted." in err
    assert not [one for one in requests if one.method == "POST"]
