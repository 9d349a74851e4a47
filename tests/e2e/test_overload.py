"""Too much is refused before it hurts what was accepted; who is slow costs the others nothing."""

import signal
import threading
from collections.abc import Iterator

import pytest
from live import Live, open_live, until

from xce.client.rest import UnreachableError, make_key


@pytest.fixture
def live() -> Iterator[Live]:
    with open_live() as made:
        yield made


def submit_patiently(live: Live, command: str, *, wait_s: float) -> int:
    """Submit as our commands do, and come again for so long; return the job's id."""
    with live.api(wait_s=wait_s) as api:
        answer = api.call("POST", "/jobs", document=live.submission(command), key=make_key())
    return int(answer["results"][0]["jobid"])


def allow(live: Live, memory: str) -> None:
    """Put another limit in effect in the running cluster."""
    path = live.layout.config / "xce.yaml"
    lines = [line for line in path.read_text().splitlines() if "controller_memory" not in line]
    path.write_text("\n".join([*lines, f"controller_memory: {memory}", ""]))
    live.xceadmin("apply")


def refusals(live: Live) -> int:
    return sum(line.get("event") == "memory-full" for line in live.lines_of("controller"))


def test_without_memory_new_jobs_are_refused_and_the_others_go_on(live: Live) -> None:
    live.xce("up", "--hosts", "h1", "--slots", "4", "--timeout", "60")
    running = live.submit("while [ ! -e go ]; do sleep 0.05; done; echo through")
    killed = live.submit("sleep 1000")
    for job in (running, killed):
        live.until_stat(job, "run")
    allow(live, "1M")
    until(lambda: refusals(live) == 1, "the controller is full")
    late: list[int] = []
    waiting = threading.Thread(
        target=lambda: late.append(submit_patiently(live, "echo late", wait_s=100)), daemon=True
    )
    waiting.start()
    with pytest.raises(UnreachableError, match="takes no new jobs from 1 MiB on"):
        submit_patiently(live, "true", wait_s=1.5)
    live.act("kill", killed)
    assert live.until_ended(killed)["cause"] == "TERM_OWNER"
    (live.home / "go").touch()
    assert live.until_ended(running)["stat"] == "DONE"
    assert late == []
    allow(live, "64G")
    waiting.join(60)
    (job,) = late
    assert live.until_ended(job)["stat"] == "DONE"


def test_a_follower_that_does_not_read_holds_nobody_up_and_catches_up(live: Live) -> None:
    live.xce("up", "--hosts", "h1", "--slots", "4", "--timeout", "60")
    live.kill("scheduler", signal.SIGSTOP)
    live.kill("history", signal.SIGSTOP)
    script = "x" * 3_000
    bodies = [live.submission(f": {number} {script}") for number in range(4_000)]
    jobs = live.submit_all(bodies)
    assert len(jobs) == 4_000
    live.act("kill", *jobs[4:])
    live.kill("scheduler", signal.SIGCONT)
    live.kill("history", signal.SIGCONT)
    for job in jobs[:4]:
        assert live.until_ended(job)["stat"] == "DONE"
    assert "too slow" not in live.layout.log_file("controller").read_text()
