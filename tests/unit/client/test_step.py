import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from local_tasks import LocalTasks

from xce.client.step import Conductor
from xce.step.plan import Plan, ProbePlan, RolePlan, TaskPlan, Wait
from xce.worker.launch_command import launch_programs

PYTHON = sys.executable
SERVER = f"exec {PYTHON} -m http.server --bind 127.0.0.1 $XCE_PORT"


def role(name: str, command: str, *hosts: int, **more) -> RolePlan:
    tasks = tuple(TaskPlan(host, rank) for rank, host in enumerate(hosts or (0,)))
    return RolePlan(name, command, tasks, **more)


class Ran:
    """A step that has run, and what it left."""

    def __init__(self, place: Path, roles: list[RolePlan], capfd, *, hosts: int = 2, away=()):
        made = [one._replace(group=number) for number, one in enumerate(roles)]
        plan = Plan(tuple(f"h{n}" for n in range(hosts)), tuple(made), 2_000_000, "7")
        self.conductor = Conductor(
            plan, LocalTasks(away=away),
            {**os.environ, "XCE_JOB_HOST_DIR": str(place), "CUDA_VISIBLE_DEVICES0": "x",
             **launch_programs()},
            str(place), str(place),
        )  # fmt: skip
        self.code = self.conductor.run()
        self.output, self.errors = capfd.readouterr()
        self.status = json.loads((place / "roles").read_text())["roles"]
        said = place / "said"
        self.said = said.read_text() if said.exists() else ""


@pytest.mark.timeout(60)
def test_tasks_know_who_they_are_and_their_lines_are_named(tmp_path, capfd):
    command = (
        'echo "$XCE_ROLE $XCE_ROLE_INDEX/$XCE_ROLE_NTASKS rank=$XCE_RANK $XCE_HOST $A "'
        '"[$XCE_HOSTS_b] $CUDA_VISIBLE_DEVICES0"; echo bad >&2; printf rest'
    )
    roles = [role("a", command, 0, 1, env=("A=x=1",)), role("b", "pwd", 1, cwd="sub")]
    (tmp_path / "sub").mkdir()
    ran = Ran(tmp_path, roles, capfd)
    assert (ran.code, ran.said) == (0, "")
    assert sorted(ran.output.splitlines()) == [
        "a.0: a 0/2 rank=0 h0 x=1 [h1] ",
        "a.0: rest",
        "a.1: a 1/2 rank=1 h1 x=1 [h1] ",
        "a.1: rest",
        f"b.0: {tmp_path}/sub",
    ]
    assert sorted(ran.errors.splitlines()) == ["a.0: bad", "a.1: bad"]
    assert [task["state"] for task in ran.status[0]["tasks"]] == ["done", "done"]


@pytest.mark.timeout(60)
def test_the_tasks_of_a_torch_role_are_a_world_of_their_own(tmp_path, capfd):
    # Its port is free as soon as its first task runs, and nobody listens there any more.
    said = 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK $NODE_RANK $XCE_RANK $MASTER_ADDR:$MASTER_PORT"'
    (tmp_path / "bind.py").write_text(
        "import os, socket\nsocket.create_server(('', int(os.environ['MASTER_PORT'])))"
    )
    first = f"{said}; test $RANK != 0 || {{ sleep 0.3; exec {PYTHON} bind.py; }}"
    roles = [
        role("data", "true", 0), role("train", first, 1, 0, 1, launch="torch"),
        role("other", said, 0, 1, launch="torch"),
    ]  # fmt: skip
    ran = Ran(tmp_path, roles, capfd)
    assert ran.code == 0, ran.errors
    lines = dict(line.split(": ", 1) for line in ran.output.splitlines())
    assert [lines[f"train.{n}"].split()[:4] for n in range(3)] == [
        ["0/3", "0", "0", "0"], ["1/3", "0", "1", "1"], ["2/3", "1", "0", "2"],
    ]  # fmt: skip
    assert [lines[f"other.{n}"].split()[0] for n in range(2)] == ["0/2", "1/2"]
    meetings = [{lines[f"{name}.{n}"].split()[4] for n in range(2)} for name in ("train", "other")]
    assert [len(one) for one in meetings] == [1, 1]
    assert meetings[0] != meetings[1]


