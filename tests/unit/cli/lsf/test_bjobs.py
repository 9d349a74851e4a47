import pytest
from counted import count_calls
from fake_api import FakeApi, run_command
from job_rows import NOW, ended, make_host_reason, make_reason, make_row, running

from xce.cli.lsf import bacct, bjobs, bkill, bsub, btop
from xce.cli.lsf.bjobs import exit_status
from xce.cli.lsf.jobs_fields import FIELDS, SIZED, View, limit_text, size_text
from xce.cli.lsf.jobs_format import parse_format
from xce.cli.lsf.jobs_long import render_long, wrap
from xce.cli.lsf.jobs_query import id_groups, matches
from xce.cli.lsf.options import UsageError

CLUSTER = {"GET /cluster": {"cluster": "lab", "hosts": 9}}


def answer(*rows, missing=(), following=None):
    return {"seq": 9, "now": NOW, "jobs": list(rows), "missing": list(missing), "next": following}


def asked(words, *rows, environ=None):
    """Run bjobs and return the query that it sent."""
    with FakeApi({**CLUSTER, "GET /jobs": answer(*rows)}) as fake:
        run_command(bjobs, words, environ=environ, api=fake)
        query = fake.requests[-1].query
    assert query.pop("limit") == "20000"
    return query


def out_of(words, *rows, **options):
    routes = {**CLUSTER, "GET /jobs": answer(*rows)}
    status, out, err = run_command(bjobs, words, routes, **options)
    assert status == 0, err
    return out


BASE = "stat,user,queue,from_host,hosts,name,submit_at"


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ([], {"fields": BASE}),
        (["-a"], {"finished": "1", "fields": BASE}),
        (["-d"], {"finished": "1", "state": "done,exit", "fields": BASE}),
        (["-r", "-u", "all"], {"state": "run", "user": "all", "fields": BASE}),
        (["-p", "-r"], {"state": "pend,psusp,run", "fields": f"{BASE},reason,stop"}),
        (["-s"], {"state": "psusp,susp", "fields": f"{BASE},reason,stop"}),
        (
            ["-q", "q", "-J", "a*", "-m", "h1"],
            {"queue": "q", "name": "a*", "host": "h1", "fields": BASE},
        ),
        (["-m", "lab"], {"fields": BASE}),
        (["-P", "p"], {"fields": f"{BASE},project"}),
        (["-Jd", "p*"], {"fields": f"{BASE},description"}),
        (["-G", "chem"], {"user": "all", "fields": f"{BASE},user_group"}),
        (["-p0"], {"state": "pend,psusp", "fields": f"{BASE},reason,stop"}),
        (["-p1"], {"state": "pend,psusp", "fields": f"{BASE},reason,stop"}),
        (["-p3"], {"state": "pend,psusp", "fields": f"{BASE},reason,stop"}),
        (["-pi"], {"state": "pend,psusp", "fields": f"{BASE},reason,stop"}),
        (["-pe", "-r", "-o", "jobid"], {"state": "pend,psusp,run", "fields": "stat,reason"}),
        (["-rusage", "mem"], {"fields": f"{BASE},rusage"}),
        (["-l"], {"usage": "1"}),
        (["-UF"], {"usage": "1"}),
        (["-x"], {"fields": f"{BASE},exceptions", "usage": "1"}),
        (["-o", "mem"], {"fields": "usage,stat", "usage": "1"}),
        (["-o", "cpu_used stat"], {"fields": "cpu_s,stat,usage", "usage": "1"}),
        (["0"], {"fields": BASE}),
        (["12", "13[1-3]"], {"ids": "12,13[1-3]", "fields": BASE}),
        (["-u", "x", "-r", "12"], {"ids": "12", "fields": BASE}),
        (["-o", "jobid"], {"fields": "stat"}),
        (["-o", "id queue exit_code"], {"fields": "cause,exit_code,queue,signal,start_at,stat"}),
    ],
)
def test_the_query_asks_for_what_is_shown(words, query):
    assert asked(words) == query


def test_long_lists_of_ids_are_asked_for_in_groups():
    ids = [str(number) for number in range(100_000, 103_000)]
    routes = {"GET /jobs": lambda request: answer(missing=request.query["ids"].split(","))}
    with FakeApi(routes) as fake:
        status, _, err = run_command(bjobs, ids, api=fake)
        assert len(fake.requests) == 4
    assert status == 0
    assert err.splitlines() == [f"Job <{one}> is not found" for one in ids]
    assert list(id_groups(["1"])) == ["1"]
    assert all(len(group) <= 6_000 for group in id_groups(ids))


