import pytest
from fake_api import FakeApi, run_command

from xce.cli.lsf import bbot, bjgroup, bkill, bpeek, bresume, bstop, btop
from xce.cli.lsf.control import LINES_MAX, each_label, user_name
from xce.cli.lsf.options import UsageError
from xce.cli.lsf.signals import parse_signal

ME = user_name()
ROUTE = "POST /jobs/actions"


def done(*jobs):
    return {"seq": 1, "results": [{"job": job, "jobid": 1, "text": "killed"} for job in jobs]}


def sent(module, words):
    with FakeApi({ROUTE: done("12")}) as fake:
        status, _, err = run_command(module, words, api=fake)
        assert status == 0, err
        assert "idempotency-key" in fake.requests[0].headers
        return fake.requests[0].json()


@pytest.mark.parametrize(
    ("words", "select"),
    [
        (["12", "13[1-5,7]"], {"jobs": ["12", "13[1-5,7]"]}),
        (["-q", "x", "12"], {"jobs": ["12"]}),
        ([], {"user": ME, "newest": True}),
        (["-J", "a*"], {"user": ME, "name": "a*", "newest": True}),
        (["0"], {"user": ME, "all": True}),
        (
            ["-uall", "-q", "q", "-m", "h", "0"],
            {"user": "all", "queue": "q", "host": "h", "all": True},
        ),
        (["-g", "/a/b/", "0"], {"user": ME, "group": "/a/b", "all": True}),
        (
            ["-app", "big", "-stat", "PEND"],
            {
                "user": ME,
                "app": "big",
                "state": "pend",
                "newest": True,
            },
        ),
        (["0", "12"], {"jobs": ["12"]}),
    ],
)
def test_jobs_are_selected_as_in_lsf(words, select):
    assert sent(bkill, words) == {"action": "kill", "select": select}
    assert sent(bstop, words) == {"action": "stop", "select": select}
    assert sent(bresume, words) == {"action": "resume", "select": select}


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (["-r"], {"action": "kill", "force": True}),
        (["-b"], {"action": "kill"}),
        (["-d"], {"action": "kill", "as_done": True}),
        (["-s", "USR1"], {"action": "signal", "signal": 10}),
        (["-s", "sigterm"], {"action": "signal", "signal": 15}),
        (["-s9"], {"action": "kill", "force": True}),
        (["-s", "KILL"], {"action": "kill", "force": True}),
        (["-s", "STOP"], {"action": "stop"}),
        (["-s", "SIGTSTP"], {"action": "stop"}),
        (["-s", "18"], {"action": "resume"}),
        (["-s", "34"], {"action": "signal", "signal": 34}),
    ],
)
def test_signals_are_names_or_numbers_and_job_control_is_mapped(words, action):
    assert sent(bkill, [*words, "12"]) == {**action, "select": {"jobs": ["12"]}}


@pytest.mark.parametrize("text", ["0", "65", "SIG", "NOPE", "-1", ""])
def test_unknown_signals_are_refused(text):
    with pytest.raises(UsageError, match="Signal not supported"):
        parse_signal(text)


@pytest.mark.parametrize(
    ("module", "words", "text"),
    [
        (bkill, ["12"], "Job <12> is being terminated"),
        (bkill, ["-r", "12"], "Job <12> is being terminated"),
        (bkill, ["-s", "INT", "12"], "Job <12> is being signaled"),
        (bstop, ["12"], "Job <12> is being stopped"),
        (bresume, ["12"], "Job <12> is being resumed"),
    ],
)
def test_each_job_has_its_line(module, words, text):
    routes = {ROUTE: done("12", "12[3]")}
    assert run_command(module, words, routes) == (
        0,
        f"{text}\n{text.replace('12', '12[3]', 1)}\n",
        "",
    )