MPIRUN = """\
#!/bin/sh
case "$1" in --version) echo "mpirun (Open MPI) 4.1.4"; exit;; esac
while read host slots; do echo "host $host $slots"; done <"$2"
n=$4; shift 4
for rank in $(seq 0 $((n - 1))); do OMPI_COMM_WORLD_RANK=$rank "$@"; done
"""


@pytest.mark.timeout(60)
def test_the_members_of_an_mpi_role_are_started_by_one_mpirun_on_the_first_host(tmp_path, capfd):
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(MPIRUN)
    mpirun.chmod(0o755)
    command = 'echo "$XCE_ROLE $XCE_ROLE_INDEX/$XCE_ROLE_NTASKS $XCE_RANK [$XCE_HOSTS_solve]"'
    members = (TaskPlan(1, 1), TaskPlan(1, 2), TaskPlan(0, 3))
    path = (f"PATH={tmp_path}:{os.environ['PATH']}",)
    solve = RolePlan("solve", command, (TaskPlan(0, 1),), launch="mpi", started=members, env=path)
    ran = Ran(tmp_path, [role("data", "true", 0), solve], capfd)
    assert ran.code == 0, ran.errors
    assert ran.output.splitlines() == [
        "solve.0: host h1 slots=2", "solve.0: host h0 slots=1",
        "solve.0: solve 0/3 1 [h1 h1 h0]", "solve.0: solve 1/3 2 [h1 h1 h0]",
        "solve.0: solve 2/3 3 [h1 h1 h0]",
    ]  # fmt: skip


@pytest.mark.timeout(60)
def test_what_is_wrong_where_a_torch_role_runs_is_said_before_anything_begins(tmp_path, capfd):
    gpus = (("XCE_GPUS", "0"), ("XCE_GPU_COUNT", "2"))
    tasks = (TaskPlan(0, 0), TaskPlan(1, 1, gpus))
    train = RolePlan("train", "touch began", tasks, launch="torch")
    ran = Ran(tmp_path, [role("data", "touch began"), train], capfd)
    assert ran.code == 125
    assert ran.said == "preflight: host h1: 2 GPUs were given, and 1 are visible: 0"
    assert not (tmp_path / "began").exists()


@pytest.mark.timeout(60)
def test_a_role_has_files_of_its_own(tmp_path, capfd):
    roles = [
        role("a", "echo $XCE_ROLE_INDEX; echo e >&2", 0, 1, output="%J.%R.%T.out"),
        role("b", "echo out; echo e >&2", output="b.out", error="b.err"),
    ]
    ran = Ran(tmp_path, roles, capfd)
    assert (ran.code, ran.output, ran.errors) == (0, "", "")
    assert sorted((tmp_path / "7.a.1.out").read_text().split()) == ["1", "e"]
    assert (tmp_path / "b.err").read_text() == "e\n"


@pytest.mark.timeout(60)
def test_a_file_that_cannot_be_opened_is_named(tmp_path, capfd):
    ran = Ran(tmp_path, [role("a", "true", output="no/such/file")], capfd)
    assert ran.code == 126
    assert f"cannot open {tmp_path}/no/such/file: No such file" in ran.said


@pytest.mark.timeout(60)
def test_a_program_with_its_own_line_runs_by_it(tmp_path, capfd):
    text = f"#!{PYTHON}\nimport sys\nprint('I am', sys.argv[1:])\n"
    ran = Ran(tmp_path, [role("a", text, args=("x y", "z"))], capfd)
    assert ran.output == "a.0: I am ['x y', 'z']\n"


