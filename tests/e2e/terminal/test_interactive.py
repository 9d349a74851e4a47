"""``bsub -I``, ``-Ip``, ``-Is`` on a real cluster, from a real terminal."""

import contextlib
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Live, is_alive, open_live, pid_in, until
from other_user import IS_ROOT, skip_unless_reachable
from typist import Typist

NOBODY = 65534
QUEUES = """\
- {name: normal, default: true, priority: 30}
- {name: talk, interactive: only}
- {name: work, interactive: refuse}
"""


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with open_live() as cluster:
        cluster.configure(QUEUES, "queues.yaml")
        cluster.environ |= {"TERM": "vt220", "PS1": "$ ", "XCE_WAIT_DAEMON": "60"}
        cluster.xce("up", "--hosts", "h1,h2", "--slots", "4")
        yield cluster


@pytest.fixture
def shell(live: Live) -> Iterator[Typist]:
    words = ["bsub", "-Is", "-J", "shell", "bash", "--norc", "-i"]
    typist = Typist(words, live.environ, live.home, rows=31, columns=101)
    try:
        typist.until("<<Waiting for dispatch ...>>")
        typist.until("<<Starting on h")
        typist.until("$ ")
        yield typist
    finally:
        typist.close()


def last_job(live: Live) -> int:
    return max(row["jobid"] for row in live.rows(("user", "all"), ("finished", "1")))


def test_a_shell_has_a_terminal_of_its_own_that_is_as_large_as_the_window(
    live: Live, shell: Typist
) -> None:
    shell.type("tty; stty size; echo $TERM $LSB_INTERACTIVE\n")
    shell.until("/dev/pts/")
    shell.until("31 101")
    shell.until("vt220 Y")
    shell.resize(40, 132)
    shell.type("stty size\n")
    until(lambda: b"40 132" in shell.said or (shell.type("stty size\n"), shell._read())[0], "size")
    before = shell.settings()
    shell.type("exit 7\n")
    assert shell.wait() == 7
    assert b"Job <" in shell.said
    assert before != shell.settings()  # keys are not passed on as they are any more
    row = live.until_ended(last_job(live))
    assert (row["stat"], row["exit_code"], row["interactive"]) == ("EXIT", 7, "Is")


def test_interrupt_and_stop_go_to_what_runs_in_the_shell(live: Live, shell: Typist) -> None:
    shell.type("sh -c 'echo on$((1 + 1)); exec sleep 300'\n")
    shell.until("on2")
    shell.type("\x03")
    shell.until("$ ")
    shell.type("echo code $?\n")
    shell.until("code 130")
    shell.type("sh -c 'echo on$((1 + 1)); exec cat'\n")
    shell.until("on2")
    shell.type("\x1a")
    shell.until("Stopped")
    shell.until("$ ")
    shell.type("fg\n")
    shell.until("exec cat")
    # What `cat` says again: the terminal is its own by then.
    shell.type("two\n")
    shell.until("two\r\ntwo")
    shell.type("\x03")
    shell.until("$ ")
    shell.type("echo again $?\n")
    shell.until("again 130")
    shell.type("exit 0\n")
    assert shell.wait() == 0


def test_a_screen_program_gets_every_key(live: Live, shell: Typist) -> None:
    # Raw: a control character, an escape sequence, bytes beyond ASCII.
    shell.type("stty raw -echo; echo on$((1 + 1)); head -c 6 | od -An -tx1; stty sane\n")
    shell.until("on2")
    shell.type("\x01\x1b[A\u00e9")
    shell.until("01 1b 5b 41 c3 a9")
    shell.type("exit\n")
    assert shell.wait() == 0


def test_the_job_is_ended_when_its_terminal_is_lost(live: Live, shell: Typist) -> None:
    shell.type("echo $$ > pid; exec sleep 300\n")
    pid = pid_in(live, "pid")
    job = last_job(live)
    shell.signal(signal.SIGKILL)
    row = live.until_ended(job)
    assert row["cause"] == "TERM_TERMINAL_LOST"
    assert not is_alive(pid)