def test_refused_jobs_are_told_on_stderr_and_the_status_is_255():
    results = [
        {"job": "12", "jobid": 12, "text": "killed"},
        {
            "job": "13",
            "error": {"code": "unknown-job", "text": "x", "lsf": "No matching job found"},
        },
        {
            "job": "14[2]",
            "error": {"code": "already-finished", "text": "x", "lsf": "Job has already finished"},
        },
        {"job": "15", "error": {"code": "denied", "text": "it is not yours.", "lsf": ""}},
    ]
    status, out, err = run_command(
        bkill, ["12", "13", "14[2]", "15"], {ROUTE: {"results": results}}
    )
    assert (status, out) == (255, "Job <12> is being terminated\n")
    assert err.splitlines() == [
        "Job <13>: No matching job found",
        "Job <14[2]>: Job has already finished",
        "Job <15>: it is not yours",
    ]


def test_each_job_of_a_run_has_its_line():
    run = {"job": "12", "jobid": 12, "text": "killed", "count": LINES_MAX + 2}
    results = [run, {"job": "7[1]", "jobid": 7, "text": "killed"}]
    with FakeApi({ROUTE: {"seq": 1, "results": results}}) as fake:
        status, out, err = run_command(bkill, ["0"], api=fake)
        assert fake.requests[0].headers["xce-runs"] == "1"
    assert (status, err) == (0, "")
    jobs = [*range(12, 14 + LINES_MAX), "7[1]"]
    assert out.splitlines() == [f"Job <{job}> is being terminated" for job in jobs]


def test_nothing_that_matches_is_said_without_a_job():
    error = {"code": "unknown-job", "text": "x", "lsf": "No matching job found"}
    routes = {ROUTE: {"results": [{"job": "", "error": error}]}}
    assert run_command(bkill, ["0"], routes) == (255, "", "No matching job found\n")


def test_a_lost_connection_does_not_end_a_second_newest_job():
    with FakeApi({ROUTE: OSError}) as fake:
        status, _, err = run_command(bkill, [], environ={"XCE_WAIT_DAEMON": "5"}, api=fake)
        assert len(fake.requests) == 1
    assert (status, "not known" in err) == (255, True)


def test_illegal_words_are_refused():
    assert run_command(bkill, ["abc"], {}) == (255, "", "abc: Illegal job ID.\n")
    assert run_command(bkill, ["-s", "9", "-r", "1"], {})[0] == 255
    assert run_command(bkill, ["-d", "-r", "1"], {})[0] == 255
    wrong_state = run_command(bkill, ["-stat", "done", "0"], {})
    assert wrong_state == (255, "", "-stat done: one of pend, run, susp.\n")
    assert "USR1 SEGV USR2" in run_command(bkill, ["-l"], {})[1]


def peek(words, row, output=None, errors=None, **more):
    def answer(request):
        text = {"stdout": output, "stderr": errors}[request.query["stream"]]
        if text is None:
            return (404, {}, {"detail": "none"})
        if request.query.get("follow"):
            size = f"{len(text):x}".encode()
            return (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                + size
                + b"\r\n"
                + text
                + b"\r\n0\r\n\r\n"
            )
        offset, limit = int(request.query["offset"]), int(request.query["limit"])
        return (200, {"XCE-Size": len(text)}, text[offset : offset + min(limit, 4)])

    routes = {"GET /jobs/12": row, "GET /jobs/12/output": answer, **more}
    return run_command(bpeek, words, routes)


RUN = {"jobid": 12, "index": 0, "stat": "RUN", "output": "", "error": ""}


def test_output_so_far_is_shown_under_its_headings():
    assert peek(["12"], RUN, b"hello world\n") == (0, "<< output from stdout >>\nhello world\n", "")
    both = peek(["12"], RUN, b"out\n", b"err\n")
    assert both[1] == "<< output from stdout >>\nout\n<< output from stderr >>\nerr\n"
    assert peek(["12[3]"], {**RUN, "index": 3}, b"x\n")[1] == "<< output from stdout >>\nx\n"


def test_following_passes_the_stream_on():
    assert peek(["-f", "12"], RUN, b"hello\n")[:2] == (0, "<< output from stdout >>\nhello\n")


def test_without_output_there_is_a_word_about_it():
    assert peek(["12"], RUN, b"", b"") == (0, "", "No output so far\n")
    assert peek(["12"], RUN) == (0, "", "No output so far\n")
    assert peek(["12"], {**RUN, "stat": "PEND"}) == (255, "", "Job <12> : Not yet started.\n")
    status, _, err = peek(["12"], {**RUN, "stat": "DONE"})
    assert (status, err.startswith("Job <12> : Job has already finished")) == (255, True)


