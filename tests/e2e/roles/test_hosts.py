"""Jobs that run by roles on hosts that do not answer, or die under them."""

import os
import signal

import pytest
from live import Live, is_alive, open_live, pid_in, until

SPEC = """
version: 1
roles:
  - {name: a, command: touch began; sleep 300}
  - name: b
    count: 2
    resreq: span[ptile=1]
    command: echo $$ > pid.$XCE_HOST; sleep 300
"""


def submit(live: Live, text: str = SPEC) -> int:
    (live.home / "job.yaml").write_text(text)
    said = live.run("xcecli", "submit", "-f", "job.yaml").stdout
    return int("".join(sign for sign in said.split()[1] if sign.isdigit()))


def stop_worker(live: Live, host: str) -> int:
    pid = live.daemons()[f"worker-{host}"].pid
    os.kill(pid, signal.SIGSTOP)
    return pid


@pytest.mark.timeout(240)
def test_a_host_that_does_not_answer_is_named_before_anything_has_begun():
    with open_live() as live:
        live.configure("heartbeat_s: 60\nhost_grace_s: 600\n")
        live.xce("up", "--hosts", "h[1-2]", "--slots", "2", "--mem", "1G")
        worker = stop_worker(live, "h2")
        job = submit(live, SPEC.replace("{name: a,", "{name: a, resreq: 'select[hname==h1]',"))
        said = until(
            lambda: live.run("xcecli", "output", str(job), status=None).stdout, "the step says why",
            patience_s=60,
        )  # fmt: skip
        assert "h2" in said
        assert not (live.home / "began").exists()
        os.kill(worker, signal.SIGCONT)
        row = live.until_ended(job)
        assert (row["stat"], row["exit_code"]) == ("EXIT", 1)
        assert "h2" in row["detail"]
        until(lambda: not live.job_processes(), "nothing is left")


BEARS = """
version: 1
roles:
  - {name: a, resreq: "select[hname==h1]", command: "until [ -e go ]; do sleep 0.2; done"}
  - name: b
    count: 2
    resreq: span[ptile=1]
    command: echo $$ > other.$XCE_HOST; if [ $XCE_HOST = h2 ]; then sleep 300; fi
relations:
  - {kind: fate, roles: b, policy: tolerate}
"""


@pytest.mark.timeout(240)
def test_a_host_that_is_lost_ends_the_job_with_its_name_unless_its_fates_bear_that():
    with open_live() as live:
        live.configure("heartbeat_s: 0.5\nhost_grace_s: 8\n")
        live.xce("up", "--hosts", "h[1-2]", "--slots", "4", "--mem", "1G")
        job = submit(live, SPEC.replace("{name: a,", "{name: a, resreq: 'select[hname==h1]',"))
        bears = submit(live, BEARS)
        pids = [pid_in(live, "pid.h2"), pid_in(live, "other.h2")]
        worker = stop_worker(live, "h2")
        row = live.until_ended(job, patience_s=90)
        assert (row["stat"], row["cause"]) == ("EXIT", "TERM_HOST_LOST")
        assert row["detail"] == "lost: h2"
        told = live.run("bjobs", "-l", str(bears)).stdout
        assert "HOSTS LOST: h2" in told
        assert "b: 1*h1" in told
        until(
            lambda: "was lost" in live.run("xcecli", "info", str(bears)).stdout,
            "the step knows of the task that was lost",
        )
        (live.home / "go").touch()
        assert live.until_ended(bears)["stat"] == "DONE"
        until(
            lambda: "Host <h2> is lost" in live.run("bhist", "-l", str(bears)).stdout,
            "the history tells when",
        )
        assert all(map(is_alive, pids)), "nobody can reach them"
        os.kill(worker, signal.SIGCONT)
        until(lambda: not any(map(is_alive, pids)), "the host ends what is left when it is back")