def test_pages_are_read_to_the_end_and_the_header_is_printed_once():
    pages = {None: answer(make_row(jobid=1), following="c1"), "c1": answer(make_row(jobid=2))}
    routes = {"GET /jobs": lambda request: pages[request.query.get("cursor")]}
    status, out, _ = run_command(bjobs, [], routes)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["JOBID", "1", "2"]


def test_filters_that_the_cluster_does_not_know_are_applied_here():
    rows = [
        make_row(jobid=1, project="p", name="arr", index=1, count=5),
        make_row(jobid=2, project="q"),
        running(jobid=3, project="p", hosts=[["h1", 1], ["h2", 1]]),
    ]
    assert out_of(["-noheader", "-P", "p", "-o", "id jobindex"], *rows).split("\n")[:-1] == [
        "1 1",
        "1 2",
        "1 3",
        "1 4",
        "1 5",
        "3 0",
    ]
    assert out_of(["-noheader", "-m", "h2 h9", "-o", "id"], *rows) == "3\n"
    assert out_of(["-noheader", "-J", "arr[2,4-9]", "-o", "jobindex"], rows[0]) == "2\n4\n5\n"
    assert out_of(["-noheader", "-J", "a*", "-o", "id", "1", "3"], rows[0], rows[2]) == "1\n" * 5
    told = [
        make_row(jobid=4, description="night run", user_group="chem"),
        make_row(jobid=5, description="", user_group="bio"),
    ]
    assert out_of(["-noheader", "-Jd", "night*", "-o", "id"], *told) == "4\n"
    assert out_of(["-noheader", "-G", "bio", "-o", "id"], *told) == "5\n"


def test_levels_of_reasons_are_those_of_lsf():
    row = make_row(jobid=1, reason=make_reason("one", "two: 3 hosts"))
    assert out_of(["-p0"], row) == out_of(["-p"], row)
    shown = [out_of([option, "-noheader"], row).splitlines()[1:] for option in ("-p0", "-p1")]
    assert shown == [[" one;", " two: 3 hosts;"], [" one;"]]


def reasons_of(words, row):
    """Return the lines of the reasons in a long form."""
    lines = out_of(words, row).split(" PENDING REASONS:\n")[1].split("\n\n PENDING TIME")[0]
    return lines.split("\n")


def test_the_long_form_of_pending_jobs_names_hosts():
    hosts = [
        make_host_reason("slots-busy", 2, "full", candidate=True, names=["h1", "h3"]),
        make_host_reason("avoided", 1, "shut", candidate=False, names=["h2"]),
        make_host_reason("closed", 1, "shut", candidate=False, names=["h4"]),
        make_host_reason("select", 7, "odd", candidate=False, names=[]),
    ]
    reason = make_reason("main", "full: 2 hosts", "shut: 2 hosts", "odd: 7 hosts", hosts=hosts)
    row = make_row(jobid=1, reason=reason)
    counted = [" main;", " full: 2 hosts;", " shut: 2 hosts;", " odd: 7 hosts;"]
    assert reasons_of(["-l"], row) == counted
    named = [" main;", " full: h1, h3;", " shut: h2, h4;", " odd: 7 hosts;"]
    assert reasons_of(["-pl"], row) == named
    assert reasons_of(["-p", "-UF"], row) == named
    assert reasons_of(["-p1", "-l"], row) == [" main;"]
    assert reasons_of(["-p3", "-l"], row) == [
        " main;",
        " Candidate host pending reasons (2 of 9 hosts):",
        "   full: h1, h3;",
        "",
        " Non-candidate host pending reasons (9 of 9 hosts):",
        "   odd: 7 hosts;",
        "   shut: h2, h4;",
    ]
    assert "host_names" not in asked(["-p"], row)
    assert asked(["-pl"], row)["host_names"] == "1"


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "ab", True),
        ("*b", "ab", True),
        ("*", "", True),
        ("a*c*e", "abcde", True),
        ("a*c*e", "abde", False),
        ("a*a", "a", False),
        ("*b*", "abc", True),
        ("**", "x", True),
        ("a*b*b", "ab", False),
    ],
)
def test_a_star_stands_for_any_text(pattern, name, expected):
    assert matches(pattern, name) is expected


