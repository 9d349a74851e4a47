"""Which jobs ``bjobs`` takes out of what the cluster answers."""

import pytest
from fake_api import FakeApi, run_command
from job_rows import NOW, make_reason, make_row, running

from xce.cli.lsf import bjobs
from xce.cli.lsf.rows import is_eligible
from xce.model.reason import ReasonCode

NEVER_TRIED = (
    ReasonCode.HELD,
    ReasonCode.BEGIN_TIME,
    ReasonCode.DEPENDENCY,
    ReasonCode.DEPENDENCY_NEVER,
    ReasonCode.QUEUE_CLOSED,
    ReasonCode.WINDOW,
)


def listed(words, *rows):
    """Return the exit status, the ids that bjobs lists, and what it says beside."""
    answer = {"seq": 9, "now": NOW, "jobs": list(rows), "missing": [], "next": None}
    routes = {"GET /cluster": {"cluster": "lab", "hosts": 3}, "GET /jobs": answer}
    words = [*words, "-noheader", "-o", "jobid"]
    status, out, err = run_command(bjobs, words, routes)
    return status, out.split(), err


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ("mem", ["2", "3", "5"]),
        ("lic", ["3", "4"]),
        ("mem,lic", ["3"]),
        ("seats", ["4"]),
        ("lic,seats", []),
        ("nothing", []),
    ],
)
def test_a_job_is_taken_where_one_alternative_asks_for_all_resources(wanted, ids):
    rows = [
        make_row(jobid=1, rusage=[]),
        make_row(jobid=2, rusage=[["mem"]]),
        make_row(jobid=3, rusage=[["mem", "lic"]]),
        make_row(jobid=4, rusage=[["lic"], ["seats"]]),
        running(jobid=5, rusage=[["mem"], []]),
    ]
    status, found, err = listed(["-rusage", wanted], *rows)
    assert (status, found) == (0, ids)
    assert err == ("" if ids else "No unfinished job found\n")


@pytest.mark.parametrize("text", ["", "mem,", ",mem", "mem, lic", "mem lic"])
def test_rusage_takes_names_and_commas_only(text):
    status, found, err = listed(["-rusage", text], make_row(rusage=[["mem"]]))
    assert (status, found) == (255, [])
    assert f"-rusage {text}: names of resources" in err


def test_a_job_is_eligible_unless_no_session_would_try_it():
    for code in ReasonCode:
        row = make_row(reason=make_reason("x", code=code.value))
        assert is_eligible(row) == (code not in NEVER_TRIED), code
    assert is_eligible(make_row())
    assert not is_eligible(make_row(stat="PSUSP"))
    assert not is_eligible(make_row(stat="PSUSP", reason=make_reason("x", code="hosts")))


def test_each_half_of_the_pending_jobs_leaves_the_others_alone():
    rows = [
        make_row(jobid=1, reason=make_reason("busy")),
        make_row(jobid=2, reason=make_reason("later", code="begin-time")),
        running(jobid=3),
    ]
    assert listed(["-pe", "-r"], *rows)[:2] == (0, ["1", "3"])
    assert listed(["-pi", "-r"], *rows)[:2] == (0, ["2", "3"])
    assert listed(["-pi", "1", "2"], *rows[:2])[:2] == (0, ["2"])
    assert listed(["-pi"], rows[0]) == (0, [], "No pending job found\n")


def test_the_field_pendstate_says_which_half_a_job_belongs_to():
    rows = [
        make_row(jobid=1, reason=make_reason("busy")),
        make_row(jobid=2, reason=make_reason("later", code="begin-time")),
        make_row(jobid=3, stat="PSUSP"),
        running(jobid=4),
    ]
    answer = {"seq": 9, "now": NOW, "jobs": rows, "missing": [], "next": None}
    words = ["-noheader", "-o", "jobid pendstate"]
    status, out, _ = run_command(bjobs, words, {"GET /jobs": answer})
    assert (status, out) == (0, "1 EPEND\n2 IPEND\n3 IPEND\n4 NOTPEND\n")


@pytest.mark.parametrize(
    ("words", "level", "shown"),
    [
        (["-p"], "1", [" one;"]),
        (["-pe"], "1", [" one;"]),
        (["-p"], "", [" one;", " two;"]),
        (["-p"], "0", [" one;", " two;"]),
        (["-p"], "x", [" one;", " two;"]),
        (["-p0"], "1", [" one;", " two;"]),
    ],
)
def test_a_variable_says_the_level_where_no_option_does(words, level, shown):
    row = make_row(reason=make_reason("one", "two"))
    answer = {"seq": 9, "now": NOW, "jobs": [row], "missing": [], "next": None}
    environ = {"LSB_BJOBS_PENDREASON_LEVEL": level}
    _, out, _ = run_command(bjobs, [*words, "-noheader"], {"GET /jobs": answer}, environ)
    assert out.splitlines()[1:] == shown


def test_two_levels_or_two_halves_at_once_are_refused():
    for words, said in (
        (["-p1", "-p3"], "only one of -p0 -p1 -p2 -p3 can be given"),
        (["-pe", "-pi"], "only one of -pe -pi -pei can be given"),
        (["-pe", "-pei"], "-pei and -pe cannot be used together"),
    ):
        status, found, err = listed(words)
        assert (status, found, said in err) == (255, [], True)


def test_both_halves_are_listed_with_what_was_not_found_told_once():
    answer = {"seq": 9, "now": NOW, "jobs": [make_row(jobid=1)], "missing": ["99"], "next": None}
    with FakeApi({"GET /jobs": answer}) as fake:
        status, out, err = run_command(bjobs, ["-pei", "1", "99"], api=fake)
        assert len(fake.requests) == 1, "both halves are of one moment"
    assert (status, err) == (255, "Job <99> is not found\n")
    assert out.splitlines()[0] == "PENDING JOBS ELIGIBLE FOR SCHEDULING:"
    assert "INELIGIBLE" not in out


def test_exceptions_are_the_jobs_that_the_cluster_calls_so():
    rows = [
        running(jobid=1, exceptions=["overrun"]),
        running(jobid=2, exceptions=[]),
        make_row(jobid=3),
    ]
    assert listed(["-x"], *rows)[:2] == (0, ["1"])
    assert listed(["-x"], *rows[1:]) == (0, [], "No unfinished job found\n")
    assert listed(["-x", "2", "1"], *rows)[:2] == (0, ["1"])
