"""The serving unit of the examples, on a cluster with simulated GPUs: real servers, real deaths."""

import contextlib
import json
import os
import shutil
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Live, open_live, until
from other_user import IS_ROOT, NOBODY, skip_unless_reachable

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "roles"
HOSTS = """
- {names: c1, slots: 4, labels: {switch: s1}}
- {names: "g[1-4]", slots: 8, labels: {switch: s1}, gpus: {count: 8, model: H100}}
"""


@contextlib.contextmanager
def unit(
    *, cluster: int | None = None, user: int | None = None, **changes: str
) -> Iterator[tuple[Live, int]]:
    """Have a cluster that runs the unit; ``changes`` are made to its text.

    ``cluster`` is the user whose cluster it is, ``user`` whose job; None: whoever runs the test.
    """
    with open_live(cluster) as live:
        live.configure(HOSTS, "hosts.yaml")
        live.xce("up")
        for name in ("unit.py", "unit-1p3d.yaml"):
            shutil.copy(EXAMPLES / name, live.home)
        spec = live.home / "unit-1p3d.yaml"
        text = spec.read_text()
        for old, new in changes.items():
            text = text.replace(old.replace("_", "-"), new)
        spec.write_text(text)
        said = live.run("xcecli", "submit", "-f", "unit-1p3d.yaml", uid=user).stdout
        yield live, int("".join(sign for sign in said.split()[1] if sign.isdigit()))


def states(live: Live, job: int) -> dict[str, list[str]]:
    """Return how the tasks of each role are."""
    shown = json.loads(live.run("xcecli", "info", str(job), "-o", "json").stdout)
    return {
        role["role"]: [task["state"] for task in role["tasks"]]
        for role in shown.get("role_states", ())
    }


def is_ready(live: Live, job: int) -> bool:
    return states(live, job).get("decode") == ["ready"] * 3


def output(live: Live, job: int) -> str:
    return live.run("xcecli", "output", str(job), status=None).stdout


def serving(live: Live, job: int) -> str:
    """Return where the router listens, as soon as it does."""

    def lines() -> list[str]:
        said = output(live, job).splitlines()
        return [line for line in said if line.startswith("router.0: router listens")]

    return until(lines, "the router listens", patience_s=90)[0].rpartition(":")[2]


def ask(port: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
        return answer.read().decode().strip()


def decode_pid(live: Live, place: int) -> int:
    """Return the process of a decode server; 0: there is none."""
    for process in live.job_processes():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            env = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            is_it = {b"XCE_ROLE=decode", f"XCE_ROLE_INDEX={place}".encode()} <= set(env)
            if is_it and b"unit.py" in words:
                return process.pid
    return 0


WHOSE = {"own": (None, None), "plain user": (NOBODY, NOBODY), "other user": (None, NOBODY)}


@pytest.mark.timeout(280)
@pytest.mark.parametrize("whose", WHOSE if IS_ROOT else ["own"])
def test_the_router_serves_once_the_others_are_ready_and_a_dead_decode_ends_the_unit(whose):
    cluster, user = WHOSE[whose]
    if user is not None:
        skip_unless_reachable()
    with unit(cluster=cluster, user=user) as (live, job):
        port = serving(live, job)
        assert {ask(port) for _ in range(6)} == {f"prefill.0 > decode.{n}" for n in range(3)}
        until(
            lambda: states(live, job)
            == {
                "router": ["running"], "prefill": ["ready"], "decode": ["ready"] * 3,
                "metrics": ["running"] * 4,
            },
            "all roles are as they should be",
        )  # fmt: skip
        row = live.row(job)
        assert [role["role"] for role in row["roles"]] == ["router", "prefill", "decode"]
        assert row["roles"][0]["hosts"] == [["c1", 1]]
        assert len({host for role in row["roles"] for host, _ in role["hosts"]}) == 5
        said = output(live, job)
        assert said.count("metrics.") == 4
        assert said.count("gpus: 0,1,2,3,4,5,6,7") + said.count("gpus: GPU-") >= 4
        order = said.splitlines()
        began = next(at for at, line in enumerate(order) if line.startswith("router.0"))
        assert sum("decode listens" in line for line in order[:began]) == 3
        os.kill(decode_pid(live, 1), signal.SIGKILL)
        row = live.until_ended(job, patience_s=60)
        assert (row["stat"], row["exit_code"]) == ("EXIT", 137)
        assert row["detail"].startswith("task 1 of role decode on g")
        assert "was ended by signal 9; its fate (fail-together) ends the job" in row["detail"]
        until(lambda: not live.job_processes(), "nothing of the unit is left")
        assert row["detail"] in live.run("xcecli", "info", str(job)).stdout


@pytest.mark.timeout(280)
def test_a_decode_whose_fate_is_its_own_is_started_again():
    fate = "restart-member, restarts_max: 2"
    with unit(fail_together=fate) as (live, job):
        port = serving(live, job)
        first = decode_pid(live, 1)
        os.kill(first, signal.SIGKILL)
        until(
            lambda: is_ready(live, job) and decode_pid(live, 1) not in (0, first),
            "another decode 1 is ready",
        )
        assert "restarted 1 time" in live.run("xcecli", "info", str(job)).stdout
        assert {ask(port) for _ in range(3)} == {f"prefill.0 > decode.{n}" for n in range(3)}
        began = time.monotonic()
        live.act("kill", job)
        row = live.until_ended(job, patience_s=60)
        assert row["cause"] == "TERM_OWNER"
        assert time.monotonic() - began < 40
        until(lambda: not live.job_processes(), "nothing of the unit is left")


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("kind", "is_running"),
    [
        ("controller", False),
        ("scheduler", False),
        ("worker", False),
        ("controller", True),
        ("worker", True),
    ],
)
def test_a_restart_while_the_unit_starts_changes_nothing(kind, is_running):
    with unit() as (live, job):
        if is_running:
            live.until_stat(job, "run", patience_s=60)
        dead = live.kill(kind)
        live.until_replaced(kind, dead)
        port = serving(live, job)
        assert ask(port).startswith("prefill.0 > decode.")
        until(lambda: is_ready(live, job), "the servers are ready")
        live.act("kill", job)
        assert live.until_ended(job, patience_s=60)["attempt"] == 1
