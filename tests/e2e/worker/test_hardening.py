"""What a job may try against its host: links, depth, set-id programs, names, the environment."""

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from other_user import NOBODY
from worker_controller import open_host
from worker_rig import MODES, Shepherd, alive, open_shepherd, wait_until

from xce.worker.shepherd import rundir

ROOT_MODES = [mode for mode in MODES if mode != "user"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may take on other user ids")


@pytest.fixture(params=MODES)
def shepherd(request: pytest.FixtureRequest) -> Iterator[Shepherd]:
    with open_shepherd(request.param) as one:
        yield one


def gone(shepherd: Shepherd) -> None:
    """Have the job forgotten, and wait until nothing of it is left."""
    shepherd.order(["forget", 1, 0, 1, False])
    kept = ("free.", ".lock")
    wait_until(
        lambda: [p.name for p in shepherd.runs.iterdir() if not p.name.startswith(kept)] == [],
        "an empty directory of runs",
    )


def test_no_program_of_a_job_gains_privileges(shepherd: Shepherd) -> None:
    shepherd.spawn("grep NoNewPrivs /proc/self/status", output=("out", True))
    assert shepherd.ended()["code"] == 0
    assert shepherd.text("out").split() == ["NoNewPrivs:", "1"]


def test_privileges_are_gained_where_the_site_allows_it() -> None:
    with open_shepherd(MODES[-1], options=("--new-privileges",)) as shepherd:
        shepherd.spawn("grep NoNewPrivs /proc/self/status", output=("out", True))
        assert shepherd.ended()["code"] == 0
        assert shepherd.text("out").split() == ["NoNewPrivs:", "0"]


@needs_root
def test_a_set_user_id_program_runs_as_the_jobs_user() -> None:
    for options, expected in (((), str(NOBODY)), (("--new-privileges",), "0")):
        with open_shepherd(ROOT_MODES[0], options=options) as shepherd:
            tool = shepherd.root / "whoami"
            shutil.copy("/usr/bin/id", tool)
            tool.chmod(0o4755)
            mine = shepherd.root / "mine"
            mine.mkdir()
            os.chown(mine, NOBODY, NOBODY)
            shepherd.spawn(
                f"{tool} -u", uid=NOBODY, gid=NOBODY, cwd=str(mine), output=("out", True)
            )
            assert shepherd.ended()["code"] == 0
            assert (mine / "out").read_text().strip() == expected


@needs_root
@pytest.mark.parametrize("mode", ROOT_MODES)
def test_a_link_as_output_leads_nowhere_that_the_user_may_not_write(mode: str) -> None:
    with open_shepherd(mode) as shepherd:
        secret = shepherd.root / "secret"
        secret.write_text("mine\n")
        secret.chmod(0o600)
        trap = shepherd.root / "trap"
        trap.mkdir()
        os.chown(trap, NOBODY, NOBODY)
        (trap / "out").symlink_to(secret)
        (trap / "up").symlink_to("/")
        for job, path in enumerate(
            ("out", "../secret", "./..//secret", str(secret), f"up{secret}", "/etc/xce-evil"), 1
        ):
            shepherd.spawn(
                "echo evil", job=job, uid=NOBODY, gid=NOBODY, cwd=str(trap), output=(path, False)
            )
            end = shepherd.ended(job)
            assert (end["cause"], end["host_fault"]) == (104, False), path
            assert "Permission denied" in end["detail"]
        assert secret.read_text() == "mine\n"
        assert not Path("/etc/xce-evil").exists()
        # Nor is it read, as output or as input.
        ids = [NOBODY, NOBODY, []]
        shepherd.order(["read", 7, [42, 0, 1], str(trap / "out"), "1.out", ids, 0, 100])
        _, _, content, _, error = shepherd.expect("read", 7)
        assert content == ""
        assert "Permission denied" in error
        shepherd.spawn("cat", job=9, uid=NOBODY, gid=NOBODY, cwd=str(trap), source="out")
        assert "Permission denied" in shepherd.ended(9)["detail"]


@needs_root
@pytest.mark.parametrize("mode", ROOT_MODES)
def test_a_report_is_added_as_the_user_however_the_file_was_changed_meanwhile(mode: str) -> None:
    with open_shepherd(mode) as shepherd:
        secret = shepherd.root / "secret"
        secret.write_text("mine\n")
        secret.chmod(0o600)
        trap = shepherd.root / "trap"
        trap.mkdir()
        os.chown(trap, NOBODY, NOBODY)
        shepherd.spawn(
            f"rm out; ln -s {secret} out", uid=NOBODY, gid=NOBODY, cwd=str(trap),
            output=("out", False),
        )  # fmt: skip
        shepherd.ended()
        shepherd.order(["append", 1, 0, 1, "report\n"])
        shepherd.quiet(0.2)
        assert secret.read_text() == "mine\n"


def test_a_pipe_as_output_or_input_holds_nobody_up(shepherd: Shepherd) -> None:
    pipe = shepherd.root / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    shepherd.spawn("true", output=(str(pipe), True))
    assert shepherd.ended()["cause"] == 104
    shepherd.spawn("true", job=2, source=str(pipe))
    assert shepherd.ended(2)["code"] == 0


def test_what_a_job_leaves_is_removed_however_deep_it_is(shepherd: Shepherd) -> None:
    outside = shepherd.root / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep")
    outside.chmod(0o777)
    shepherd.spawn(
        "#!/usr/bin/python3\n"
        "import os\n"
        "os.chdir(os.environ['XCE_JOB_HOST_DIR'])\n"
        f"os.symlink({str(outside)!r}, 'link')\n"
        "for n in range(1500):\n"
        "    os.mkdir('d')\n"
        "    os.chdir('d')\n"
        f"os.symlink({str(outside)!r}, 'link')\n"
        "open('file', 'w').close()\n"
    )
    assert shepherd.ended()["code"] == 0
    gone(shepherd)
    assert (outside / "precious").read_text() == "keep"
    shepherd.spawn("true", job=2)
    assert shepherd.ended(2)["code"] == 0


def test_very_much_is_removed_beside_the_other_work(shepherd: Shepherd) -> None:
    count = rundir.REMOVED_AT_ONCE + 500
    shepherd.spawn(f"cd $XCE_JOB_HOST_DIR && seq {count} | xargs touch")
    assert shepherd.ended()["code"] == 0
    gone(shepherd)
    shepherd.spawn("true", job=2)
    assert shepherd.ended(2)["code"] == 0


def test_a_removal_that_was_cut_off_is_gone_on_with(shepherd: Shepherd) -> None:
    shepherd.kill()
    left = shepherd.runs / "gone.1.0.1.abc"
    (left / "job" / "deep").mkdir(parents=True)
    if shepherd.mode == "user":
        for path in (left, left / "job", left / "job" / "deep"):
            os.chown(path, shepherd.uid, shepherd.gid)
    shepherd.start()
    wait_until(lambda: not left.exists(), "the rest to be removed")


def test_the_jobs_own_directory_exchanged_for_a_link_hurts_nobody(shepherd: Shepherd) -> None:
    outside = shepherd.root / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep")
    outside.chmod(0o777)
    shepherd.spawn(
        f"rmdir $XCE_JOB_HOST_DIR; ln -s {outside} $XCE_JOB_HOST_DIR; touch $XCE_JOB_HOST_DIR/x"
    )
    shepherd.ended()
    gone(shepherd)
    assert (outside / "precious").read_text() == "keep"


@needs_root
@pytest.mark.parametrize("mode", ROOT_MODES)
def test_run_directories_and_what_is_in_them_belong_to_root(mode: str) -> None:
    with open_shepherd(mode) as shepherd:
        shepherd.spawn("sleep 60", uid=NOBODY, gid=NOBODY)
        shepherd.expect("started", 1, 0, 1)
        path = shepherd.runs / "1.0.1"
        assert stat.S_IMODE(path.stat().st_mode) == 0o711
        for name in ("intent", "status"):
            found = (path / name).stat()
            assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o600)
        found = (path / "job").stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (NOBODY, 0o700)
        # Another user finds no way in.
        for words in (["ls", str(path)], ["cat", str(path / "intent")], ["ls", str(path / "job")]):
            done = subprocess.run(
                ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", *words],
                check=False, capture_output=True,
            )  # fmt: skip
            assert done.returncode != 0


@needs_root
@pytest.mark.parametrize("mode", ROOT_MODES)
def test_what_runs_as_root_has_nothing_of_a_users_environment(mode: str) -> None:
    with open_shepherd(mode) as shepherd:
        shepherd.spawn(
            "sleep 60", uid=NOBODY, gid=NOBODY,
            env={"LD_PRELOAD": "/tmp/evil.so", "PYTHONPATH": "/tmp/evil", "BASH_ENV": "/tmp/evil"},
        )  # fmt: skip
        shepherd.expect("started", 1, 0, 1)
        assert shepherd.process is not None
        found = Path(f"/proc/{shepherd.process.pid}/environ").read_bytes()
        assert b"evil" not in found
        assert alive(shepherd.process.pid)


def test_a_shepherd_that_somebody_has_stopped_goes_on_soon() -> None:
    with open_host() as host:
        host.launch("true")
        host.controller.end_of(1)
        pid = host.shepherd_pid()
        assert pid
        os.kill(pid, signal.SIGSTOP)
        host.launch("true", job=2)
        assert host.controller.end_of(2).exit_code == 0