def test_unknown_jobs_and_whole_arrays_are_refused():
    assert peek(["99"], RUN) == (255, "", "No matching job found\n")
    assert "say which element" in peek(["12"], {"jobid": 12, "elements": {"run": 2}})[2]
    assert "one element at a time" in peek(["12[1-2]"], RUN)[2]
    assert peek(["12", "13"], RUN)[0] == 255


def test_the_newest_running_job_is_taken_else_a_pending_one():
    rows = [{**RUN, "jobid": 5}, RUN]
    listing = {"jobs": rows, "next": None}
    assert peek([], RUN, b"x\n", **{"GET /jobs": listing})[1] == "<< output from stdout >>\nx\n"

    def pending(request):
        jobs = [{**RUN, "stat": "PEND"}] if "pend" in request.query["state"] else []
        return {"jobs": jobs, "next": None}

    assert peek(["-J", "a"], RUN, **{"GET /jobs": pending})[2] == "Job <12> : Not yet started.\n"
    assert (
        peek([], RUN, **{"GET /jobs": {"jobs": [], "next": None}})[2] == "No matching job found\n"
    )


def test_each_element_of_a_run_is_told_on_a_line_of_its_own():
    with FakeApi({ROUTE: done("12[3-5]", "13", "14[1-10001]")}) as fake:
        status, out, _ = run_command(bkill, ["12[3-5]", "13", "14"], api=fake)
    assert status == 0
    assert [line.split("<")[1].split(">")[0] for line in out.splitlines()] == [
        "12[3]", "12[4]", "12[5]", "13", "14[1-10001]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "words", "action", "text"),
    [
        (btop, ["12"], ("top", 1), "Job <12> has been moved to position 1 from top."),
        (btop, ["12", "3"], ("top", 3), "Job <12> has been moved to position 3 from top."),
        (bbot, ["12"], ("bottom", 1), "Job <12> has been moved to position 1 from bottom."),
    ],
)
def test_a_job_is_moved(module, words, action, text):
    result = {"job": "12", "jobid": 12, "text": "moved", "position": action[1]}
    with FakeApi({ROUTE: {"seq": 1, "results": [result]}}) as fake:
        status, out, _ = run_command(module, words, api=fake)
        assert (status, out) == (0, f"{text}\n")
        select = {"jobs": ["12"]}
        assert fake.requests[0].json() == {
            "action": action[0],
            "position": action[1],
            "select": select,
        }


def test_a_job_that_cannot_be_moved_is_told_in_the_words_of_lsf():
    text = "Can only move to top under FAIRSHARE or HOST PARTITION policy"
    result = {"job": "12", "error": {"code": "wrong-state", "text": "x", "lsf": text}}
    with FakeApi({ROUTE: {"seq": 1, "results": [result]}}) as fake:
        status, out, err = run_command(bbot, ["12"], api=fake)
    assert (status, out, err) == (255, "", f"Job <12>: {text}\n")


@pytest.mark.parametrize("words", [[], ["12", "0"], ["12", "x"], ["12", "1", "2"], ["job"]])
def test_a_move_needs_a_job_and_a_position(words):
    with FakeApi({}) as fake:
        assert run_command(btop, words, api=fake)[0] == 255


@pytest.mark.parametrize("label", ["12[3]", "12[3,5-7]", "12[5-7,9]", "12"])
def test_a_label_that_is_no_run_of_elements_stays_one(label):
    assert each_label(label) == [label]


def test_nothing_stands_on_stdout_where_no_group_is_there():
    load = dict.fromkeys(("pend", "run", "ssusp", "ususp", "finish"), 1)
    group = {"name": "/a", "jobs": load, "slots": load, "used": 1, "limit": None, "owner": "ann"}
    routes = {"GET /jobgroups": {"groups": [group]}}
    told = "/b: Job group does not exist.\n"
    assert run_command(bjgroup, ["/b"], routes) == (255, "", told)
    status, out, err = run_command(bjgroup, ["/a", "/b"], routes)
    assert (status, len(out.splitlines()), err) == (255, 2, told)
