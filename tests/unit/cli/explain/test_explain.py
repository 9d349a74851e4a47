"""``bsub --explain`` at its edges: the cluster, the streams, the exit status, the origin."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_api import FakeApi, run_command
from hypothesis import given, settings
from hypothesis import strategies as st

from xce.cli.explain import main as explain
from xce.cli.lsf import bsub
from xce.cli.lsf.gpu_value import parse_gpu
from xce.cli.lsf.options import FLAG
from xce.cli.lsf.values import BadValueError
from xce.cli.xce.launchers import render_launchers

CLUSTER = {
    "GET /cluster": {
        "cluster": "c",
        "default_queue": "normal",
        "unit_for_limits": "GB",
        "parse_script": True,
        "max_array_size": 100,
        "resources": [
            {"name": "lic", "kind": "counter", "unit": "", "description": ""},
            {"name": "big", "kind": "boolean"},
        ],
        "pools": ["seats"],
        "version": "more members are no trouble",
    },
    "GET /queues": {"queues": [{"name": "normal", "priority": 30}]},
    "GET /hosts": {"hosts": [{"name": "h1", "status": "ok"}]},
    "GET /groups": {
        "groups": [
            {"name": "r1", "kind": "rack", "members": ["h1"]},
            {"name": "staff", "kind": "users", "members": ["ann"]},
        ]
    },
}


@pytest.fixture(autouse=True)
def _empty_stdin():
    saved = os.dup(0)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    yield
    os.dup2(saved, 0)
    os.close(saved)
    os.close(null)


def explained(*words, routes=CLUSTER, environ=None):
    with FakeApi(routes) as fake:
        status, out, err = run_command(explain, ["--explain", *words], api=fake, environ=environ)
        assert all(request.method == "GET" for request in fake.requests)
    return status, out, err


def result_of(*words, **options):
    status, out, err = explained(*words, **options)
    assert (status, err) == (0, ""), err
    return json.loads(out)


def warnings_of(*words, **options):
    return result_of(*words, **options)["warnings"]


def test_what_exists_is_not_warned_of():
    words = ["-q", "normal", "-m", "h1+1 others", "-R", "big rusage[lic=1:seats=1]", "./app"]
    assert warnings_of(*words) == []


def test_what_does_not_exist_is_listed_and_no_error():
    warnings = warnings_of(
        "-q", "night normal", "-m", "h1 h2", "-app", "prof",
        "-R", "select[fast && rack == r1] rusage[foo=1] cu[type=enclosure]", "./app",
    )  # fmt: skip
    for what in (
        "no resource is called 'fast', as select[] says",
        "no resource is called 'rack', as select[] says",
        "no resource is called 'foo', as rusage[] says",
        "no topology level is called 'enclosure', as cu[] says",
        "no queue is called 'night'",
        "no host is called 'h2'",
        "no application profile is called 'prof'",
    ):
        assert what in warnings
    assert not any("normal" in warning or "h1" in warning for warning in warnings)


def test_without_a_cluster_names_are_not_judged_and_a_warning_says_so():
    warnings = warnings_of("-q", "night", "-R", "fast", "./app", routes=None, environ={
        "XCE_API_SOCKET": "/nonexistent/api.sock",
    })  # fmt: skip
    (first, *rest) = warnings
    assert "were not judged" in first
    assert "/nonexistent/api.sock" in first
    assert rest == []


def test_a_cluster_that_refuses_is_as_none():
    routes = {**CLUSTER, "GET /hosts": (403, {}, {"detail": "go away"})}
    assert "go away" in warnings_of("./app", routes=routes)[0]


def test_the_unit_of_the_cluster_counts_unless_the_environment_names_one():
    result = result_of("-M", "2", "-R", "rusage[mem=2]", "./app")
    assert (result["mem_limit_mib"], result["resreq"]) == (2048, "rusage[mem=2048]")
    assert "cluster" in result["origin"]["mem_limit_mib"]["unit"]
    result = result_of("-M", "2", "./app", environ={"LSF_UNIT_FOR_LIMITS": "classic"})
    assert result["mem_limit_mib"] == 2 / 1024
    assert result["origin"]["mem_limit_mib"]["unit"] == (
        "KB (LSF_UNIT_FOR_LIMITS in the environment)"
    )


def test_where_each_value_is_from_is_told(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#BSUB -n 2\n#BSUB -env A=1\n#BSUB -env B=2\n./app\n")
    result = result_of("-W", "5", str(script), "x y", environ={"LSB_DEFAULTQUEUE": "normal"})
    origin = result["origin"]
    assert origin["n"]["from"] == "line 2 of the script"
    assert origin["env"]["from"] == "lines 3, 4 of the script"
    assert origin["run_limit_s"] == {
        "option": "-W", "from": "command line", "text": "5", "read": "[hours:]minutes",
    }  # fmt: skip
    assert origin["queue"]["from"] == "LSB_DEFAULTQUEUE in the environment"
    assert (result["script"], result["args"], result["command"]) == (str(script), ["x y"], None)


def test_a_named_script_is_a_command_where_the_cluster_says_so(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#BSUB -n 2\n")
    routes = {**CLUSTER, "GET /cluster": {**CLUSTER["GET /cluster"], "parse_script": False}}
    result = result_of(str(script), routes=routes)
    assert (result["n"], result["command"]) == ([1, 1], str(script))


def test_files_to_copy_are_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = result_of("-f", "a << b", "-f", "/c >", "./app")["transfers"]
    assert found == [[f"{tmp_path}/a", "<<", "b"], ["/c", ">", "/c"]]


def test_the_begin_is_an_instant_with_its_zone():
    begin = result_of("-b", "2030:7:1:12:30", "./app")["begin"]
    assert begin.startswith("2030-07-01T12:30:00")
    assert begin[-6] in "+-"


def test_the_deadline_is_an_instant_with_its_zone_and_its_option():
    result = result_of("-t", "2030:7:1:12:30", "./app")
    assert result["deadline_at"].startswith("2030-07-01T12:30:00")
    assert result["origin"]["deadline_at"]["option"] == "-t"


def test_bytes_that_are_no_text_stand_as_escapes():
    status, out, _ = explained("-o", "a\udc80", "./é")
    assert status == 0
    assert json.loads(out)["output"]["path"] == "a\udc80"
    assert out.isascii()


def test_an_empty_job_and_refused_options_are_warned_of():
    warnings = warnings_of("-R", "1*{rusage[gpu=2:gtile=1]} + 1*{}")
    assert "there is no command: a submit refuses an empty job" in warnings
    what = "gtile of GPUs in a request of several parts"
    assert any(f"refuses it: {what}" in warning for warning in warnings), what


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["-foo", "x"], 2, "bsub: -foo: there is no such option"),
        (["-alloc_flags", "x", "x"], 2, "-alloc_flags"),
        (["-ext", "a", "x"], 2, "-ext: this option of LSF is not in XCE"),
        (["-J"], 2, "-J: a value is missing"),
        (["-W", "soon", "x"], 255, "Bad RUNLIMIT specification: -W soon"),
        (["-J", "a[1-101]", "x"], 255, "Job array index too large"),
        (["-R", "mem>1 &&", "x"], 255, "Error in select section"),
        (["-m", "h 1!!", "x"], 255, "'1!!' is no host"),
        (["-m", "h 1!", "x"], 0, ""),
        (["-w", "done(", "x"], 255, "Dependency condition syntax error"),
        (["-n", "3", "-R", "2*{}+2*{}", "x"], 255, "-n says 3"),
        (["-n", "10000001", "x"], 255, "is no number of tasks"),
        (["-n", "9" * 5000, "x"], 255, "Bad number of tasks"),
        (["-W", "9" * 5000, "x"], 255, "Bad RUNLIMIT"),
        (["-M", "9" * 5000, "x"], 255, "Bad MEMLIMIT"),
        (["-sp", "9" * 5000, "x"], 255, "Bad user priority"),
        (["-gpu", "gmem=" + "9" * 5000, "x"], 255, "Bad MEMLIMIT"),
    ],
)
def test_the_exit_status_tells_an_unknown_option_from_a_wrong_value(words, status, text):
    found, out, err = explained(*words)
    assert found == status
    assert text in err
    assert bool(out) == (status == 0)


def test_a_mark_stands_below_the_column():
    _, _, err = explained("-R", f"{'mem>1 && ' * 20}mem>", "./app")
    _, text, mark = err.splitlines()
    assert mark.index("^") == len(text)
    assert text.endswith("mem>")


@pytest.mark.parametrize(
    ("words", "column"),
    [
        (["-R", "mem>1 rusage[mem=1:decay=1]"], 20),
        (["-R", "rusage[lic=1, mem=1:duration=(1 2)]"], 15),
        (["-R", "mem>1", "-R", "rusage[mem=(1 2):duration=(1 2 3)]"], 8),
        (["-R", "rusage[mem=1:threshold=5, mem=2/job:threshold=6]"], 14),
        (["-R", "mem>1 rusage[mem=1, mem=2]"], 14),
        (["-R", "big rusage[big=1]"], 12),
        (["-R", "mem>1 same[mem]"], 12),
        (["-R", "hname!=h1 order[hname]"], 17),
        (["-R", "cpu>1 rusage[cpu=1]"], 14),
        (["-R", "hname!=h1 && hname"], 1),
        (["-R", "{hname==h1} || {rusage[hname=2]}"], 24),
        (["-nnodes", "2", "-R", "mem>1 span[ptile=2]"], 7),
        (["-nnodes", "2", "-R", "1*{} + 1*{mem>1}"], 3),
        (["-nnodes", "2", "-R", "{mem>1} || {}"], 1),
        (["-nnodes", "2", "-R", "cu[type=host:balance]"], 14),
    ],
)
def test_what_does_not_fit_together_is_refused_at_its_column(words, column):
    status, out, err = explained(*words, "./app")
    assert (status, out) == (255, "")
    assert f"column {column}" in err
    _, text, mark = err.splitlines()
    assert text[mark.index("^") :] == f"  {words[-1]}"[column + 1 :]


def test_a_script_that_is_no_text_is_refused(tmp_path):
    script = tmp_path / "job"
    script.write_bytes(b"#BSUB -n 2\n\0")
    with script.open("rb") as stream:
        os.dup2(stream.fileno(), 0)
        status, _, err = explained()
    assert (status, err) == (255, "The job script holds NUL bytes, so it is no text.\n")


@pytest.fixture(scope="module")
def launcher(tmp_path_factory):
    path = tmp_path_factory.mktemp("bin") / "bsub"
    path.write_text(render_launchers()["bsub"])
    path.chmod(0o755)
    return path


def launch(launcher, *words, stdin=""):
    return subprocess.run(
        [launcher, *words],
        input=stdin,
        capture_output=True,
        text=True,
        env={"XCE_DIR": "/nonexistent", "XCE_WAIT_DAEMON": "0"},
        timeout=60,
        check=False,
    )


def test_the_installed_command_explains_a_script_on_stdin(launcher):
    done = launch(launcher, "-n", "3", "--explain", stdin="#BSUB -J a\n./app\n")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert (result["n"], result["name"], result["script"]) == ([3, 3], "a", "stdin")


def test_the_installed_command_names_an_unknown_option(launcher):
    done = launch(launcher, "--explain", "-foo", "bar", "./app")
    assert (done.returncode, done.stdout) == (2, "")
    assert "-foo" in done.stderr


def test_the_word_behind_the_command_is_the_commands(launcher):
    done = launch(launcher, "./app", "--explain")
    assert done.returncode == 255
    assert "Cannot connect to XCE" in done.stderr


def test_nothing_heavy_is_loaded_where_nothing_is_explained():
    source = str(Path(explain.__file__).parents[3])
    code = (
        f"import sys; sys.path.insert(0, {source!r}); sys.argv = ['bsub', '-h']\n"
        "from xce.cli.lsf import bsub\n"
        "assert not {'msgspec', 'json', 're', 'xce.resreq'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], timeout=60, check=True)


WORDS = [
    "-J", "-R", "-n", "-W", "-M", "-gpu", "-env", "-Q", "-w", "-b", "-m", "-o", "-e", "-x", "-Is",
    "a[1-", "mem>", "2*{a: ", "}", "num=1", ":", "=", "done(", ")", "1", "-1", "é", "\udc80",
    "\x00", "all", "~", "%J", "2,4", "5MB", "", " ", "\n", "!", "--", "-u", "a@b", "10:30",
    "EXCLUDE(",
]  # fmt: skip
NO_API = SimpleNamespace(path="/nonexistent/api.sock", directory="")


@pytest.fixture(scope="module", autouse=True)
def _directory(tmp_path_factory):
    NO_API.directory = str(tmp_path_factory.mktemp("fake"))


texts = st.one_of(st.text(max_size=12), st.lists(st.sampled_from(WORDS), max_size=4).map("".join))


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS), texts), max_size=8))
def test_any_words_are_explained_or_refused(words):
    environ = {"XCE_API_SOCKET": "/nonexistent/api.sock", "XCE_DIR": "/nonexistent"}
    status, out, err = run_command(explain, ["--explain", *words], api=NO_API, environ=environ)
    assert status in (0, 2, 255)
    assert bool(out) == (status == 0 and "Usage" not in err and not err.startswith("XCE "))
    if out:
        assert isinstance(json.loads(out), dict)


GPU = [
    "num", "gmem", "mps", "mig", "gtile", "=", ":", "1", "yes", "/task", ",", "3/1", "-", "8G",
    "!", "mode", "é", " ",
]  # fmt: skip


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(GPU)).map("".join))
def test_any_gpu_text_gives_a_value_or_an_error(text):
    try:
        found = parse_gpu(text, "M")
    except BadValueError:
        return
    assert found["num"] >= 1


_VALUES = {
    "-J": "n[1-3]", "-q": "normal", "-n": "2", "-W": "5", "-We": "5", "-M": "5MB", "-w": "done(1)",
    "-b": "2030:1:1:1:1", "-t": "2031:1:1:1:1", "-m": "h1", "-sp": "4", "-gpu": "num=1",
    "-g": "/x", "-Q": "3", "-nnodes": "2", "-L": "/bin/sh", "-u": "a@b.c", "-k": "d 10 method=x",
    "-c": "1", "-v": "5MB", "-p": "2", "-T": "3", "-S": "8MB", "-D": "1GB", "-F": "1GB", "-C": "0",
    "-R": "rusage[mem=5]", "-env": "all", "-f": "/dev/null > x", "-wa": "USR1", "-wt": "5",
    "-i": "/dev/null", "-is": "/dev/null",
}  # fmt: skip
_WITH = {"-wa": ["-wt", "5"], "-wt": ["-wa", "USR1"], "-ti": ["-w", "done(1)"]}


@pytest.mark.parametrize(
    "option", sorted({*bsub.OPTIONS.known} - {"-h", "-help", "-V", "--wait-daemon", "--plan"})
)
def test_of_every_option_it_says_what_was_read_and_from_where(option):
    value = [_VALUES.get(option, "text")] * (bsub.OPTIONS.known[option] != FLAG)
    status, out, _ = explained(option, *value, *_WITH.get(option, ()), "true")
    found = json.loads(out)
    assert status == 0
    named = [one for one in found["origin"].values() if one.get("option") == option]
    assert named, found["origin"]
    assert not value or named[0]["text"] == value[0]
