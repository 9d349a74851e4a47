"""Jobs that misbehave, on a live cluster: as root with control groups, and as an ordinary user."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from live import DAEMONISE, Live, Row, is_alive, pid_in, until

FORKS = 1000


def run(live: Live, command: str, *, patience_s: float = 30, **members: object) -> Row:
    """Run a job to its end, see that nothing of it is left, and return its row."""
    row = live.until_ended(live.submit(command, **members), patience_s=patience_s)
    assert not processes_of(live, row["jobid"]), "an ended job has processes"
    return row


def processes_of(live: Live, job: int) -> list[int]:
    """Return the pids of what a job has left, as far as its environment tells."""
    mark = f"/attempts/{job}."
    found = []
    for process in live.job_processes():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{process.pid}/environ").read_text(errors="replace"):
                found.append(process.pid)
    return found


@pytest.mark.parametrize(
    "before",
    ["pass", "os.closerange(0, 100)", "os.chdir('/'); os.nice(5)"],
    ids=["plainly", "closing all files", "from /"],
)
def test_what_daemonises_is_gone_before_the_job_is_over(live: Live, before: str) -> None:
    name = f"daemon{abs(hash(before))}"
    row = run(live, DAEMONISE.format(file=name, before=before))
    assert row["stat"] == "DONE", row
    assert not is_alive(pid_in(live, name))


def test_a_daemon_without_the_jobs_environment_is_gone_too(live: Live) -> None:
    # Without control groups it must have been seen below the job shell: a look every 2 s.
    pause_s = 0 if live.has_groups else 3.3
    command = "env -i setsid sh -c 'echo $$ >bare; sleep 300' & until [ -s bare ]; do :; done"
    row = run(live, f"{command}; sleep {pause_s}")
    pid = pid_in(live, "bare")
    try:
        assert row["stat"] == "DONE", row
        assert not is_alive(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_bkill_ends_a_job_that_has_daemonised_and_waits(live: Live) -> None:
    job = live.submit(DAEMONISE.format(file="waits", before="pass") + "sleep 300")
    pid = pid_in(live, "waits")
    live.act("kill", job)
    row = live.until_ended(job)
    assert (row["stat"], row["cause"]) == ("EXIT", "TERM_OWNER"), row
    assert not is_alive(pid)


WAIT = "while :; do sleep 0.1; done"
IGNORE = "trap '' INT TERM; echo up >ignores"
PYTHON = """python3 -c "
import signal, time
signal.signal(2, signal.SIG_IGN)
signal.signal(15, signal.SIG_IGN)
open('ignores', 'w').write('up')
time.sleep(300)"
"""


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        (f"{IGNORE}; {WAIT}", (137,)),
        (f"{IGNORE}; sh -c '{WAIT}'", (137,)),
        # The script itself dies earlier, and that is told; its child is killed all the same.
        (f'sh -c "{IGNORE}; {WAIT}"; exit 3', (130, 137, 143)),
        (PYTHON, (130, 137, 143)),
    ],
    ids=["the script", "script and child", "the child", "python"],
)
def test_a_job_that_ignores_int_and_term_falls_to_kill_in_time(
    live: Live, command: str, codes: tuple[int, ...]
) -> None:
    (live.home / "ignores").unlink(missing_ok=True)
    job = live.submit(command)
    until(lambda: live.file("ignores"), "it ignores")
    began = time.monotonic()
    live.act("kill", job)
    row = live.until_ended(job)
    assert (row["stat"], row["cause"]) == ("EXIT", "TERM_OWNER"), row
    assert row["exit_code"] in codes, row
    assert time.monotonic() - began < 15, "INT, TERM and KILL come a second apart"
    assert not processes_of(live, job)


def test_a_job_that_takes_term_may_clean_up(live: Live) -> None:
    command = "trap '' INT; trap 'echo cleaned >cleaned; exit 7' TERM; echo up >may"
    job = live.submit(f"{command}; while :; do sleep 0.05; done")
    until(lambda: live.file("may"), "it waits")
    live.act("kill", job)
    row = live.until_ended(job)
    assert (row["stat"], row["cause"], row["exit_code"]) == ("EXIT", "TERM_OWNER", 7), row
    assert live.file("cleaned") == "cleaned\n"


def test_what_a_script_has_started_may_clean_up_too(live: Live) -> None:
    """INT ends the script at once; its child takes TERM, which comes a second later."""
    child = "trap '' INT; trap 'echo cleaned >late; exit' TERM; echo up >child; "
    job = live.submit(f'sh -c "{child} while :; do sleep 0.05; done"; exit 3')
    until(lambda: live.file("child"), "its child waits")
    live.act("kill", job)
    assert live.until_ended(job)["cause"] == "TERM_OWNER"
    assert live.file("late") == "cleaned\n"


def test_output_of_50_megabytes_is_kept_and_can_be_read(live: Live) -> None:
    size = 50 * 1024 * 1024
    row = run(live, f"head -c {size} /dev/zero; echo end", patience_s=60)
    assert row["stat"] == "DONE", row
    with live.api() as api:
        path = f"/jobs/{row['jobid']}/output"
        head = api.request("GET", path, [("offset", str(size - 2)), ("limit", "100")])
        assert head.headers["xce-size"] == str(size + 4)
        assert head.body == b"\0\0end\n"
        whole = sum(len(part) for part in api.stream(path, [("follow", "1")]))
    assert whole == size + 4


def test_a_job_with_a_thousand_children_ends_and_takes_them_along(live: Live) -> None:
    fork = f"i=0; while [ $i -lt {FORKS} ]; do sleep 300 & i=$((i+1)); done; echo done"
    row = run(live, fork, patience_s=90)
    assert row["stat"] == "DONE", row
    job = live.submit(f"{fork} >forked; wait")
    until(lambda: live.file("forked"), "all are forked")
    assert len(processes_of(live, job)) >= FORKS
    began = time.monotonic()
    live.act("kill", job)
    row = live.until_ended(job)
    assert row["cause"] == "TERM_OWNER", row
    assert not processes_of(live, job)
    assert time.monotonic() - began < 15


def test_a_job_that_forks_until_it_is_refused_harms_nobody(live: Live) -> None:
    # For root there is no limit but the one that the job itself sets; bounded in any case.
    program = """