@pytest.mark.parametrize(
    ("found", "missing", "only_finished", "plain", "consistent"),
    [
        (True, False, False, 0, 0),
        (False, False, False, 0, 255),
        (False, True, False, 0, 255),
        (True, True, False, 255, 255),
        (True, False, True, 0, 255),
        (False, True, True, 0, 255),
    ],
)
def test_the_exit_status_is_lsfs_table(found, missing, only_finished, plain, consistent):
    for strict, status in ((False, plain), (True, consistent)):
        assert status == exit_status(
            found=found, missing=missing, only_finished=only_finished, consistent=strict
        )


def test_illegal_ids_and_contradictions_are_refused():
    assert run_command(bjobs, ["abc"], {})[::2] == (255, "abc: Illegal job ID.\n")
    for words, text in (
        (["-o", "nosuch"], "there is no field 'nosuch'"),
        (["-o", "jobid", "-l"], "cannot be used"),
        (["-json", "-noheader"], "cannot be used together"),
        (["-o", "jobid", "-w"], "cannot be used together"),
        (["-hms"], "-hms needs -o"),
        (["-q", "a b"], "one queue at a time"),
        (["-G", "chem", "-u", "x"], "-G and -u cannot be used together"),
        *[
            ([form, *words], f"{form} and {words[0]} cannot be used together")
            for form, *words in (
                ("-A", "-g", "/a"),
                ("-A", "-app", "x"),
                ("-A", "-Jd", "x"),
                ("-A", "-p0"),
                ("-A", "-WL"),
                ("-script", "-u", "x"),
                ("-script", "-l"),
                ("-psum", "-l"),
                ("-psum", "-noheader"),
                ("-sum", "-w"),
                ("-sum", "-o", "id"),
                ("-sum", "-l"),
            )
        ],
    ):
        status, out, err = run_command(bjobs, words, {"GET /jobs": answer()})
        assert (status, out) == (255, "")
        assert text in err


@pytest.mark.parametrize(
    ("text", "delimiter", "heads"),
    [
        ("jobid stat exec_host delimiter='^'", "^", ["JOBID", "STAT", "EXEC_HOST"]),
        ('id stat name delimiter="|"', "|", ["ID", "STAT", "NAME"]),
        ("id delimiter=,", ",", ["ID"]),
        ("id delimiter=' '", " ", ["ID"]),
        ("jobID  STAT", "", ["JOBID", "STAT"]),
        ("jobid: user:10 stat: queue:", "", ["JOBID", "USER", "STAT", "QUEUE"]),
        ("exec_host exec_host", "", ["EXEC_HOST", "EXEC_HOST"]),
    ],
)
def test_formats_of_real_clients_are_read(text, delimiter, heads):
    wanted = parse_format(text)
    assert (wanted.delimiter, [column.head for column in wanted.columns]) == (delimiter, heads)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "delimiter=','",
        "id delimiter='ab'",
        "id:x",
        "id:0",
        "id:4097",
        "stat:5:G",
        "mem:5:Q",
    ],
)
def test_formats_that_say_nothing_are_refused(text):
    with pytest.raises(UsageError):
        parse_format(text)


def test_values_without_widths_are_separated_by_one_blank():
    assert out_of(["-a", "-noheader", "-o", "STAT EXEC_HOST", "5"], running()) == "RUN n060\n"
    assert out_of(["-noheader", "-o", "jobid stat"], make_row()) == "1234 PEND\n"
    assert out_of(["-o exit_code", "-noheader", "5"], ended("EXIT", exit_code=3)) == "3\n"
    assert out_of(["-noheader", "-o", "stat"], make_row()) == "PEND\n"
    assert out_of(["-noheader", "-o", "jobid user queue:20"], make_row()) == "1234 alice normal\n"


def test_the_fields_of_a_running_job_with_a_limit():
    row = running(run_limit_s=7200, mem_limit_kib=600 * 1024)
    names = "finish_time time_left %complete runtimelimit memlimit run_time cpu_used nexec_host"
    names += " first_host"
    out = out_of(["-noheader", "-o", f"{names} delimiter=';'"], row, environ={"TZ": "UTC"})
    fields = out.rstrip("\n").split(";")
    assert fields[0].endswith(" L")
    assert fields[1:] == [
        "1:0 L",
        "49.93% L",
        "120.0",
        "600 M",
        "3595 second(s)",
        "12.3 second(s)",
        "1",
        "n060",
    ]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({}, ["3600", "3600", "0"]),
        ({"ineligible_s": 3550.9, "stat": "PSUSP"}, ["3600", "49", "3551"]),
        ({"ineligible_s": 9999.0}, ["3600", "0", "3600"]),
        ({"ineligible_s": None}, ["3600", "-", "-"]),
    ],
)
def test_pending_time_is_told_in_two_parts_where_they_are_known(row, told):
    words = ["-noheader", "-o", "pend_time ependtime ipendtime"]
    assert out_of(words, make_row(**row)).split() == told


