"""A cluster that root runs, with jobs of somebody else who means no good."""

import pwd
import time
from collections.abc import Iterator

import pytest
from live import DAEMONISE, Live, is_alive, open_live, pid_in, until
from other_user import IS_ROOT, NOBODY

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="only root runs jobs of other users")


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with open_live() as live:
        live.configure("kill_interval_s: 1\n")
        live.xce("up", "--hosts", "h1", "--slots", "64")
        yield live


def submit(live: Live, command: str, *options: str) -> int:
    """Submit as nobody, through bsub."""
    said = live.run("bsub", *options, command, uid=NOBODY).stdout
    return int(said.split("<")[1].split(">")[0])


def test_they_run_as_themselves_and_reach_nothing_of_the_cluster(live: Live) -> None:
    name = pwd.getpwuid(NOBODY).pw_name
    job = submit(live, "id -un; id -u; ls -ld . ", "-o", "who.%J")
    row = live.until_ended(job)
    assert row["user"] == name
    until(lambda: "Resource usage" in live.file(f"who.{job}"), "the report")
    assert live.file(f"who.{job}").splitlines()[:2] == [name, str(NOBODY)]
    assert (live.home / f"who.{job}").stat().st_uid == NOBODY
    paths = " ".join(
        str(path)
        for path in (
            live.layout.journal_file, live.layout.history_file,
            live.layout.controller_socket, live.layout.shepherd_socket("h1"),
        )
    )  # fmt: skip
    daemons, shepherds = live.daemons(), live.shepherds()
    pids = " ".join(str(process.pid) for process in [*daemons.values(), *shepherds.values()])
    look = f'for file in {paths}; do [ -e "$file" ] && echo "$file"; done'
    # While a shepherd starts a shell (decision X-24) it has the user's real id, and this job may
    # begin before it has its own again.
    wait = 'until grep -q "^Uid:[[:space:]]*0" /proc/$pid/status; do :; done'
    command = f"{look}; for pid in {pids}; do {wait}; kill -9 $pid && echo $pid; done; exit 0"
    job = submit(live, command, "-e", "/dev/null")
    live.until_ended(job)
    assert live.output(job) == b""
    assert (live.daemons(), live.shepherds()) == (daemons, shepherds)


def test_what_they_daemonise_and_fork_is_gone_with_the_job(live: Live) -> None:
    job = submit(live, DAEMONISE.format(file="theirs", before="pass"))
    assert live.until_ended(job)["stat"] == "DONE"
    assert not is_alive(pid_in(live, "theirs"))
    job = submit(live, "env -i setsid sleep 300 & env -i sleep 300 & sleep 0.1; exit 4")
    assert live.until_ended(job)["exit_code"] == 4
    assert not live.job_processes()


def test_forking_until_refused_is_their_own_trouble(live: Live) -> None:
    command = "ulimit -u 60; i=0; while [ $i -lt 500 ]; do sleep 300 & i=$((i+1)); done; wait"
    job = submit(live, command, "-o", "/dev/null")
    time.sleep(1)
    mine = live.submit("echo fine")
    assert live.until_ended(mine)["stat"] == "DONE"
    live.act("kill", job)
    live.until_ended(job)
    assert not live.job_processes()


def test_their_jobs_are_theirs(live: Live) -> None:
    mine = live.submit("sleep 60")
    live.until_stat(mine, "run")
    refused = live.run("bkill", str(mine), uid=NOBODY, status=255)
    assert str(mine) in refused.stderr
    assert "User permission denied" in refused.stderr, refused.stderr
    assert live.row(mine)["stat"] == "RUN"
    theirs = submit(live, "sleep 60", "-o", "/dev/null")
    live.act("kill", theirs)
    row = live.until_ended(theirs)
    assert row["cause"] in ("TERM_ADMIN", "TERM_OWNER"), row
    live.act("kill", mine)
    live.until_ended(mine)


def test_an_output_file_that_they_may_not_write_is_not_written(live: Live) -> None:
    secret = live.home / "roots"
    secret.write_text("root's own\n")
    secret.chmod(0o600)
    job = submit(live, "echo overwritten", "-oo", str(secret))
    row = live.until_ended(job)
    assert (row["stat"], row["cause"]) == ("EXIT", "TERM_OUTPUT"), row
    assert "Permission denied" in row["detail"]
    assert secret.read_text() == "root's own\n"
    (live.home / "link").symlink_to(secret)
    job = submit(live, "echo overwritten", "-o", str(live.home / "link"))
    assert live.until_ended(job)["cause"] == "TERM_OUTPUT"
    assert secret.read_text() == "root's own\n"
