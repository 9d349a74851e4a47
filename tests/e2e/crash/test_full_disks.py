"""Disks that somebody fills: under the journal, a host, the history, all of it."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live import KINDS, Live, Row, open_live, until
from other_user import IS_ROOT

from xce.client.rest import ProblemError, UnreachableError, make_key

MIB = 1024 * 1024
Mount = Callable[[Path, int], Path]


@pytest.fixture
def live() -> Iterator[Live]:
    with open_live() as live:
        live.configure("kill_interval_s: 1\n")
        yield live


@pytest.fixture
def mount(live: Live) -> Iterator[Mount]:
    """Return a function that mounts a small filesystem on a directory of the cluster."""
    mounted: list[Path] = []

    def mount_at(place: Path, size: int) -> Path:
        if not IS_ROOT:
            pytest.skip("mounting a small tmpfs needs root")
        place.mkdir(parents=True, exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(place)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount_at
    live.close()
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> None:
    """Leave not a byte."""
    with contextlib.suppress(OSError), (disk / "ballast").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def kill_all(live: Live) -> None:
    """Kill every daemon and every shepherd."""
    for kind in ("node-manager", *KINDS):
        live.kill(kind)


def up(live: Live) -> None:
    live.xce("up", "--hosts", "h[1-2]", "--slots", "4")


def test_submits_are_refused_clearly_and_nothing_acknowledged_is_lost(
    live: Live, mount: Mount
) -> None:
    disk = mount(live.layout.journal, 8 * MIB)
    up(live)
    slow = live.submit("sleep 3; echo out of the dark")
    live.until_stat(slow, "run")
    fill(disk)
    known = [slow]
    troubles: list[str] = []
    in_doubt: list[tuple[str, Row]] = []
    refused: ProblemError | None = None
    with live.api(wait_s=0) as api:
        for number in range(3000):
            key, body = make_key(), live.submission(f"true {number} {'x' * 4000}")
            try:
                answer = api.call("POST", "/jobs", document=body, key=key)
            except ProblemError as error:
                refused = error
                break
            except UnreachableError as error:
                troubles.append(str(error))
                in_doubt.append((key, body))  # it was decided and cannot be written yet
            else:
                known.append(answer["results"][0]["jobid"])
    assert refused is not None
    assert len(in_doubt) <= 1
    assert all("journal cannot be written" in text for text in troubles), troubles
    assert refused.code == "journal-full", refused.text
    assert "nothing can be written now, what was accepted is kept" in refused.text
    assert "full" in refused.text
    status = live.run("xce", "status", status=1).stdout
    assert "the journal cannot be written" in status, status
    listing = live.run("xcecli", "jobs")
    assert "the journal cannot be written" in listing.stderr
    bsub = live.run("bsub", "true", status=255)
    assert "nothing can be written now" in bsub.stderr, bsub.stderr
    listed = {row["jobid"] for row in live.rows(("user", "all"), ("finished", "1"))}
    assert listed == set(known), "what was acknowledged is shown, what was not is not"
    time.sleep(3)  # the running job ends meanwhile
    (disk / "ballast").unlink()
    until(lambda: live.run("bsub", "true", status=None).returncode == 0, "space was noticed")
    with live.api() as api:
        for key, body in in_doubt:
            answers = [api.call("POST", "/jobs", document=body, key=key) for _ in range(2)]
            assert answers[0]["results"] == answers[1]["results"]
            known.append(answers[0]["results"][0]["jobid"])
    for job in known:
        assert live.until_ended(job)["stat"] == "DONE"
    assert len({row["jobid"] for row in live.rows(("user", "all"), ("finished", "1"))}) == (
        len(set(known)) + 1
    )
    assert live.output(slow) == b"out of the dark\n"
    live.xce("down")
    live.xceadmin("journal", "verify")


def use_up_room(log: Path) -> None:
    """Leave SQLite's log no longer than what is in it: a head, and frames of a page each."""
    used = len(log.read_bytes().rstrip(b"\0"))
    frames = -((32 - used) // (24 + 4096))
    os.truncate(log, 32 + frames * (24 + 4096))


def test_a_killed_cluster_on_a_full_disk_starts_when_there_is_space(
    live: Live, mount: Mount
) -> None:
    disk = mount(live.layout.journal, 8 * MIB)
    up(live)
    jobs = live.submit_all([live.submission("true") for _ in range(20)])
    for job in jobs:
        live.until_ended(job)
    kill_all(live)
    use_up_room(disk / "journal.db-wal")
    fill(disk)
    live.start_up()
    # It is tried again and again: what it says last may be that it starts.
    said = until(
        lambda: [line["text"] for line in live.lines_of("controller") if line.get("text")],
        "the controller tells why",
    )
    assert "disk" in said[-1], said
    (disk / "ballast").unlink()
    live.xce("up")
    assert [live.row(job)["stat"] for job in jobs] == ["DONE"] * len(jobs)
    assert live.until_ended(live.submit("true"))["stat"] == "DONE"


def test_a_job_that_fills_its_hosts_disk_is_killed_like_any_other(live: Live, mount: Mount) -> None:
    live.configure("start_retry_s: 1\n")
    disk = mount(live.layout.host("h1"), 4 * MIB)
    up(live)
    job = live.submit("cat /dev/zero; echo full >&2; sleep 60", hosts="h1")
    until(lambda: not free_bytes(disk), "it has filled the disk")
    bystander = live.submit("sleep 0.5; exit 6", hosts="h1", output="bystander")
    elsewhere = live.submit("exit 7", hosts="h2")
    assert live.until_ended(elsewhere)["exit_code"] == 7
    shepherds = live.shepherds()
    live.act("kill", job)
    row = live.until_ended(job)
    assert (row["stat"], row["cause"]) == ("EXIT", "TERM_OWNER"), row
    assert live.shepherds() == shepherds, "the shepherd bears it"
    live.output(job, limit=10)
    (disk / "outputs").joinpath(f"{job}.0.1").unlink()  # what an admin would do
    with live.api() as api:
        api.call("POST", "/hosts/actions", document={"action": "open", "hosts": ["h1"]})
    assert live.until_ended(bystander)["exit_code"] == 6
    assert live.until_ended(live.submit("exit 8", hosts="h1"))["exit_code"] == 8


def test_a_host_without_space_fails_no_jobs_and_is_closed(live: Live, mount: Mount) -> None:
    disk = mount(live.layout.host("h1"), 4 * MIB)
    up(live)
    fill(disk)
    jobs = live.submit_all([live.submission("true") for _ in range(30)])
    for job in jobs:
        assert live.until_ended(job)["stat"] == "DONE"
    assert {live.row(job)["hosts"][0][0] for job in jobs} == {"h2"}
    with live.api() as api:
        hosts = {host["name"]: host for host in api.call("GET", "/hosts")["hosts"]}
        assert hosts["h1"]["status"] == "closed_Adm", hosts["h1"]
        assert "No space left on device" in hosts["h1"]["comment"], hosts["h1"]
        assert hosts["h2"]["status"] == "ok"
        (disk / "ballast").unlink()
        api.call("POST", "/hosts/actions", document={"action": "open", "hosts": ["h1"]})
    assert live.until_ended(live.submit("true", hosts="h1"))["stat"] == "DONE"


def test_a_history_without_space_waits_and_catches_up(live: Live, mount: Mount) -> None:
    live.configure("clean_period_s: 1\n")
    disk = mount(live.layout.history, 1 * MIB)
    up(live)
    first = live.submit("exit 3")
    live.until_ended(first)
    fill(disk)
    array = live.submit("exit $((LSB_JOBINDEX % 3))", array="1-200")
    until(lambda: live.row(array)["elements"]["pend"] == 0, "jobs run all the same")
    until(lambda: not live.rows(("user", "all")), "they end")
    time.sleep(2)  # more than the clean period: what no history has must not be forgotten
    assert live.row(array, 2)["exit_code"] == 2
    (disk / "ballast").unlink()
    until(lambda: not live.rows(("user", "all"), ("finished", "1")), "all is in the history")
    assert [live.row(array, index)["exit_code"] for index in (1, 2, 3)] == [1, 2, 0]
    assert live.row(first)["exit_code"] == 3


def test_when_everything_is_full_jobs_run_on_and_all_goes_on_with_space(
    live: Live, mount: Mount
) -> None:
    disk = mount(live.root, 48 * MIB)
    live.configure("kill_interval_s: 1\n")
    up(live)
    outside = live.submit("sleep 2; echo outside; exit 5", output=str(live.home / "outside"))
    inside = live.submit("sleep 2; echo inside; exit 6")
    ids = {job: live.until_stat(job, "run") for job in (outside, inside)}
    assert len(ids) == 2
    before = live.daemons()
    fill(disk)
    # More than the room that the journal's log keeps, in which small jobs are still taken.
    script = live.home / "large"
    script.write_text("# much\n" * (MIB // 4))
    with script.open("rb") as text:
        in_doubt = subprocess.Popen(["bsub"], env=live.environ, stdin=text)
    # Until that is there, a small one would be taken, or be in doubt itself.
    until(lambda: "journal cannot be written" in live.xce("status", status=None), "it is in doubt")
    refused = live.run("bsub", "true", status=255)
    assert "nothing can be written now" in refused.stderr, refused.stderr
    for kind in ("worker", "shepherd", "apiserver", "scheduler"):
        killed = live.kill(kind)  # what is killed comes again, though not a line can be logged
        if kind != "shepherd":
            live.until_replaced(kind, killed)
    until(lambda: "outside" in live.file("outside"), "a job ends meanwhile")
    time.sleep(0.5)
    (disk / "ballast").unlink()
    assert in_doubt.wait(timeout=70) == 0
    assert live.until_ended(outside)["exit_code"] == 5
    # It could note neither its output nor its status, and its shepherd was killed meanwhile.
    row = live.until_ended(inside)
    assert row["exit_code"] in (6, 1), row
    assert live.until_ended(live.submit("true"))["stat"] == "DONE"
    assert live.daemons()["controller"] == before["controller"]
    live.xce("down")
    live.xceadmin("journal", "verify")


def free_bytes(disk: Path) -> int:
    """Return how much room is left."""
    found = os.statvfs(disk)
    return found.f_bavail * found.f_bsize