def test_every_field_of_lsf_is_known_and_never_fails():
    names = [name for name, field in FIELDS.items() if field.render is not None]
    for row in (make_row(), running(), ended(), {"jobid": 5, "stat": "PEND", "submit_at": NOW}):
        for name in names:
            text = FIELDS[name].render(row, View(NOW))
            assert isinstance(text, str), name
    assert len(FIELDS) > 100
    with pytest.raises(UsageError):
        parse_format("jobb_id")


def test_killed_pending_jobs_have_an_exit_code_for_those_who_wait_for_one():
    killed = make_row(stat="EXIT", end_at=NOW, cause="TERM_OWNER")
    orphan = make_row(stat="EXIT", end_at=NOW, cause="TERM_ORPHAN_SYSTEM")
    assert out_of(["-noheader", "-o", "exit_code"], killed, orphan, ended()) == "130\n130\n-\n"


def test_sizes_and_limits_are_lsfs():
    assert size_text(None, "") == ""
    assert [size_text(mib, "") for mib in (41, 1024, 5325, 2**30)] == [
        "41 Mbytes",
        "1 Gbytes",
        "5.2 Gbytes",
        "1 Pbytes",
    ]
    assert size_text(0.5, "") == "512 Kbytes"
    assert size_text(10, "G") == "0.01G"
    assert size_text(1, "KB") == "1024.00K"
    assert size_text(522, "S") == "522M"
    assert [limit_text(kib) for kib in (None, 100, 4 * 1024 * 1024, 28_000_000)] == [
        "",
        "100 K",
        "4 G",
        "26.7 G",
    ]


SIZED_ROW = {
    "mem_limit_kib": 3 << 19,
    "max_mem_mib": 1536.0,
    "limits": {
        "swap_limit_kib": 3 << 19,
        "stack_limit_kib": 3 << 19,
        "core_limit_kib": 3 << 19,
    },
    "usage": {"mem_mib": 1536.0, "max_mem_mib": 1536.0, "avg_mem_mib": 1536.0, "swap_mib": 1536.0},
}


@pytest.mark.parametrize("name", sorted(SIZED - {"hrusage"}))
def test_every_field_that_takes_a_unit_is_shown_in_it(name):
    row = running(**SIZED_ROW)
    words = ["-noheader", "-o", f"{name}::G {name}::MB {name}::S delimiter=','"]
    gigabytes, megabytes, plain = out_of(words, row).rstrip().split(",")
    assert (gigabytes, megabytes) == ("1.50G", "1536.00M")
    assert plain.replace(" ", "") == "1.5G"
    environ = {"LSB_UNIT_FOR_JOBS_DISPLAY": "MB"}
    assert out_of(["-noheader", "-o", name], row, environ=environ) == "1536.00M\n"


def test_no_core_dumps_are_shown_in_a_unit_too():
    row = running(limits={"core_limit_kib": 0})
    assert out_of(["-noheader", "-o", "corelimit corelimit::M"], row) == "0 K 0.00M\n"


def test_wrapped_statements_can_be_joined_again():
    for size in (0, 1, 78, 79, 80, 137, 138, 500):
        text = ("ab cd  " * 100)[:size]
        lines = wrap(text, 21)
        assert all(len(line) <= 79 for line in lines)
        assert "\n".join(lines).replace("\n" + " " * 21, "") == text


