"""Hollow hosts that come over the network: one key for all their names, TLS for each connection."""

import subprocess
import sys

from live import Live, open_live, until
from outside import free_port

HOSTS = 40


def start(live: Live, address: str, mode: str) -> None:
    live.xceadmin("init", "--listen", address, "--hosts", f"f-[1-{HOSTS}]", "--cluster", "far")
    live.configure(f"mode: {mode}\n")
    live.xce("up")
    live.xceadmin("keys", "new", "worker", "f-")


def be_hosts(live: Live, address: str) -> "subprocess.Popen[bytes]":
    words = ["worker", "--hollow", str(HOSTS), "--hollow-prefix", "f-", "--connect", address]
    with live.layout.log_file("hollow-f-").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "xce.cli.xce.main", *words],
            env=live.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip


def log_of(live: Live) -> str:
    return live.layout.log_file("hollow-f-").read_text()


def joined(live: Live) -> int:
    with live.api() as api:
        hosts = api.call("GET", "/hosts")["hosts"]
    return sum(host["status"] == "ok" for host in hosts)


def test_they_join_work_and_are_cut_off_by_their_key() -> None:
    address = f"127.0.0.1:{free_port()}"
    with open_live() as live:
        start(live, address, "test")
        keys = live.layout.keys
        words = ("worker", "--hollow", "2", "--hollow-prefix", "g-", "--connect", address)
        assert "`xceadmin keys new worker g-`" in live.xce(*words, status=1)
        (keys / "controllers.pem").write_bytes((keys / "controller.crt").read_bytes())
        process = be_hosts(live, address)
        try:
            until(lambda: "is worker-f- trusted there?" in log_of(live), "they are not wanted")
            live.xceadmin("keys", "trust", str(keys / "worker-f-.crt"), "--name", "f-*")
            until(lambda: joined(live) == HOSTS, "all are there")
            array = live.submit("x", array=f"1-{3 * HOSTS}", env=["XCE_HOLLOW_S=0.05"])
            until(lambda: live.row(array)["elements"]["done"] == 3 * HOSTS, "all are done")
            assert log_of(live).count("is worker-f- trusted there?") <= 2, "one tells it for all"
            (key,) = [line.split()[0] for line in live.xceadmin("keys", "list").splitlines()
                      if "f-*" in line]  # fmt: skip
            live.xceadmin("keys", "revoke", key)
            until(lambda: joined(live) == 0, "none is connected")
        finally:
            process.terminate()
            process.wait(20)


def test_a_cluster_that_people_work_with_refuses_them() -> None:
    address = f"127.0.0.1:{free_port()}"
    with open_live() as live:
        start(live, address, "production")
        keys = live.layout.keys
        (keys / "controllers.pem").write_bytes((keys / "controller.crt").read_bytes())
        live.xceadmin("keys", "trust", str(keys / "worker-f-.crt"), "--name", "f-*")
        process = be_hosts(live, address)
        try:
            until(lambda: "is hollow, and the cluster is in mode production" in log_of(live),
                  "they are told")  # fmt: skip
            assert joined(live) == 0
        finally:
            process.terminate()
            process.wait(20)
