"""Jobs over several hosts with networks and names of their own: a real MPI, torch, and faults."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from launch_jobs import BESIDE_MPI, HAS_MPI, build_hello, submit_launch
from live import is_alive, pid_in, until
from netns import why_not
from site_of_hosts import Site, open_site

from xce.daemon.processes import each_command_line
from xce.step.file_copy import place_of

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
HOSTS = ("h1", "h2")
ENTER = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'
HIDDEN = "private"
"""A directory of the users' that h2 does not have: it has an empty one of this name."""
TORCH = os.environ.get("XCE_TEST_TORCH", sys.executable)
"""An interpreter that has torch."""
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "training"
FABRIC = """\
- {names: h1, slots: 4, labels: {switch: s1, block: b1}, gpus: {count: 4, nvlink: [[0, 1], [2, 3]]}}
- {names: h2, slots: 4, labels: {switch: s2, block: b1}, gpus: {count: 4, nvlink: [[0, 1], [2, 3]]}}
"""
PLACE = re.compile(
    r"rank (\d) of 8: Place\(replica=(\d), stage=(\d), tensor=(\d)\) on (h\d), GPUs (\S+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(*HOSTS) as site:
        names = tmp_path_factory.mktemp("net") / "hosts"
        lines = [f"{address} {name}\n" for name, address in site.net.address.items()]
        names.write_text("127.0.0.1 localhost\n" + "".join(lines))
        plain = site.net.enter
        hidden = site.live.home / HIDDEN
        hidden.mkdir()
        cover = f"mount -t tmpfs none '{hidden}' && "

        def enter(name: str) -> list[str]:
            own = ["unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c"]
            return [*plain(name), *own, (cover if name == "h2" else "") + ENTER, str(names), name]

        site.net.enter = enter
        site.install(HOSTS)
        for host in HOSTS:
            site.until_status(host, "ok")
        (site.live.layout.config / "hosts.yaml").write_text(FABRIC)
        site.live.xceadmin("apply")
        yield site


def submit(site: Site, launch: str, command: str) -> int:
    """Submit a job with a task on each host."""
    return submit_launch(site.live, launch, command, count=2, per_host=1)


@pytest.mark.skipif(not HAS_MPI, reason="no MPI is installed")
def test_a_real_mpi_program_runs_over_the_network(site: Site, tmp_path: Path) -> None:
    live = site.live
    build_hello(tmp_path, live.home / "hello")
    job = submit(site, "mpi", "./hello")
    row = live.until_ended(job)
    text = live.output(job).decode()
    for rank, (host, _) in enumerate(row["hosts"]):
        assert f"rank {rank} of 2 on {host}: sum 1\n" in text, text
    assert row["exit_code"] == 7
    until(lambda: not live.job_processes(), "no daemon of MPI is left")


@pytest.mark.long
@pytest.mark.skipif(not HAS_MPI, reason="no MPI is installed")
def test_a_real_mpi_program_runs_over_the_network_as_a_role_beside_others(
    site: Site, tmp_path: Path
) -> None:
    # Two GPUs each, of four on a host: over both of them.
    live = site.live
    build_hello(tmp_path, live.home / "hello")
    body = {"spec": BESIDE_MPI.format(gpu=2), "cwd": str(live.home), "umask": 0o022}
    job = live.submit_all([body])[0]
    row = live.until_ended(job)
    text = live.output(job).decode()
    sums = sorted(re.findall(r"solve.0: rank (\d) of 3 on (h\d): sum 3\n", text))
    assert [rank for rank, _ in sums] == ["0", "1", "2"], text
    assert {host for _, host in sums} == set(HOSTS)
    assert row["exit_code"] == 7
    until(lambda: not live.job_processes(), "no daemon of MPI is left")


def has_torch() -> bool:
    done = subprocess.run([TORCH, "-c", "import torch"], capture_output=True, check=False)
    return done.returncode == 0


def beside_data() -> str:
    """Return the example under torchrun, in a role beside one that serves data to each host."""
    spec = yaml.safe_load((EXAMPLE / "torchrun.yaml").read_text())
    (train,) = spec["roles"]
    url = "http://$XCE_ENDPOINTS_data/train.py"
    fetch = f"import urllib.request as u; print(len(u.urlopen('{url}').read()), 'bytes')"
    train["command"] = f'python3 -c "{fetch}" || exit 9\n{spec.pop("command")}'
    serve = "exec python3 -m http.server $XCE_PORT"
    data = {"name": "data", "command": serve, "ready": {"http": "$XCE_PORT/train.py"}}
    beside = {"kind": "sidecar-of", "from": "data", "to": "replica"}
    return yaml.safe_dump(
        {**spec, "roles": [data, train], "relations": [*spec["relations"], beside]}
    )


SPECS = {
    "ranks": (EXAMPLE / "dp-pp-tp.yaml").read_text,
    "torchrun": (EXAMPLE / "torchrun.yaml").read_text,
    "beside data": beside_data,
}


@pytest.mark.long
@pytest.mark.parametrize("spec", SPECS)
def test_torch_trains_the_example_over_two_hosts(site: Site, spec: str) -> None:
    if not has_torch():
        pytest.skip(f"{TORCH} has no torch; name one that has in XCE_TEST_TORCH")
    live = site.live
    shutil.copy(EXAMPLE / "train.py", live.home)
    path = f"{Path(TORCH).parent}:{live.environ['PATH']}"
    env = [f"PATH={path}", "GLOO_SOCKET_IFNAME=eth0", "OMP_NUM_THREADS=1", "PYTHONWARNINGS=ignore"]
    body = {"spec": SPECS[spec](), "cwd": str(live.home), "env": env, "umask": 0o022}
    job = live.submit_all([body])[0]
    row = live.until_ended(job, patience_s=240)
    text = live.output(job).decode()
    assert row["stat"] == "DONE", text
    places = {int(found[0]): found[1:] for found in PLACE.findall(text)}
    by_rank = [(*map(int, places[rank][:3]),) for rank in range(8)]
    assert sorted(by_rank) == list(itertools.product(range(2), repeat=3)), text
    hosts = {(replica, host) for replica, _, _, host, _ in places.values()}
    assert len(hosts) == 2, "a replica has one host, and each another one"
    assert text.count(" bytes\n") == 2 * (spec == "beside data")
    if spec == "ranks":
        gpus = {(host, gpu) for *_, host, gpu in places.values()}
        assert gpus == {(host, str(gpu)) for host in HOSTS for gpu in range(4)}
    losses = re.findall(r"rank \d: loss (\S+) to (\S+)\n", text)
    assert len(losses) == 4, "those of the last stages"
    assert all(float(last) < float(first) / 4 for first, last in losses), text
    assert text.count("all 2 copies of stage") == text.count("equal: True") == 8, text


def set_routes(site: Site, action: str) -> None:
    """Let the two hosts not reach each other, or again; both reach the controller."""
    net = site.net
    for host, other in (HOSTS, HOSTS[::-1]):
        words = ["route", action, "unreachable", net.address[other]]
        subprocess.run(["ip", "-n", net.namespace(host), *words], check=True)


def test_a_member_that_cannot_be_reached_is_named_before_anything_starts(site: Site) -> None:
    live = site.live
    set_routes(site, "add")
    try:
        job = submit(site, "tasks", "touch started")
        row = live.until_ended(job)
    finally:
        set_routes(site, "del")
    first, second = (host for host, _ in row["hosts"])
    assert row["exit_code"] == 125
    said = live.output(job).decode()
    assert f"preflight: host {second}: cannot reach {first}:" in said
    assert "No route to host" in said
    assert row["end_at"] - row["start_at"] < 30
    assert not (live.home / "started").exists()


MEETING = """\
version: 1
roles:
  - {name: data, command: touch began; sleep 60}
  - {name: train, count: 2, launch: torch, resreq: "span[ptile=1]", command: touch began}
"""


def test_a_member_of_a_role_that_cannot_be_met_is_named_before_anything_begins(site: Site) -> None:
    live = site.live
    set_routes(site, "add")
    try:
        body = {"spec": MEETING, "cwd": str(live.home), "umask": 0o022}
        job = live.submit_all([body])[0]
        row = live.until_ended(job)
    finally:
        set_routes(site, "del")
    assert row["exit_code"] == 125
    assert re.fullmatch(
        r"preflight: host (h1: cannot reach h2|h2: cannot reach h1):\d+: No route to host",
        row["detail"],
    )
    assert row["end_at"] - row["start_at"] < 30
    assert not (live.home / "began").exists()


def submit_with_files(
    site: Site, command: str, *files: tuple[str, str, str], array: str = ""
) -> int:
    """Submit a job to h2 in h1's directory that h2 does not have."""
    hidden = site.live.home / HIDDEN
    transfers = [
        [str(hidden / local), operator, remote, place_of(str(hidden / local))]
        for local, operator, remote in files
    ]
    return site.live.submit(command, hosts="h2", from_host="h1", transfers=transfers, array=array)


def test_files_come_from_and_go_to_a_directory_that_the_jobs_host_does_not_have(site: Site) -> None:
    live = site.live
    hidden = live.home / HIDDEN
    (hidden / "in").write_bytes(os.urandom(300_000))
    (hidden / "all").write_text("head\n")
    job = submit_with_files(
        site, f"ls {hidden} | wc -l > few; cat got few > made",
        ("in", ">", "got"), ("back.%J", "<", "made"), ("all", "<<", "few"),
    )  # fmt: skip
    row = live.until_ended(job)
    assert (row["stat"], row["detail"]) == ("DONE", "")
    assert (hidden / f"back.{job}").read_bytes() == (hidden / "in").read_bytes() + b"0\n"
    assert (hidden / "all").read_text() == "head\n0\n"
    job = submit_with_files(site, "touch ran", ("none", ">", "got"), ("all", "<<", "few"))
    row = live.until_ended(job)
    assert row["cause"] == "TERM_OUTPUT"
    assert row["detail"].endswith("none > got: what is to be copied is no file that can be read")
    assert not (live.home / "ran").exists()
    assert (hidden / "all").read_text() == "head\n0\n"


def test_what_killed_elements_have_made_is_copied_back_too(site: Site) -> None:
    live = site.live
    hidden = live.home / HIDDEN
    job = submit_with_files(
        site, "echo $LSB_JOBINDEX > made.$LSB_JOBINDEX; exec sleep 300",
        ("of.%I", "<", "made.%I"), ("each", "<<", "made.%I"), array="1-2",
    )  # fmt: skip
    for index in (1, 2):
        until(lambda index=index: live.file(f"made.{index}").strip(), f"element {index} runs")
    live.act("kill", job)
    for index in (1, 2):
        until(lambda index=index: live.row(job, index)["stat"] == "EXIT", f"{index} is over")
        assert live.row(job, index)["detail"] == ""
        assert (hidden / f"of.{index}").read_text() == f"{index}\n"
    assert sorted((hidden / "each").read_text().split()) == ["1", "2"]


def test_a_copy_goes_on_when_shepherd_workers_and_controller_are_killed_in_its_middle(
    site: Site,
) -> None:
    live = site.live
    hidden = live.home / HIDDEN
    (live.home / "much").write_bytes(os.urandom(30_000_000))
    (live.home / "few").write_text("line\n")
    (hidden / "much").write_text("old")
    (hidden / "more").write_bytes(os.urandom(20_000_000))
    job = submit_with_files(
        site, "echo run >> runs; exit 3",
        ("more", ">", "got.%J"), ("much", "<", "much"), ("log", "<<", "few"),
    )  # fmt: skip

    def ends(name: str = "") -> list[int]:
        """Return the processes at the job's local files."""
        words = ((pid, found) for pid, found in each_command_line(None) if "end" in found)
        return [pid for pid, found in words if any(str(hidden / name) in word for word in found)]

    until(lambda: ends("more"), "a file is carried in")
    site.kill_shepherd("h2")
    until(lambda: ends("much"), "a file is copied back")
    assert live.file("runs") == "run\n"
    assert (live.home / f"got.{job}").read_bytes() == (hidden / "more").read_bytes()
    live.kill("controller")
    for host in HOSTS:
        site.kill_worker(host)
        site.start_worker(host)
    assert (hidden / "much").read_bytes() in (b"old", (live.home / "much").read_bytes())
    row = live.until_ended(job)
    assert (row["exit_code"], row["detail"]) == (3, "")
    assert (hidden / "much").read_bytes() == (live.home / "much").read_bytes()
    assert (hidden / "log").read_text() == "line\n"
    until(lambda: not ends(), "no process is left at the files")
    assert sorted(path.name for path in hidden.iterdir() if path.name.startswith(".")) == []


@pytest.mark.long
def test_a_member_whose_host_is_lost_ends_the_job_and_is_killed_when_it_comes_back(
    site: Site,
) -> None:
    live, net = site.live, site.net
    job = submit(site, "tasks", "echo $$ > pid.$XCE_RANK; exec sleep 600")
    first, second = pid_in(live, "pid.0"), pid_in(live, "pid.1")
    other = live.row(job)["hosts"][1][0]
    net.cut(other)
    try:
        site.until_status(other, "unavail")
        assert is_alive(second), "what runs goes on while its host is only away"
        live.xceadmin("hosts", "lost", other, "--yes")
        row = live.until_ended(job)
        assert row["cause"] == "TERM_HOST_LOST", row
        assert not is_alive(first)
        assert is_alive(second), "nobody could tell that host"
    finally:
        net.heal(other)
    until(lambda: not is_alive(second), "it is killed when its host comes back")
    site.until_status(other, "ok")