def test_the_long_form_says_what_clients_look_for():
    text = "\n".join(render_long(ended("EXIT", exit_code=3), NOW, wrapped=False, with_year=False))
    for part in (
        "Job <1234>",
        "Status <EXIT>",
        "Project <default>",
        "Exited with exit code 3. The CPU time used is 2.1 seconds.",
        "Completed <exit>.",
        "MAX MEM: 41 Mbytes;",
        "Started 1 Task(s) on Host(s) <n060>,",
    ):
        assert part in text
    killed = ended("EXIT", exit_code=137, signal=9, max_mem_mib=0.25)
    text = "\n".join(render_long(killed, NOW, wrapped=False, with_year=False))
    assert "Exited by signal 9. The CPU time used is 2.1 seconds." in text
    assert "MAX MEM: 1 Mbytes;" in text
    text = "\n".join(render_long(ended(), NOW, wrapped=False, with_year=False))
    assert "Done successfully. The CPU time used is 2.1 seconds." in text
    reason = make_reason("New job is waiting for scheduling")
    text = "\n".join(render_long(make_row(reason=reason), NOW, wrapped=False, with_year=False))
    assert " PENDING REASONS:\n New job is waiting for scheduling;\n" in text
    assert (
        " PENDING TIME DETAILS:\n"
        " Eligible pending time (seconds):    3600\n"
        " Ineligible pending time (seconds):     0\n"
    ) in text
    text = "\n".join(
        render_long(running(exceptions=["overrun"]), NOW, wrapped=False, with_year=False)
    )
    assert " EXCEPTION STATUS:\n overrun\n" in text
    assert "PENDING TIME" not in text


def test_a_row_of_a_long_table_costs_few_calls():
    from xce.cli.lsf.jobs_table import render_short  # noqa: PLC0415

    rows = [make_row(jobid=number) for number in range(10_000)]
    assert len(render_short(rows, 7)) == 10_000
    assert count_calls(lambda: render_short(rows, 7)) < 25 * 10_000


def test_the_script_of_one_job_is_printed_as_it_is():
    text = (200, {"Content-Type": "text/plain"}, b"#!/bin/sh\necho \xc3\xb6")
    routes = {"GET /jobs/12/script": text}
    assert run_command(bjobs, ["-script", "12"], routes) == (0, "#!/bin/sh\necho ö\n", "")
    status, _, err = run_command(bjobs, ["-script", "12", "13"], routes)
    assert (status, "name one job or element" in err) == (255, True)
    problem = {
        "detail": "no job has the id 7",
        "code": "unknown-job",
        "lsf": "Job <7> is not found",
    }
    routes = {"GET /jobs/7/script": (404, {}, problem)}
    assert run_command(bjobs, ["-script", "7"], routes) == (255, "", "Job <7> is not found.\n")


def test_the_variables_of_a_job_or_element_are_printed_one_a_line():
    text = (200, {"Content-Type": "text/plain"}, b"A=b\0B=c\nd\0P\xc3\xb6=")
    routes = {"GET /jobs/12/environment": text}
    assert run_command(bjobs, ["-env", "12"], routes) == (0, "A=b\nB=c\nd\nP\xf6=\n", "")
    with FakeApi(routes) as fake:
        assert run_command(bjobs, ["-env", "12[3]"], api=fake)[0] == 0
        assert fake.requests[-1].query == {"index": "3"}
    none = {"GET /jobs/12/environment": (200, {"Content-Type": "text/plain"}, b"")}
    assert run_command(bjobs, ["-env", "12"], none) == (0, "", "")
    for words in (["-env"], ["-env", "12", "13"], ["-env", "12[1-3]"], ["-env", "0"]):
        status, out, err = run_command(bjobs, words, routes)
        assert (status, out, "-env: name one job or element" in err) == (255, "", True)
    status, _, err = run_command(bjobs, ["-env", "-l", "12"], routes)
    assert (status, "-env and -l cannot be used together" in err) == (255, True)


def test_indices_of_a_name_may_be_as_many_as_an_array_has():
    many = make_row(jobid=5, name="a", index=1, count=3, array="1-3")
    said = out_of(["-J", "a[2-9999999999999]", "-noheader", "-o", "job_name"], many)
    assert said.split() == ["a[2]", "a[3]"]


@pytest.mark.parametrize("number", ["9" * 5000, "²", "٣"])
def test_what_is_no_number_for_a_machine_is_refused_like_any_other(number):
    for command, words in (
        (bjobs, ["-o", f"jobid:{number}"]), (bkill, ["-s", number, "1"]), (btop, ["2", number]),
        (bacct, ["-C", f"{number},"]), (bacct, ["-D", f".-{number},"]), (bjobs, [number]),
        (bsub, ["-sp", number, "true"]), (bsub, ["-n", number, "true"]),
    ):  # fmt: skip
        status, out, err = run_command(command, words, {})
        assert (status != 0, out) == (True, ""), (command.__name__, err)
        assert number in err