def test_a_hang_up_of_the_window_kills_the_job(live: Live, shell: Typist) -> None:
    job = last_job(live)
    shell.signal(signal.SIGHUP)
    assert shell.wait() == 128 + signal.SIGHUP
    assert live.until_ended(job)["cause"] == "TERM_OWNER"


def test_a_session_outlives_apiserver_controller_and_worker(live: Live, shell: Typist) -> None:
    for kind in ("apiserver", "controller", "worker"):
        dead = live.kill(kind)
        shell.type(f"echo after {kind[::-1]} | rev\n")
        shell.until(kind + " retfa")
        live.until_replaced(kind, dead)
    shell.type("exit 4\n")
    assert shell.wait() == 4


def test_a_job_whose_shepherd_was_killed_has_lost_its_terminal(live: Live, shell: Typist) -> None:
    shell.type("trap '' HUP; sleep 300\n")
    shell.until("sleep 300")
    job = last_job(live)
    live.kill("shepherd")
    assert live.until_ended(job)["cause"] == "TERM_TERMINAL_LOST"
    assert shell.wait() != 0


def test_streams_without_a_terminal_carry_bytes_and_the_end_of_input(live: Live) -> None:
    content = "".join(f"line {number}\n" for number in range(30_000))
    done = live.run("bsub", "-I", "tee copy | wc -lc; exit 5", stdin=content, status=5)
    first, _, rest = done.stdout.partition("\n")
    assert first.startswith("Job <")
    assert rest.split() == ["30000", str(len(content))]
    assert live.file("copy") == content
    assert "<<Waiting for dispatch ...>>" in done.stderr
    assert "<<Starting on h" in done.stderr


def test_much_output_comes_whole_to_a_slow_reader(live: Live) -> None:
    with subprocess.Popen(
        ["bsub", "-I", "seq 1 400000"], env=live.environ, cwd=live.home,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1.5)
        assert process.stdout.read() == b"".join(b"%d\n" % n for n in range(1, 400_001))
    assert process.returncode == 0


def test_login_files_are_read_before_a_job_that_asks_for_it(live: Live) -> None:
    script = live.home / "login.sh"
    script.write_text('#!/bin/bash\necho "$0 $1 $PATH"\n')
    script.chmod(0o755)
    words = ["-I", "-env", "none", "-L", "/bin/bash", "./login.sh 'a b'; exit 6"]
    done = live.run("bsub", *words, status=6)
    # A job's home is its user's own.
    home = pwd.getpwuid(os.geteuid()).pw_dir
    words = ["env", "-i", f"HOME={home}", "bash", "-lc", "echo $PATH"]
    login = live.run(*words).stdout.strip()
    assert done.stdout.splitlines()[-1] == f"./login.sh a b {login}"


def test_a_file_takes_the_place_of_a_stream(live: Live) -> None:
    (live.home / "in").write_text("from a file\n")
    live.run("bsub", "-I", "-i", "in", "-o", "out", "-e", "err", "cat; echo bad >&2", stdin="typed")
    assert live.file("out").startswith("from a file\n")
    assert live.file("err") == "bad\n"


def test_an_interrupt_is_a_signal_to_a_job_without_a_terminal(live: Live) -> None:
    command = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done"
    typist = Typist(["bsub", "-I", command], live.environ, live.home)
    try:
        typist.until("ready")
        typist.type("\x03")
        typist.until("caught")
        assert typist.wait() == 9
    finally:
        typist.close()