@pytest.mark.timeout(90)
def test_a_router_begins_when_the_servers_answer_and_finds_them(tmp_path, capfd):
    fetch = (
        f"{PYTHON} - <<'END'\nimport os, urllib.request\n"
        "for end in os.environ['XCE_ENDPOINTS_server'].split():\n"
        "    port = end.rpartition(':')[2]\n"
        "    url = f'http://127.0.0.1:{port}/'\n"
        "    print(urllib.request.urlopen(url, timeout=20).status)\nEND\n"
    )
    probe = ProbePlan("http", "$XCE_PORT/", 100_000, 5_000_000, 0)
    server = role("server", SERVER, 0, 1, probe=probe, parents=(1,), is_fatal=False)
    router = role("router", fetch, waits=(Wait(0, "beside", "sidecar-of"),))
    ran = Ran(tmp_path, [server, router], capfd)
    assert ran.code == 0, ran.errors
    assert "router.0: 200\nrouter.0: 200\n" in ran.output
    assert [task["state"] for task in ran.status[0]["tasks"]] == ["stopped", "stopped"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("kind", "target"),
    [("exec", "test -e $XCE_JOB_HOST_DIR/up"), ("tcp", "${XCE_PORT}")],
)
def test_whether_a_task_is_ready_is_asked_where_it_runs(kind, target, tmp_path, capfd):
    command = f"touch $XCE_JOB_HOST_DIR/up; {SERVER}"
    probe = ProbePlan(kind, target, 100_000, 5_000_000, 0)
    first = role("a", command, probe=probe, parents=(1,), is_fatal=False)
    ran = Ran(tmp_path, [first, role("b", "true", waits=(Wait(0, "beside", "x"),))], capfd)
    assert ran.code == 0


@pytest.mark.timeout(60)
def test_the_first_member_that_fails_ends_the_others_and_is_named(tmp_path, capfd):
    roles = [role("a", "sleep 600", 0, 1), role("b", "sleep 0.2; exit 5", 1)]
    began = time.monotonic()
    ran = Ran(tmp_path, roles, capfd)
    assert time.monotonic() - began < 30
    assert ran.code == 5
    assert ran.said.startswith("task 0 of role b on h1 ended with exit code 5")
    assert ran.said in ran.errors
    assert [task["state"] for task in ran.status[0]["tasks"]] == ["stopped", "stopped"]


@pytest.mark.timeout(60)
def test_a_host_that_cannot_be_reached_is_named(tmp_path, capfd):
    ran = Ran(tmp_path, [role("a", "touch began", 0, 1)], capfd, away=("h1",))
    assert ran.code == 1
    assert "host h1 cannot be used: no route to host" in ran.said
    assert not (tmp_path / "began").exists()


@pytest.mark.timeout(60)
def test_a_task_is_restarted_after_its_back_off(tmp_path, capfd):
    command = "echo x >> n; test $(wc -l < n) = 3"
    again = {"restart": "on-failure", "restarts_max": 5, "back_off_us": 10_000}
    ran = Ran(tmp_path, [role("a", command, **again)], capfd)
    assert ran.code == 0
    assert ran.status[0]["tasks"][0]["restarts"] == 2


@pytest.mark.timeout(60)
def test_a_job_that_is_told_to_end_ends_what_it_has_started(tmp_path, capfd):
    def soon() -> None:
        while not (tmp_path / "up").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGUSR1)

    roles = [role("a", "touch up; sleep 600")]
    made = Plan(("h0",), tuple(roles), 200_000, "7")
    conductor = Conductor(made, LocalTasks(), dict(os.environ), str(tmp_path), "")
    old = signal.signal(signal.SIGUSR1, lambda *_: conductor.ask_to_end(15))
    try:
        threading.Thread(target=soon, daemon=True).start()
        assert conductor.run() == 143
    finally:
        signal.signal(signal.SIGUSR1, old)
