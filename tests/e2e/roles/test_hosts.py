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


@pytest.mark.timeout(240)
def test_a_host_that_is_lost_ends_the_job_with_its_name():
    with open_live() as live:
        live.configure("heartbeat_s: 0.5\nhost_grace_s: 8\n")
        live.xce("up", "--hosts", "h[1-2]", "--slots", "2", "--mem", "1G")
        job = submit(live, SPEC.replace("{name: a,", "{name: a, resreq: 'select[hname==h1]',"))
        pid = pid_in(live, "pid.h2")
        worker = stop_worker(live, "h2")
        row = live.until_ended(job, patience_s=90)
        assert (row["stat"], row["cause"]) == ("EXIT", "TERM_HOST_LOST")
        assert row["detail"] == "lost: h2"
        assert is_alive(pid), "nobody can reach it"
        os.kill(worker, signal.SIGCONT)
        until(lambda: not is_alive(pid), "the host ends what is left when it is back")