def test_stopping_bsub_stops_the_job_and_going_on_resumes_it(live: Live) -> None:
    command = "echo ready; until [ -e goes-on ]; do sleep 0.1; done; echo over"
    typist = Typist(["bsub", "-I", command], live.environ, live.home)
    try:
        typist.until("ready")
        job = last_job(live)
        typist.type("\x1a")
        live.until_stat(job, "ususp")
        # The job is stopped first: what goes on before bsub stands still would not be noticed.
        stat = Path(f"/proc/{typist.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "bsub stands still")
        (live.home / "goes-on").touch()
        typist.signal(signal.SIGCONT)
        typist.until("over")
        assert typist.wait() == 0
    finally:
        typist.close()


def test_an_interrupt_before_dispatch_kills_the_job(live: Live) -> None:
    typist = Typist(["bsub", "-Is", "-m", "h1", "-H", "bash"], live.environ, live.home)
    try:
        typist.until("<<Waiting for dispatch ...>>")
        job = last_job(live)
        typist.type("\x03")
        assert typist.wait() == 130
        assert live.until_ended(job)["start_at"] is None
    finally:
        typist.close()


def test_who_goes_before_dispatch_leaves_no_job(live: Live) -> None:
    typist = Typist(["bsub", "-Is", "-H", "bash"], live.environ, live.home)
    try:
        typist.until("<<Waiting for dispatch ...>>")
        job = last_job(live)
        time.sleep(0.5)
        typist.signal(signal.SIGKILL)
        assert live.until_ended(job)["start_at"] is None
    finally:
        typist.close()


def test_what_cannot_be_interactive_is_refused(live: Live) -> None:
    for words, text in (
        (["-I", "-J", "a[1-3]", "true"], "an array cannot be interactive"),
        (["-I", "-r", "true"], "Interactive job cannot be rerunnable"),
        (["-Is", "-i", "f", "true"], "Input file not allowed with pseudo-terminal"),
        (["-I", "-K", "true"], "-K cannot be used together with -I"),
        (["-I", "-Is", "true"], "cannot be used together"),
        (["-I", "-q", "work", "true"], "Queue does not accept interactive jobs"),
        (["-q", "talk", "true"], "Queue only accepts interactive jobs"),
        (["-IX", "true"], "X11 is not forwarded"),
    ):
        assert text in live.run("bsub", *words, status=255).stderr
    job = live.submit("sleep 300")
    with live.api() as api:
        answer = api.request("GET", f"/jobs/{job}/terminal")
    assert answer.status == 409
    live.act("kill", job, force=True)


def test_an_interactive_job_is_not_requeued(live: Live, shell: Typist) -> None:
    job = last_job(live)
    assert "interactive" in live.run("brequeue", str(job), status=255).stderr
    shell.type("exit\n")
    assert shell.wait() == 0


@pytest.mark.skipif(not IS_ROOT, reason="only root's cluster has other users")
def test_an_ordinary_user_has_a_terminal_and_nobody_else_may_touch_it(live: Live) -> None:
    skip_unless_reachable()
    words = live.words_as(NOBODY, ["bsub", "-Is", "bash", "--norc", "-i"])
    typist = Typist(words, live.environ, live.home)
    try:
        typist.until("<<Starting on h")
        typist.until("$ ")
        typist.type("id -u; echo hi > /dev/tty; stat -c %u $(tty)\n")
        typist.until("65534")
        typist.until("hi")
        typist.until("65534")
        job = last_job(live)
        with live.api(uid=1) as api:
            for answer in (
                api.request("GET", f"/jobs/{job}/terminal"),
                api.request("POST", f"/jobs/{job}/terminal", body=b"id\n"),
            ):
                assert answer.status == 403, answer.body
        typist.type("exit\n")
        assert typist.wait() == 0
    finally:
        typist.close()


def test_nothing_of_terminals_is_left(live: Live) -> None:
    live.act("kill", force=True)
    until(lambda: not live.job_processes(), "all jobs are gone")
    until(lambda: not masters(live), "no shepherd has a terminal")


def masters(live: Live) -> list[str]:
    """Return the terminals that shepherds have."""
    links = []
    for process in live.shepherds().values():
        for fd in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it may be closed meanwhile
                links.append(os.readlink(fd))  # noqa: PTH115
    return [link for link in links if "ptmx" in link]