import os, resource, signal, time
kids = 0
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (400, 400))
    while kids < 1200:
        if os.fork() == 0:
            time.sleep(300)
            os._exit(0)
        kids += 1
except OSError:
    print("refused", flush=True)
print("forked", flush=True)
time.sleep(300)
"""
    (live.home / "forks.py").write_text(program)
    bystander = live.submit("sleep 2; echo untouched")
    job = live.submit("python3 forks.py")
    live.until_stat(job, "run")
    until(lambda: b"forked" in live.output(job), "it cannot fork any more")
    assert live.until_ended(bystander)["stat"] == "DONE"
    assert run(live, "echo more work")["stat"] == "DONE"
    live.act("kill", job)
    assert live.until_ended(job)["cause"] == "TERM_OWNER"
    assert not processes_of(live, job)


def test_a_job_in_another_session_is_stopped_resumed_and_killed(live: Live) -> None:
    command = "exec setsid sh -c 'echo $$ >session; while :; do echo x >>ticks; sleep 0.05; done'"
    job = live.submit(command)
    pid = pid_in(live, "session")
    live.act("stop", job)
    live.until_stat(job, "ususp")
    time.sleep(0.2)
    before = len(live.file("ticks"))
    time.sleep(0.4)
    assert len(live.file("ticks")) == before, "it is stopped"
    live.act("resume", job)
    live.until_stat(job, "run")
    until(lambda: len(live.file("ticks")) > before, "it goes on")
    live.act("stop", job)
    live.until_stat(job, "ususp")
    live.act("kill", job)  # what is stopped can be killed
    assert live.until_ended(job)["cause"] == "TERM_OWNER"
    assert not is_alive(pid)


CONTINUES = "until grep -q '^State:.T' /proc/$$/status; do sleep 0.05; done; kill -CONT $$"
"""Sent before the script stands still, it would do nothing."""


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 255", 255),
        ("kill -TERM $$; echo still here; exit 0", 143),
        ("trap 'exit 3' TERM; kill -TERM $$; sleep 0.2; exit 0", 3),
        ("trap 'exit 4' USR1; kill -USR1 $$; sleep 0.2; exit 0", 4),
        ("exec >&- 2>&- <&-; sleep 0.1; exit 4", 4),
        ("exec sh -c 'exit 9'", 9),
        ("exec sleep 0.1", 0),
        ("exec /no/such/program", 127),
        ("exec 9>&1; echo 0 >&9; exit 3", 3),
        ('for fd in 3 4 5 6 7 8 9; do eval "exec $fd>&-"; done; exit 6', 6),
        ('rm -rf "$XCE_JOB_HOST_DIR"; exit 5', 5),
        ("cd /; mkdir gone 2>/dev/null; unset PATH HOME; exit 2", 2),
        (f"({CONTINUES}) & kill -STOP $$; exit 8", 8),
        ("ulimit -f 1; head -c 100000 /dev/zero >big; exit $?", 153),
        ("ulimit -t 1; while :; do :; done", 137),
    ],
)  # fmt: skip
def test_odd_ends_have_the_codes_of_the_shell(live: Live, command: str, code: int) -> None:
    row = run(live, command)
    assert row["exit_code"] == code, row
    assert row["stat"] == ("EXIT" if code else "DONE")


FATAL = [
    number
    for number in range(1, 32)
    if number
    not in (
        signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN,
        signal.SIGTTOU, signal.SIGURG, signal.SIGWINCH,
    )
]  # fmt: skip


@pytest.mark.parametrize("who", ["its program", "its own script"])
def test_a_job_that_dies_of_any_signal_says_of_which(live: Live, who: str) -> None:
    array = ",".join(map(str, FATAL))
    program = "ulimit -c 0; exec sh -c 'kill -'$LSB_JOBINDEX' $$; sleep 1'"
    script = "#!/bin/sh\nulimit -c 0\nkill -$LSB_JOBINDEX $$\nsleep 1\n"
    members = {"array": f"{array}", "output": "/dev/null"}
    if who == "its program":
        job = live.submit(program, **members)
    else:
        body = live.submission("", **members)
        del body["command"]
        job = live.submit_all([{**body, "script": script}])[0]
    for number in FATAL:
        row: Row = {}

        def ended(number: int = number) -> bool:
            nonlocal row
            row = live.row(job, number)
            return row["stat"] in ("DONE", "EXIT")

        until(ended, f"element {number} ends")
        assert (row["stat"], row["exit_code"]) == ("EXIT", 128 + number), row


def test_an_output_directory_that_is_missing_is_the_jobs_fault_and_its_output_is_kept(
    live: Live,
) -> None:
    row = run(live, "echo precious", output="no/such/dir/out.%J")
    assert (row["stat"], row["cause"]) == ("EXIT", "TERM_OUTPUT"), row
    assert "no/such/dir/out" in row["detail"], row
    assert "No such file or directory" in row["detail"], row
    assert live.output(row["jobid"]).startswith(b"precious\n")


def test_a_working_directory_that_is_missing_is_the_jobs_fault(live: Live) -> None:
    row = run(live, "echo never >never", cwd=str(live.home / "gone"))
    assert (row["stat"], row["cause"]) == ("EXIT", "TERM_CWD_NOTEXIST"), row
    assert str(live.home / "gone") in row["detail"], row
    assert not live.file("never")
    made = run(live, "pwd", cwd_given="made/%J")
    assert made["stat"] == "DONE", made
    assert live.output(made["jobid"]).decode().strip() == str(live.home / f"made/{made['jobid']}")


def test_the_output_directory_is_made_and_relative_files_lie_in_it(live: Live) -> None:
    made = run(live, "echo here", output_dir="out/%U/%J", output="o.%J", cwd_given="made")
    assert made["stat"] == "DONE", made
    path = live.home / f"made/out/{made['user']}/{made['jobid']}/o.{made['jobid']}"
    assert path.read_text().startswith("here\n")
    assert live.output(made["jobid"]).startswith(b"here\n")
    (live.home / "taken").write_text("")
    row = run(live, "echo never", output_dir="taken/x", output="o")
    assert (row["stat"], row["cause"]) == ("EXIT", "TERM_OUTPUT"), row
    assert "cannot make the output directory" in row["detail"], row


def test_a_working_directory_that_goes_away_under_a_job_does_not_matter(live: Live) -> None:
    row = run(live, "mkdir -p inner; cd inner; rmdir ../inner; sleep 0.1; exit 3")
    assert row["exit_code"] == 3
